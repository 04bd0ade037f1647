"""From text to ids: normalise → tokenise → Vocabulary → packed word ids → bigram ids.

Everything downstream sees sentences as a `Packed`: one flat array of ids and the places where
sentences begin. Nothing is padded, so nothing has to be masked.
"""

import unicodedata
import zlib
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import regex

from .backend import array_module

UNKNOWN = 0    # the id of an empty sentence's only token, and the first row of the table
URL = "<url>"

_SURROGATE = regex.compile(r"\p{Cs}")
_QUOTES = str.maketrans({"’": "'", "‘": "'", "`": "'", "“": '"', "”": '"'})
_BRACKETS = {"-lrb-": "(", "-rrb-": ")", "-lsb-": "[", "-rsb-": "]", "-lcb-": "{", "-rcb-": "}"}
# The Penn Treebank splits "don't" into "do n't" and "it's" into "it 's".
_TREEBANK_PIECE = regex.compile(r"(?<=\p{L}) (?=(?:n't|'(?:s|re|m|ll|ve|d))(?![\p{L}\p{N}']))")
_TREEBANK_BRACKET = regex.compile(r"(?<!\S)-[lr][rsc]b-(?!\S)")

_TOKEN = regex.compile(
    r"""
      (?:https?://|www\.)\S+                                # an address, whatever it holds
    | \p{N}++ (?:[.,:]\p{N}++)*+ (?![\p{L}\p{M}_])          # 7  1,000.50  12:30
    | [\p{L}\p{M}\p{N}_]++ (?:'[\p{L}\p{M}\p{N}]++)*+       # word  don't  2nd  o'clock
    | (?=[\p{Extended_Pictographic}\p{Regional_Indicator}])\X   # an emoji with all its modifiers
    | \S                                                    # every other mark on its own
    """,
    regex.VERBOSE | regex.VERSION1,
)


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

    def part(self, first, last):
        """Sentences first … last − 1 as a Packed of their own."""
        begin, end = self.offsets[first], self.offsets[last]
        return Packed(self.ids[begin:end], self.offsets[first:last + 1] - begin)


def normalize(text):
    """NFKC, lower case, straight quotes; Penn Treebank pieces are joined again.

    Half surrogates, which no encoding can hold, become U+FFFD.
    """
    if not text.isascii():
        text = _SURROGATE.sub("\ufffd", text.translate(_QUOTES))
        text = unicodedata.normalize("NFKC", text)
    text = text.lower()
    if "`" in text or "''" in text:
        text = text.replace("``", '"').replace("''", '"').replace("`", "'")
    if "b-" in text:
        text = _TREEBANK_BRACKET.sub(lambda match: _BRACKETS.get(match[0], match[0]), text)
    if "'" in text:
        text = _TREEBANK_PIECE.sub("", text)
    return text


def tokenize(text):
    """Any string to its tokens: a list of str without white space, possibly empty."""
    tokens = _TOKEN.findall(normalize(text))
    if "://" in text or "www." in text.lower():
        tokens = [URL if token.startswith(("http://", "https://", "www.")) and len(token) > 4 else token
                  for token in tokens]
    return tokens


def stable_hash(text):
    """A 32-bit hash that is the same in every process and on every machine."""
    return zlib.crc32(text.encode("utf-8"))


def prune(counts, limit):
    """Drop the rarest entries of a Counter until at most `limit` are left: memory stays bounded.

    A word dropped here may return with its count too low, by at most the threshold at which it
    went; with millions of entries kept, none of the words that a vocabulary holds is near it.
    """
    threshold = 1
    while len(counts) > limit:
        for word in [word for word, count in counts.items() if count <= threshold]:
            del counts[word]
        threshold *= 2


@dataclass
class Vocabulary:
    """The most frequent words and their counts; every other word falls into a hashed bucket.

    Ids: 0 is the unknown token, 1 … len(words) the words by falling frequency, and the
    `oov_buckets` ids after them are shared by all other words through `stable_hash`.
    `total` counts every token of the training text, also those that are no words here.
    """

    words: list
    counts: list
    total: int
    oov_buckets: int

    def __post_init__(self):
        self.ids = {word: i for i, word in enumerate(self.words, start=1)}

    @classmethod
    def from_counts(cls, counts, size, oov_buckets):
        """Keep the `size` most frequent words of a Counter; equal counts go by the alphabet."""
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:size]
        return cls([word for word, _ in ranked], [count for _, count in ranked],
                   sum(counts.values()), oov_buckets)

    def to_dict(self):
        """The fields of the constructor, for JSON."""
        return {"words": self.words, "counts": self.counts, "total": self.total, "oov_buckets": self.oov_buckets}

    @property
    def size(self):
        """Number of word ids, the unknown token and the buckets included."""
        return 1 + len(self.words) + self.oov_buckets

    def id(self, token):
        """The id of one token, in a bucket if the vocabulary does not hold it."""
        known = self.ids.get(token)
        if known is None:
            known = 1 + len(self.words) + stable_hash(token) % self.oov_buckets
        return known

    def pack(self, sentences):
        """Lists of tokens to a Packed; an empty sentence becomes one unknown token."""
        known, bucket = self.ids, self.id
        lengths, ids = [], []
        for tokens in sentences:
            lengths.append(len(tokens) or 1)
            ids += [known.get(token) or bucket(token) for token in tokens] or [UNKNOWN]
        offsets = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        return Packed(np.array(ids, np.int32), offsets)

    def encode(self, texts):
        """Strings to a Packed of word ids."""
        return self.pack(map(tokenize, texts))

    def probabilities(self):
        """p(word) for every word id: float64 (size,).

        What the listed words leave over is shared by the buckets; the unknown token has 0.
        """
        p = np.zeros(self.size)
        total = max(self.total, 1)
        p[1:1 + len(self.words)] = np.array(self.counts) / total
        if self.oov_buckets:
            p[1 + len(self.words):] = (1 - sum(self.counts) / total) / self.oov_buckets
        return p

    def probability(self, token):
        """p(word) of one token as a string; a word that the vocabulary does not hold has 0."""
        known = self.ids.get(token)
        return self.counts[known - 1] / self.total if known else 0.0


def drop_words(packed, share, rng):
    """Leave out each word with probability `share`; a sentence that would lose all keeps its first.

    Word dropout (Iyyer et al. 2015). packed: on the host; rng: numpy Generator → Packed.
    """
    draw = rng.random(len(packed.ids), np.float32)
    keep = draw >= np.float32(share)
    begin = packed.offsets[:-1]
    empty = ~np.logical_or.reduceat(keep, begin)              # (B,) sentences that lost everything
    keep[begin[empty]] = True
    kept = np.concatenate([[0], np.cumsum(keep)])             # (N + 1,)
    return Packed(packed.ids[keep], kept[packed.offsets])


def bigram_ids(packed, words, buckets):
    """Rows of the bigrams (word i, word i + 1) within each sentence, hashed from the word ids.

    packed: N words in B sentences; words: number of word rows, after which bigram rows begin;
    → int32 (N − B,), in order. The hash multiplies in 64 bits with wrap-around, so NumPy and
    CuPy give the same rows.
    """
    xp = array_module(packed.ids)
    inner = xp.ones(len(packed.ids), bool)
    inner[packed.offsets[1:] - 1] = False                     # the last word starts no bigram
    first = xp.flatnonzero(inner)
    left = packed.ids[first].astype(xp.uint64)
    right = packed.ids[first + 1].astype(xp.uint64)
    key = (left << xp.uint64(32)) | right
    key = (key ^ (key >> xp.uint64(29))) * xp.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> xp.uint64(32))) * xp.uint64(0x94D049BB133111EB)
    return (words + (key >> xp.uint64(33)) % xp.uint64(buckets)).astype(xp.int32)


def words_and_bigrams(packed, words, buckets):
    """Interleave word and bigram rows: w₀ (w₀w₁) w₁ (w₁w₂) w₂ …, 2n − 1 rows for n words.

    packed: N words in B sentences → Packed of 2N − B rows.
    """
    xp = array_module(packed.ids)
    sentences = len(packed.offsets) - 1
    begins = xp.zeros(len(packed.ids), np.int64)
    begins[packed.offsets[1:-1]] = 1
    sentence = xp.cumsum(begins)                              # (N,) 0 0 0 1 1 2 …
    place = 2 * xp.arange(len(packed.ids)) - sentence         # (N,) where each word goes
    rows = xp.empty(2 * len(packed.ids) - sentences, xp.int32)
    is_word = xp.zeros(len(rows), bool)
    is_word[place] = True
    rows[is_word] = packed.ids
    rows[~is_word] = bigram_ids(packed, words, buckets)
    return Packed(rows, 2 * packed.offsets - xp.arange(sentences + 1))
