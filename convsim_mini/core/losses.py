"""Cross-entropy and batch softmax: forward(…) → loss, cache; backward(dloss, cache)."""

from functools import partial

from .arrays import array_module, matmul, twinned


@twinned
def cross_entropy_forward(logits, labels):
    """p = softmax(logits) row by row; loss = −mean log p(label).

    logits: (b, c); labels: int (b,) → loss: 0-d array (ln c if all c logits are equal), cache
    """
    xp = array_module(logits)
    rows = xp.arange(len(logits))
    top = logits.max(axis=1, keepdims=True)                   # (b, 1) keeps exp from overflowing
    p = xp.exp(logits - top)                                  # (b, c)
    total = p.sum(axis=1, keepdims=True)                      # (b, 1)
    p /= total
    losses = xp.log(total[:, 0]) + top[:, 0] - logits[rows, labels]       # (b,)
    return losses.mean(), (p, rows, labels)


@twinned
def cross_entropy_backward(dloss, cache):
    """Forward: loss = (1/b) Σ_i (log Σ_j e^{z_ij} − z_i,label).

    ∂ log Σ_j e^{z_ij} / ∂z_ij = p_ij, so dz_ij = dloss (p_ij − δ_j,label)/b.
    dloss: a number → dlogits: (b, c)
    """
    p, rows, labels = cache
    step = dloss / len(rows)
    dlogits = p * step                                        # (b, c)
    dlogits[rows, labels] -= step
    return dlogits


def batch_softmax_forward(u, v, scale=1.0, first=0):
    """Pick the true response among all responses of the batch (Yang et al. 2018, §2.1–2.2).

    It is the cross-entropy of scores = scale · u vᵀ, in which row i's label is its true response.
    If all B responses are equally good, the loss is ln B. It is also known as InfoNCE with in-batch
    negatives and temperature 1/scale, and as MultipleNegativesRankingLoss.
    u, v: (B, e), row i of v is the true response to row i of u → loss: 0-d array, cache

    (With several processes, each has some of the inputs: u then has b < B rows, starting at row
    `first` of the batch, and the loss is their share of the batch's mean.)
    """
    labels = array_module(u).arange(first, first + len(u))    # (b,)
    loss, scores_cache = cross_entropy_forward(scale * matmul(u, v.T), labels)
    share = len(u) / len(v)
    return loss * share, (u, v, scale * share, scores_cache)


def batch_softmax_backward(dloss, cache):
    """Forward: loss = cross-entropy(scale · u vᵀ), p = softmax(scores).

    The cross-entropy's gradient is ds_ij = (p_ij − δ_ij)/B. So a step pulls u_i towards the true
    response and pushes it away from every wrong one in proportion to p_ij. If response j has the
    same text as the true one, v_j = v_i, and a pull of 1 − p_ii − p_ij remains: such a duplicate
    raises the loss, but never pushes u_i away from the true response. A score is scale times a
    product, so du = scale · ds v and dv = scale · dsᵀ u.
    dloss: a number → du: (b, e), dv: (B, e)
    """
    u, v, factor, scores_cache = cache
    duv = cross_entropy_backward(dloss * factor, scores_cache)            # (b, B): scale · ds
    return matmul(duv, v), matmul(duv.T, u)


def loss_of(config):
    """The loss that a ModelConfig asks for, forward and backward. Return your own here to try it.

    forward: (u, v, first=…) as above; backward: (dloss, cache)
    """
    return partial(batch_softmax_forward, scale=config.scale), batch_softmax_backward
