"""Packed: sentences of ids laid end to end, without padding and so without masks.

It is also known as a ragged or jagged array, and its offsets as cu_seqlens.
"""

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from .arrays import array_module

TOKENS_AT_ONCE = 4_000_000    # so that memory does not grow with the corpus


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


def words_and_bigrams(packed, words, bigrams):
    """The table rows of a DAN's inputs: w₀ (w₀w₁) w₁ (w₁w₂) w₂ …, without bigrams that have no row.

    packed: N words in B sentences, on the host; words: how many ids there are; bigrams: the keys of
    the bigrams that have a row, (M,) ascending; bigram k has the row words + k
    → Packed of N to 2N − B rows
    """
    if not (len(bigrams) and len(packed.ids)):
        return packed
    keys = bigram_keys(packed.ids[:-1], packed.ids[1:], words)
    place = np.searchsorted(bigrams, keys)                    # where each key is, or would be
    rows = np.stack([packed.ids, np.append(words + place, 0)], axis=1, dtype=np.int32)    # (N, 2)
    inside = np.ones(rows.shape, bool)
    inside[:-1, 1] = bigrams[np.minimum(place, len(bigrams) - 1)] == keys
    inside[packed.offsets[1:] - 1, 1] = False                 # a sentence's last word starts none
    before = offsets_of(inside[:, 1])                         # bigrams before each word: (N + 1,)
    return Packed(rows[inside], packed.offsets + before[packed.offsets])


def frequent_bigrams(packed, words, number):
    """The keys of the bigrams that occur most often: int64, ascending, at most `number`."""
    counts = neighbour_counts(packed, words, [1]).tocoo()
    keys = bigram_keys(counts.row, counts.col, words)         # ascending
    return np.sort(keys[np.argsort(-counts.data, kind="stable")[:number]])


def neighbour_counts(packed, words, distances):
    """How often one id precedes another in a sentence, so many places apart: CSR (words, words).

    Ids from `words` on are not counted.
    """
    counts = csr_matrix((words, words), dtype=np.float32)
    cuts = np.searchsorted(packed.offsets, np.arange(0, len(packed.ids), TOKENS_AT_ONCE))
    for first, last in zip(cuts, [*cuts[1:], len(packed.lengths)]):
        part = packed.part(first, last)
        sentence = part.sentence_numbers
        for distance in distances:
            left, right = part.ids[:-distance], part.ids[distance:]
            near = (sentence[:-distance] == sentence[distance:]) & (left < words) & (right < words)
            ones = np.ones(np.count_nonzero(near), np.float32)
            counts += csr_matrix((ones, (left[near], right[near])), shape=(words, words))
    return counts


def bigram_keys(left, right, words):
    """A number for each pair of ids, different for different pairs: left, right: (n,) → (n,)."""
    return left.astype(np.int64) * words + right
