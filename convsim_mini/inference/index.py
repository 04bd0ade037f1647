"""An index: rows and their vectors, embedded once, kept in a folder and searched often.

    vectors.npy    float32 (n, e), unit length
    rows.jsonl     the n rows, a JSON object a line: column → value
    meta.json      what the vectors depend on, and the checksums of the two files above

A search is exact, for it reads every vector: a million in 0.08 s where a vector has 500 numbers, in
0.14 s where it has 1,012, on two cores of an Intel Xeon.
"""

import json
import os
import shutil
from contextlib import suppress
from heapq import nlargest
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..common.cli import UserError, progress, python_m, user_errors
from ..common.files import checksum, new_folder, read_object, write_rows, write_text
from ..fast.threads import product

FORMAT = 4       # of the three files
META, FILES = "meta.json", ("vectors.npy", "rows.jsonl")
BLOCK = 65_536    # vectors at a time: all cores share them
DAMAGE = (OSError, ValueError, LookupError, TypeError, AttributeError)


class Hit(NamedTuple):
    """A row that a search has found."""

    score: float    # cosine of the query and the row
    number: int     # of the row, from 1 on
    row: dict       # column → value; of a text file {"line": …}


def nearest(queries, blocks, top):
    """For each query its nearest rows, as Hits, best first: k-nearest-neighbour search.

    queries: (q, e); blocks: pairs of vectors (n, e) and their n rows → q lists of up to `top` hits
    """
    hits = [[] for _ in queries]
    before = 0
    for vectors, rows in blocks:
        every = product(vectors, queries.T)                   # (n, q)
        for k, (found, cosines) in enumerate(zip(hits, every.T)):
            floor = found[-1].score if len(found) == top else -np.inf
            new = np.flatnonzero(cosines > floor)             # few, but in the first block
            new = new[np.argsort(-cosines[new], kind="stable")[:top]]
            found += [Hit(float(cosines[c]), before + int(c) + 1, rows[c]) for c in new]
            hits[k] = nlargest(top, found, key=lambda hit: hit.score)    # of equals the first
        before += len(rows)
    return hits


def embedded(encoder, rows):
    """Yield blocks of Rows: vectors (n, e) and their n rows."""
    for chunk in progress(rows.chunks, "encoding", unit=" blocks", delay=1):
        texts = [row[rows.columns[rows.side]] for row in chunk]
        yield encoder.encode(texts, as_responses=rows.side == 1), chunk


class Index:
    """An index folder, opened for a SentenceEncoder. Its files stay on disk and are mapped.

    columns, side: as of Rows. Raises UserError where a file is missing or damaged, or another run
    or setting made the vectors.
    """

    def __init__(self, folder, encoder):
        again = f"make the index: {python_m('convsim_mini.encode RUN --file FILE --index DIR')}"
        self.meta = read_object(Path(folder, META), "is missing or damaged", again)
        self.folder, self.encoder = Path(folder), encoder
        with user_errors(f"{folder}: is damaged", f"delete it and {again}", DAMAGE):
            made_by = self.meta["made_by"]
            other = [name for name, value in identity(encoder).items()
                     if made_by.get(name) != value]
            if other:
                raise UserError(f"{folder}: was made by another run, version or options (different:"
                                f" {', '.join(other)}); search with those, or make another index")
            vectors, text = (self.folder / name for name in FILES)
            for path in (vectors, text):
                if not path.exists() or checksum(path) != self.meta["crc32"][path.name]:
                    raise ValueError(f"{path.name} is missing or not as it was written")
            self.columns, self.side = tuple(self.meta["columns"]), self.meta["side"]
            self.vectors = np.load(vectors, mmap_mode="r")
            self.text = np.memmap(text, np.uint8, "r")
            self.ends = np.flatnonzero(self.text == ord("\n"))    # JSON has none inside a row
            if len(self.ends) != len(self):
                raise ValueError(f"it has {len(self)} vectors for {len(self.ends)} rows")

    def __len__(self):
        return len(self.vectors)

    def row(self, k):
        """Row k, from 0 on: a dict, column → value."""
        begin = self.ends[k - 1] + 1 if k else 0
        return json.loads(bytes(self.text[begin:self.ends[k]]))

    def blocks(self):
        """Yield blocks: vectors (n, e) and the range of their n rows."""
        for start in range(0, len(self), BLOCK):
            end = min(start + BLOCK, len(self))
            yield self.vectors[start:end], range(start, end)

    def search(self, sentences, top=10):
        """For each sentence its nearest rows, as Hits, best first."""
        queries = np.atleast_2d(self.encoder.encode(sentences))
        return [[hit._replace(row=self.row(hit.row)) for hit in hits]
                for hits in nearest(queries, self.blocks(), top)]

    def add(self, rows):
        """Embed the Rows of another file and add them, all or none; → a report.

        The folder is written anew beside the old one, and takes its place at the end. Raises
        UserError where the rows have other columns, or another process has added rows meanwhile.
        """
        if (rows.columns, rows.side) != (self.columns, self.side):
            raise UserError(f"{self.folder}: holds {' and '.join(self.columns)}, the new rows "
                            f"{' and '.join(rows.columns)}; add rows with its columns, with "
                            "--replies or without as before, or make another index")
        folder, before = Path(os.path.realpath(self.folder)), len(self)
        new, old = Path(f"{folder}.new"), Path(f"{folder}.old")
        kept = ((vectors, map(self.row, numbers)) for vectors, numbers in self.blocks())
        with new_folder(new, "delete it") as work:
            report = _fill(work, self, chain(kept, embedded(self.encoder, rows)), self.encoder)
            for name in ("", META, *FILES):
                shutil.copymode(folder / name, work / name)
            if read_object(folder / META, "is missing", "make another index") != self.meta:
                raise UserError(f"{folder}: another process has added to it; try again")
        self.vectors = self.text = None                       # Windows moves no mapped file
        with user_errors(f"{folder}: cannot be replaced", f"the whole index is {new}"):
            os.rename(folder, old)
            os.rename(new, folder)
        for name in (META, *FILES):
            (old / name).unlink()
        with suppress(OSError):                               # a file of the user's is in it
            old.rmdir()
        self.__init__(self.folder, self.encoder)
        return f"{len(self) - before:,} added; {report}"


def identity(encoder):
    """What the vectors of an index depend on: a dict."""
    return {**encoder.identity, "format": FORMAT}


def build_index(encoder, rows, folder):
    """Embed Rows and keep them in a new folder, whole or not at all; → a report.

    Raises UserError where the folder is there already or cannot be written.
    """
    with new_folder(folder, "choose another folder") as new:
        return _fill(new, rows, embedded(encoder, rows), encoder)


def _fill(folder, about, blocks, encoder):
    """Write the files of an index into a folder; → a report. about: has its columns and side"""
    vectors, text = (folder / name for name in FILES)
    with open(text, "wb") as file:
        def written():
            for block, rows in blocks:
                file.writelines(json.dumps(row, default=str).encode() + b"\n" for row in rows)
                yield block
        number = write_rows(vectors, written(), encoder.dimension)
    if number == 0:
        raise UserError("no row has text to embed; choose another column or file")
    meta = {"made_by": identity(encoder), "columns": about.columns, "side": about.side,
            "crc32": {path.name: checksum(path) for path in (vectors, text)}}
    write_text(folder / META, json.dumps(meta))
    return f"{number:,} rows"
