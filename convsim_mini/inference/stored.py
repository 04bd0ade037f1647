"""Indices in folders: an index is opened, made or added to as a whole, or not at all."""

import os
from contextlib import suppress
from pathlib import Path

import numpy as np
import scipy.sparse

from ..common.cli import UserError, path_of, python_m, user_errors
from ..common.arrays_file import UNREADABLE, load_arrays, save_arrays
from ..common.files import locked, new_folder
from ..core.packed import Packed
from ..core.text import Vocabulary
from ..data.formats import parts_of
from ..data.layouts import Reading
from ..data.texts import id_of, text_of
from .index import Index, index_of, index_with
from .rows import Rows, rows_of
from .tfidf import Tfidf

FILE = "index.safetensors"    # in an index's folder
CSC = "data", "indices", "indptr"    # the parts of a csc_matrix


def save_index(index, folder):
    """Write an Index into a folder, atomically; → a report."""
    *holds, rows = index.held
    vocabulary, columns = index.tfidf
    arrays = {"vectors": index.vectors, "places": index.places.ids, "offsets": index.places.offsets,
              "rows": rows.ids, "begins": rows.offsets,
              "words": np.frombuffer("\n".join(vocabulary.pieces).encode(), np.uint8),
              **{name: getattr(columns, name) for name in CSC}}
    save_arrays(Path(folder, FILE), arrays, {"made_by": index.encoder.identity, "holds": holds})
    return f"{len(index):,} rows"


def open_index(folder, encoder, mapped=("vectors", "rows")):
    """The Index in a folder, for a SentenceEncoder.

    mapped: arrays that stay in its file; they are read where they are used, and not checked
    Raises UserError if it is missing or damaged, or was made by another run or with other options.
    """
    again = f"make another: {python_m('convsim_mini.encode RUN --file FILE --index DIR')}"
    with user_errors(f"{folder}: is not an index", again, UNREADABLE):
        arrays, about = load_arrays(path_of(folder) / FILE, again, mapped=mapped)
        differ = [name for name, value in encoder.identity.items()
                  if about["made_by"].get(name) != value]
        if differ:
            raise UserError(f"{folder}: was made by another run or with other options (different: "
                            f"{', '.join(differ)}); use that run and its options, or {again}")
        vectors, begins = arrays["vectors"], arrays["begins"]
        found, expected = (vectors.shape, vectors.dtype), (len(begins) - 1, encoder.dimension)
        if found != (expected, np.float32):
            raise ValueError(f"its vectors are {found}, expected {expected}")
        words = arrays["words"].tobytes().decode().split("\n")
        # a text without words has UNKNOWN, so the parts determine the shape
        columns = scipy.sparse.csc_matrix(tuple(arrays[name] for name in CSC))
        return Index(encoder, vectors, Rows(*about["holds"], Packed(arrays["rows"], begins)),
                     Packed(arrays["places"], arrays["offsets"]),
                     Tfidf(Vocabulary(words, []), columns))


def index_at(encoder, source, reading=Reading()):
    """The Index that a folder holds, or that of a file, a table or texts, embedded now.

    Raises UserError, also if a folder's Index is of messages and `reading` asks for replies.
    """
    if not (isinstance(source, (str, Path)) and is_index_folder(path_of(source))):
        return index_of(encoder, rows_of(source, reading))
    index = open_index(source, encoder)
    if reading.side == "response" and not index.held.replies:
        raise UserError(f"{source}: holds messages, not replies; make an index with encode "
                        "--replies")
    if reading.columns and reading.columns[-1] != index.held.column:
        raise UserError(f"{source}: holds the column {index.held.column}, not "
                        f"{reading.columns[-1]}; make another index")
    return index


def is_index_folder(path):
    """Whether a Path is a folder, and not one of Parquet parts."""
    return path.is_dir() and parts_of(path) == [path]


def build_index(encoder, rows, folder):
    """Embed Rows and keep them in a new folder; → a report.

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
    if not Path(folder, FILE).is_file():                      # the lock would make the folder
        raise UserError(f"{folder}: is not an index; name one, or make one without --add")
    busy = f"{folder}: another process is adding rows; wait until it has finished, and try again"
    with locked(folder, busy):
        index = open_index(folder, encoder, mapped=())        # Windows replaces no mapped file
        if rows[:3] != index.held[:3]:
            raise UserError(f"{folder}: holds {index.held.column} and {index.held.paired}, but the "
                            f"new rows hold {rows.column} and {rows.paired}; use the same columns, "
                            "and --replies only if it was used before, or make another index")
        new, replaced = without_copies(index, rows.rows, key)
        if not new:
            return f"0 added; {len(index):,} rows"
        kept = [place for place in range(len(index)) if place not in replaced]
        added = index_of(encoder, rows._replace(rows=new))
        lines = [*map(index.line, kept), *map(added.line, range(len(added)))]
        whole = index_with(encoder, np.concatenate([index.vectors[kept], added.vectors]),
                           rows._replace(rows=lines),
                           [index.texts[place] for place in kept] + added.texts)
        report = f", {len(replaced):,} replaced" if key else ""
        return f"{len(new):,} added{report}; {save_index(whole, folder)}"


def without_copies(index, rows, key):
    """The new rows that an Index lacks, and the places of those of its rows that they replace.

    Of new rows with the same key only the last one counts. A row without a key replaces no other.
    """
    def name_of(row):                                         # what tells this row from others
        with user_errors(f"--key {key}", "name a column of numbers or short texts", TypeError):
            if isinstance(row.get(key), list):                # which `text_of` takes for a chat's
                raise TypeError(f"{row[key]!s:.60} is a list")
            return (id_of(row.get(key)) if key else "") or content_of(row)

    last = {}
    for number, row in enumerate(rows, start=1):
        if key is not None and key not in row:
            raise UserError(f'--key {key}: is not a column of row {number}, but {", ".join(row)}')
        last[name_of(row)] = row
    places, changed = {}, set()
    for place in range(len(index)):
        row = index.row(place)
        if (name := name_of(row)) in last:
            places.setdefault(name, []).append(place)
            if content_of(row) != content_of(last[name]):
                changed.add(name)
    new = [row for name, row in last.items() if name in changed or name not in places]
    return new, {place for name in changed for place in places[name]}


def content_of(row):
    """The texts in a row, so that the same row of a CSV and of a Parquet file are equal."""
    texts = {}
    for name, value in row.items():
        texts[name] = str(value)                              # of a list, a date …
        with suppress(TypeError):
            texts[name] = text_of(value)
    return frozenset(item for item in texts.items() if item[1])
