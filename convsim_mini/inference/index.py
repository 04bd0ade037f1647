"""An index: rows, embedded once and then searched by meaning and words. stored.py keeps it on disk.

A search is exact: it reads every vector.
"""

import json
from functools import cached_property
from itertools import chain, repeat
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from ..common.cli import UserError, user_errors
from ..common.lines import chunked
from ..core.packed import Packed, offsets_of
from ..core.ranking import settled
from ..data.texts import misread, warn_if_misread
from ..fast.host import product
from .rows import LINE
from .tfidf import tfidf_of

AT_ONCE = 32    # queries: their scores take 4 bytes for each row
OTHERS = 4    # near copies of its row that a Hit shows
ALIKE = 0.7    # cosine of TF-IDF above which rows are near copies (ours: RESULTS.md)
WORDS, WORDS_OF_REPLIES = 1.0, 0.3    # weights of words next to meaning (ours)


class Hit(NamedTuple):
    """A row that a search found."""

    score: float      # meaning + weight · words
    meaning: float    # dot product of the learned vectors of query and row, as in training
    words: float      # cosine of their TF-IDF; 0 if words have no weight
    number: int       # of the row, from 1; rows without text count
    row: dict[str, Any]    # column → value; for a text file {"line": …}
    copies: int       # rows with the same or nearly the same words, of which this is the best
    others: list[dict[str, Any]]    # some of the other such rows, which may have other answers


def weight_of(words, replies=False):
    """The weight of words next to meaning: as given or, for None, ours. Raises UserError."""
    if words is None:
        return WORDS_OF_REPLIES if replies else WORDS
    if not isinstance(words, Real) or not 0 <= words < np.inf:
        raise UserError(f"words {words!r:.60}: expected a finite weight of 0 or more")
    return words


def nearest(scores, top):
    """The places of the `top` best scores, best first, equal ones in order. scores: (n,), n > 0"""
    place = max(len(scores) - top, 0)
    near = np.flatnonzero(scores >= np.partition(scores, place)[place])    # more if some are equal
    return near[np.argsort(-scores[near], kind="stable")[:top]]


class Index:
    """n rows and their vectors. Of their texts, m are different; a row without text has none."""

    def __init__(self, encoder, vectors, held, places, tfidf):
        self.encoder = encoder    # the SentenceEncoder that made the vectors
        self.vectors = vectors    # float32 (n, e); of replies, what the response network gives
        self.held = held          # Rows, as JSON objects laid end to end: Packed of n, of bytes
        self.places = places      # Packed of m: where the rows with each different text are
        self.tfidf = tfidf        # of the n texts
        self.distinct = places.ids[places.offsets[:-1]]    # the first row with each text: (m,)

    def __len__(self) -> int:
        return len(self.vectors)

    @cached_property
    def texts(self) -> list[str]:
        """The n texts that were embedded."""
        return [*map(self.held.text, map(self.row, range(len(self))))]

    @cached_property
    def by_row(self) -> scipy.sparse.csr_matrix:
        """The Tfidf's vectors by rows: (n, 1 + v)."""
        return self.tfidf.columns.tocsr()

    def row(self, place: int) -> dict[str, Any]:
        """The row at a place, counted from 0. Numbers that JSON lacks, such as NaN, become None."""
        with user_errors(f"row {place + 1} of the index is damaged", "make another", ValueError):
            return json.loads(self.line(place), parse_constant=lambda name: None)

    def line(self, place: int) -> bytes:
        """The row at a place as a JSON object."""
        return self.held.rows.part(place, place + 1).ids.tobytes()

    def search(self, sentences: list[str], top: int = 10, words: float | None = None
               ) -> list[list[Hit]]:
        """For each sentence, its nearest rows as Hits, best first; none for an empty sentence.

        Near copies make one Hit. words: the weight of TF-IDF next to the learned vectors; 0: only
        meaning, without TF-IDF, so only equal texts make one Hit; None: 1, or 0.3 for replies.
        Raises UserError if top is below 1 or words below 0.
        """
        weight = weight_of(words, self.held.replies)
        if not isinstance(top, Integral) or top < 1:
            raise UserError(f"top {top!r:.60}: expected a whole number, 1 or more")
        found: list[list[Hit]] = []
        for part in chunked(sentences, AT_ONCE):              # scores of all rows: (q, n)
            meanings = product(self.vectors, self.encoder.encode(part).T).T
            counted = self.tfidf.scores(part) if weight else repeat(np.zeros(len(self), np.float32))
            found += [self._hits(meaning, in_words, weight, top) if sentence.strip() else []
                      for sentence, meaning, in_words in zip(part, meanings, counted)]
        return found

    def _hits(self, meaning: np.ndarray, in_words: np.ndarray, weight: float, top: int
              ) -> list[Hit]:
        """The best Hits by meaning + weight · in_words: (n,) each."""
        hits = []
        scores = settled(meaning + weight * in_words)
        of_texts = scores[self.distinct]                      # (m,)
        groups = self._groups(of_texts, top) if weight else nearest(of_texts, top)[:, None]
        for group in groups:
            best = int(self.distinct[group[0]])
            rows = np.sort(self.places.take(group).ids)
            others = [self.row(place) for place in rows[rows != best][:OTHERS]]
            hits.append(Hit(float(scores[best]), float(meaning[best]), float(in_words[best]),
                            best + 1, self.row(best), len(rows), others))
        return hits

    def _groups(self, scores: np.ndarray, top: int) -> list[np.ndarray]:
        """The `top` best groups of near copies among the m different texts.

        scores: (m,). The first text of a group has its best score, and the others are like it.
        """
        for wide in (8 * top, 64 * top, len(scores)):         # wider if too many are copies
            groups: list[np.ndarray] = []
            texts = nearest(scores, wide)
            words = self.by_row[self.distinct[texts]]         # (texts, 1 + v)
            free = np.ones(len(texts), bool)                  # in no group yet
            while free.any() and len(groups) < top:
                best = free.argmax()
                alike = free & (words @ words[best].toarray()[0] > ALIKE)
                alike[best] = True                            # also if no word in it has a weight
                groups.append(texts[alike])
                free &= ~alike
            if len(groups) == top or wide >= len(scores):
                break
        return groups


def index_of(encoder, rows):
    """The Index of Rows, in memory. Raises UserError if no row has text."""
    texts, lines = [], []
    for row in rows.rows:
        texts.append(rows.text(row))
        lines.append(json.dumps(row, default=str).encode())
    if not any(texts):
        raise UserError("no row has text to embed; choose another column or file")
    if rows.column == LINE:                                   # `read_rows` says so for tables
        warn_if_misread("the lines", [*filter(misread, texts)])
    vectors = encoder.encode(texts, show_progress_bar=True, as_responses=rows.replies)
    return index_with(encoder, vectors, rows._replace(rows=lines), texts)


def index_with(encoder, vectors, rows, texts):
    """The Index of Rows that are a list of JSON objects, whose n texts have these vectors."""
    of_text = {}                                              # text → places
    for place, text in enumerate(texts):
        if text:
            of_text.setdefault(text, []).append(place)
    places = Packed(np.array([*chain.from_iterable(of_text.values())], np.int32),
                    offsets_of([*map(len, of_text.values())]))
    lines = Packed(np.frombuffer(b"".join(rows.rows), np.uint8),
                   offsets_of([*map(len, rows.rows)]))
    return Index(encoder, vectors, rows._replace(rows=lines), places, tfidf_of(texts))
