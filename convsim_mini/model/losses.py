"""The losses, in pairs like the layers: forward(…) → (loss, cache), backward(cache, dloss)."""

from ..backend import array_module, on_gpu, product, products
from . import kernels


@on_gpu(kernels.batch_softmax_forward)
def batch_softmax_forward(u, v, scale=1.0, false_negatives=None, first=0):
    """Pick the true response among all responses of the batch (Yang et al. 2018, §2.1–2.2).

    scores = scale · u vᵀ. Row i of p is a softmax over all B responses; response i is the true one.
    loss = −mean log p(true). With B equally good responses it is ln B. Others call it InfoNCE with
    in-batch negatives and the temperature 1/scale, or MultipleNegativesRankingLoss.
    u, v: (B, d) inputs and responses; false_negatives: (rows, columns) of pairs (i, j), i ≠ j,
    in which response j would answer input i as well: they leave the softmax (ours). u may be only
    b rows of a larger batch; its first row is row `first` there. Then false_negatives count rows
    from u's first row, and the losses of all parts add up to the batch's loss.
    → loss: 0-d array, cache
    """
    xp = array_module(u)
    scores = product(u, xp.ascontiguousarray(v.T))            # (b, B); v.T as it is takes longer
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
    → du: (b, d), dv: (B, d), the part of its gradient that comes from the b inputs
    """
    u, v, scale, p, first = cache
    step = dloss * scale / len(v)
    ds = p * step                                             # (b, B)
    rows = array_module(p).arange(len(p))
    ds[rows, first + rows] -= step
    return tuple(products((ds, v), (ds.T, u)))


def batch_softmax(u, v, scale=1.0, false_negatives=None, dloss=1.0):
    """Both passes at once → loss: 0-d array, du, dv: (B, d). Arguments as in the two above."""
    loss, cache = batch_softmax_forward(u, v, scale, false_negatives)
    return loss, *batch_softmax_backward(cache, dloss)


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
