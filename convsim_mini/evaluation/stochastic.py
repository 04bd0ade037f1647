"""A classifier with a hidden layer, or of very many rows: trained batch by batch.

The layers and Adam are those of the model, the loss is that of `classifiers`. SentEval's hidden
layer is a sigmoid (Conneau and Kiela 2018, §4), ours a tanh. The layers on both sides turn one into
the other: σ(2x) = (1 + tanh x)/2. The penalty of the weights then differs by constant factors.
The batches of 64 are SentEval's. SentEval stops early on dev. We make a fixed number of steps, at a
rate that falls to zero.
"""

import numpy as np

from ..cli import progress
from ..model.layers import feed_forward, feed_forward_backward
from ..training.optim import Adaptive
from .classifiers import (
    SEED, answers, blocks, cross_entropies_backward, cross_entropies_forward, soft_targets,
)

BATCH, RATE = 64, 3e-3
PASSES, STEPS = 5, 2_000    # over the rows, and batches: at least
SAMPLE = 10_000    # rows that tell the columns' mean and spread


def fit(x, labels, training, strengths, grades=None, hidden=0):
    """What `classifiers.fit` returns, from networks that are trained one after another.

    x: (n, d), or what makes such rows for x[rows]; hidden: units with tanh between two linear
    layers, or 0 for one linear layer, which has the minimum of `classifiers.fit`
    """
    targets = soft_targets(labels, grades).astype(np.float32)             # (n, c)
    each = [(np.flatnonzero(rows), strength) for rows in training for strength in strengths]
    said = [train(x, targets, rows, strength, hidden, grades)
            for rows, strength in progress(each, desc="networks", delay=3)]
    return np.array(said).reshape(len(training), len(strengths), len(labels))


def train(x, targets, rows, strength, hidden, grades):
    """What a network that is trained on `rows` says of all rows: → (n,), as `answers`.

    Adam's steps have one size for all weights, so the columns are brought to variance 1. The
    penalty is that of the weights before: such a weight is `scale` times the one that is learned.
    rows: int, in rising order; strength: λ of all weights
    """
    rng = np.random.Generator(np.random.Philox(SEED))
    seen = x[np.sort(rng.choice(rows, min(len(rows), SAMPLE), replace=False))]
    mean, spread = seen.mean(axis=0), seen.std(axis=0)
    scale = 1 / np.maximum(spread, 1e-3 * spread.max())                   # a flat column stays flat
    at = lambda which: (x[which] - mean) * scale                          # (B, d)
    params = first_params([len(mean), *[hidden] * (hidden > 0), targets.shape[1]], rng)
    penalty = {name: strength for name in params if name.endswith("weight")}
    penalty["network.linear0.weight"] = strength * scale[:, None] ** 2
    passes = max(PASSES, -(-STEPS * BATCH // len(rows)))
    order = np.concatenate([rng.permutation(rows) for _ in range(passes)])
    optimiser, batches = Adaptive(params), range(0, len(order), BATCH)
    for first in progress(batches, desc="batches", delay=3):
        which = order[first:first + BATCH]
        _, grads = loss_and_gradients(params, at(which), targets[which], penalty)
        optimiser.step(params, grads, RATE * (1 - first / len(order)), None)
    return np.concatenate([answers(feed_forward(params, "network", at(which))[0][:, :, None],
                                   grades)[:, 0] for which in blocks(len(targets))])


def first_params(widths, rng):
    """Layers of these widths: weights with Glorot's variance (2010), biases of zero, float32."""
    params = {}
    for k, shape in enumerate(zip(widths, widths[1:])):
        bound = np.sqrt(6 / sum(shape))
        params[f"network.linear{k}.weight"] = rng.uniform(-bound, bound, shape).astype(np.float32)
        params[f"network.linear{k}.bias"] = np.zeros(shape[1], np.float32)
    return params


def loss_and_gradients(params, z, targets, penalty):
    """The mean cross-entropy, plus ½ Σ penalty · weight² of each layer.

    z: (B, d); targets: (B, c), rows of sum 1; penalty: of each layer's weight, by parameter name
    → loss: float, gradients by parameter name
    """
    logits, caches = feed_forward(params, "network", z)                   # (B, c)
    share = np.full((len(z), 1), 1 / len(z), z.dtype)
    losses, cache = cross_entropies_forward(logits[:, :, None], targets, share)
    dlogits = cross_entropies_backward(np.ones_like(losses), cache)[:, :, 0]
    _, grads = feed_forward_backward(dlogits, caches)
    loss = losses[0]
    for name, strength in penalty.items():
        grads[name] += strength * params[name]
        loss += (strength * params[name] ** 2).sum() / 2
    return loss, grads
