"""The losses, in pairs like the layers: forward(…) → (loss, cache), backward(cache, dloss)."""

import numpy as np

from ..backend import array_module, on_gpu
from . import kernels
from .layers import l2_normalize_backward, l2_normalize_forward

FLAT = 1e-9    # cosines this near to ±1 have no slope


@on_gpu(kernels.batch_softmax_forward)
def batch_softmax_forward(u, v, scale=1.0, false_negatives=None, first=0):
    """Pick the true response among those of the batch (Yang et al. 2018, §2.1–2.2).

    scores = scale · u vᵀ. Row i of p is a softmax over all B responses; response i is the true one.
    loss = −mean log p(true). With B equally good responses it is ln B.
    u, v: (B, d) inputs and responses; false_negatives: (rows, columns) of pairs (i, j), i ≠ j,
    in which response j would answer input i as well: they leave the softmax (ours). One of several
    workers has u (b, d), the inputs `first` … first + b − 1; the sum of all workers' losses is the
    batch's. Its false negatives' rows count from its own first input.
    → loss: 0-d array, cache
    """
    xp = array_module(u)
    scores = u @ xp.ascontiguousarray(v.T)                    # (b, B); v.T as it is takes longer
    scores *= scale                                           # in place: the largest array here
    if false_negatives is not None:
        scores[false_negatives] = -xp.inf                     # e^−∞ = 0: they do not count
    true = scores.diagonal(first).copy()                      # (b,)
    top = scores.max(axis=1, keepdims=True)                   # (b, 1) keeps exp from overflowing
    scores -= top
    p = xp.exp(scores, out=scores)                            # (b, B)
    total = p.sum(axis=1, keepdims=True)                      # (b, 1)
    loss = (xp.log(total[:, 0]) + top[:, 0] - true).sum() / len(v)
    p /= total
    return loss, (u, v, scale, p, first)


@on_gpu(kernels.batch_softmax_backward)
def batch_softmax_backward(cache, dloss=1.0):
    """Forward: loss = (1/B) Σ_i (log Σ_j e^{s_ij} − s_ii), s = scale · u vᵀ.

    ∂ log Σ_j e^{s_ij} / ∂s_ij = p_ij, so ∂loss/∂s_ij = (p_ij − δ_ij)/B. A step pulls u_i towards
    the true response and pushes it away from each other one in proportion to p_ij. A false negative
    has p = 0, so nothing pushes it. Then du = scale · ds v and dv = scale · dsᵀ u.
    → du: (b, d), dv: (B, d), what the b inputs say about all B responses
    """
    u, v, scale, p, first = cache
    step = dloss * scale / len(v)
    ds = p * step                                             # (b, B)
    rows = array_module(p).arange(len(p))
    ds[rows, first + rows] -= step
    return ds @ v, ds.T @ u


def cross_entropy_forward(logits, labels):
    """Softmax over the classes of each row; loss = −mean log p(label).

    logits: (B, classes); labels: int (B,) → loss: 0-d array, cache. With c equal logits it is ln c.
    """
    xp = array_module(logits)
    logits = logits - logits.max(axis=1, keepdims=True)       # keeps exp from overflowing
    log_p = logits - xp.log(xp.exp(logits).sum(axis=1, keepdims=True))    # (B, classes)
    rows = xp.arange(len(labels))
    return -log_p[rows, labels].mean(), (log_p, rows, labels)


def cross_entropy_backward(cache, dloss=1.0):
    """Forward: loss = (1/B) Σ_b (log Σ_c e^{z_bc} − z_b,label). So dz = dloss (p − one-hot)/B.

    → dlogits: (B, classes)
    """
    log_p, rows, labels = cache
    step = dloss / len(rows)
    dlogits = array_module(log_p).exp(log_p) * step           # (B, classes)
    dlogits[rows, labels] -= step
    return dlogits


def similarity_forward(matrix, u1, u2):
    """−arccos of the cosine of A u1 and A u2 (Yang et al. 2018, §4.3).

    matrix: (e, e), Aᵀ, because u1 and u2 (n, e) hold rows → similarity: (n,), −π … 0, cache
    """
    a, a_cache = l2_normalize_forward(u1 @ matrix)                        # (n, e)
    b, b_cache = l2_normalize_forward(u2 @ matrix)                        # (n, e)
    cosine = np.clip((a * b).sum(axis=1), -1, 1)                          # (n,)
    return -np.arccos(cosine), (u1, u2, a, b, a_cache, b_cache, cosine)


def similarity_backward(dsimilarity, cache):
    """Forward: s = −arccos(c), c = a · b, a = normalise(u1 M), b = normalise(u2 M).

    ds/dc = 1/√(1 − c²), which has no bound as c nears ±1. At c = ±1 s has no derivative; we use 0.
    da = dc b, db = dc a; M is used twice, so dM = u1ᵀ d(u1 M) + u2ᵀ d(u2 M).
    dsimilarity: (n,) → dmatrix: (e, e)
    """
    u1, u2, a, b, a_cache, b_cache, cosine = cache
    steep = np.abs(cosine) < 1 - FLAT
    slope = np.where(steep, 1 / np.sqrt(np.where(steep, 1 - cosine * cosine, 1)), 0)
    dcosine = (dsimilarity * slope)[:, None]                              # (n, 1)
    return (u1.T @ l2_normalize_backward(dcosine * b, a_cache)
            + u2.T @ l2_normalize_backward(dcosine * a, b_cache))


def correlation_forward(x, y):
    """Pearson's r of x: (n,) with fixed labels y: (n,) → 0-d array, cache."""
    x, y = x - x.mean(), y - y.mean()
    x_norm, y_norm = np.sqrt(x @ x), np.sqrt(y @ y)
    r = x @ y / (x_norm * y_norm)
    return r, (x / x_norm, y / y_norm, x_norm, r)


def correlation_backward(dr, cache):
    """Forward: r = x̂ · ŷ, both centred and of unit length.

    As in l2_normalize_backward, the part of ŷ along x̂ is projected out: dx = dr (ŷ − r x̂)/‖x‖.
    Centring would subtract its mean, which is 0. dr: a number → dx: (n,)
    """
    x_unit, y_unit, x_norm, r = cache
    return dr * (y_unit - r * x_unit) / x_norm
