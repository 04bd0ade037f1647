"""Rows to embed: the lines of a text file, or the rows of a table, read as training reads them."""

import re
import sys
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from ..common.cli import UserError, path_of
from ..common.lines import text_lines
from ..core.model import one_column
from ..data.formats import FORMATS, kind_of
from ..data.layouts import Reading
from ..data.pairs import read_rows
from ..data.texts import text_of, texts_of

LINE = "line"    # the only column of texts that are in no table


class Rows(NamedTuple):
    """Rows to embed: one of their columns holds the texts that are embedded."""

    column: str       # whose texts are embedded
    paired: str       # the column of the texts paired with those; without one, the same
    replies: bool     # whether the texts are embedded as replies, by the response network
    rows: Iterable    # dicts, column → value

    def text(self, row):
        """The text in a row that is to be embedded."""
        return text_of(row.get(self.column))


def rows_of_texts(texts, reading=Reading()):
    """The Rows of an iterable of texts, or of other values that `text_of` accepts."""
    if reading.columns:
        raise UserError(f"column {reading.columns[0]}: texts and lines have no columns; give a "
                        f"table ({', '.join(FORMATS)}), or leave it out")
    return Rows(LINE, LINE, reading.side == "response", ({LINE: text} for text in texts_of(texts)))


def rows_of(source, reading=Reading()):
    """The Rows of a file (its name), a table as in `rows_of_table`, or an iterable of texts."""
    if isinstance(source, (str, Path)):
        return rows_of_file(path_of(source), reading)
    if not (hasattr(source, "columns") or isinstance(source, Mapping)):
        source = [*one_column(source)]
        if source and (isinstance(source[0], (str, bytes)) or not hasattr(source[0], "__len__")):
            return rows_of_texts(source, reading)
    return _rows_of_table(source, reading)


def rows_of_file(path, reading=Reading()):
    """The Rows of a file (plain, .gz or .zst) or of standard input (None).

    A file whose kind is in FORMATS is read as training reads it; in others, each line is a row.
    Raises UserError if the file cannot be read, holds JSON or XML under another name, or has lines
    in another encoding.
    """
    if path and kind_of(path) in (*FORMATS, ".json"):
        return _rows_of_table(path, reading)
    name, file = ("standard input", sys.stdin.buffer) if path is None else (path, None)
    lines = text_lines(name, file=file, encoding=reading.encoding)
    first = next(lines)
    if re.match(r"\s*(\[?\s*\{\s*\"|\[\s*$|<(\?xml|!doctype|html|table)\b)", first, re.IGNORECASE):
        raise UserError(f"{name}: holds JSON or XML, not lines of text; if each line is an "
                        "object, give the file a name that ends in .jsonl")
    return rows_of_texts(chain([first], lines), reading)


def _rows_of_table(source, reading):
    """The Rows of a table or of a table's file. Raises UserError."""
    chunks = read_rows(source, reading=reading)
    first = next(chunks)
    rows = (row for chunk in chain([first], chunks) for row in chunk.rows)
    message, reply = first.fields[0], first.fields[-1]
    if reading.side == "response":
        return Rows(reply, message, True, rows)
    return Rows(message, reply, False, rows)
