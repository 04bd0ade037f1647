"""From text to ids: normalise → tokenise → Vocabulary → Packed word ids."""

import unicodedata
import zlib
from array import array
from dataclasses import dataclass
from itertools import chain

import numpy as np
import regex

from .packed import Packed, offsets_of

UNKNOWN = 0    # the id of an empty sentence's only token; other words share the buckets' ids
URL = "<url>"
MOST_PIECES, LONGEST_PIECE = 2**18, 40    # of a Pieces: up to 60 MB

_SURROGATE = regex.compile(r"\p{Cs}")
_MARKS = regex.compile(r"([\p{M}\uff9e\uff9f]{30})[\p{M}\uff9e\uff9f]++")    # U+FF9E becomes a mark
_QUOTES = str.maketrans({"’": "'", "‘": "'", "`": "'", "“": '"', "”": '"'})
_BRACKETS = {"-lrb-": "(", "-rrb-": ")", "-lsb-": "[", "-rsb-": "]", "-lcb-": "{", "-rcb-": "}"}
# The Penn Treebank splits "don't" into "do n't" and "it's" into "it 's".
_TREEBANK_PIECE = regex.compile(r"(?<=\p{L}) (?=(?:n't|'(?:s|re|m|ll|ve|d))(?![\p{L}\p{N}']))")
_TREEBANK_BRACKET = regex.compile(r"(?<!\S)-[lr][rsc]b-(?!\S)")

_TOKEN = regex.compile(
    r"""
      (?:https?://|www\.)\S+                                # an address, whatever it holds
    | [#*\p{N}]\ufe0f?\u20e3                                # a keycap emoji
    | \p{N}++ (?:[.,:]\p{N}++)*+ (?![\p{L}\p{M}_])          # 7  1,000.50  12:30
    | [\p{L}\p{M}\p{N}_]++ (?:'[\p{L}\p{M}\p{N}]++)*+       # word  don't  2nd  o'clock
    | \p{Regional_Indicator}{1,2}+ [\p{GCB=Extend}\p{GCB=SpacingMark}\u200d]*+    # a flag
    | (?=\p{Extended_Pictographic})\X                        # an emoji with all its modifiers
    | [^\s\ufeff]                                           # every other mark, but no order mark
    """,
    regex.VERBOSE | regex.VERSION1,
)


def normalize(text):
    """NFKC, lower case, straight quotes; lone surrogates replaced, Treebank pieces joined.

    Of a run of combining marks 30 are kept, as in Unicode's Stream-Safe Format, for NFKC needs
    quadratic time to sort them.
    """
    if not text.isascii():
        text = _MARKS.sub(r"\1", _SURROGATE.sub("\ufffd", text.translate(_QUOTES)))
        text = unicodedata.normalize("NFKC", text)
    text = text.lower()
    if "'" in text or "`" in text:
        text = text.replace("``", '"').replace("''", '"').replace("`", "'")
        if " '" in text or " n't" in text:
            text = _TREEBANK_PIECE.sub("", text)
    if "b-" in text:
        text = _TREEBANK_BRACKET.sub(lambda match: _BRACKETS.get(match[0], match[0]), text)
    return text


class Pieces(dict):
    """Remembers function(piece); a piece is what stands between two spaces of a text. For speed.

    The same pieces come again and again, so most texts need no tokenising. Pieces of up to 40
    characters are kept; after 262,144 of them it starts anew.
    """

    def __init__(self, function):
        self.function = function

    def __missing__(self, piece):
        result = self.function(piece)
        if len(piece) <= LONGEST_PIECE:
            if len(self) >= MOST_PIECES:
                self.clear()
            self[piece] = result
        return result

    def of(self, text):
        """The function's values for the pieces of a text, normalised first: an iterator."""
        return map(self.__getitem__, normalize(text).split(" "))


def _tokenize_piece(piece):
    if piece.isascii() and piece.isalnum():                   # a word or number: faster than _TOKEN
        return (piece,)
    tokens = _TOKEN.findall(piece)
    if "://" in piece or "www." in piece:
        tokens = [URL if token.startswith(("http://", "https://", "www.")) else token
                  for token in tokens]
    return tuple(tokens)    # not a list: the garbage collector would go through all of them


_tokens = Pieces(_tokenize_piece)


def tokenize(text):
    """Any string to its tokens: a list of str, which may be empty."""
    return list(chain.from_iterable(_tokens.of(text)))    # no token reaches across a space


def stable_hash(text):
    """A 32-bit hash that is the same in every process and on every machine."""
    return zlib.crc32(text.encode("utf-8"))


@dataclass
class Vocabulary:
    """Id 0 stands for an empty sentence, 1 … len(words) for the words by falling frequency.

    All other words share the `oov_buckets` ids after them through `stable_hash`.
    """

    words: list[str]
    counts: list[int]
    total: int    # all tokens of the training text, also words without a row of their own
    oov_buckets: int

    def __post_init__(self):
        self.ids = {word: i for i, word in enumerate(self.words, start=1)}
        self._pieces = Pieces(self._bytes_of_ids)

    @classmethod
    def from_counts(cls, counts, size, oov_buckets):
        """Keep the `size` most frequent words of a Counter; equal counts go by the alphabet."""
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:size]
        return cls([word for word, _ in ranked], [count for _, count in ranked],
                   sum(counts.values()), oov_buckets)

    @property
    def size(self):
        """Number of word ids, the unknown token and the buckets included."""
        return 1 + len(self.words) + self.oov_buckets

    def id(self, token):
        """The id of one token, or of its bucket if the vocabulary does not hold the token."""
        return self.ids.get(token) or 1 + len(self.words) + stable_hash(token) % self.oov_buckets

    def token(self, i):
        """The token of an id, or the name of a shared id: <unknown>, <bucket 17>."""
        if i == UNKNOWN:
            return "<unknown>"
        return self.words[i - 1] if i <= len(self.words) else f"<bucket {i - len(self.words) - 1}>"

    def pack(self, sentences):
        """Lists of tokens to a Packed of word ids; an empty sentence becomes id 0."""
        return _packed([array("i", map(self.id, tokens)).tobytes() for tokens in sentences])

    def encode(self, texts):
        """Strings to a Packed: `pack([tokenize(text) for text in texts])`, but faster.

        The ids of each piece are kept as bytes, so a sentence is its pieces' bytes, joined.
        """
        return _packed([b"".join(self._pieces.of(text)) for text in texts])

    def _bytes_of_ids(self, piece):
        return array("i", map(self.id, _tokenize_piece(piece))).tobytes()

    def probabilities(self):
        """p(word) of every id: float64 (size,). The buckets share the rest; unknown has 0."""
        p = np.zeros(self.size)
        total = max(self.total, 1)
        p[1:1 + len(self.words)] = np.array(self.counts) / total
        p[1 + len(self.words):] = (1 - sum(self.counts) / total) / self.oov_buckets
        return p

    def probability(self, token):
        """p(word) of one token; 0 for a token that the vocabulary does not hold."""
        known = self.ids.get(token)
        return self.counts[known - 1] / self.total if known else 0.0


def _packed(sentences):
    """Sentences of ids, each as bytes, to a Packed."""
    sentences = [sentence or bytes(4) for sentence in sentences]          # four zeros: UNKNOWN
    ids = np.frombuffer(bytearray().join(sentences), np.int32)
    return Packed(ids, offsets_of([len(sentence) // 4 for sentence in sentences]))
