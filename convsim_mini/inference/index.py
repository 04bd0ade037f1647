"""An index: rows, embedded once and searched by meaning and by words, in memory or in a folder.

    vectors.npy    float32 (n, e): the learned vectors, unit length
    first.npy      int64 (n,): the place of the first row with the same text
    tfidf.npz      the rows' words, weighted by how few of these rows hold them
    rows.jsonl     the n rows, one JSON object per line: column → value
    meta.json      what the vectors depend on, and the checksums of the files above

A search is exact: it reads every vector.
"""

import json
import os
import shutil
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..common.cli import UserError, python_m, user_errors
from ..common.files import OURS, UNREADABLE, checksum, locked, new_folder, write_rows, write_text
from ..common.lines import read_object
from ..data.texts import id_of, text_of
from ..fast.threads import product
from .tfidf import Tfidf, read_tfidf, tfidf_of, write_tfidf

FORMAT = 7       # of the five files
META = "meta.json"
FILES = VECTORS, FIRST, TFIDF, ROWS = "vectors.npy", "first.npy", "tfidf.npz", "rows.jsonl"
WORDS = 1.0, 0.3    # weights of TF-IDF for messages and replies (ours: report/README.md)


class Hit(NamedTuple):
    """A row that a search found."""

    score: float      # meaning + weight · words
    meaning: float    # cosine of the learned vectors of query and row
    words: float      # cosine of their TF-IDF
    number: int       # of the row, from 1; rows without text count
    row: dict[str, Any]    # column → value; for a text file {"line": …}
    copies: int       # rows with the same text, of which this is the first


def as_json(row):
    """A row as an Index holds it: bytes."""
    return json.dumps(row, default=str).encode()


def nearest(scores, top):
    """The places of the `top` best of scores (n,), n > 0: best first, equal ones in order."""
    lowest = np.partition(scores, place := max(len(scores) - top, 0))[place]
    near = np.flatnonzero(scores >= lowest)                   # more than `top` if some are equal
    return near[np.argsort(-scores[near], kind="stable")[:top]]


@dataclass(repr=False)
class Index:
    """n rows and their vectors, in memory or mapped from a folder's files."""

    encoder: Any           # the SentenceEncoder that made the vectors
    columns: tuple         # as in Rows
    side: int              # as in Rows
    vectors: np.ndarray    # float32 (n, e), unit length
    rows: list             # n JSON objects: column → value

    def __len__(self) -> int:
        return len(self.rows)

    def __reduce__(self):
        vectors = np.asarray(self.vectors)                    # not the file that is mapped
        return Index, (self.encoder, self.columns, self.side, vectors, self.rows)

    def __repr__(self) -> str:
        return f'Index({len(self):,} rows, column "{self.column}")'

    @property
    def column(self) -> str:
        """The column that was embedded."""
        return self.columns[self.side]

    @property
    def texts(self) -> list[str]:
        """The n texts that were embedded."""
        return [text_of(self.row(place).get(self.column)) for place in range(len(self))]

    @cached_property
    def first(self) -> np.ndarray:
        """The place of the first row with the same text, for each row: int64 (n,)."""
        places: dict[str, int] = {}
        return np.array([places.setdefault(text, place)
                         for place, text in enumerate(self.texts)], np.int64)

    @cached_property
    def tfidf(self) -> Tfidf:
        """The Tfidf of the n texts."""
        return tfidf_of(self.texts)

    def row(self, place: int) -> dict[str, Any]:
        """The row at a place, from 0. Numbers that JSON lacks, such as NaN, become None."""
        return json.loads(self.rows[place], parse_constant=lambda name: None)

    def search(self, sentences: list[str], top: int = 10, words: float | None = None
               ) -> list[list[Hit]]:
        """For each sentence, its nearest rows as Hits, best first. Equal texts are one hit.

        words: the weight of TF-IDF next to the learned vectors; 0: only meaning; None: WORDS.
        Raises ValueError for top below 1, words below 0, and a sentence that is not in a list.
        """
        if isinstance(sentences, str):
            raise ValueError("expected a list of sentences; for one, encoder.search(index, it)")
        if top < 1:
            raise ValueError(f"{top} nearest rows, expected 1 or more")
        words = WORDS[self.side] if words is None else words
        if not 0 <= words < np.inf:
            raise ValueError(f"words {words}, expected a weight of 0 or more")
        copies = np.bincount(self.first)
        distinct = np.flatnonzero(copies)
        learned = product(self.vectors, self.encoder.encode(sentences).T).T    # (q, n)
        found = []
        for meaning, counted in zip(learned, self.tfidf.scores(sentences)):
            both = meaning + words * counted
            places = distinct[nearest(both[distinct], top)].tolist()
            found.append([Hit(float(both[k]), float(meaning[k]), float(counted[k]), k + 1,
                              self.row(k), int(copies[k])) for k in places])
        return found


def index_of(encoder, rows):
    """The Index of Rows, in memory. Raises UserError if no row has text."""
    texts, kept = [], []
    for row in rows.rows:
        texts.append(rows.text(row))
        kept.append(as_json(row))
    if not any(texts):
        raise UserError("no row has text to embed; choose another column or file")
    vectors = encoder.encode(texts, show_progress_bar=None, as_responses=rows.side == 1)
    vectors[[not text for text in texts]] = 0                 # which is near nothing
    return Index(encoder, rows.columns, rows.side, vectors, kept)


def open_index(folder, encoder):
    """The Index in a folder, for a SentenceEncoder. Its vectors stay on disk and are mapped.

    It is read again if rows were added meanwhile. Raises UserError if a file is missing or damaged,
    or if another run or setting made the vectors.
    """
    meta = Path(folder, META)
    before = meta.exists() and meta.read_bytes()
    try:
        return _open(folder, encoder)
    except UserError:
        if not before or (meta.exists() and meta.read_bytes() == before):
            raise
        return open_index(folder, encoder)


def _open(folder, encoder):
    again = f"make another: {python_m('convsim_mini.encode RUN --file FILE --index DIR')}"
    meta = read_object(Path(folder, META), "is missing or damaged", again)
    with user_errors(f"{folder}: is damaged", again, UNREADABLE):
        made_by = {"format": FORMAT, **encoder.identity}
        other = [name for name in made_by if meta["made_by"].get(name) != made_by[name]]
        if other:
            raise UserError(f"{folder}: was made by another run, version or options (different: "
                            f"{', '.join(other)}); search with those, or make another index")
        for name in FILES:
            if checksum(Path(folder, name)) != meta["crc32"][name]:
                raise ValueError(f"{name} is not as it was written")
        index = Index(encoder, tuple(meta["columns"]), meta["side"],
                      np.load(Path(folder, VECTORS), mmap_mode="r"),
                      Path(folder, ROWS).read_bytes().splitlines())
        index.first = np.load(Path(folder, FIRST))
        index.tfidf = read_tfidf(Path(folder, TFIDF))
        return index


def build_index(encoder, rows, folder):
    """Embed Rows and keep them in a new folder, atomically; → a report.

    Raises UserError if the folder exists already or cannot be written.
    """
    with new_folder(folder, "choose another folder") as new:
        return write_index(new, index_of(encoder, rows))


def add_to_index(encoder, rows, folder, key=None):
    """Embed Rows and add them to the index in a folder, all or none; → a report.

    Rows that it already holds are skipped. key: a column; a row replaces earlier rows with the same
    value there. The new folder is written next to the old one and replaces it at the end. Raises
    UserError if the rows have other columns, or if another process is adding rows.
    """
    folder = Path(os.path.realpath(folder))
    target, old = Path(f"{folder}.new"), Path(f"{folder}.old")
    busy = f"{folder}: another process is adding to it; wait for it, and try again"
    with locked(folder.parent, busy, f"{OURS}-{folder.name}.lock"):
        index = open_index(folder, encoder)
        if (rows.columns, rows.side) != (index.columns, index.side):
            raise UserError(f"{folder}: holds {' and '.join(index.columns)}, the new rows "
                            f"{' and '.join(rows.columns)}; add rows with its columns, with "
                            "--replies or without as before, or make another index")
        kept, new = without_copies(index, rows.rows, key)
        if not new:
            return f"0 added; {len(index):,} rows"
        added = index_of(encoder, rows._replace(rows=new))
        replaced = len(index) - len(kept)
        index = replace(index, vectors=np.concatenate([index.vectors[kept], added.vectors]),
                        rows=[*(index.rows[k] for k in kept), *added.rows])
        with new_folder(target, "delete it") as work:
            report = write_index(work, index)
            for name in ("", *FILES, META):
                shutil.copymode(folder / name, work / name)
        with user_errors(f"{folder}: cannot be replaced", f"the whole index is {target}"):
            folder.rename(old)
            target.rename(folder)
        for path in old.iterdir():
            if not (folder / path.name).exists():             # a file of the user's
                path.rename(folder / path.name)
        shutil.rmtree(old)
    return f"{len(added):,} added{f', {replaced:,} replaced' if key else ''}; {report}"


def without_copies(index, rows, key):
    """The places of an Index's rows that stay, and the new rows that it lacks.

    A row whose key is empty replaces none.
    """
    known, new = {*index.rows}, {}
    for row in rows:
        if key and key not in row:
            raise UserError(f'--key {key}: is not a column; the rows have {", ".join(row)}')
        if (text := as_json(row)) not in known:
            new[key and id_of(row[key]) or text] = row        # the last of equal keys counts
    kept = [k for k in range(len(index)) if not key or id_of(index.row(k).get(key)) not in new]
    return kept, [*new.values()]


def write_index(folder, index):
    """Write the files of an Index into a folder; → a report."""
    with open(folder / ROWS, "wb") as file:
        file.writelines(row + b"\n" for row in index.rows)
    write_rows(folder / VECTORS, [index.vectors], index.encoder.dimension)
    np.save(folder / FIRST, index.first)
    write_tfidf(folder / TFIDF, index.tfidf)
    meta = {"made_by": {"format": FORMAT, **index.encoder.identity}, "columns": index.columns,
            "side": index.side, "crc32": {name: checksum(folder / name) for name in FILES}}
    write_text(folder / META, json.dumps(meta))
    return f"{len(index):,} rows"
