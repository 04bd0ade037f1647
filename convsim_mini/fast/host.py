"""Twins for NumPy's arrays, in core's order. The docstring of core's function applies to each.

Three things make them faster. All cores share the work. Large arrays are overwritten, instead of
new ones being made, or processed in pieces that fit in a core's cache. And if numba is installed,
the two loops of loops.py replace several passes by NumPy and SciPy.
"""

import numpy as np
import scipy.sparse

from ..core import attention, optim, transformer_layers
from ..core.embeddings import joined
from . import loops
from .threads import fair_shares, for_rows, on_all_cores, products

MANY = 4_096    # ids; with fewer, importing numba does not pay off
AT_ONCE = 512   # rows of a table that fit a core's cache: 0.6 MB at width 300


# ---------------------------------------------------------------- layers.py

def linear_forward(x, weight, bias=None):
    """Compute the product and add the bias on all cores."""
    y, = products((x, weight))
    if bias is not None:
        for_rows(lambda rows: np.add(y[rows], bias, out=y[rows]), y)
    return y, (x, weight)


def linear_backward(dy, cache):
    """Compute both products on all cores, which wait for each other only once."""
    x, weight = cache
    dx, dweight = products((dy, weight.T), (x.T, dy))
    return dx, dweight, dy.sum(axis=0)


def l2_normalize_forward(x):
    """Sum the squares without storing them."""
    norm = np.sqrt(np.vecdot(x, x))[:, None]
    norm = np.where(norm > 0, norm, 1)
    y = x / norm
    return y, (y, norm)


def l2_normalize_backward(dy, cache):
    """Sum the products without storing them, and make one new array instead of three."""
    y, norm = cache
    dx = y * np.vecdot(dy, y)[:, None]
    np.subtract(dy, dx, out=dx)
    dx /= norm
    return dx


# ---------------------------------------------------------------- embeddings.py

def sum_rows(table, packed):
    """All cores share the sentences; a sparse product or a compiled loop replaces Python's loop."""
    y = np.empty((len(packed.offsets) - 1, table.shape[1]), table.dtype)

    def sum_part(part):
        sum_into(y[part], table, packed.ids, packed.offsets[part.start:part.stop + 1])
    on_all_cores(sum_part, fair_shares(packed.offsets[:-1]))
    return y


def sum_into(y, table, ids, offsets):
    """y_b = the sum of the rows ids[offsets[b]:offsets[b + 1]] of the table; y is overwritten.

    As matrices, y = S E: E is the table, (R, d); S (B, R) counts how often each row is in each sum.
    S is sparse, and SciPy adds the rows where they are, without copies. With many ids, numba's loop
    is faster. ids: (M,); offsets: (B + 1,), which may cover only part of the ids; y: (B, d)
    """
    if len(ids) >= MANY and (loop := loops.compiled(loops.sum_rows)):
        return loop(y, table, ids, offsets)
    begin, end = offsets[0], offsets[-1]
    counts = scipy.sparse.csr_matrix((np.ones(end - begin, table.dtype), ids[begin:end],
                                      (offsets - begin).astype(np.int32)), (len(y), len(table)))
    y[...] = counts @ table


# ---------------------------------------------------------------- optim.py

def update_rows(table, parts, rate, squares=None):
    """Sort faster; then all cores update rows, as many at a time as fit in a cache."""
    grad = joined(parts)
    rows, begins, sources = by_row(grad)
    rate = table.dtype.type(rate)
    step = loops.compiled(loops.step_rows) or optim.step_rows

    def update(share):
        for first in range(share.start, share.stop, AT_ONCE):
            last = min(first + AT_ONCE, share.stop)
            grads = np.empty((last - first, table.shape[1]), table.dtype)
            sum_into(grads, grad.values, sources, begins[first:last + 1])
            step(table, rows[first:last], grads, rate, squares)
    on_all_cores(update, fair_shares(begins[:-1] + np.arange(len(rows))))


def by_row(grad):
    """The distinct rows, (U,); where the places of each begin, (U + 1,); all sources, (M,)."""
    keys = grad.rows.astype(np.int64) << 32
    keys += np.arange(len(keys))    # all differ: NumPy's fastest sort keeps the order of equal rows
    keys.sort()
    rows, order = keys >> 32, keys.astype(np.int32)           # the upper and the lower half
    begins = np.flatnonzero(np.diff(rows, prepend=-1, append=-1))
    return rows[begins[:-1]], begins, grad.sources[order]


# ---------------------------------------------------------------- losses.py

def batch_softmax_forward(u, v, scale=1.0, first=0):
    """Compute the product on all cores; turn the scores, the largest array, into p in place."""
    scores, = products((u, np.ascontiguousarray(v.T)))        # v.T as it is takes longer
    scores *= scale
    true = scores.diagonal(first).copy()
    top = scores.max(axis=1, keepdims=True)
    scores -= top
    p = np.exp(scores, out=scores)
    total = p.sum(axis=1, keepdims=True)
    loss = (np.log(total[:, 0]) + top[:, 0] - true).sum() / len(v)
    p /= total
    return loss, (u, v, scale, p, first)


def batch_softmax_backward(dloss, cache):
    """Compute both products on all cores, which wait for each other only once."""
    u, v, scale, p, first = cache
    factor = dloss * scale / len(v)
    duv = p * factor
    rows = np.arange(len(p))
    duv[rows, first + rows] -= factor
    return tuple(products((duv, v), (duv.T, u)))


# ---------------------------------------------------------------- attention.py

def attention_forward(qkv, offsets, heads, dropout=attention.NO_DROPOUT):
    """As in core, but threads share the groups of sentences."""
    y = np.empty((len(qkv), qkv.shape[1] // 3), qkv.dtype)
    sentences = attention.groups(offsets, heads)

    def attend(group):
        return attention.attend_forward(group, qkv, y, heads, dropout)
    p, factors = zip(*each_group(attend, sentences))
    return y, attention.AttentionCache(qkv, sentences, heads, p, factors)


def attention_backward(dy, cache):
    """As in core, but threads share the groups of sentences; each group writes its own rows."""
    dqkv = np.empty_like(cache.qkv)

    def attend(group, p, factor):
        attention.attend_backward(group, p, factor, dy, dqkv, cache)
    each_group(attend, cache.sentences, cache.p, cache.factors)
    return dqkv


def each_group(function, sentences, *others):
    """Call function(group, …) for each Group with its items of `others` → the list of results."""
    items = list(zip(sentences, *others))
    scores = [group.length * (group.last - group.first) for group in sentences]
    shares = fair_shares(np.cumsum([0, *scores[:-1]]))
    parts = on_all_cores(lambda share: [function(*item) for item in items[share]], shares)
    return [result for part in parts for result in part]


# ---------------------------------------------------------------- transformer_layers.py

def layer_norm_forward(x, weight, bias):
    """Apply core's function to a megabyte of rows at a time, on all cores."""
    y, normal, scale = np.empty_like(x), np.empty_like(x), np.empty((len(x), 1), x.dtype)
    plain = transformer_layers.layer_norm_forward.plain

    def norm(rows):
        y[rows], (normal[rows], scale[rows], _) = plain(x[rows], weight, bias)
    for_rows(norm, x)
    return y, (normal, scale, weight)


def layer_norm_backward(dy, cache):
    """Compute a megabyte of rows at a time, on all cores, and dweight without storing dy x̂."""
    normal, scale, weight = cache
    dx = np.empty_like(dy)

    def fill(rows):
        part = dy[rows] * weight
        along = (part * normal[rows]).mean(axis=1, keepdims=True)
        part -= part.mean(axis=1, keepdims=True)
        part -= normal[rows] * along
        dx[rows] = part * scale[rows]
    for_rows(fill, dx)
    return dx, np.einsum("nd,nd->d", dy, normal), dy.sum(axis=0)
