"""Random inputs for each function of core that has a faster twin, and what it gives, to compare.

    arguments = CASES[function](rng, dtype)    # on the host
    results_of(function, arguments, xp)        # the same up to rounding, within plain(xp) or not
"""

from contextlib import contextmanager

import numpy as np

from convsim_mini import fast
from convsim_mini.core import (
    attention, dropout, embeddings, layers, losses, optim, transformer_layers)
from convsim_mini.core.arrays import array_module, to_host
from convsim_mini.core.dropout import NO_DROPOUT, Dropout
from convsim_mini.core.embeddings import SparseRows
from convsim_mini.core.gradcheck import dense
from convsim_mini.core.packed import Packed, offsets_of
from convsim_mini.fast.twins import TWINS

DROPOUT = Dropout(0.3, 2**63 + 11)    # a key that needs all 64 bits
SEEDS = range(6)                      # draw each kind of input of each case
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


def some_dropout(rng):
    return one_of(rng, NO_DROPOUT, DROPOUT)


# ---------------------------------------------------------------- layers

def linear(rng, dtype):
    N, d, e = sizes(rng, 3)
    x, weight, bias = numbers(rng, dtype, (N, d), (d, e), e)
    return x, weight, one_of(rng, bias, None)


def rows(rng, dtype):
    """Also a row of zeros."""
    x, = numbers(rng, dtype, sizes(rng, 2))
    x[-1] = 0
    return (x,)


def layer_norm(rng, dtype):
    N, d = sizes(rng, 2)
    return tuple(numbers(rng, dtype, (N, d + 1), d + 1, d + 1))


def add_norm(rng, dtype):
    """Also a row whose variance is nearly zero."""
    N, d = sizes(rng, 2)
    x, y, weight, bias = numbers(rng, dtype, (N, d + 1), (N, d + 1), d + 1, d + 1)
    x[-1] = y[-1] = 0.01
    return x, y, weight, bias, some_dropout(rng)


def position_wise(rng, dtype):
    N, d, hidden = sizes(rng, 3)
    return *numbers(rng, dtype, (N, d), (d, hidden), hidden, (hidden, d), d), some_dropout(rng)


def attended(rng, dtype, lengths=None, heads=3, width=5):
    packed = sentences(rng, lengths)
    qkv, = numbers(rng, dtype, (len(packed.ids), 3 * heads * width))
    return qkv, packed.offsets, heads, some_dropout(rng)


def pooled(rng, dtype):
    packed = sentences(rng)
    return *numbers(rng, dtype, (len(packed.ids), *sizes(rng, 1))), packed


# ---------------------------------------------------------------- embeddings

def table_and(*others):
    """A case of a table, sentences and others(rng, dtype, table, sentences)."""
    def case(rng, dtype):
        table, packed = *numbers(rng, dtype, (ROWS, *sizes(rng, 1))), sentences(rng)
        return table, packed, *(other(rng, dtype, table, packed) for other in others)
    return case


def signal(rng, dtype, table, packed):
    return numbers(rng, dtype, (packed.lengths.max() + 3, table.shape[1]))[0]


# ---------------------------------------------------------------- losses, optim

def scores(rng, dtype, most=42):
    """Inputs of a whole batch, or of a worker's part."""
    B, d = rng.integers(most - 20, most), rng.integers(1, 20)
    b, first = one_of(rng, (B, 0), (B // 2, B - B // 2))
    return *numbers(rng, dtype, (b, d), (B, d)), 3.0, first


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
    layers.linear_forward: linear,
    layers.tanh_backward: lambda rng, dtype: numbers(rng, dtype, *[sizes(rng, 2)] * 2),
    layers.l2_normalize_forward: rows,
    embeddings.sum_rows: table_and(),
    losses.batch_softmax_forward: scores,
    optim.sgd: parameters(2, 0.1),
    optim.adam: parameters(4, 3, 0.1, 0.9, 0.999, 1e-8),
    optim.update_rows: touched_rows,
    attention.attention_forward: attended,
    dropout.dropout_forward: lambda rng, dtype: (*rows(rng, dtype), some_dropout(rng)),
    transformer_layers.layer_norm_forward: layer_norm,
    transformer_layers.add_norm_forward: add_norm,
    transformer_layers.position_wise_forward: position_wise,
    transformer_layers.placed_embedding_forward: table_and(
        signal, lambda rng, *_: some_dropout(rng)),
    transformer_layers.mean_pool_forward: pooled,
}
BACKWARDS = {name: function
             for module in (attention, dropout, embeddings, layers, losses, transformer_layers)
             for name, function in vars(module).items() if name.endswith("_backward")}
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
    *results, cache = results
    return flat([results, [PAIRS[function](dy, cache) for dy in upstream(results)]])


def upstream(results):
    """Random gradients of a forward's results, for its backward; the same on each device."""
    if not results[0].ndim:
        return [0.7]                                          # of a loss
    xp, rng = array_module(results[0]), np.random.default_rng(1)
    dy = [xp.asarray(rng.standard_normal(y.shape).astype(y.dtype)) for y in results]
    return dy if len(dy) == 1 else [(dy[0], None), tuple(dy)]    # add_norm's


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
