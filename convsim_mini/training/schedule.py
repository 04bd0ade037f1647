"""What each step of a run is: its task, batch and rates. Settings and step alone decide them."""

import itertools
import math
import zlib
from typing import NamedTuple

import numpy as np

from ..data.corpus import Split, batch_order
from ..data.packed import drop_words

SETTLED = 50    # steps, at least, before the rate decays: --minutes measures the speed in them


class Tasks(NamedTuple):
    """Splits to train on, and NLI pairs to measure on; the NLI ones are None without that task."""

    conversation: Split
    nli: Split | None = None
    nli_dev: Split | None = None

    @property
    def nli_checksum(self):
        """The CRC-32 of all numbers of the NLI splits, or None without any."""
        splits = [split for split in (self.nli, self.nli_dev) if split]
        arrays = [array for split in splits for array in split[:4] if array is not None]
        crc = 0
        for array in arrays:
            crc = zlib.crc32(np.ascontiguousarray(array), crc)
        return crc if splits else None


def rates(optim, step, steps, pairs):
    """The learning rates of one step: (for dense parameters, for tables).

    They rise for `warmup` steps, stay until `settled_at`, and fall linearly to zero at `steps`.
    losses.py computes the mean loss. For the sum, SGD's rates are `pairs` times as large. Adaptive
    needs no such factor: it divides by the gradient's size.
    step: counted from 0; steps: of the whole run; pairs: in this step's batch
    """
    factor = min(1, (step + 1) / optim.warmup) if optim.warmup else 1
    if optim.decay == "linear" and step >= settled_at(optim):
        factor *= (steps - step) / (steps - settled_at(optim))
    if step >= optim.drop_at * steps:
        factor *= optim.dropped_rate / optim.rate
    if optim.loss == "sum" and optim.optimizer == "sgd":
        factor *= pairs
    return factor * optim.rate, factor * optim.table_rate


def batch_sizes(optim, step, steps):
    """Pairs in the batch of one step: of conversations, of NLI."""
    if step >= optim.drop_at * steps:
        return optim.dropped_batch_size, optim.dropped_batch_size
    return optim.batch_size, optim.nli_batch_size


def pairs_before(config, step):
    """How many pairs of both tasks the first `step` steps see."""
    drop = min(step, math.ceil(config.optim.drop_at * config.steps))
    total = 0
    for begin, end in ((0, drop), (drop, step)):
        size, nli_size = batch_sizes(config.optim, begin, config.steps)
        steps, of_nli = steps_of_tasks(config, begin, end)
        total += steps * size + of_nli * nli_size
    return total


def pairs_in_step(config, step):
    """How many pairs one step sees. With two tasks in one step: the mean of their batch sizes."""
    pairs = pairs_before(config, step + 1) - pairs_before(config, step)
    return pairs / 2 if config.optim.nli_workers else pairs


def settled_at(optim):
    """The step from which the learning rate may depend on the number of steps."""
    return max(optim.warmup, SETTLED)


def nli_steps(config, step):
    """How many of the first `step` steps train NLI; they are spread evenly."""
    if len(config.taught) == 2:
        return math.floor(config.nli_share * step)
    return step if config.second_task else 0


def steps_of_tasks(config, begin, end):
    """How many of the steps `begin` … `end` − 1 train on conversations, how many train NLI."""
    if config.optim.nli_workers:                              # each trains both
        return end - begin, end - begin
    of_nli = nli_steps(config, end) - nli_steps(config, begin)
    return end - begin - of_nli, of_nli


def batches(config, tasks, first_step=0, trains_nli=None):
    """Yield the Batch of each step from `first_step` on; seed, stage and step decide it.

    trains_nli: whether this worker trains NLI in every step; None: tasks take turns
    """
    optim = config.optim
    drop = math.ceil(optim.drop_at * config.steps)
    for step in itertools.count(first_step):
        if step in (first_step, drop):
            begin = drop if step >= drop else 0
            size, nli_size = batch_sizes(optim, step, config.steps)
            done, of_nli = steps_of_tasks(config, begin, step)
            pairs = batch_order(tasks.conversation.pairs, size, config.seed, done, config.stage)
            nli_pairs = tasks.nli and batch_order(tasks.nli.pairs, nli_size, config.seed, of_nli,
                                                  config.stage)
        is_nli = trains_nli
        if is_nli is None:
            is_nli = nli_steps(config, step + 1) > nli_steps(config, step)
        if is_nli:
            yield tasks.nli.batch(next(nli_pairs))            # every word counts: "not" may decide
            continue
        batch = tasks.conversation.batch(next(pairs), optim.mask_false_negatives)
        if optim.word_dropout:
            # keys from the upper half of the numbers: batch_order uses the lower half
            number = 2**63 + (config.stage << 48) + step
            rng = np.random.Generator(np.random.Philox(key=[config.seed, number]))
            kept = drop_words(batch.sentences, optim.word_dropout, rng)
            batch = batch._replace(sentences=kept)
        yield batch


def steps_in(minutes, seconds_per_step, optim):
    """The number of steps that fit into `minutes`. seconds_per_step: with the first batch size"""
    growth = optim.dropped_batch_size / optim.batch_size
    mean_seconds = seconds_per_step * (optim.drop_at + (1 - optim.drop_at) * growth)
    fewest = math.ceil((settled_at(optim) + 1) / (optim.drop_at or 1))    # no step yet is late
    return max(fewest, round(60 * minutes / mean_seconds))
