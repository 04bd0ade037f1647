"""The losses, forward and backward, like the layers: forward → (loss, cache), backward(cache)."""

import numpy as np

from .backend import array_module


def batch_softmax_forward(u, v, scale=1.0, false_negatives=None):
    """Pick the true reply among the batch's replies (Yang et al. 2018, §2.1–2.2).

    scores = scale · u vᵀ; row i is a softmax over all B responses, of which response i is the
    true one; loss = −mean log p(true).

    u, v: (B, d) inputs and responses; false_negatives: (rows, columns) of pairs (i, j), i ≠ j,
    in which response j would answer input i as well: they leave the softmax (ours)
    → loss: 0-d array, cache. With B equally good replies the loss is ln B.
    """
    xp = array_module(u)
    scores = u @ v.T                                          # (B, B)
    scores *= scale                                           # in place: B × B is the largest array here
    if false_negatives is not None:
        scores[false_negatives] = -xp.inf                     # e^−∞ = 0: as if they were not there
    true = scores.diagonal().copy()                           # (B,)
    top = scores.max(axis=1, keepdims=True)                   # (B, 1) keeps exp from overflowing
    scores -= top
    p = xp.exp(scores, out=scores)                            # (B, B)
    total = p.sum(axis=1, keepdims=True)                      # (B, 1)
    loss = (xp.log(total[:, 0]) + top[:, 0] - true).mean()
    p /= total
    return loss, (u, v, scale, p)


def batch_softmax_backward(cache, dloss=1.0):
    """Forward: loss = (1/B) Σ_i (log Σ_j e^{s_ij} − s_ii), s = scale · u vᵀ.

    ∂ log Σ_j e^{s_ij} / ∂s_ij = p_ij, so ∂loss/∂s_ij = (p_ij − δ_ij)/B: each row pulls the true
    response near and pushes the others away by as much as the model believes in them. A masked
    pair has p = 0 and is left in peace. Then du = scale · ds v and dv = scale · dsᵀ u.

    → du: (B, d), dv: (B, d)
    """
    u, v, scale, p = cache
    step = dloss * scale / len(p)
    ds = p * step                                             # (B, B)
    diagonal = array_module(p).arange(len(p))
    ds[diagonal, diagonal] -= step
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
    """Forward: loss = (1/B) Σ_b (log Σ_c e^{z_bc} − z_b,label). As above, dz = dloss (p − one-hot)/B.

    → dlogits: (B, classes)
    """
    log_p, rows, labels = cache
    step = dloss / len(rows)
    dlogits = array_module(log_p).exp(log_p) * step           # (B, classes)
    dlogits[rows, labels] -= step
    return dlogits


def false_negatives(input_keys, response_keys):
    """Pairs (i, j), i ≠ j, of a batch whose inputs or whose responses are the same text.

    Such a response j is no wrong answer to input i, though it is not the one that was given.
    input_keys, response_keys: (B,) hashes of the texts, on the host → (rows, columns), or None.
    """
    rows, columns = np.concatenate([_equal_pairs(input_keys), _equal_pairs(response_keys)], axis=1)
    return (rows, columns) if len(rows) else None


def _equal_pairs(keys):
    """All (i, j), i ≠ j, with keys[i] == keys[j]: int64 (2, number of pairs)."""
    _, group, count = np.unique(keys, return_inverse=True, return_counts=True)
    repeated = np.flatnonzero(count[group] > 1)               # few, so their square is small
    equal = keys[repeated, None] == keys[None, repeated]
    np.fill_diagonal(equal, False)
    return repeated[np.array(np.nonzero(equal))]
