"""Self-attention over packed sentences, and the timing signal that marks each word's position.

Sentences of equal length lie side by side, so g of them form one array (g, n, d), without padding
or a mask. N: tokens in all, n: tokens in a sentence, d: width of a token's vector, h: heads.
"""

import math
from functools import cache as remember
from typing import NamedTuple

import numpy as np

from .arrays import array_module, to_host, twinned
from .layers import linear_backward, linear_forward

SCORES_AT_ONCE = 2**20    # in all heads of a Group; 4 MB in float32, which fit a core's caches


class Group(NamedTuple):
    """Consecutive sentences of equal length: tokens first … last − 1, `length` in each sentence."""

    first: int
    last: int
    length: int


class AttentionCache(NamedTuple):
    """What attention_backward needs; p has one item per Group."""

    qkv: np.ndarray
    sentences: list    # of Group
    heads: int
    p: list            # (g, h, n, n): row i is what word i attends to


def groups(offsets, heads):
    """Cut packed sentences into Groups: offsets: (B + 1,) on the host → list of Group.

    Any order works; sentences sorted by length make few, large groups. A group has at most 2²⁰
    scores (heads · length² per sentence) unless it is a single sentence.
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


@twinned
def each_group(function, x, sentences, *others):
    """[function(group, …) for each Group], … from lists of as many items. Its twin uses all cores.

    x: any array on the device that computes
    """
    return [function(*items) for items in zip(sentences, *others)]


@remember
def timing_signal(length, width, dtype, xp=np):
    """Sines and cosines that tell positions apart (Vaswani et al. 2017, in tensor2tensor's layout).

    Channel k of the first half is sin(position/t_k), and of the second half cos(position/t_k). The
    timescales t_k rise geometrically from 1 to 10,000. width: an even number → (length, width) of
    this dtype, for positions 0 … length − 1. The array is cached, so do not modify it.
    """
    half = width // 2
    rates = xp.exp(xp.arange(half) * (-math.log(10_000) / max(half - 1, 1)))    # 1/t_k: (half,)
    angles = xp.arange(length)[:, None] * rates                           # (length, half)
    return xp.concatenate([xp.sin(angles), xp.cos(angles)], axis=1).astype(dtype)


@twinned
def attention_forward(qkv, offsets, heads):
    """Dot-product attention of each sentence to itself, in h heads (Vaswani et al. 2017, §3.2).

    For each head: scores = q kᵀ/√(d/h), p = softmax(scores) over the words attended to, y = p v.
    qkv: (N, 3d), queries, keys and values side by side; offsets: (B + 1,), see Packed
    → y: (N, d), AttentionCache
    """
    xp = array_module(qkv)
    y = xp.empty((len(qkv), qkv.shape[1] // 3), qkv.dtype)
    sentences = groups(to_host(offsets), heads)

    def attend(group):
        """Fill the group's rows of y → p."""
        q, k, v = split_heads(qkv, group, heads, 3)                       # (g, h, n, d/h) each
        scores = q @ k.swapaxes(2, 3)                                     # (g, h, n, n)
        scores *= 1 / math.sqrt(q.shape[3])                   # in place: the largest array here
        scores -= scores.max(axis=3, keepdims=True)           # keeps exp from overflowing
        p = xp.exp(scores, out=scores)
        p /= p.sum(axis=3, keepdims=True)
        heads_out, = split_heads(y, group, heads, 1)
        heads_out[...] = p @ v                                            # (g, h, n, d/h)
        return p

    return y, AttentionCache(qkv, sentences, heads, each_group(attend, qkv, sentences))


@twinned
def attention_backward(dy, cache):
    """Forward, for each head: s = q kᵀ/√m, p = softmax(s), y = p v, m = d/h.

    y_i = Σ_j p_ij v_j, so dv = pᵀ dy and dp = dy vᵀ. Softmax has ∂p_ij/∂s_il = p_ij (δ_jl − p_il),
    so ds_ij = p_ij (dp_ij − Σ_l p_il dp_il). s_ij = q_i · k_j/√m, so dq = ds k/√m and
    dk = dsᵀ q/√m. Heads and sentences are independent of each other. Splitting into heads and
    merging them only moves values; their gradients move in the same way.
    dy: (N, d) → dqkv: (N, 3d)
    """
    dqkv = array_module(dy).empty_like(cache.qkv)

    def attend(group, p):
        """Fill the group's rows of dqkv."""
        q, k, v = split_heads(cache.qkv, group, cache.heads, 3)           # (g, h, n, d/h) each
        dq, dk, dv = split_heads(dqkv, group, cache.heads, 3)
        dout, = split_heads(dy, group, cache.heads, 1)
        dv[...] = p.swapaxes(2, 3) @ dout
        ds = dout @ v.swapaxes(2, 3)                                      # (g, h, n, n): dp so far
        ds -= (p * ds).sum(axis=3, keepdims=True)
        ds *= p
        ds *= 1 / math.sqrt(q.shape[3])
        dq[...] = ds @ k
        dk[...] = ds.swapaxes(2, 3) @ q

    each_group(attend, dy, cache.sentences, cache.p)
    return dqkv


def split_heads(x, group, heads, parts):
    """Views of a group's rows by head: x: (N, parts · d) → `parts` arrays (g, h, n, d/h)."""
    width = x.shape[1] // (parts * heads)                                 # d/h
    rows = x[group.first:group.last].reshape(-1, group.length, parts, heads, width)
    return [rows[:, :, part].swapaxes(1, 2) for part in range(parts)]


def self_attention_forward(x, weight0, bias0, weight1, bias1, offsets, heads):
    """Linear layer (queries, keys, values), attention, linear layer: x: (N, d) → (N, d), cache."""
    qkv, qkv_cache = linear_forward(x, weight0, bias0)                    # (N, 3d)
    y, attention_cache = attention_forward(qkv, offsets, heads)           # (N, d)
    y, output_cache = linear_forward(y, weight1, bias1)                   # (N, d)
    return y, (qkv_cache, attention_cache, output_cache)


def self_attention_backward(dy, cache):
    """Forward: y = linear1(attention(linear0(x))). dy: (N, d) → dx, dW₀, db₀, dW₁, db₁."""
    qkv_cache, attention_cache, output_cache = cache
    dy, dweight1, dbias1 = linear_backward(dy, output_cache)              # (N, d)
    dqkv = attention_backward(dy, attention_cache)                        # (N, 3d)
    return *linear_backward(dqkv, qkv_cache), dweight1, dbias1
