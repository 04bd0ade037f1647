"""Natural language inference, the second task of a shared encoder (Yang et al. 2018, §2.4, figure 5)."""

import numpy as np

from ..backend import array_module, to_device, to_host
from .input_response import embed, encoder_backward, encoder_forward
from .layers import feed_forward, feed_forward_backward
from .losses import cross_entropy_backward, cross_entropy_forward

SCALE = 5.0


def nli_features_forward(u1, u2):
    """What a classifier sees of two sentences: (u1, u2, |u1 − u2|, u1 ∗ u2), side by side (Conneau et al. 2017).

    u1, u2: (B, e) → y: (B, 4e), cache.
    """
    xp = array_module(u1)
    difference = u1 - u2                                      # (B, e)
    return xp.concatenate([u1, u2, xp.abs(difference), u1 * u2], axis=1), (u1, u2, difference)


def nli_features_backward(dy, cache):
    """Forward: y = (u1, u2, |u1 − u2|, u1 ∗ u2). u1 reaches y on three ways, whose gradients add.

    d|x|/dx is the sign of x; at 0, where |x| has a kink, sign gives 0, which lies between the slopes
    −1 and 1 on either side: two equal sentences pull nowhere. The difference passes its gradient to u1
    and, negated, to u2; each factor of the product gets the other one.

    dy: (B, 4e) → du1, du2: (B, e)
    """
    u1, u2, difference = cache
    xp = array_module(dy)
    d1, d2, dabsolute, dproduct = xp.split(dy, 4, axis=1)     # (B, e) each
    ddifference = dabsolute * xp.sign(difference)
    return d1 + ddifference + dproduct * u2, d2 - ddifference + dproduct * u1


def classifier_forward(params, u1, u2):
    """Scores of the three classes: features, a hidden layer (§3.1: 512 units), a linear layer.

    Coordinates of unit vectors are about 1/√e, and their products 1/e, which would hardly count: it
    sees 5 u (ours: after two rounds of 20,000 pairs 67.0% of SNLI dev and 77.0 on STS dev; u itself
    66.8 and 75.9, √e u 66.4 and 76.4).

    u1, u2: (B, e) → logits: (B, 3), cache.
    """
    features, features_cache = nli_features_forward(SCALE * u1, SCALE * u2)     # (B, 4e)
    logits, layers_cache = feed_forward(params, "nli", features)                # (B, 3)
    return logits, (features_cache, layers_cache)


def classifier_backward(dlogits, cache):
    """Forward: logits = layers(features(5 u1, 5 u2)). → du1, du2: (B, e), gradients by parameter name."""
    features_cache, layers_cache = cache
    dfeatures, grads = feed_forward_backward(dlogits, layers_cache)             # (B, 4e)
    du1, du2 = nli_features_backward(dfeatures, features_cache)                 # (B, e) each
    return SCALE * du1, SCALE * du2, grads


def nli_loss_and_gradients(model, batch, dropout=None, weight=1.0):
    """One forward and one backward pass over an NliBatch of B pairs, which is on the host.

    Premises and hypotheses pass the shared encoder at once. dropout: Dropout of this step, for a
    Transformer; weight: factor on the gradients → loss: 0-d array, gradients by parameter name; the
    response network has none.
    """
    xp = array_module(model.params["encoder.embedding.weight"])
    both, encoder_cache = encoder_forward(model, batch.sentences, dropout)      # (2B, e)
    u1, u2 = both[:len(both) // 2], both[len(both) // 2:]                       # (B, e) each
    logits, classifier_cache = classifier_forward(model.params, u1, u2)         # (B, 3)
    loss, loss_cache = cross_entropy_forward(logits, to_device(batch.labels, xp))

    du1, du2, grads = classifier_backward(cross_entropy_backward(loss_cache, weight), classifier_cache)
    grads.update(encoder_backward(xp.concatenate([du1, du2]), encoder_cache, model.config))
    return loss, grads


def classify(model, split):
    """The class of every pair of an NliSplit: int (n,) on the host, numbers into snli.LABELS."""
    xp = array_module(model.params["encoder.embedding.weight"])
    u = xp.asarray(embed(model, split.sentences))                               # (2n, e)
    return np.argmax(to_host(classifier_forward(model.params, u[0::2], u[1::2])[0]), axis=1)
