"""Packed: sentences of ids laid end to end, and what a DAN makes of them.

Everything downstream of the text sees sentences as one flat array of ids and the places where
sentences begin. Nothing is padded, so nothing has to be masked.
"""

from typing import NamedTuple

import numpy as np

from ..backend import array_module


class Packed(NamedTuple):
    """Sentences laid end to end: sentence b is `ids[offsets[b]:offsets[b + 1]]`.

    ids: int32 (N,); offsets: int64 (B + 1,).
    """

    ids: np.ndarray
    offsets: np.ndarray

    @property
    def lengths(self):
        """Ids in each sentence: (B,)."""
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

    def take(self, which, longest=None):
        """Copies of the sentences `which` (n,), the first `longest` ids of each; on the host."""
        begin = self.offsets[which]
        lengths = self.offsets[which + 1] - begin
        if longest is not None:
            lengths = np.minimum(lengths, longest)
        offsets = np.zeros(len(which) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        place = np.arange(offsets[-1]) + np.repeat(begin - offsets[:-1], lengths)
        return Packed(self.ids[place], offsets)


def drop_words(packed, share, rng):
    """Leave out each word with probability `share`; a sentence that would lose all keeps its first.

    Word dropout (Iyyer et al. 2015); words on both sides of a gap then form a bigram.
    packed: on the host; rng: numpy Generator → Packed.
    """
    draw = rng.random(len(packed.ids), np.float32)
    keep = draw >= np.float32(share)
    begin = packed.offsets[:-1]
    empty = ~np.logical_or.reduceat(keep, begin)              # (B,) sentences that lost everything
    keep[begin[empty]] = True
    kept = np.concatenate([[0], np.cumsum(keep)])             # (N + 1,)
    return Packed(packed.ids[keep], kept[packed.offsets])


def words_and_bigrams(packed, words, buckets):
    """Table rows of a DAN's inputs: w₀ (w₀w₁) w₁ (w₁w₂) w₂ …, 2n − 1 rows for n words.

    packed: ids of N words in B sentences; words: rows of the table that are words, after which
    `buckets` rows for bigrams follow → Packed of 2N − B rows.
    """
    xp = array_module(packed.ids)
    rows = xp.empty((len(packed.ids), 2), xp.int32)           # a word; the bigram it starts
    rows[:, 0] = packed.ids
    rows[:-1, 1] = words + bigram_buckets(packed.ids[:-1], packed.ids[1:], buckets)
    inside = xp.ones(rows.shape, bool)
    inside[packed.offsets[1:] - 1, 1] = False                 # a sentence's last word starts none
    return Packed(rows[inside], 2 * packed.offsets - xp.arange(len(packed.offsets)))


def bigram_buckets(left, right, buckets):
    """Hash pairs of word ids to 0 … buckets − 1: left, right: (N,) → (N,).

    64-bit products wrap around alike in NumPy and CuPy. Fold and multiply, twice, as MurmurHash3
    ends, with the multipliers of SplitMix64; the last line scales the upper 32 bits to the range,
    which is cheaper than a remainder.
    """
    xp = array_module(left)
    key = (left.astype(xp.uint64) << xp.uint64(32)) | right.astype(xp.uint64)
    key ^= key >> xp.uint64(29)
    key *= xp.uint64(0xBF58476D1CE4E5B9)
    key ^= key >> xp.uint64(32)
    key *= xp.uint64(0x94D049BB133111EB)
    return ((key >> xp.uint64(32)) * xp.uint64(buckets) >> xp.uint64(32)).astype(xp.int32)
