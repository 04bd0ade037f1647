"""A prepared corpus: three splits of pairs with one vocabulary."""

import hashlib
from typing import NamedTuple

import numpy as np

from ..core.batches import Split
from ..core.text import Vocabulary


class Corpus(NamedTuple):
    """A prepared corpus."""

    vocabulary: Vocabulary
    train: Split
    dev: Split
    test: Split
    report: dict     # what preparing it counted
    checksum: int


def share_of(number, fraction, seed):
    """A random share of 0 … number − 1; with equal seeds, a smaller one is part of a larger one."""
    order = np.random.Generator(np.random.Philox(seed)).permutation(number)
    return np.sort(order[:max(1, round(fraction * number))])


def some_pairs(split, which):
    """Some pairs of a Split, as a Split in memory; which: their numbers, (m,)."""
    return Split(*split.sentences((2 * which[:, None] + np.arange(2)).ravel()), split.keys[which])


def text_key(joined_tokens):
    """64-bit hash of a tokenised text, the same on every machine; equal texts have equal hashes."""
    return int.from_bytes(hashlib.blake2b(joined_tokens.encode(), digest_size=8).digest(), "little")
