"""Twins for NumPy's arrays. The docstring of core's function of the same name holds for each.

Large passes run on all cores, and where core makes a new array, some of these write in place:
fresh memory is dear.
"""

import numpy as np
import scipy.sparse

from ..core import attention as plain_attention
from ..core.embeddings import joined
from ..core.transformer_layers import EPSILON
from . import loops
from .threads import fair_shares, for_rows, on_all_cores, products

MANY = 4_096       # rows that are worth the import of numba
AT_ONCE = 2_048    # rows of a table, which caches hold: 2.5 MB of the paper's


def linear_forward(x, weight, bias=None):
    """Rows of the product on all cores, the bias in place."""
    y, = products((x, weight))

    def add(rows):
        y[rows] += bias
    if bias is not None:
        for_rows(add, y)
    return y, (x, weight)


def linear_backward(dy, cache):
    """Both products in one dispatch to all cores."""
    x, weight = cache
    dx, dweight = products((dy, weight.T), (x.T, dy))
    return dx, dweight, dy.sum(axis=0)


def l2_normalize_forward(x):
    """The squares are summed without an array of them."""
    norm = np.sqrt(np.vecdot(x, x))[:, None]
    norm = np.where(norm > 0, norm, 1)
    y = x / norm
    return y, (y, norm)


def l2_normalize_backward(dy, cache):
    """The sums as in the forward, the rest in place."""
    y, norm = cache
    dx = y * np.vecdot(dy, y)[:, None]
    dx = np.subtract(dy, dx, out=dx)
    dx /= norm
    return dx


def embedding_bag_forward(table, rows, lengths):
    """`sum_rows`, scaled in place."""
    scale = (1 / np.sqrt(lengths)).astype(table.dtype)[:, None]
    y = sum_rows(table, rows)
    y *= scale
    return y, (rows.ids, rows.sentence_numbers, scale)


def sum_rows(table, packed):
    """Sentences on all cores, by a sparse product or a compiled loop."""
    y = np.empty((len(packed.offsets) - 1, table.shape[1]), table.dtype)

    def sums(part):
        sum_into(y[part], table, packed.ids, packed.offsets[part.start:part.stop + 1])
    on_all_cores(sums, fair_shares(packed.offsets[:-1]))
    return y


def sum_into(y, table, ids, offsets):
    """y_b = the sum of the rows ids[offsets[b]:offsets[b + 1]] of the table; y is overwritten.

    As matrices, y = S E: E is the table, (R, d); S (B, R) holds how often each row stands in each
    sum. S is sparse, and SciPy adds the rows where they are, without copies. Of many rows numba's
    loop is faster. ids: (M,), of which offsets, (B + 1,), may name a part; y: (B, d)
    """
    if len(ids) >= MANY and (loop := loops.compiled(loops.sum_rows)):
        return loop(ids, offsets, table, y)
    begin, end = offsets[0], offsets[-1]
    counts = scipy.sparse.csr_matrix((np.ones(end - begin, table.dtype), ids[begin:end],
                                      (offsets - begin).astype(np.int32)), (len(y), len(table)))
    y[...] = counts @ table


def update_rows(table, parts, rate, squares=None):
    """Distinct rows on all cores, so many at a time as a cache holds."""
    grad = parts[0] if len(parts) == 1 else joined(parts)
    if not len(grad.rows):                                    # none of a worker's
        return
    rows, begins, sources = by_row(grad)
    rate = table.dtype.type(rate)
    step_rows = loops.compiled(loops.step_rows) or step_rows_of_numpy

    def update(share):
        for first in range(share.start, share.stop, AT_ONCE):
            last = min(first + AT_ONCE, share.stop)
            sums = np.empty((last - first, table.shape[1]), table.dtype)  # of equal rows
            sum_into(sums, grad.values, sources, begins[first:last + 1])
            step_rows(rows[first:last], sums, table, rate, squares)
    on_all_cores(update, fair_shares(begins[:-1] + np.arange(len(rows))))


def by_row(grad):
    """Distinct rows (U,); where the places of each begin, (U + 1,), among the sources, (M,)."""
    keys = grad.rows.astype(np.int64) << 32
    keys += np.arange(len(keys))                              # faster than a stable argsort
    keys.sort()
    rows, order = keys >> 32, keys.astype(np.int32)           # the lower half
    begins = np.flatnonzero(np.diff(rows, prepend=-1, append=-1))
    return rows[begins[:-1]], begins, grad.sources[order]


def step_rows_of_numpy(rows, grads, table, rate, squares):
    """`loops.step_rows` without numba; grads (U, d) are overwritten."""
    if squares is not None:
        total = squares[rows] + np.vecdot(grads, grads) / grads.shape[1]
        squares[rows] = total
        rate = rate / np.sqrt(total)[:, None]
    grads *= -rate
    grads += table.take(rows, axis=0)                         # faster than table[rows] += …
    table[rows] = grads


def batch_softmax_forward(u, v, scale=1.0, first=0):
    """The scores become p in place."""
    scores, = products((u, np.ascontiguousarray(v.T)))        # v.T as it is takes longer
    scores *= scale                                           # in place: the largest array here
    true = scores.diagonal(first).copy()
    top = scores.max(axis=1, keepdims=True)
    scores -= top
    p = np.exp(scores, out=scores)
    total = p.sum(axis=1, keepdims=True)
    loss = (np.log(total[:, 0]) + top[:, 0] - true).sum() / len(v)
    p /= total
    return loss, (u, v, scale, p, first)


def batch_softmax_backward(dloss, cache):
    """Both products in one dispatch."""
    u, v, scale, p, first = cache
    factor = dloss * scale / len(v)
    duv = p * factor
    rows = np.arange(len(p))
    duv[rows, first + rows] -= factor
    return tuple(products((duv, v), (duv.T, u)))


def attention_forward(qkv, offsets, heads, dropout=plain_attention.NO_DROPOUT):
    """Groups of sentences on all cores."""
    y = np.empty((len(qkv), qkv.shape[1] // 3), qkv.dtype)
    sentences = plain_attention.groups(offsets, heads)

    def one(group):
        return plain_attention.attend_forward(group, qkv, y, heads, dropout)
    p, factors = zip(*each_group(one, sentences))
    return y, plain_attention.AttentionCache(qkv, sentences, heads, p, factors)


def attention_backward(dy, cache):
    """Groups of sentences on all cores, each writes its own rows."""
    dqkv = np.empty_like(cache.qkv)

    def one(group, p, factor):
        plain_attention.attend_backward(group, p, factor, dy, dqkv, cache)
    each_group(one, cache.sentences, cache.p, cache.factors)
    return dqkv


def each_group(function, sentences, *others):
    """function(group, …) for each Group and its items of `others`: list; cores share the scores."""
    items = list(zip(sentences, *others))
    scores = [group.length * (group.last - group.first) for group in sentences]
    shares = fair_shares(np.cumsum([0, *scores[:-1]]))
    parts = on_all_cores(lambda share: [function(*item) for item in items[share]], shares)
    return [result for part in parts for result in part]


def layer_norm_forward(x, weight, bias):
    """A megabyte of rows at a time, on all cores."""
    y, normal, scale = np.empty_like(x), np.empty_like(x), np.empty((len(x), 1), x.dtype)

    def norm(rows):
        part = x[rows] - x[rows].mean(axis=1, keepdims=True)
        variance = (part * part).mean(axis=1, keepdims=True)
        scale[rows] = 1 / np.sqrt(variance + EPSILON)
        normal[rows] = part * scale[rows]
        y[rows] = normal[rows] * weight + bias
    for_rows(norm, x)
    return y, (normal, scale, weight)


def layer_norm_backward(dy, cache):
    """A megabyte of rows at a time, on all cores."""
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
