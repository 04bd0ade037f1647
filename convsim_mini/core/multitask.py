"""Natural language inference, the second task of a shared encoder (Yang et al. 2018, §2.4)."""

from .arrays import array_module, to_device
from .layers import feed_forward, feed_forward_backward
from .losses import cross_entropy_backward, cross_entropy_forward
from .model import TASKS, Task, pick

LABELS = ("entailment", "neutral", "contradiction")
SCALE = 5.0


def nli_features_forward(u1, u2):
    """Features of two sentences: (u1, u2, |u1 − u2|, u1 ∗ u2) (Conneau et al. 2017, §3.1).

    u1, u2: (B, e) → y: (B, 4e), cache
    """
    xp = array_module(u1)
    difference = u1 - u2                                      # (B, e)
    return xp.concatenate([u1, u2, xp.abs(difference), u1 * u2], axis=1), (u1, u2, difference)


def nli_features_backward(dy, cache):
    """Forward: y = (u1, u2, |u1 − u2|, u1 ∗ u2). u1 reaches y along three paths; gradients add up.

    d|x|/dx is the sign of x. At 0 there is no derivative; we use sign(0) = 0, which lies between
    the slopes −1 and 1 on either side. The difference passes its gradient to u1 and, negated, to
    u2. A factor's gradient is the product's gradient times the other factor.
    dy: (B, 4e) → du1, du2: (B, e)
    """
    u1, u2, difference = cache
    xp = array_module(dy)
    d1, d2, dabsolute, dproduct = xp.split(dy, 4, axis=1)     # (B, e) each
    ddifference = dabsolute * xp.sign(difference)
    return d1 + ddifference + dproduct * u2, d2 - ddifference + dproduct * u1


def classifier_forward(model, u1, u2):
    """Scores of the three classes: features, a hidden layer (§3.1: 512 units), a linear layer.

    In e dimensions, a unit vector's values are about 1/√e, and products 1/e: too small to help.
    So the classifier sees 5 u (ours: STS dev is then 77.0, with u itself 75.9; SNLI is the same).
    u1, u2: (B, e) → logits: (B, 3), cache
    """
    features, features_cache = nli_features_forward(SCALE * u1, SCALE * u2)     # (B, 4e)
    logits, layers_cache = feed_forward(model, "nli", features)                 # (B, 3)
    return logits, (features_cache, layers_cache)


def classifier_backward(dlogits, cache):
    """Forward: logits = layers(features(5 u1, 5 u2)).

    dlogits: (B, 3) → du1, du2: (B, e), gradients by parameter name
    """
    features_cache, layers_cache = cache
    dfeatures, grads = feed_forward_backward(dlogits, layers_cache)             # (B, 4e)
    du1, du2 = nli_features_backward(dfeatures, features_cache)                 # (B, e) each
    return SCALE * du1, SCALE * du2, grads


def classes(model, u1, u2, batch, weight, others):
    """The task of NLI (§2.4): like `replies`, but the loss of a pair depends only on that pair."""
    labels = to_device(batch.labels, array_module(u1))
    logits, classifier_cache = classifier_forward(model, u1, u2)                    # (B, 3)
    loss, loss_cache = cross_entropy_forward(logits, labels)
    dlogits = cross_entropy_backward(weight, loss_cache)                            # (B, 3)
    du1, du2, grads = classifier_backward(dlogits, classifier_cache)                # (B, e) each
    return loss, du1, du2, grads


def entailments(model, u, v, batch, weight, others):
    """Pick the hypothesis that each premise entails (ours): like `replies`, but with v as v′."""
    return *pick(model, u, v, weight, others), {}


TASKS["classes"] = Task(classes, "nli_loss", "nli_weight")
TASKS["entailments"] = Task(entailments, "nli_loss")
