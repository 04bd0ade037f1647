"""Pairs as packed ids, in three splits; the order in which training sees them; its batches."""

import hashlib
from itertools import islice
from typing import NamedTuple

import numpy as np

from .packed import Packed
from .text import Vocabulary

SPLITS = ("train", "dev", "test")
BLOCK, BLOCKS_SHUFFLED = 256, 4096


class Batch(NamedTuple):
    """B pairs of one task: message and reply, or premise and hypothesis."""

    sentences: Packed                        # 2B: the B first sides, then their B second sides
    false_negatives: tuple | None = None     # (rows, columns), from `false_negatives` below
    labels: np.ndarray | None = None         # int (B,): classes of natural language inference
    task: str = "replies"                    # a name in TASKS of model/input_response.py


class Split(NamedTuple):
    """The n pairs of one split. Sentence 2i is the first side of pair i, 2i + 1 the second."""

    ids: np.ndarray                      # int32 (N,)
    offsets: np.ndarray                  # int64 (2n + 1,)
    keys: np.ndarray | None = None       # uint64 (n, 2): equal texts have equal keys
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
        """Copies of sentences: which: (B,) sentence numbers → Packed of B."""
        return self.packed.take(which)

    def share(self, fraction, seed):
        """A share of the pairs, as a Split in memory; see `share_of`."""
        if fraction == 1:
            return self
        kept = share_of(self.pairs, fraction, seed)
        return Split(*self.sentences((2 * kept[:, None] + np.arange(2)).ravel()), self.keys[kept])

    def batch(self, which, mask_false_negatives=True):
        """The pairs `which` (B,) as a Batch. mask_false_negatives: whether to look for them."""
        sentences = self.sentences(np.concatenate([2 * which, 2 * which + 1]))
        equal = None
        if mask_false_negatives and self.keys is not None:
            equal = false_negatives(*self.keys[which].T)
        labels = None if self.labels is None else self.labels[which]
        return Batch(sentences, equal, labels, self.task)


class Corpus(NamedTuple):
    """A prepared corpus."""

    vocabulary: Vocabulary
    train: Split
    dev: Split
    test: Split
    report: dict     # what preparing it counted
    checksum: int


def share_of(number, fraction, seed):
    """A share of 0 … number − 1, drawn by the seed; a smaller share is part of a larger one."""
    order = np.random.Generator(np.random.Philox(seed)).permutation(number)
    return np.sort(order[:max(1, round(fraction * number))])


def batch_order(pairs, batch_size, seed, first_step=0, stage=0):
    """Yield the pair numbers of every batch, for ever, from step `first_step` on: (B,) arrays.

    Each epoch visits all pairs in a new random order: it draws blocks of 256 neighbours at random
    and shuffles a million pairs at a time. So memory does not grow with the corpus; up to a million
    pairs it is a full shuffle. The order is a function of (seed, stage, epoch) alone. Pairs that
    do not fill an epoch's last batch wait for another epoch.
    """
    epoch, skip = divmod(first_step, pairs // batch_size)
    while True:
        rng = np.random.Generator(np.random.Philox(key=[seed, (stage << 48) + epoch]))
        yield from islice(_epoch(pairs, batch_size, rng), skip, None)
        epoch, skip = epoch + 1, 0


def _epoch(pairs, batch_size, rng):
    blocks = rng.permutation(-(-pairs // BLOCK))
    rest = np.empty(0, np.int64)
    for start in range(0, len(blocks), BLOCKS_SHUFFLED):
        drawn = blocks[start:start + BLOCKS_SHUFFLED, None] * BLOCK + np.arange(BLOCK)
        order = np.concatenate([rest, rng.permutation(drawn[drawn < pairs])])
        full = len(order) - len(order) % batch_size
        yield from order[:full].reshape(-1, batch_size)
        rest = order[full:]


def split_of(input_key, tenths=None):
    """The split of a pair, from the hash of its input alone: 10% test, 3.6% dev, the rest train.

    So all replies to one input are in one split, the same in every corpus. Of few pairs `tenths`
    are for test and as many for dev; another corpus may then train on an input for test.
    """
    if tenths:                                                # as in prepare.py's `_tenths`
        return {0: "test", 1: "dev"}.get(input_key % 10 // tenths, "train")
    if input_key % 10 == 0:
        return "test"
    return "dev" if input_key // 10 % 25 == 0 else "train"


def text_key(joined_tokens):
    """64-bit hash of a tokenised text, the same on every machine; equal texts have equal hashes."""
    return int.from_bytes(hashlib.blake2b(joined_tokens.encode(), digest_size=8).digest(), "little")


def false_negatives(input_keys, response_keys):
    """Find the pairs i ≠ j of a batch that have the same input text or the same response text.

    Response j is then no wrong answer to input i. Among in-batch negatives it would be a false one.
    input_keys, response_keys: (B,) hashes of the texts, on the host → (rows i, columns j), or None
    """
    equal = np.concatenate([_equal_pairs(input_keys), _equal_pairs(response_keys)], axis=1)
    return tuple(equal) if equal.size else None


def _equal_pairs(keys):
    """All (i, j), i ≠ j, with keys[i] == keys[j]: int64 (2, number of pairs)."""
    _, group, count = np.unique(keys, return_inverse=True, return_counts=True)
    repeated = np.flatnonzero(count[group] > 1)               # few, so their square is small
    equal = keys[repeated, None] == keys[None, repeated]
    np.fill_diagonal(equal, False)
    return repeated[np.array(np.nonzero(equal))]
