"""An index: rows, embedded once and then searched by meaning and words, in memory or in a file.

A search is exact: it reads every vector.
"""

import json
import os
from functools import cached_property
from itertools import chain, repeat
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from ..common.files import locked, new_folder
from ..common.arrays_file import UNREADABLE, load_arrays, save_arrays
from ..common.cli import UserError, python_m, user_errors
from ..common.lines import chunked
from ..core.packed import Packed, offsets_of
from ..core.ranking import settled
from ..data.layouts import Reading
from ..data.texts import id_of, misread, text_of, warn_if_misread
from ..fast.threads import product
from .rows import LINE, Rows, rows_of
from .tfidf import Tfidf, tfidf_of

FILE = "index.safetensors"    # in an index's folder
AT_ONCE = 32    # queries: their scores take 4 bytes for each row
OTHERS = 4    # near copies of its row that a Hit shows
ALIKE = 0.7    # cosine of TF-IDF above which rows are near copies (ours: RESULTS.md)
WORDS = 1.0, 0.3    # weights of TF-IDF for messages, replies (ours)


class Hit(NamedTuple):
    """A row that a search found."""

    score: float      # meaning + weight · words
    meaning: float    # dot product of the learned vectors of query and row, as in training
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


def weight_of(words):
    """The weight of words next to meaning, as given. Raises UserError."""
    if not 0 <= words < np.inf:
        raise UserError(f"words {words}: expected a finite weight of 0 or more")
    return words


class Index:
    """n rows and their vectors."""

    def __init__(self, encoder, vectors, held):
        self.encoder = encoder    # the SentenceEncoder that made the vectors
        self.vectors = vectors    # float32 (n, e); of replies, what the response network gives
        self.held = held          # Rows, each as a JSON object: column → value

    def __len__(self) -> int:
        return len(self.vectors)

    @cached_property
    def texts(self) -> list[str]:
        """The n texts that were embedded."""
        return [*map(self.held.text, map(self.row, range(len(self))))]

    @cached_property
    def places(self) -> Packed:
        """The places of the rows with each of the m different texts: Packed of m, in order."""
        of_text: dict[str, list[int]] = {}
        for place, text in enumerate(self.texts):
            if text:
                of_text.setdefault(text, []).append(place)
        return Packed(np.array([*chain.from_iterable(of_text.values())], np.int32),
                      offsets_of([*map(len, of_text.values())]))

    @cached_property
    def distinct(self) -> np.ndarray:
        """The place of the first row with each of the m different texts: int32 (m,)."""
        return self.places.ids[self.places.offsets[:-1]]

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
        top is below 1 or words below 0.
        """
        words = weight_of(WORDS[self.held.replies] if words is None else words)
        if top < 1:
            raise UserError(f"top {top}: expected 1 row or more")
        found: list[list[Hit]] = []
        for part in chunked(sentences, AT_ONCE):              # scores of all rows: (q, n)
            learned = product(self.vectors, self.encoder.encode(part).T).T
            counted = self.tfidf.scores(part) if words else repeat(np.zeros(len(self), np.float32))
            found += [self._hits(meaning, by_words, words, top) if sentence.strip() else []
                      for sentence, meaning, by_words in zip(part, learned, counted)]
        return found

    def _hits(self, meaning: np.ndarray, counted: np.ndarray, words: float, top: int) -> list[Hit]:
        """The best Hits by meaning + words · counted: (n,) each."""
        scores, hits = settled(meaning + words * counted)[self.distinct], []
        groups = self._groups(scores, top) if words else nearest(scores, top)[:, None]
        for group in groups:
            best, k = group[0], int(self.distinct[group[0]])
            rows = np.sort(self.places.take(group).ids)
            others = [self.row(place) for place in rows[rows != k][:OTHERS]]
            hits.append(Hit(float(scores[best]), float(meaning[k]), float(counted[k]), k + 1,
                            self.row(k), len(rows), others))
        return hits

    def _groups(self, scores: np.ndarray, top: int) -> list[np.ndarray]:
        """The `top` best groups of near copies among the m different texts.

        The first text of a group has its best score, (m,); the others are near copies of it.
        """
        for wide in (8 * top, 64 * top, len(scores)):         # wider if too many are copies
            groups: list[np.ndarray] = []
            rest = nearest(scores, wide)
            words, free = self.by_row[self.distinct[rest]], np.ones(len(rest), bool)
            while free.any() and len(groups) < top:
                best = free.argmax()
                alike = free & (words @ words[best].toarray()[0] > ALIKE)
                alike[best] = True                            # also if no word in it has a weight
                groups.append(rest[alike])
                free &= ~alike
            if len(groups) == top or wide >= len(scores):
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
    vectors = encoder.encode(texts, show_progress_bar=True, as_responses=rows.replies)
    index = Index(encoder, vectors, rows._replace(rows=kept))
    index.texts = texts
    return index


def index_at(encoder, source, reading=Reading()):
    """The Index that a folder holds, or that of a file, a table or texts, embedded now.

    Raises UserError, also if a folder's Index is of messages and `reading` asks for replies.
    """
    if not (isinstance(source, (str, Path)) and Path(source, FILE).expanduser().is_file()):
        return index_of(encoder, rows_of(source, reading))
    index = open_index(source, encoder)
    if reading.side == 1 and not index.held.replies:
        raise UserError(f"{source}: holds messages, not replies; make an index with encode "
                        "--replies")
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
    with user_errors(f"{folder}: is not an index", again, UNREADABLE):
        arrays, about = load_arrays(Path(folder, FILE).expanduser(), again, mapped=mapped)
        differ = [name for name, value in encoder.identity.items()
                  if about["made_by"].get(name) != value]
        if differ:
            raise UserError(f"{folder}: was made by another run or with other options (different: "
                            f"{', '.join(differ)}); use that run and its options, or {again}")
        rows = Stored(arrays["rows"], arrays["begins"])
        index = Index(encoder, arrays["vectors"], Rows(*about["holds"], rows))
        index.places = Packed(arrays["places"], arrays["offsets"])    # as if computed
        index.tfidf = Tfidf.of_arrays(arrays)
        if index.vectors.shape != (len(rows.begins) - 1, encoder.dimension):
            raise ValueError(f"it holds {len(rows.begins) - 1} rows, vectors {index.vectors.shape}")
    return index


def save_index(index, folder):
    """Write an Index into a folder, atomically; → a report."""
    *holds, rows = index.held
    arrays = {"vectors": index.vectors, "places": index.places.ids, "offsets": index.places.offsets,
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
        if not new:
            return f"0 added; {len(index):,} rows"
        added = index_of(encoder, rows._replace(rows=new))
        lines = [held.rows[place] for place in kept] + added.held.rows
        vectors = np.concatenate([index.vectors[kept], added.vectors])
        replaced = f", {len(index) - len(kept):,} replaced" if key else ""
        saved = save_index(Index(encoder, vectors, held._replace(rows=lines)), folder)
        return f"{len(new):,} added{replaced}; {saved}"


def without_copies(index, rows, key):
    """The places of those rows of an Index that stay, and the new rows that it lacks.

    Of new rows with the same key only the last one counts. A row without a key replaces no other.
    """
    def name_of(row):                                         # what tells this row from others
        with user_errors(f"--key {key}", "name a column of numbers or short texts", TypeError):
            return key and id_of(row.get(key)) or content_of(row)

    last = {}
    for row in rows:
        if key and key not in row:
            raise UserError(f'--key {key}: is not a column; the columns are {", ".join(row)}')
        last[name_of(row)] = row
    names, changed = [], set()
    for row in map(index.row, range(len(index))):
        name = name_of(row)
        names.append(name if name in last else None)
        if name in last and content_of(row) != content_of(last[name]):
            changed.add(name)
    kept = [place for place, name in enumerate(names) if name not in changed]
    new = last.keys() - {*names} | changed
    return kept, [row for name, row in last.items() if name in new]


def content_of(row):
    """The texts in a row, so that the same row of a CSV and of a Parquet file are equal."""
    texts = {}
    for name, value in row.items():
        try:
            texts[name] = text_of(value)
        except TypeError:                                     # a list, a date …
            texts[name] = str(value)
    return frozenset(item for item in texts.items() if item[1])
