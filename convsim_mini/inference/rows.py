"""Rows to embed: the lines of a text file, or the rows of a table, read as training reads it."""

import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from ..common.cli import UserError, progress
from ..common.files import chunked, decoded, read_lines
from ..data.pairs import read_rows
from ..data.tables_and_logs import KINDS, kind_of

CHUNK = 4_096    # lines in memory at a time
LINE = "line"    # the only column of a text file


class Rows(NamedTuple):
    """Rows to embed, by the text in one of their columns."""

    columns: tuple      # of messages and of replies; where there is one column, its name twice
    side: int           # 0: embed the messages; 1: embed the replies, by the response network
    chunks: Iterator    # lists of rows: dicts, column → value

    @property
    def texts(self):
        """Iterator: lists of the texts to embed."""
        return ([row[self.columns[self.side]] for row in rows] for rows in self.chunks)


def rows_of_texts(texts):
    """A list of str as Rows."""
    return Rows((LINE, LINE), 0, iter([[{LINE: text} for text in texts]]))


def rows_of_file(path, columns=(), side=0):
    """The Rows of a file, plain, .gz or .zst, or of standard input (None); with a progress bar.

    A table (.csv, .tsv, .jsonl, .parquet) is read as training reads it. Each line of another file
    is a row. columns: the one to embed, or those of messages and replies, of which `side` tells
    which to embed; without them, those that training would find. Empty cells are left out. Raises
    UserError where the file cannot be read, a line is not UTF-8, or there is no such column.
    """
    size = path.stat().st_size if path and path.is_file() else None
    bar = progress(total=size, desc="encoding", unit="B", unit_scale=True, delay=1)

    def show(position):
        bar.update(position - bar.n)

    if path is None or kind_of(path) not in (*KINDS, ".json"):    # as in training
        if columns:
            raise UserError(f"{path or 'standard input'}: has no columns, for it is no .csv, .tsv, "
                            ".jsonl or .parquet file; leave out --column or --columns")
        return Rows((LINE, LINE), side, _closing(bar, _lines(path, show)))
    parts = read_rows(path, show, columns)
    first = next(parts, None)
    if not first:
        raise UserError(f"{path}: holds no pair of a message and its answer; name a column to "
                        "embed with --column")
    columns = (first.fields[0], first.fields[-1])
    chunks = _with_text(chain([first], parts), columns[side])
    return Rows(columns, side, _closing(bar, chunks))


def _closing(bar, chunks):
    with bar:
        yield from chunks


def _lines(path, show):
    file = None
    if path is None and sys.stdin is None:
        raise UserError("standard input: is closed; give sentences there, or as arguments, or with "
                        "--file")
    if path is None:
        path, file = Path("standard input"), sys.stdin.buffer
    lines = decoded(path, read_lines(path, show, file), "expected one sentence a line")
    return chunked(({LINE: line} for line in lines), CHUNK)


def _with_text(parts, column):
    for part in parts:
        yield from chunked([row for row in part.rows if row.get(column)], CHUNK)
