"""Self-attention over packed sentences, and the timing signal that tells it where words stand.

Sentences of equal length lie side by side. So the tokens of g of them are one array (g, length, d)
without padding and without a mask. N is the number of tokens, d their width, h the number of heads,
d/h the width of a head, n the length of a sentence.
"""

import math
from functools import cache as remember
from typing import NamedTuple

import numpy as np

from ..backend import fair_shares, on_all_cores, on_gpu
from . import kernels
from .layers import NO_DROPOUT, dropout_backward, dropout_forward

SCORES_AT_ONCE = 2**20    # in all heads of a Group; 4 MB in float32, which a core's caches hold
COUNTERS = 24    # bits: each token has 2²⁴ counters of its own for dropout, 8 scores each


class Group(NamedTuple):
    """Consecutive sentences of equal length: tokens first … last − 1, `length` in each sentence."""

    first: int
    last: int
    length: int


class AttentionCache(NamedTuple):
    """What attention_backward needs; p and factors have an item for each Group."""

    qkv: np.ndarray
    sentences: list    # of Group
    heads: int
    p: tuple           # (g, h, n, n): row i says where word i looks
    factors: tuple     # of dropout


def groups(offsets, heads):
    """Cut packed sentences into Groups: offsets: (B + 1,) on the host → list of Group.

    Any order is right; sentences sorted by length make few and large groups. A sentence has
    heads · length² scores. A group has at most 2²⁰ of them, unless it is a single sentence.
    """
    lengths = np.diff(offsets)
    changes = np.flatnonzero(np.diff(lengths)) + 1
    cut = []
    for begin, end in zip([0, *changes], [*changes, len(lengths)]):
        length = int(lengths[begin])
        at_once = max(1, SCORES_AT_ONCE // (heads * length * length))
        for first in range(begin, end, at_once):
            last = min(first + at_once, end)
            cut.append(Group(int(offsets[first]), int(offsets[last]), length))
    return cut


@remember
def timing_signal(length, width, dtype, xp=np):
    """Sines and cosines that tell positions apart (Vaswani et al. 2017, in tensor2tensor's layout).

    Channel k of the first half is sin(position/t_k), channel k of the second cos(position/t_k). The
    timescales t_k rise geometrically from 1 to 10,000. width: even
    → (length, width) of the dtype, for positions 0 … length − 1; the same array for every call
    """
    half = width // 2
    rates = xp.exp(xp.arange(half) * (-math.log(10_000) / max(half - 1, 1)))    # 1/t_k: (half,)
    angles = xp.arange(length)[:, None] * rates                           # (length, half)
    return xp.concatenate([xp.sin(angles), xp.cos(angles)], axis=1).astype(dtype)


@on_gpu(kernels.attention_forward)
def attention_forward(qkv, offsets, heads, dropout=NO_DROPOUT):
    """Dot-product attention of each sentence to itself, in h heads (Vaswani et al. 2017, §3.2).

    For each head: scores = q kᵀ/√(d/h), p = softmax over the words attended to, y = p v. Dropout is
    applied to p, as in tensor2tensor.
    qkv: (N, 3d), queries, keys and values side by side; offsets: (B + 1,), of the sentences
    → y: (N, d), AttentionCache
    """
    y = np.empty((len(qkv), qkv.shape[1] // 3), qkv.dtype)
    sentences = groups(offsets, heads)

    def one(group):
        q, k, v = _split_heads(qkv, group, heads, 3)                      # (g, h, n, d/h) each
        scores = q @ k.swapaxes(2, 3)                                     # (g, h, n, n)
        scores *= 1 / math.sqrt(q.shape[3])                   # in place: the largest array here
        scores -= scores.max(axis=3, keepdims=True)           # keeps exp from overflowing
        p = np.exp(scores, out=scores)
        p /= p.sum(axis=3, keepdims=True)
        begins = np.arange(group.first, group.last, group.length, dtype=np.uint64)
        dropped, factor = dropout_forward(p, dropout, begins << np.uint64(COUNTERS))
        (heads_out,) = _split_heads(y, group, heads, 1)
        heads_out[...] = dropped @ v                                      # (g, h, n, d/h)
        return p, factor
    p, factors = zip(*_on_all_cores(one, sentences))
    return y, AttentionCache(qkv, sentences, heads, p, factors)


@on_gpu(kernels.attention_backward)
def attention_backward(dy, cache):
    """Forward, for each head: s = q kᵀ/√m, p = softmax(s), y = p v, m = d/h.

    y_i = Σ_j p_ij v_j, so dv = pᵀ dy and dp = dy vᵀ. Softmax has ∂p_ij/∂s_il = p_ij (δ_jl − p_il),
    so ds_ij = p_ij (dp_ij − Σ_l p_il dp_il). s_ij = q_i · k_j/√m, so dq = ds k/√m and
    dk = dsᵀ q/√m. Heads and sentences are independent of each other. Splitting into heads and
    merging them only moves numbers; their gradients are moved in the same way.
    dy: (N, d) → dqkv: (N, 3d)
    """
    qkv, sentences, heads, p_of_groups, factors = cache
    dqkv = np.empty_like(qkv)

    def one(group, p, factor):
        q, k, v = _split_heads(qkv, group, heads, 3)                      # (g, h, n, d/h) each
        dq, dk, dv = _split_heads(dqkv, group, heads, 3)
        (dout,) = _split_heads(dy, group, heads, 1)
        dv[...] = (p if factor is None else p * factor).swapaxes(2, 3) @ dout
        ds = dropout_backward(dout @ v.swapaxes(2, 3), factor)            # (g, h, n, n): dp so far
        ds -= (p * ds).sum(axis=3, keepdims=True)
        ds *= p
        ds *= 1 / math.sqrt(q.shape[3])
        dq[...] = ds @ k
        dk[...] = ds.swapaxes(2, 3) @ q
    _on_all_cores(one, sentences, p_of_groups, factors)
    return dqkv


def _split_heads(x, group, heads, parts):
    """Views of a group's rows by head: x: (N, parts · d) → parts arrays (g, heads, length, d/h)."""
    width = x.shape[1] // (parts * heads)                                 # d/h
    rows = x[group.first:group.last].reshape(-1, group.length, parts, heads, width)
    return [rows[:, :, part].swapaxes(1, 2) for part in range(parts)]


def _on_all_cores(function, sentences, *others):
    """function(group, …) for each Group and its items of `others`: list; cores share the scores."""
    items = list(zip(sentences, *others))
    scores = [group.length * (group.last - group.first) for group in sentences]
    shares = fair_shares(np.cumsum([0, *scores[:-1]]))
    parts = on_all_cores(lambda share: [function(*item) for item in items[share]], shares)
    return [result for part in parts for result in part]
