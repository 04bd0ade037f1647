"""The batch softmax loss. Like a layer: forward(…) → loss, cache; backward(dloss, cache)."""

from functools import partial

from .arrays import array_module, matmul, twinned


@twinned
def batch_softmax_forward(u, v, scale=1.0, first=0):
    """Pick the true response among all responses of the batch (Yang et al. 2018, §2.1–2.2).

    scores = scale · u vᵀ, p = softmax(scores) row by row, loss = −mean log p(true). If all B
    responses are equally good, the loss is ln B. It is also known as InfoNCE with in-batch
    negatives and temperature 1/scale, and as MultipleNegativesRankingLoss.
    u, v: (B, e), row i of v is the true response to row i of u → loss: 0-d array, cache

    (With several processes, each has some of the inputs: u then has b < B rows, starting at row
    `first` of the batch, and the loss is their share of the batch's mean.)
    """
    xp = array_module(u)
    scores = scale * matmul(u, v.T)                           # (b, B)
    true_scores = scores.diagonal(first)                      # (b,)
    top = scores.max(axis=1, keepdims=True)                   # (b, 1) keeps exp from overflowing
    p = xp.exp(scores - top)                                  # (b, B)
    total = p.sum(axis=1, keepdims=True)                      # (b, 1)
    loss = (xp.log(total[:, 0]) + top[:, 0] - true_scores).sum() / len(v)
    return loss, (u, v, scale, p / total, first)


@twinned
def batch_softmax_backward(dloss, cache):
    """Forward: loss = (1/B) Σ_i (log Σ_j e^{s_ij} − s_ii), s = scale · u vᵀ.

    ∂ log Σ_j e^{s_ij} / ∂s_ij = p_ij, so ∂loss/∂s_ij = (p_ij − δ_ij)/B. A step pulls u_i towards
    the true response and pushes it away from every wrong one in proportion to p_ij. If response j
    has the same text as the true one, v_j = v_i, and a pull of 1 − p_ii − p_ij remains: such a
    duplicate raises the loss, but never pushes u_i away from the true response. With ds as above,
    du = scale · ds v and dv = scale · dsᵀ u.
    dloss: a number → du: (b, e), dv: (B, e)
    """
    u, v, scale, p, first = cache
    factor = dloss * scale / len(v)
    duv = p * factor                                          # (b, B): ∂loss/∂(u vᵀ) = scale · ds
    rows = array_module(p).arange(len(p))
    duv[rows, first + rows] -= factor
    return matmul(duv, v), matmul(duv.T, u)


def loss_of(config):
    """The loss that a ModelConfig asks for, forward and backward. Return your own here to try it.

    forward: (u, v, first=…) as above; backward: (dloss, cache)
    """
    return partial(batch_softmax_forward, scale=config.scale), batch_softmax_backward
