"""An encoder of one's own in one file: a GRU over a sentence's words, NumPy alone.

Importing it makes `--encoder gru` work everywhere. An exported run takes this file with it.
"""

import numpy as np

from convsim_mini.core.embeddings import SparseRows
from convsim_mini.core.layers import (
    feed_forward, feed_forward_backward, l2_normalize_backward, l2_normalize_forward)
from convsim_mini.core.model import ENCODERS, TABLE, Encoder

INPUT, BIAS = "encoder.gru.input.weight", "encoder.gru.input.bias"
STATE = "encoder.gru.state.weight"


def gru_forward(model, packed, key=()):
    """Gated recurrent unit (Cho et al. 2014), then linear layers and unit length.

    For each word x: reset gate r and update gate z = σ(x W + h U + b), candidate
    c = tanh(x W + r (h U) + b), h ← (1 − z) c + z h. W holds the weights of r, z and c side by
    side, U too. Longest first, the n sentences that have a word t are the first n rows of h.
    packed: word ids of B sentences → u: (B, e) unit vectors, cache
    """
    params, order = model.params, np.argsort(-packed.lengths, kind="stable")
    packed = packed.take(order)
    x = params[TABLE].take(packed.ids, axis=0)                            # (N, d)
    of_words = x @ params[INPUT] + params[BIAS]                           # (N, 3d)
    h, steps = np.zeros((len(order), x.shape[1]), x.dtype), []            # (B, d)
    for t in range(packed.lengths.max()):
        rows = packed.offsets[:-1][packed.lengths > t] + t                # (n,)
        n, before = len(rows), h[:len(rows)].copy()
        xr, xz, xc = np.split(of_words[rows], 3, axis=1)                  # (n, d) each
        hr, hz, hc = np.split(before @ params[STATE], 3, axis=1)
        r, z = 1 / (1 + np.exp(-xr - hr)), 1 / (1 + np.exp(-xz - hz))
        c = np.tanh(xc + r * hc)
        h[:n] = (1 - z) * c + z * before
        steps.append((rows, before, r, z, c, hc))
    y, layers_cache = feed_forward(model, "encoder", h)                   # (B, e)
    u, unit_cache = l2_normalize_forward(y)
    return u[np.argsort(order)], (params, order, packed.ids, x, steps, layers_cache, unit_cache)


def gru_backward(du, cache):
    """Forward: h ← (1 − z) c + z h, word by word; the last word is undone first.

    With a = x W + h U + b, σ′(a) = σ (1 − σ) and tanh′(a) = 1 − tanh². The candidate's part of h U
    was multiplied by r, so its gradient is, too.
    du: (B, e) → gradients by parameter name; the table's is a list of SparseRows
    """
    params, order, ids, x, steps, layers_cache, unit_cache = cache
    dh, grads = feed_forward_backward(l2_normalize_backward(du[order], unit_cache), layers_cache)
    dwords = np.empty((len(x), 3 * x.shape[1]), x.dtype)                  # (N, 3d)
    grads[STATE] = np.zeros_like(params[STATE])
    for rows, before, r, z, c, hc in reversed(steps):
        dnew = dh[:len(rows)]                                             # (n, d)
        dc = dnew * (1 - z) * (1 - c * c)
        dz = dnew * (before - c) * z * (1 - z)
        dr = dc * hc * r * (1 - r)
        dwords[rows] = np.concatenate([dr, dz, dc], axis=1)
        dstate = np.concatenate([dr, dz, dc * r], axis=1)                 # (n, 3d)
        grads[STATE] += before.T @ dstate
        dh[:len(rows)] = dnew * z + dstate @ params[STATE].T
    grads[INPUT], grads[BIAS] = x.T @ dwords, dwords.sum(axis=0)
    dx = dwords @ params[INPUT].T                                         # (N, d)
    return grads | {TABLE: [SparseRows(ids, dx, np.arange(len(ids), dtype=np.int32))]}


def gru_shapes(config):
    """Name → shape, kind of the parameters besides the table and the linear layers."""
    d = config.embedding_dim
    return {INPUT: ((d, 3 * d), "uniform"), BIAS: ((3 * d,), "zeros"),
            STATE: ((d, 3 * d), "uniform")}


ENCODERS["gru"] = Encoder(gru_forward, gru_backward, gru_shapes)
