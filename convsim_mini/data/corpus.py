"""A prepared corpus: three splits of pairs with one vocabulary, and what decides a pair's split."""

import hashlib
from typing import NamedTuple

import numpy as np

from ..core.pairs import Split
from ..core.text import Vocabulary

SPLITS = ("train", "dev", "test")


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


def split_of(input_key, tenths=None):
    """The split of a pair, from the hash of its input: 10% test, 3.6% dev, the rest train.

    So all replies to one input are in one split, the same in every corpus. With few pairs, `tenths`
    tenths go to test, as many to dev; another corpus may then train on inputs of this test split.
    input_key: a hash; or the hashes of n pairs, (n,), which give n names
    """
    digit = input_key % 10
    dev = digit // tenths == 1 if tenths else input_key // 10 % 25 == 0
    return np.where(digit < (tenths or 1), "test", np.where(dev, "dev", "train"))[()]


def text_key(joined_tokens):
    """64-bit hash of a tokenised text, the same on every machine; equal texts have equal hashes."""
    return int.from_bytes(hashlib.blake2b(joined_tokens.encode(), digest_size=8).digest(), "little")
