"""An index: rows, embedded once and then searched by meaning and words, in memory or in a file.

A search is exact: it reads every vector.
"""

import json
import os
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..common.files import OURS, load_arrays, locked, new_folder, save_arrays
from ..common.cli import UserError, python_m
from ..data.texts import id_of, text_of
from ..fast.threads import product
from .tfidf import Tfidf, tfidf_of

FILE = "index.safetensors"    # in an index's folder
OTHERS = 4    # rows with the same text that a Hit shows
WORDS = 1.0, 0.3    # weights of TF-IDF for messages, replies (ours: report/README.md)


class Hit(NamedTuple):
    """A row that a search found."""

    score: float      # meaning + weight · words
    meaning: float    # cosine of the learned vectors of query and row
    words: float      # cosine of their TF-IDF
    number: int       # of the row, from 1; rows without text count
    row: dict[str, Any]    # column → value; for a text file {"line": …}
    copies: int       # rows with the same text, of which this is the first
    others: list[dict[str, Any]]    # some of the other such rows, which may have other answers


def as_json(row):
    """A row as the bytes that an Index holds."""
    return json.dumps(row, default=str).encode()


def nearest(scores, top):
    """The places of the `top` best scores, best first, equal ones in order. scores: (n,), n > 0"""
    lowest = np.partition(scores, place := max(len(scores) - top, 0))[place]
    near = np.flatnonzero(scores >= lowest)                   # more than `top` if some are equal
    return near[np.argsort(-scores[near], kind="stable")[:top]]


@dataclass(repr=False)
class Index:
    """n rows and their vectors."""

    encoder: Any           # the SentenceEncoder that made the vectors
    column: str            # this and the next two as in Rows
    paired: str
    replies: bool
    vectors: np.ndarray    # float32 (n, e), unit length
    rows: list             # n JSON objects: column → value

    def __len__(self) -> int:
        return len(self.rows)

    def __reduce__(self):                                     # what is computed is left out
        return Index, (self.encoder, self.column, self.paired, self.replies, self.vectors,
                       self.rows)

    def __repr__(self) -> str:
        return f'Index({len(self):,} rows, column "{self.column}")'

    @property
    def texts(self) -> list[str]:
        """The n texts that were embedded."""
        return [text_of(self.row(place).get(self.column)) for place in range(len(self))]

    @cached_property
    def first(self) -> np.ndarray:
        """For each row, the place of the first row with the same text: int64 (n,)."""
        places: dict[str, int] = {}
        return np.array([places.setdefault(text, place)
                         for place, text in enumerate(self.texts)], np.int64)

    @cached_property
    def tfidf(self) -> Tfidf:
        """The Tfidf of the n texts."""
        return tfidf_of(self.texts)

    def row(self, place: int) -> dict[str, Any]:
        """The row at a place, counted from 0. Numbers that JSON lacks, such as NaN, become None."""
        return json.loads(self.rows[place], parse_constant=lambda name: None)

    def search(self, sentences: list[str], top: int = 10, words: float | None = None
               ) -> list[list[Hit]]:
        """For each sentence, its nearest rows as Hits, best first. Equal texts make one Hit.

        words: the weight of TF-IDF next to the learned vectors; 0: only meaning; None: WORDS.
        Raises UserError if top is below 1 or words below 0, ValueError if sentences is a str.
        """
        if isinstance(sentences, str):
            raise ValueError("expected a list; for one sentence: encoder.search(index, sentence)")
        if top < 1:
            raise UserError(f"top {top}: expected 1 or more rows")
        words = WORDS[self.replies] if words is None else words
        if not 0 <= words < np.inf:
            raise UserError(f"words {words}: expected a finite weight of 0 or more")
        copies = np.bincount(self.first)
        distinct = np.flatnonzero(copies)
        learned = product(self.vectors, self.encoder.encode(sentences).T).T    # (q, n)
        found: list[list[Hit]] = []
        for meaning, counted in zip(learned, self.tfidf.scores(sentences)):    # (n,) each
            both = meaning + words * counted
            places = distinct[nearest(both[distinct], top)].tolist()
            found.append([Hit(float(both[k]), float(meaning[k]), float(counted[k]), k + 1,
                              self.row(k), int(copies[k]), self._others(k, int(copies[k])))
                          for k in places])
        return found

    @cached_property
    def _by_text(self) -> np.ndarray:
        return np.argsort(self.first, kind="stable")          # equal texts side by side, in order

    def _others(self, place: int, copies: int) -> list[dict[str, Any]]:
        """Some of the other rows with the text of the row at a place, which is their first."""
        if copies == 1:
            return []
        begin = 1 + np.searchsorted(self.first, place, sorter=self._by_text)
        same = self._by_text[begin:begin + min(copies - 1, OTHERS)]
        return [self.row(k) for k in same.tolist()]


def index_of(encoder, rows):
    """The Index of Rows, in memory. Raises UserError if no row has text."""
    texts, kept = [], []
    for row in rows.rows:
        texts.append(rows.text(row))
        kept.append(as_json(row))
    if not any(texts):
        raise UserError("no row has text to embed; choose another column or file")
    vectors = encoder.encode(texts, show_progress_bar=None, as_responses=rows.replies)
    vectors[[not text for text in texts]] = 0                 # which is near nothing
    return Index(encoder, rows.column, rows.paired, rows.replies, vectors, kept)


def open_index(folder, encoder):
    """The Index in a folder, for a SentenceEncoder.

    Raises UserError if it is missing or damaged, or was made by another run or with other options.
    """
    again = f"make another: {python_m('convsim_mini.encode RUN --file FILE --index DIR')}"
    arrays, about = load_arrays(Path(folder, FILE).expanduser(), again)
    made_by = about.get("made_by", {})
    differ = [name for name, value in encoder.identity.items() if made_by.get(name) != value]
    if differ:
        raise UserError(f"{folder}: was made by another run or with other options (different: "
                        f"{', '.join(differ)}); use that run and its options, or make a new index")
    rows = arrays["rows"].tobytes().split(b"\n")
    index = Index(encoder, *about["holds"], arrays["vectors"], rows)
    index.first, index.tfidf = arrays["first"], Tfidf.of_arrays(arrays)    # as if computed
    return index


def holds(rows):
    """What Rows or an Index embed: the column, the other column, whether texts are replies."""
    return [rows.column, rows.paired, rows.replies]


def save_index(index, folder):
    """Write an Index into a folder, atomically; → a report."""
    rows = np.frombuffer(b"\n".join(index.rows), np.uint8)
    save_arrays(Path(folder, FILE), {"vectors": index.vectors, "first": index.first, "rows": rows,
                                     **index.tfidf.as_arrays()},
                {"made_by": index.encoder.identity, "holds": holds(index)})
    return f"{len(index):,} rows"


def build_index(encoder, rows, folder):
    """Embed Rows and keep them in a new folder, atomically; → a report.

    Raises UserError if the folder already exists or cannot be written.
    """
    with new_folder(folder, "choose another folder") as new:
        return save_index(index_of(encoder, rows), new)


def add_to_index(encoder, rows, folder, key=None):
    """Embed Rows and add them to the index in a folder, all or none; → a report.

    Rows that the index already holds are skipped. key: a column; a row replaces earlier rows with
    the same value there. Raises UserError if the rows have other columns, or if another process is
    adding rows.
    """
    folder = Path(os.path.realpath(folder))
    busy = f"{folder}: another process is adding rows; wait until it has finished, and try again"
    with locked(folder.parent, busy, f"{OURS}-{folder.name}.lock"):
        index = open_index(folder, encoder)
        if holds(rows) != holds(index):
            raise UserError(f"{folder}: holds {index.column} and {index.paired}, but the new rows "
                            f"hold {rows.column} and {rows.paired}; use the same columns, and "
                            "--replies only if it was used before, or make another index")
        kept, new = without_copies(index, rows.rows, key)
        if not new and len(kept) == len(index):
            return f"0 added; {len(index):,} rows"
        replaced = f", {len(index) - len(kept):,} replaced" if key else ""
        index = replace(index, vectors=index.vectors[kept], rows=[index.rows[k] for k in kept])
        if new:
            added = index_of(encoder, rows._replace(rows=new))
            index = replace(index, vectors=np.concatenate([index.vectors, added.vectors]),
                            rows=index.rows + added.rows)
        return f"{len(new):,} added{replaced}; {save_index(index, folder)}"


def without_copies(index, rows, key):
    """The places of those rows of an Index that stay, and the new rows that it lacks.

    Of rows with the same key only the last one stays. A row whose key is empty replaces no other.
    """
    def name_of(row):                                         # what tells this row from others
        return key and id_of(row.get(key)) or _content(row)

    names, last, kept, held = index.row(0), {}, [], set()
    for row in rows:
        if key and key not in row:
            raise UserError(f'--key {key}: is not a column; the columns are {", ".join(row)}')
        last[name_of(row)] = {name: row[name] for name in names if name in row} | row    # in order
    for place in range(len(index)):
        row = index.row(place)
        name = name_of(row)
        if name not in last or _content(row) == _content(last[name]) and not (key and name in held):
            kept.append(place)
            held.add(name)
    return kept, [row for name, row in last.items() if name not in held]


def _content(row):
    """The texts in a row, so that the same row of a CSV and of a Parquet file are equal."""
    texts = {}
    for name, value in row.items():
        try:
            texts[name] = text_of(value)
        except TypeError:                                     # a list, a date …
            texts[name] = str(value)
    return frozenset(item for item in texts.items() if item[1])
