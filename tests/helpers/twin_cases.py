"""Random inputs for each function of core that has a faster twin, and what it gives, to compare.

    arguments = CASES[function](rng, dtype)    # on the host
    results_of(function, arguments, xp)        # the same up to rounding, within plain(xp) or not
"""

from contextlib import contextmanager

import numpy as np

from convsim_mini import fast
from convsim_mini.core import (
    attention, embeddings, layers, losses, optim, transformer_layers)
from convsim_mini.core.arrays import matmul, to_host
from convsim_mini.core.embeddings import SparseRows
from convsim_mini.core.gradcheck import dense
from convsim_mini.core.packed import Packed, offsets_of
from convsim_mini.core.transformer_layers import Dropout

DROPOUT = Dropout(0.3, 2**63 + 11)    # a key that needs all 64 bits
SEEDS = range(6)                      # draw each kind of input of each case
TWINS = fast.twinned_functions()
WORDS, ROWS = 9, 30                   # few words, so that each stands in many places; of a table


def numbers(rng, dtype, *shapes):
    """Random arrays of these shapes."""
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def sizes(rng, count):
    """That many small sizes."""
    return rng.integers(1, 42, count).tolist()


def sentences(rng, lengths=None):
    """A few ragged sentences, one of them of one word."""
    lengths = [1, *rng.integers(1, 42, rng.integers(1, 8))] if lengths is None else lengths
    return Packed(rng.integers(0, WORDS, sum(lengths), np.int32), offsets_of(lengths))


def one_of(rng, *choices):
    return choices[rng.integers(len(choices))]


# ---------------------------------------------------------------- inputs

def factors(rng, dtype):
    """Of a matrix product; the second one is transposed, or not."""
    n, k, m = sizes(rng, 3)
    a, b, c = numbers(rng, dtype, (n, k), (k, m), (m, k))
    return a, one_of(rng, b, c.T)


def layer_norm(rng, dtype):
    """Also a row whose variance is nearly zero."""
    N, d = sizes(rng, 2)
    x, weight, bias = numbers(rng, dtype, (N, d + 1), d + 1, d + 1)
    x[-1] = 0.01
    return x, weight, bias


def dropped(rng, dtype):
    return *numbers(rng, dtype, sizes(rng, 2)), one_of(rng, Dropout(0, 0), DROPOUT)


def attended(rng, dtype, lengths=None, heads=3, width=5):
    packed = sentences(rng, lengths)
    qkv, = numbers(rng, dtype, (len(packed.ids), 3 * heads * width))
    return qkv, packed.offsets, heads


def bag(rng, dtype):
    return *numbers(rng, dtype, (ROWS, *sizes(rng, 1))), sentences(rng)


def labelled(rng, dtype, classes=41):
    """Logits, and a label of each row."""
    b, = sizes(rng, 1)
    return *numbers(rng, dtype, (b, classes)), rng.integers(0, classes, b)


def parameters(kinds, *others):
    """A case of lists of as many arrays of each kind, more than one launch takes, and of others."""
    def case(rng, dtype):
        shapes = [sizes(rng, 2), sizes(rng, 1), *[(2,)] * 95, (300, 70)]
        lists = [numbers(rng, dtype, *shapes) for _ in range(kinds)]
        lists[3:] = [[array * array for array in some] for some in lists[3:]]    # variances
        return *lists, *others
    return case


def touched_rows(rng, dtype, places=0):
    """One part of a gradient or several; with sums of squares or without; equal rows."""
    d, parts = rng.integers(1, 80), []
    for _ in range(one_of(rng, 1, 3)):
        V, M = sizes(rng, 2)
        M += places
        parts.append(SparseRows(rng.integers(0, WORDS, M, np.int32), *numbers(rng, dtype, (V, d)),
                                rng.integers(0, V, M, np.int32)))
    table, squares = numbers(rng, dtype, (ROWS, d), ROWS)
    return table, parts, 0.1, one_of(rng, None, squares * squares)


def no_rows(rng, dtype):
    """A worker's part of a gradient may have none."""
    none, (table, values) = np.empty(0, np.int32), numbers(rng, dtype, (ROWS, 7), (0, 7))
    return table, [SparseRows(none, values, none)], 0.1, np.ones(ROWS, dtype)


CASES = {
    matmul: factors,
    embeddings.sum_rows: bag,
    layers.tanh_backward: lambda rng, dtype: numbers(rng, dtype, *[sizes(rng, 2)] * 2),
    losses.cross_entropy_forward: labelled,
    optim.sgd: parameters(2, 0.1),
    optim.adam: parameters(4, 3, 0.1, 0.9, 0.999, 1e-8),
    optim.update_rows: touched_rows,
    attention.attention_forward: attended,
    transformer_layers.dropout_forward: dropped,
    transformer_layers.layer_norm_forward: layer_norm,
}
BACKWARDS = {function.__name__: function for function in TWINS}
# a forward and the backward that reads its cache; a backward's case is its forward's
PAIRS = {function: BACKWARDS[function.__name__.replace("_forward", "_backward")]
         for function in CASES if function.__name__.endswith("_forward")}


# ---------------------------------------------------------------- what a function gives

def uninstall(xp=np):
    """Take the twins for arrays of module xp out again: everything runs as core has it."""
    fast.INSTALLED.discard(xp)
    for function in TWINS:
        function.register(xp.ndarray, function.plain)


@contextmanager
def plain(xp=np):
    """Meanwhile all functions run on arrays of this module as they stand in core."""
    installed = xp in fast.INSTALLED
    uninstall(xp)
    try:
        yield
    finally:
        if installed:
            fast.install(xp)


def results_of(function, arguments, xp=np):
    """All that a function of CASES gives, and all gradients of its backward: list of host arrays.

    Its cache is left out. Of a function that gives nothing: its arguments as it has changed them.
    arguments: on the host; xp: the module that computes
    """
    arguments = copied(arguments, xp)                         # some may be overwritten
    results = function(*arguments)
    if function not in PAIRS:
        return flat(arguments if results is None else results)
    y, cache = results
    dy = np.random.default_rng(1).standard_normal(y.shape).astype(y.dtype)
    return flat([y, PAIRS[function](xp.asarray(dy) if y.ndim else 0.7, cache)])    # 0.7: of a loss


def flat(results):
    """The arrays in nested tuples and lists, on the host; a table's gradient as a full table."""
    if isinstance(results, list) and results and isinstance(results[0], SparseRows):
        values = results[0].values
        return [dense(results, np.zeros((ROWS, values.shape[1]), values.dtype))]
    if isinstance(results, (tuple, list)):
        return [array for part in results for array in flat(part)]
    return [to_host(results)] if hasattr(results, "nbytes") else []


def copied(arguments, xp):
    """The arguments of a case with copies of all arrays, of module xp."""
    if isinstance(arguments, (tuple, list)):
        parts = [copied(part, xp) for part in arguments]
        return arguments._make(parts) if hasattr(arguments, "_fields") else type(arguments)(parts)
    return xp.array(arguments) if isinstance(arguments, np.ndarray) else arguments
