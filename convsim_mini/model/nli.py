"""Natural language inference, the second task of a shared encoder (Yang et al. 2018, §2.4)."""

from ..backend import array_module
from .layers import feed_forward, feed_forward_backward

SCALE = 5.0


def nli_features_forward(u1, u2):
    """Features of two sentences: (u1, u2, |u1 − u2|, u1 ∗ u2) (Conneau et al. 2017, §3.1).

    u1, u2: (B, e) → y: (B, 4e), cache
    """
    xp = array_module(u1)
    difference = u1 - u2                                      # (B, e)
    return xp.concatenate([u1, u2, xp.abs(difference), u1 * u2], axis=1), (u1, u2, difference)


def nli_features_backward(dy, cache):
    """Forward: y = (u1, u2, |u1 − u2|, u1 ∗ u2). u1 influences y along three paths: gradients add.

    d|x|/dx is the sign of x. At 0 there is no derivative; we use sign(0) = 0, which lies between
    the slopes −1 and 1 on either side. The difference passes its gradient to u1 and, negated, to
    u2. The gradient of each factor of the product is multiplied by the other factor.
    dy: (B, 4e) → du1, du2: (B, e)
    """
    u1, u2, difference = cache
    xp = array_module(dy)
    d1, d2, dabsolute, dproduct = xp.split(dy, 4, axis=1)     # (B, e) each
    ddifference = dabsolute * xp.sign(difference)
    return d1 + ddifference + dproduct * u2, d2 - ddifference + dproduct * u1


def classifier_forward(params, u1, u2):
    """Scores of the three classes: features, a hidden layer (§3.1: 512 units), a linear layer.

    Coordinates of unit vectors are about 1/√e and their products about 1/e, too small to count. So
    the classifier sees 5 u (ours: after two rounds of 20,000 pairs 67.0% of SNLI dev and 77.0 on
    STS dev; with u itself 66.8 and 75.9, with √e u 66.4 and 76.4).
    u1, u2: (B, e) → logits: (B, 3), cache
    """
    features, features_cache = nli_features_forward(SCALE * u1, SCALE * u2)     # (B, 4e)
    logits, layers_cache = feed_forward(params, "nli", features)                # (B, 3)
    return logits, (features_cache, layers_cache)


def classifier_backward(dlogits, cache):
    """Forward: logits = layers(features(5 u1, 5 u2)).

    dlogits: (B, 3) → du1, du2: (B, e), gradients by parameter name
    """
    features_cache, layers_cache = cache
    dfeatures, grads = feed_forward_backward(dlogits, layers_cache)             # (B, 4e)
    du1, du2 = nli_features_backward(dfeatures, features_cache)                 # (B, e) each
    return SCALE * du1, SCALE * du2, grads
