"""Pairs as packed ids, their batches, and the order in which training sees them."""

import math
from itertools import count, islice
from typing import NamedTuple

import numpy as np

from .packed import Packed

BLOCK, SHUFFLED = 256, 4096    # pairs in a block, blocks shuffled at once: see `_epoch`
GROWN = 2    # from drop_at on: factor on the batch size (§3.1)


class Batch(NamedTuple):
    """B pairs of one task: input and response, or premise and hypothesis."""

    sentences: Packed                        # 2B: the B first sides, then their second sides, so
                                             # that one cut separates their vectors
    labels: np.ndarray | None = None         # int (B,): classes of natural language inference
    task: str = "replies"                    # a name in TASKS of model.py


class Split(NamedTuple):
    """The n pairs of one split. Sentence 2i is the first side of pair i, 2i + 1 the second."""

    ids: np.ndarray                      # int32 (N,)
    offsets: np.ndarray                  # int64 (2n + 1,)
    keys: np.ndarray | None = None       # uint64 (n, 2), of the two sides: equal for equal texts
    labels: np.ndarray | None = None     # int (n,)
    task: str = "replies"                # of its batches

    @property
    def pairs(self):
        """Number of pairs."""
        return len(self.offsets) // 2

    @property
    def packed(self):
        """All 2n sentences."""
        return Packed(self.ids, self.offsets)

    def sentences(self, which):
        """Copies of some sentences. which: (B,) sentence numbers → Packed of B sentences."""
        return self.packed.take(which)

    def batch(self, which):
        """Some of the pairs as a Batch. which: (B,) pair numbers"""
        sentences = self.sentences(np.concatenate([2 * which, 2 * which + 1]))
        labels = None if self.labels is None else self.labels[which]
        return Batch(sentences, labels, self.task)


def batches(config, split, first_step=0):
    """Yield the Batch of each step from `first_step` on, for training on one Split, without end.

    At `drop_at`, the batch size changes, and the order of the pairs starts over.
    """
    optim = config.optim
    change = math.ceil(optim.drop_at * config.steps)          # the first step with the other size
    for step in count(first_step):
        if step in (first_step, change):
            begin = change if step >= change else 0
            size = optim.batch_size * (GROWN if step >= change else 1)
            order = batch_order(split.pairs, size, config.seed, step - begin)
        yield split.batch(next(order))


def batch_order(pairs, batch_size, seed, first_step=0):
    """Yield the pair numbers of every batch, without end, from step `first_step` on: (B,) arrays.

    Each epoch visits all pairs in a new random order, which depends on seed and epoch. It leaves
    out the last pairs if they do not fill a batch. There must be at least batch_size pairs.
    """
    epoch, skip = divmod(first_step, pairs // batch_size)
    while True:
        rng = np.random.Generator(np.random.Philox(key=seed + (epoch << 64)))
        yield from islice(_epoch(pairs, batch_size, rng), skip, None)
        epoch, skip = epoch + 1, 0


def _epoch(pairs, batch_size, rng):
    """Yield an epoch's batches. A million pairs or fewer are shuffled all at once.

    Shuffling a billion would take 8 GB. So more than a million pairs are cut into blocks of 256
    neighbours; the blocks are drawn at random, and the pairs of 4,096 blocks shuffled at a time.
    """
    blocks = rng.permutation(-(-pairs // BLOCK))
    rest = np.empty(0, np.int64)
    for start in range(0, len(blocks), SHUFFLED):
        drawn = blocks[start:start + SHUFFLED, None] * BLOCK + np.arange(BLOCK)
        order = np.concatenate([rest, rng.permutation(drawn[drawn < pairs])])
        full = len(order) - len(order) % batch_size
        yield from order[:full].reshape(-1, batch_size)
        rest = order[full:]


def places_of_share(number, fraction, seed):
    """A random share of 0 … number − 1; with equal seeds, a smaller one is in a larger one."""
    order = np.random.Generator(np.random.Philox(seed)).permutation(number)
    return np.sort(order[:max(1, round(fraction * number))])


def share_of(split, fraction, seed):
    """A share of a Split's pairs, as in `places_of_share`, as a Split in memory."""
    which = places_of_share(split.pairs, fraction, seed)
    return Split(*split.sentences((2 * which[:, None] + np.arange(2)).ravel()), split.keys[which])
