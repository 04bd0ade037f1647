"""Packed: sentences of ids laid end to end, without padding and so without masks.

It is also known as a ragged or jagged array, and its offsets as cu_seqlens.
"""

from typing import NamedTuple

import numpy as np

from .arrays import array_module


class Packed(NamedTuple):
    """B sentences laid end to end: sentence b is `ids[offsets[b]:offsets[b + 1]]`, never empty."""

    ids: np.ndarray        # int32 (N,)
    offsets: np.ndarray    # int64 (B + 1,)

    @property
    def lengths(self):
        """The number of ids in each sentence: (B,)."""
        return self.offsets[1:] - self.offsets[:-1]

    @property
    def sentence_numbers(self):
        """The sentence that each id belongs to, 0 0 0 1 1 2 …: int32 (N,)."""
        xp = array_module(self.ids)
        begins = xp.zeros(len(self.ids), xp.int32)
        begins[self.offsets[1:-1]] = 1
        return xp.cumsum(begins, dtype=xp.int32)

    def part(self, first, last):
        """Sentences first … last − 1 as a Packed of their own."""
        begin, end = self.offsets[first], self.offsets[last]
        return Packed(self.ids[begin:end], self.offsets[first:last + 1] - begin)

    def take(self, which):
        """Copies of some of the sentences, on the host. which: their numbers, (n,)"""
        begin = self.offsets[which]
        lengths = self.offsets[which + 1] - begin
        offsets = offsets_of(lengths)
        place = np.arange(offsets[-1]) + np.repeat(begin - offsets[:-1], lengths)
        return Packed(self.ids[place], offsets)


def offsets_of(lengths):
    """Where sentences of these lengths begin, and the last one ends: (B,) → int64 (B + 1,)."""
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def words_and_bigrams(packed, words, buckets):
    """The table rows of a DAN's inputs: w₀ (w₀w₁) w₁ (w₁w₂) w₂ …, 2n − 1 rows for n words.

    packed: N words in B sentences; words, buckets: how many rows of the table are for words and,
    after those, for bigrams → Packed of 2N − B rows
    """
    xp = array_module(packed.ids)
    rows = xp.empty((len(packed.ids), 2), xp.int32)           # a word; the bigram it starts
    rows[:, 0] = packed.ids
    rows[:-1, 1] = words + bigram_buckets(packed.ids[:-1], packed.ids[1:], buckets)
    inside = xp.ones(rows.shape, bool)
    inside[packed.offsets[1:] - 1, 1] = False                 # a sentence's last word starts none
    # the b sentences before offset number b have b rows fewer than twice their number of words
    return Packed(rows[inside], 2 * packed.offsets - xp.arange(len(packed.offsets)))


def bigram_buckets(left, right, buckets):
    """Hash pairs of word ids to 0 … buckets − 1: left, right: (N,) → (N,).

    Fold and multiply twice, as in MurmurHash3, with SplitMix64's multipliers. Overflow is the same
    in NumPy and CuPy. Scaling the upper 32 bits to the range is cheaper than a remainder.
    """
    xp = array_module(left)
    key = (left.astype(xp.uint64) << xp.uint64(32)) | right.astype(xp.uint64)
    key ^= key >> xp.uint64(29)
    key *= xp.uint64(0xBF58476D1CE4E5B9)
    key ^= key >> xp.uint64(32)
    key *= xp.uint64(0x94D049BB133111EB)
    return ((key >> xp.uint64(32)) * xp.uint64(buckets) >> xp.uint64(32)).astype(xp.int32)
