"""From text to ids: normalise → words → pieces of words (a Vocabulary) → Packed ids."""

import html
import unicodedata
from array import array
from collections import Counter, defaultdict
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import chain, pairwise

import numpy as np
import regex

from .packed import Packed, offsets_of

UNKNOWN = 0    # the id of an empty sentence, and of a word with a character that no piece has
URL = "<url>"
INSIDE = "##"    # a piece that does not begin a word begins with this mark, which no token has
FEWEST = 5    # times that a word, a character or a pair must occur before the vocabulary learns it
MOST_CHUNKS, LONGEST_CHUNK = 2**16, 40    # of a Remembered: some 30 MB at most

_SURROGATE = regex.compile(r"\p{Cs}")
_MARKS = regex.compile(r"([\p{M}\uff9e\uff9f]{30})[\p{M}\uff9e\uff9f]++")    # U+FF9E becomes a mark
# Zero-width characters, such as soft hyphens and direction marks; emojis need some of them.
_INVISIBLE = regex.compile(
    r"[\p{Cf}--[\u200d\U000E0020-\U000E007F]]|(?<=[\p{L}\p{M}\p{N}])\u200d", regex.VERSION1)
_ENTITY = regex.compile(r"&(?:amp;)*([a-zA-Z]++\d*+|#\d++|#[xX][0-9a-fA-F]++);")    # &amp;#39; too
_STRAIGHT = {**dict.fromkeys("’‘´`′‵ʼʹʻ‛‚‹›՚", "'"), **dict.fromkeys("“”„‟«»″〝〞〟", '"')}
# What NFKC writes as letters or digits would be part of the word before: Lego™ ② 1½; but m² is m2.
_APART = {mark: f" {unicodedata.normalize('NFKC', mark)} " for mark in map(chr, range(0xb9, 0x2800))
          if unicodedata.category(mark) == "No" and mark not in "²³₀₁₂₃₄₅₆₇₈₉" or mark in "™℠"}
_STRAIGHT_AND_APART = str.maketrans(_STRAIGHT | _APART)
_BRACKETS = {"-lrb-": "(", "-rrb-": ")", "-lsb-": "[", "-rsb-": "]", "-lcb-": "{", "-rcb-": "}"}
# The Penn Treebank splits "don't" into "do n't" and "it's" into "it 's". Others have "don 't" or
# "don ' t".
_TREEBANK_PIECE = regex.compile(
    r"(?<=\p{L}) (?:(n't)|' ?(s|re|m|ll|ve|d|(?<=n ' ?)t(?!-)))(?![\p{L}\p{N}'])")
_TREEBANK_BRACKET = regex.compile(r"(?<!\S)-[lr][rsc]b-(?!\S)")
# Scripts that put no spaces between words: each character is a token.
_ALONE = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]"
_TOKEN = regex.compile(
    r"""
      (?:https?://|www\.)\S+                                # an address, whatever it holds
    | [#*\p{N}]\ufe0f?\u20e3                                # a keycap emoji
    | \p{N}++ (?:[.,:]\p{N}++)*+ (?![\p{L}\p{M}_])          # 7  1,000.50  12:30
    | [[\p{L}\p{M}\p{N}_]--""" + _ALONE + r"""]++ (?:'[\p{L}\p{M}\p{N}]++)*+    # word  don't  2nd
    | """ + _ALONE + r""" \p{M}*+                              # 我  a character with its marks
    | \p{Regional_Indicator}{1,2}+ [\p{GCB=Extend}\p{GCB=SpacingMark}\u200d]*+    # a flag
    | (?=\p{Extended_Pictographic})\X                        # an emoji with all its modifiers
    | [^\s\0]                                               # every other mark
    """,
    regex.VERBOSE | regex.VERSION1,
)


def normalize(text):
    """Apply NFKC, case folding and straight quotes; read HTML's entities; join Treebank pieces.

    Lone surrogates become U+FFFD. A run of combining marks is cut to 30, as in Unicode's
    Stream-Safe Format, because NFKC takes quadratic time to sort them.
    """
    if "&" in text:
        text = _ENTITY.sub(lambda match: html.unescape(f"&{match[1]};"), text)
    if not text.isascii():
        text = _INVISIBLE.sub("", text.translate(_STRAIGHT_AND_APART))
        text = _MARKS.sub(r"\1", _SURROGATE.sub("\ufffd", text))
        text = unicodedata.normalize("NFKC", text)
        text = text.casefold().replace("i\u0307", "i")        # of İ, as Turks write i
    else:
        text = text.lower()
    if "'" in text or "`" in text:
        text = text.replace("``", '"').replace("''", '"').replace("`", "'")
        if " '" in text or " n't" in text:
            text = _TREEBANK_PIECE.sub(_joined, text)
    if "b-" in text:
        text = _TREEBANK_BRACKET.sub(lambda match: _BRACKETS.get(match[0], match[0]), text)
    return text


def _joined(match):
    return match[1] or f"'{match[2]}"


def chunks(text):
    """The parts of the normalised text between two spaces. No token reaches across a space.

    The same chunks occur again and again, so what is computed for them is remembered.
    """
    return normalize(text).split(" ")


class Remembered(dict):
    """Chunk → function(chunk), kept for chunks of up to 40 characters, up to 65,536 of them."""

    def __init__(self, function):
        self.function = function

    def __missing__(self, chunk):
        result = self.function(chunk)
        if len(chunk) <= LONGEST_CHUNK:
            if len(self) >= MOST_CHUNKS:
                self.clear()
            self[chunk] = result
        return result


def _tokenize_chunk(chunk):
    if chunk.isascii() and chunk.isalnum():                   # a word or number: faster than _TOKEN
        return (chunk,)
    if chunk in ("@-@", "@,@", "@.@"):                        # Moses' marks inside a word
        return (chunk[1],)
    tokens = _TOKEN.findall(chunk)
    if "://" in chunk or "www." in chunk:
        tokens = [URL if token.startswith(("http://", "https://", "www.")) else token
                  for token in tokens]
    return tuple(tokens)    # not a list: the garbage collector would go through all of them


_tokens_of = Remembered(_tokenize_chunk).__getitem__


def tokenize(text):
    """Split any string into words and symbols (punctuation, emoji, …): a list, possibly empty."""
    return list(chain.from_iterable(map(_tokens_of, chunks(text))))


# ---------------------------------------------------------------- words to pieces

def learn_pieces(counts, size):
    """Byte-pair encoding: the pieces that words are made of (Gage 1994; Sennrich et al. 2016).

    At first each character is a piece. Then the two pieces that most often occur side by side are
    merged into one everywhere, and so on until there are `size` pieces. So a frequent word becomes
    one piece and a rare word several: "unfriendly" is "un", "##friend", "##ly".
    counts: occurrences by word → list of str: characters, then merged pieces in order of merging
    """
    words = [[word[0], *(INSIDE + character for character in word[1:])]
             for word, number in counts.items() if number >= FEWEST]
    numbers = [number for number in counts.values() if number >= FEWEST]
    characters, pairs, places = Counter(), Counter(), defaultdict(set)
    for place, (pieces, number) in enumerate(zip(words, numbers)):
        for piece in pieces:
            characters[piece] += number
        for pair in pairwise(pieces):
            pairs[pair] += number
            places[pair].add(place)                           # the words that hold this pair
    learned = dict.fromkeys(piece for piece, _ in characters.most_common(size))    # keeps order
    queue = [(-number, pair) for pair, number in pairs.items()]
    heapify(queue)                                            # most frequent first
    while queue and len(learned) < size:
        number, pair = heappop(queue)
        if -number != pairs[pair]:                            # another merge took some of them
            heappush(queue, (-pairs[pair], pair))
        elif -number < FEWEST:
            break
        else:
            merged = pair[0] + pair[1].removeprefix(INSIDE)
            learned[merged] = None
            _merge(pair, merged, words, numbers, pairs, places, queue)
    return list(learned)


def _merge(pair, merged, words, numbers, pairs, places, queue):
    """Replace the pair by `merged` in all words; update pairs, places and queue."""
    new = set()
    for place in places.pop(pair):
        for old in pairwise(words[place]):
            pairs[old] -= numbers[place]
        pieces = []
        for piece in words[place]:
            if pieces and (pieces[-1], piece) == pair:
                pieces[-1] = merged
            else:
                pieces.append(piece)
        words[place] = pieces
        for one in pairwise(pieces):
            pairs[one] += numbers[place]
            if merged in one:
                places[one].add(place)
                new.add(one)
    for one in new:
        heappush(queue, (-pairs[one], one))


@dataclass
class Vocabulary:
    """Pieces of words, and how often each occurs. Their ids are 1, 2, 3, …, most frequent first.

    Id 0, UNKNOWN, stands for an empty sentence and for a word with a character that no piece has.
    """

    pieces: list[str]
    counts: list[int]

    def __post_init__(self):
        self.ids = {piece: i for i, piece in enumerate(self.pieces, start=1)}
        self.longest = max(map(len, self.pieces), default=1)
        self._bytes_of_chunk = Remembered(
            lambda chunk: self._bytes_of(_tokenize_chunk(chunk))).__getitem__

    def __reduce__(self):
        return Vocabulary, (self.pieces, self.counts)         # a pickle holds no texts

    @classmethod
    def of_words(cls, counts):
        """A Vocabulary of a Counter's whole words, most frequent first; ties are alphabetical."""
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return cls([word for word, _ in ranked], [number for _, number in ranked])

    @classmethod
    def of_pieces(cls, counts, size):
        """A Vocabulary of at most `size` pieces that make up a Counter's words; see `learn_pieces`.

        Pieces that no word needs any more are left out, but characters stay: new words need them.
        """
        pieces = learn_pieces(counts, size)
        learned = cls.of_words(dict.fromkeys(pieces, 0))
        found = Counter({p: 0 for p in pieces if len(p.removeprefix(INSIDE)) == 1})
        for word, number in counts.items():
            for i in learned.split(word):
                found[learned.token(i)] += number
        del found[learned.token(UNKNOWN)]
        return cls.of_words(found)

    @property
    def size(self):
        """Number of ids, UNKNOWN included."""
        return 1 + len(self.pieces)

    def split(self, word):
        """The ids of a word's pieces from left to right, each the longest that fits: a tuple.

        This is how WordPiece splits (Wu et al. 2016): it needs only the pieces, not their merges.
        """
        if i := self.ids.get(word):
            return (i,)
        ids, begin = [], 0
        while begin < len(word):
            mark = INSIDE if begin else ""
            for end in range(min(len(word), begin + self.longest), begin, -1):
                if i := self.ids.get(mark + word[begin:end]):
                    break
            else:
                return (UNKNOWN,)
            ids.append(i)
            begin = end
        return tuple(ids)

    def token(self, i):
        """The piece of an id; <unknown> for UNKNOWN."""
        return self.pieces[i - 1] if i != UNKNOWN else "<unknown>"

    def pack(self, sentences):
        """Lists of tokens to a Packed of ids; an empty sentence becomes id 0."""
        return _packed([self._bytes_of(tokens) for tokens in sentences])

    def encode(self, texts):
        """Strings to a Packed: `pack([tokenize(text) for text in texts])`, but faster.

        The ids of each chunk are kept as bytes, so a sentence is its chunks' bytes, joined.
        """
        return _packed([b"".join(map(self._bytes_of_chunk, chunks(text))) for text in texts])

    def _bytes_of(self, tokens):
        return array("i", chain.from_iterable(map(self.split, tokens))).tobytes()

    def probabilities(self):
        """p(piece) of every id, its share of all occurrences: float64 (size,). UNKNOWN has 0."""
        counts = np.array([0, *self.counts])
        return counts / max(counts.sum(), 1)


def _packed(sentences):
    """Sentences of ids, each as bytes, to a Packed."""
    sentences = [sentence or bytes(4) for sentence in sentences]          # four zeros: UNKNOWN
    ids = np.frombuffer(bytearray().join(sentences), np.int32)
    return Packed(ids, offsets_of([len(sentence) // 4 for sentence in sentences]))
