"""What each step of a training is: its batch and its learning rates. Settings and step decide."""

import itertools
import math

import numpy as np

from .packed import drop_words
from .pairs import batch_order

DECAY_FROM = 50    # the first step, at least, at which the rates decay
GROWN, DROPPED = 2, 0.1    # from drop_at on: factors on the batch size and on the rates (§3.1)


def rates(optim, step, steps, pairs):
    """The learning rates of one step: (for dense parameters, for tables).

    losses.py computes the mean loss. For the sum, SGD's rates are `pairs` times as large. Adaptive
    needs no such factor: it divides by the gradient's size.
    optim: an OptimConfig; step: counted from 0; steps: of the whole training; pairs: in this batch
    """
    factor = warm_up(optim, step) * decay(optim, step, steps)
    if step >= optim.drop_at * steps:                         # the paper's last quarter
        factor *= DROPPED
    if optim.loss == "sum" and optim.optimizer == "sgd":
        factor *= pairs
    return factor * optim.rate, factor * optim.table_rate


def warm_up(optim, step):
    """The factor that rises to 1 in the first `warmup` steps."""
    return min(1, (step + 1) / optim.warmup) if optim.warmup else 1


def decay(optim, step, steps):
    """The factor that falls linearly from 1, after the start, to 0 at the last step's end."""
    start = max(optim.warmup, DECAY_FROM)
    if optim.decay == "none" or step < start:
        return 1
    return (steps - step) / (steps - start)


def batches(config, split, first_step=0):
    """Yield the Batch of each step from `first_step` on, for a training on one Split, without end.

    With another batch size, from `drop_at` on, the order of the pairs begins anew.
    """
    optim = config.optim
    change = math.ceil(optim.drop_at * config.steps)          # the first step with the other size
    for step in itertools.count(first_step):
        if step in (first_step, change):
            begin = change if step >= change else 0
            size = optim.batch_size * (GROWN if step >= change else 1)
            order = batch_order(split.pairs, size, config.seed, step - begin)
        yield training_batch(config, split, next(order), step)


def training_batch(config, split, which, step):
    """The pairs `which` (B,) of a Split as the Batch of a step, some words left out."""
    batch = split.batch(which, config.optim.mask_false_negatives)
    if not config.optim.word_dropout:
        return batch
    # The key's upper half: in batch_order an epoch, below 2⁶³; here a number from 2⁶³ on
    rng = np.random.Generator(np.random.Philox(key=config.seed + (2**63 + step << 64)))
    kept = drop_words(batch.sentences, config.optim.word_dropout, rng)
    return batch._replace(sentences=kept)
