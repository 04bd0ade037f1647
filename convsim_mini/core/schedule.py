"""The batch and the learning rates of each training step, from the settings and the step number."""

import itertools
import math

from .pairs import batch_order

GROWN, DROPPED = 2, 0.1    # from drop_at on: factors on the batch size and on the rates (§3.1)


def rates(optim, step, steps, pairs):
    """The learning rates of one step: (for dense parameters, for tables).

    losses.py computes the mean loss. For the sum, SGD's rates are `pairs` times as large. Adaptive
    needs no such factor: it divides by the gradient's size.
    optim: an OptimConfig; step: from 0; steps: how many in all; pairs: how many in this batch
    """
    first, left = optim.warmup * steps, (1 - optim.warmup) * steps
    rise = (step + 1) / first if first else 1                 # to 1 over the share `warmup`
    fall = (steps - step) / left if optim.decay == "linear" and left else 1    # then to 0
    factor = min(1, rise, fall)
    if step >= optim.drop_at * steps:                         # the paper's last quarter
        factor *= DROPPED
    if optim.loss == "sum" and optim.optimizer == "sgd":
        factor *= pairs
    return factor * optim.learning_rate, factor * optim.table_learning_rate


def batches(config, split, first_step=0):
    """Yield the Batch of each step from `first_step` on, for training on one Split, without end.

    At `drop_at`, the batch size changes, and the order of the pairs starts over.
    """
    optim = config.optim
    change = math.ceil(optim.drop_at * config.steps)          # the first step with the other size
    for step in itertools.count(first_step):
        if step in (first_step, change):
            begin = change if step >= change else 0
            size = optim.batch_size * (GROWN if step >= change else 1)
            order = batch_order(split.pairs, size, config.seed, step - begin)
        yield split.batch(next(order))
