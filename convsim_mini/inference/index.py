"""An index: rows, embedded once and then searched by meaning and words, in memory or in a file.

A search is exact: it reads every vector.
"""

import json
import os
from functools import cached_property
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from ..common.files import load_arrays, locked, new_folder, save_arrays
from ..common.cli import UserError, python_m, user_errors
from ..common.lines import chunked
from ..core.packed import offsets_of
from ..core.ranking import settled
from ..data.texts import id_of, misread, text_of, warn_if_misread
from ..fast.threads import product
from .rows import LINE, Rows
from .tfidf import Tfidf, tfidf_of

FILE = "index.safetensors"    # in an index's folder
AT_ONCE = 32    # queries: their scores take 4 bytes for each row
OTHERS = 4    # near copies of its row that a Hit shows
ALIKE = 0.7    # cosine of TF-IDF above which rows are near copies (ours: report/README.md)
WORDS = 1.0, 0.3    # weights of TF-IDF for messages, replies (ours: report/README.md)


class Hit(NamedTuple):
    """A row that a search found."""

    score: float      # meaning + weight · words
    meaning: float    # cosine of the learned vectors of query and row
    words: float      # cosine of their TF-IDF; 0 if words have no weight
    number: int       # of the row, from 1; rows without text count
    row: dict[str, Any]    # column → value; for a text file {"line": …}
    copies: int       # rows with the same or nearly the same words, of which this is the best
    others: list[dict[str, Any]]    # some of the other such rows, which may have other answers


def nearest(scores, top):
    """The places of the `top` best scores, best first, equal ones in order. scores: (n,), n > 0"""
    lowest = np.partition(scores, place := max(len(scores) - top, 0))[place]
    near = np.flatnonzero(scores >= lowest)                   # more than `top` if some are equal
    return near[np.argsort(-scores[near], kind="stable")[:top]]


class Index:
    """n rows and their vectors."""

    def __init__(self, encoder, vectors, held):
        self.encoder = encoder    # the SentenceEncoder that made the vectors
        self.vectors = vectors    # float32 (n, e), unit length
        self.held = held          # Rows, each as a JSON object: column → value

    def __len__(self) -> int:
        return len(self.vectors)

    def __reduce__(self):                                     # what is computed is left out
        return Index, (self.encoder, self.vectors, self.held)

    def __repr__(self) -> str:
        return f'Index({len(self):,} rows, column "{self.held.column}")'

    @cached_property
    def texts(self) -> list[str]:
        """The n texts that were embedded."""
        return [*map(self.held.text, map(self.row, range(len(self))))]

    @cached_property
    def first(self) -> np.ndarray:
        """For each row, the place of the first row with the same text; −1 without: int64 (n,)."""
        places = {"": -1}
        return np.array([places.setdefault(text, place)
                         for place, text in enumerate(self.texts)], np.int64)

    @cached_property
    def copies(self) -> np.ndarray:
        """For the first row with each text, how many rows have this text; else 0: int64 (n,)."""
        return np.bincount(self.first[self.first >= 0], minlength=len(self))

    @cached_property
    def tfidf(self) -> Tfidf:
        """The Tfidf of the n texts."""
        return tfidf_of(self.texts)

    @cached_property
    def by_row(self) -> scipy.sparse.csr_matrix:
        """The Tfidf's vectors by rows: (n, 1 + v)."""
        return self.tfidf.columns.tocsr()

    def row(self, place: int) -> dict[str, Any]:
        """The row at a place, counted from 0. Numbers that JSON lacks, such as NaN, become None."""
        return json.loads(self.held.rows[place], parse_constant=lambda name: None)

    def search(self, sentences: list[str], top: int = 10, words: float | None = None
               ) -> list[list[Hit]]:
        """For each sentence, its nearest rows as Hits, best first; none for an empty sentence.

        Near copies make one Hit. words: the weight of TF-IDF next to the learned vectors; 0: only
        meaning, without TF-IDF, so only equal texts make one Hit; None: WORDS. Raises UserError if
        top is below 1 or words below 0, ValueError if sentences is a str.
        """
        if isinstance(sentences, str):
            raise ValueError("expected a list; for one sentence: encoder.search(index, sentence)")
        if top < 1:
            raise UserError(f"top {top}: expected 1 or more rows")
        words = WORDS[self.held.replies] if words is None else words
        if not 0 <= words < np.inf:
            raise UserError(f"words {words}: expected a finite weight of 0 or more")
        found: list[list[Hit]] = []
        for part in chunked(sentences, AT_ONCE):              # scores of all rows: (q, n)
            learned = product(self.vectors, self.encoder.encode(part).T).T
            counted = self.tfidf.scores(part) if words else repeat(np.zeros(len(self), np.float32))
            found += [self._hits(meaning, by_words, words, top) if sentence.strip() else []
                      for sentence, meaning, by_words in zip(part, learned, counted)]
        return found

    def _hits(self, meaning: np.ndarray, counted: np.ndarray, words: float, top: int) -> list[Hit]:
        """The best Hits by meaning + words · counted: (n,) each."""
        both, hits = settled(meaning + words * counted), []
        groups = (self._groups(both, top) if words else
                  self.distinct[nearest(both[self.distinct], top)][:, None])
        for group in groups:
            k, copies = int(group[0]), int(self.copies[group].sum())
            rows = self._rows(group) if copies > 1 else group
            others = [*map(self.row, rows[rows != k][:OTHERS].tolist())]
            hits.append(Hit(float(both[k]), float(meaning[k]), float(counted[k]), k + 1,
                            self.row(k), copies, others))
        return hits

    @cached_property
    def distinct(self) -> np.ndarray:
        """The places of the first rows with each text: int64 (m,)."""
        return np.flatnonzero(self.copies)

    @cached_property
    def _by_text(self) -> np.ndarray:
        return np.argsort(self.first)                         # equal texts side by side

    def _rows(self, group: np.ndarray) -> np.ndarray:
        """The places of all rows with the texts of some first rows, in order."""
        begins = np.searchsorted(self.first, group, sorter=self._by_text)
        return np.sort(np.concatenate([self._by_text[begin:begin + number] for begin, number
                                       in zip(begins, self.copies[group])]))

    def _groups(self, scores: np.ndarray, top: int) -> list[np.ndarray]:
        """The `top` best groups of near copies among the distinct rows, as their places.

        The first row of a group has its best score, (n,); the others are near copies of it.
        """
        for wide in (8 * top, 64 * top, len(self.distinct)):    # wider if too many are copies
            groups: list[np.ndarray] = []
            rest = self.distinct[nearest(scores[self.distinct], wide)]
            words, free = self.by_row[rest], np.ones(len(rest), bool)
            while free.any() and len(groups) < top:
                best = free.argmax()
                alike = free & (words @ words[best].toarray()[0] > ALIKE)
                alike[best] = True                            # also if no word in it has a weight
                groups.append(rest[alike])
                free &= ~alike
            if len(groups) == top or wide >= len(self.distinct):
                break
        return groups


# ---------------------------------------------------------------- indices made and stored

def index_of(encoder, rows):
    """The Index of Rows, in memory. Raises UserError if no row has text."""
    texts, kept = [], []
    for row in rows.rows:
        texts.append(rows.text(row))
        kept.append(json.dumps(row, default=str).encode())
    if not any(texts):
        raise UserError("no row has text to embed; choose another column or file")
    if rows.column == LINE:                                   # `read_rows` says so for tables
        warn_if_misread("the lines", [*filter(misread, texts)])
    vectors = encoder.encode(texts, show_progress_bar=None, as_responses=rows.replies)
    vectors[[not text for text in texts]] = 0                 # which is near nothing
    index = Index(encoder, vectors, rows._replace(rows=kept))
    index.texts = texts
    return index


class Stored:
    """The n rows of a file: JSON objects end to end."""

    def __init__(self, rows, begins):
        self.rows = rows    # uint8
        self.begins = begins    # int64 (n + 1,)

    def __getitem__(self, place):
        return self.rows[self.begins[place]:self.begins[place + 1]].tobytes()


def open_index(folder, encoder, mapped=("vectors", "rows")):
    """The Index in a folder, for a SentenceEncoder.

    mapped: arrays that stay in its file; they are read where they are used, and not checked
    Raises UserError if it is missing or damaged, or was made by another run or with other options.
    """
    again = f"make another: {python_m('convsim_mini.encode RUN --file FILE --index DIR')}"
    arrays, about = load_arrays(Path(folder, FILE).expanduser(), again, mapped=mapped)
    made_by = about.get("made_by", {})
    differ = [name for name, value in encoder.identity.items() if made_by.get(name) != value]
    if differ:
        raise UserError(f"{folder}: was made by another run or with other options (different: "
                        f"{', '.join(differ)}); use that run and its options, or make a new index")
    vectors, first, begins = (arrays[name] for name in ("vectors", "first", "begins"))
    if not len(begins) - 1 == len(first) or vectors.shape != (len(first), encoder.dimension):
        raise UserError(f"{folder}: holds {len(begins) - 1:,} rows and {vectors.shape} numbers, "
                        f"expected {encoder.dimension} numbers for each row; {again}")
    index = Index(encoder, vectors, Rows(*about["holds"], Stored(arrays["rows"], begins)))
    index.first, index.tfidf = first, Tfidf.of_arrays(arrays)    # as if computed
    return index


def save_index(index, folder):
    """Write an Index into a folder, atomically; → a report."""
    *holds, rows = index.held
    arrays = {"vectors": index.vectors, "first": index.first,
              "rows": np.frombuffer(b"".join(rows), np.uint8),
              "begins": offsets_of([*map(len, rows)]), **index.tfidf.as_arrays()}
    save_arrays(Path(folder, FILE), arrays, {"made_by": index.encoder.identity, "holds": holds})
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
    if not folder.is_dir():                                   # the lock would make it
        raise UserError(f"{folder}: is not there; name an index, or make one without --add")
    busy = f"{folder}: another process is adding rows; wait until it has finished, and try again"
    with locked(folder, busy):
        index = open_index(folder, encoder, mapped=())        # Windows replaces no mapped file
        held = index.held
        if rows[:3] != held[:3]:
            raise UserError(f"{folder}: holds {held.column} and {held.paired}, but the new rows "
                            f"hold {rows.column} and {rows.paired}; use the same columns, and "
                            "--replies only if it was used before, or make another index")
        kept, new = without_copies(index, rows.rows, key)
        if not new and len(kept) == len(index):
            return f"0 added; {len(index):,} rows"
        replaced = f", {len(index) - len(kept):,} replaced" if key else ""
        vectors, lines = index.vectors[kept], [held.rows[k] for k in kept]
        if new:
            added = index_of(encoder, rows._replace(rows=new))
            vectors, lines = np.concatenate([vectors, added.vectors]), lines + added.held.rows
        saved = save_index(Index(encoder, vectors, held._replace(rows=lines)), folder)
        return f"{len(new):,} added{replaced}; {saved}"


def without_copies(index, rows, key):
    """The places of those rows of an Index that stay, and the new rows that it lacks.

    Of rows with the same key only the last one stays. A row whose key is empty replaces no other.
    """
    def name_of(row):                                         # what tells this row from others
        with user_errors(f"--key {key}", "name a column of numbers or short texts", TypeError):
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
