"""Rows to embed: the lines of a text file, or the rows of a table, read as training reads it."""

import sys
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from ..common.cli import UserError
from ..common.lines import chunked, text_lines
from ..data.pairs import read_rows
from ..data.tables_and_logs import FIELDS, KINDS, TABLES, Reading, kind_of

CHUNK = 4_096    # lines in memory at a time
LINE = "line"    # the only column of a text file


class Rows(NamedTuple):
    """Rows to embed, by the text in one of their columns."""

    columns: tuple      # of messages and of replies; where there is one column, its name twice
    side: int           # 0: embed the messages; 1: embed the replies, by the response network
    chunks: Iterator    # lists of rows: dicts, column → value


def rows_of_texts(texts):
    """An iterable of str as Rows."""
    return Rows((LINE, LINE), 0, chunked(({LINE: text} for text in texts), CHUNK))


def rows_of(source, reading=Reading(), side=0):
    """The Rows of a file's name, a DataFrame or an iterable of str. Raises UserError."""
    if isinstance(source, (str, Path)):
        return rows_of_file(Path(source), reading, side)
    if isinstance(source, Mapping):
        raise TypeError("rows are a mapping, expected texts, a DataFrame or a file's name")
    if not hasattr(source, "columns"):
        return rows_of_texts(source)
    names = [*map(str, source.columns)]
    name, = reading.columns or (names if len(names) == 1 else [None])
    if name not in names:
        raise UserError(f"a table needs column=NAME; it has {', '.join(names)}")
    rows = (dict(zip(names, row)) for row in source.itertuples(index=False))
    return Rows((name, name), side, chunked(rows, CHUNK))


def text_of(row, column):
    """The text in a column of a row; "" where there is none."""
    return row[column] if isinstance(row.get(column), str) else ""


def rows_of_file(path, reading=Reading(), side=0):
    """The Rows of a file, plain, .gz or .zst, or of standard input (None).

    A file of one of KINDS is read as training reads it. Each line of another file
    is a row. side: which to embed of messages and replies, where no single column is asked for.
    Raises UserError where the file cannot be read, a line is not in the encoding, or there is no
    such column.
    """
    if path is None or kind_of(path) not in KINDS:
        name, file = ("standard input", sys.stdin.buffer) if path is None else (path, None)
        if reading.columns:
            raise UserError(f"{name}: has no columns; expected a {TABLES} file, or leave out "
                            "--column and --columns")
        return rows_of_texts(text_lines(name, file=file, encoding=reading.encoding))._replace(
            side=side)
    if side and reading.columns and [*reading.columns] == [*reading.known[:1]]:
        raise UserError(f"{path}: {reading.columns[0]} holds the messages that the run was trained "
                        "on, and --replies embeds answers; name their column, or leave out both")
    parts = read_rows(path, reading=reading)
    first = next(parts, None)
    if not first:
        raise UserError(f"{path}: holds no pair of a message and its answer; name a column to "
                        "embed with --column")
    columns = (first.fields[0], first.fields[-1])
    if reading.one and not reading.columns and columns != FIELDS:
        print(f'{path}: the column "{columns[side]}"', file=sys.stderr)
    rows = (row for part in chain([first], parts) for row in part.rows)
    return Rows(columns, side, chunked(rows, CHUNK))
