"""An index: rows and their vectors, embedded once and searched, in memory or kept in a folder.

    vectors.npy    float32 (n, e), unit length
    rows.jsonl     the n rows, a JSON object a line: column → value
    meta.json      what the vectors depend on, and the checksums of the two files above

A search is exact, for it reads every vector: a million in 0.08 s where a vector has 500 numbers, in
0.14 s where it has 1,012, on two cores of an Intel Xeon.
"""

import json
import os
import shutil
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..common.cli import UserError, python_m, user_errors
from ..common.files import checksum, new_folder, read_object, write_rows, write_text
from ..fast.threads import products

FORMAT = 4       # of the three files
META = "meta.json"
FILES = VECTORS, ROWS = "vectors.npy", "rows.jsonl"
DAMAGE = (OSError, ValueError, LookupError, TypeError, AttributeError)


class Hit(NamedTuple):
    """A row that a search has found."""

    score: float    # cosine of the query and the row
    number: int     # of the row, from 1 on
    row: dict       # column → value; of a text file {"line": …}


def nearest(queries, vectors, top):
    """For each query its nearest vectors, best first: exact k-nearest-neighbour search.

    queries: (q, e); vectors: (n, e), n > 0 → q lists of up to `top` pairs (score, place from 0 on).
    Of equal scores the first place comes first.
    """
    found, top = [], min(top, len(vectors))
    for scores in products((vectors, queries.T))[0].T:        # (n,)
        lowest = np.partition(scores, -top)[-top]
        near = np.flatnonzero(scores >= lowest)               # more than `top` where some are equal
        near = near[np.argsort(-scores[near], kind="stable")[:top]]
        found.append([(float(scores[place]), int(place)) for place in near])
    return found


@dataclass
class Index:
    """n rows and their vectors, in memory or mapped from a folder's files."""

    encoder: Any           # the SentenceEncoder that made them
    columns: tuple         # as of Rows
    side: int              # as of Rows
    vectors: np.ndarray    # float32 (n, e), unit length
    rows: list             # n JSON objects: column → value

    def __len__(self):
        return len(self.rows)

    @property
    def column(self):
        """The column that was embedded."""
        return self.columns[self.side]

    @property
    def texts(self):
        """The n texts that were embedded."""
        return [json.loads(row)[self.column] for row in self.rows]

    def search(self, sentences, top=10):
        """For each sentence its nearest rows, as Hits, best first."""
        return [[Hit(score, place + 1, json.loads(self.rows[place])) for score, place in found]
                for found in nearest(self.encoder.encode(sentences), self.vectors, top)]


def index_of(encoder, rows):
    """The Index of Rows, in memory. Raises UserError where no row has text."""
    texts, kept = [], []
    for row in chain.from_iterable(rows.chunks):
        texts.append(row[rows.columns[rows.side]])
        kept.append(json.dumps(row, default=str).encode())
    if not kept:
        raise UserError("no row has text to embed; choose another column or file")
    vectors = encoder.encode(texts, show_progress_bar=True, as_responses=rows.side == 1)
    return Index(encoder, rows.columns, rows.side, vectors, kept)


def open_index(folder, encoder):
    """The Index in a folder, for a SentenceEncoder. Its vectors stay on disk and are mapped.

    Raises UserError where a file is missing or damaged, or another run or setting made the vectors.
    """
    again = f"make the index: {python_m('convsim_mini.encode RUN --file FILE --index DIR')}"
    meta = read_object(Path(folder, META), "is missing or damaged", again)
    with user_errors(f"{folder}: is damaged", f"delete it and {again}", DAMAGE):
        made_by = meta["made_by"]
        other = [name for name, value in identity(encoder).items() if made_by.get(name) != value]
        if other:
            raise UserError(f"{folder}: was made by another run, version or options (different: "
                            f"{', '.join(other)}); search with those, or make another index")
        for name in FILES:
            if checksum(Path(folder, name)) != meta["crc32"][name]:
                raise ValueError(f"{name} is not as it was written")
        return Index(encoder, tuple(meta["columns"]), meta["side"],
                     np.load(Path(folder, VECTORS), mmap_mode="r"),
                     Path(folder, ROWS).read_bytes().splitlines())


def build_index(encoder, rows, folder):
    """Embed Rows and keep them in a new folder, whole or not at all; → a report.

    Raises UserError where the folder is there already or cannot be written.
    """
    with new_folder(folder, "choose another folder") as new:
        return _write(new, index_of(encoder, rows))


def add_to_index(encoder, rows, folder):
    """Embed Rows and add them to the index in a folder, all or none; → a report.

    The folder is written anew beside the old one, and takes its place at the end. Raises UserError
    where the rows have other columns, or another process has added rows meanwhile.
    """
    folder = Path(os.path.realpath(folder))
    new, old, meta = Path(f"{folder}.new"), Path(f"{folder}.old"), folder / META
    before, index = meta.read_bytes(), open_index(folder, encoder)
    if (rows.columns, rows.side) != (index.columns, index.side):
        raise UserError(f"{folder}: holds {' and '.join(index.columns)}, the new rows "
                        f"{' and '.join(rows.columns)}; add rows with its columns, with --replies "
                        "or without as before, or make another index")
    added = index_of(encoder, rows)
    with new_folder(new, "delete it") as work:
        report = _write(work, index, added)
        for name in ("", *FILES, META):
            shutil.copymode(folder / name, work / name)
        if meta.read_bytes() != before:
            raise UserError(f"{folder}: another process has added to it; try again")
    index.vectors = None                                      # Windows moves no mapped file
    with user_errors(f"{folder}: cannot be replaced", f"the whole index is {new}"):
        folder.rename(old)
        new.rename(folder)
    for path in old.iterdir():
        if not (folder / path.name).exists():                 # a file of the user's
            path.rename(folder / path.name)
    shutil.rmtree(old)
    return f"{len(added):,} added; {report}"


def identity(encoder):
    """What the vectors of an index depend on: a dict."""
    return {**encoder.identity, "format": FORMAT}


def _write(folder, *parts):
    """Write the files of one index into a folder, with the rows of all parts; → a report."""
    encoder, columns, side = parts[0].encoder, parts[0].columns, parts[0].side
    with open(folder / ROWS, "wb") as file:
        file.writelines(row + b"\n" for part in parts for row in part.rows)
    vectors = (part.vectors for part in parts)
    number = write_rows(folder / VECTORS, vectors, encoder.dimension)
    meta = {"made_by": identity(encoder), "columns": columns, "side": side,
            "crc32": {name: checksum(folder / name) for name in FILES}}
    write_text(folder / META, json.dumps(meta))
    return f"{number:,} rows"
