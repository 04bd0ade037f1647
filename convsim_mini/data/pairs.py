"""Files of (input, response) pairs, and the paper's filters.

A plain pair file holds one pair a line, as TSV (input TAB response) or as JSON with the fields
`input` and `response` (and `input_author`, `response_author` where they are known).
tables_and_logs.py reads other tables, and logs of conversations. All may be .gz or .zst.
"""

import string
import sys
from pathlib import Path
from types import NoneType
from typing import NamedTuple

from tqdm import tqdm

from ..common.cli import UserError
from ..common.files import chunked, parse_json
from .tables_and_logs import (
    FIELDS, KINDS, conversation_turns, conversion, default_corpus, kind_of, read_records
)

CHUNK = 5_000    # lines that one worker takes at a time
ASCII_LETTERS = string.ascii_letters.encode()
ASCII_SPACES = bytes(code for code in range(128) if chr(code).isspace())

EXPECTED = ("pairs, one a line, in a .tsv (input TAB response) or .jsonl (fields input, response) "
            "file; or a .csv, .tsv, .jsonl, .parquet with named columns; plain, .gz or .zst")

RULES = {
    "no text": "nothing but white space, or an empty cell",
    "long": "350 characters or more",
    "not alphabetic": "70% or less of the characters other than spaces are letters",
    "link or mention": 'starts with "https", "/r/" or "@"',
    "bot": 'the author\'s name contains "bot"',
}


class Pair(NamedTuple):
    """One input and its response, as written; an author may be None."""

    input: str
    response: str
    input_author: str | None = None
    response_author: str | None = None


class Chunk(NamedTuple):
    """Consecutive records of one file, not yet parsed."""

    kind: str        # of tables_and_logs.KINDS, or ".json" of chitchat-dataset
    first: int       # number of the first record
    records: list    # as of tables_and_logs.read_records, or Pairs
    fields: tuple    # where a line or a row holds input and response


def removed_by(text, author=None, off=()):
    """The rule of the paper's §3 that removes this comment: a key of RULES; or None.

    off: rules that remove nothing. The paper does not say 70% of what: here it is of all characters
    but white space. "no text" is ours and is always removed.
    """
    if not text or text.isspace():
        return "no text"
    if len(text) >= 350 and "long" not in off:
        return "long"
    if text.isascii():                                        # deleting bytes is much faster
        data = text.encode()
        letters = len(data) - len(data.translate(None, ASCII_LETTERS))
        marks = len(data.translate(None, ASCII_SPACES))
    else:
        letters = sum(map(str.isalpha, text))
        marks = sum(map(len, text.split()))
    if 10 * letters <= 7 * marks and "not alphabetic" not in off:          # 0.7 is not exact
        return "not alphabetic"
    if text.startswith(("https", "/r/", "@")) and "link or mention" not in off:
        return "link or mention"
    if author and "bot" in author.lower() and "bot" not in off:
        return "bot"
    return None


def read_chunks(path, progress=lambda position: None, columns=()):
    """Yield the Chunks of a pair file, a log or chitchat-dataset. columns: as for `layout`."""
    path = Path(path)
    kind = kind_of(path)
    if kind in KINDS:
        first, fields, records = read_records(path, kind, progress, columns)
    elif kind == ".json" and path == default_corpus():
        first, fields = 1, FIELDS
        records = (Pair(*turn) for turn in conversation_turns(path))
    elif kind == ".json":
        raise UserError(f'{path}: unknown kind of file "{path.name}"; {conversion()}')
    else:
        raise UserError(f'{path}: unknown kind of file "{path.name}"; expected {EXPECTED}')
    for chunk in chunked(records, CHUNK):
        yield Chunk(kind, first, chunk, fields)
        first += len(chunk)


def parse(kind, record, fields=FIELDS):
    """One record of a Chunk as a Pair. Raises ValueError, which says what is wrong."""
    if isinstance(record, Pair):
        return record
    return pair_of(row_of(kind, record, fields), fields)


def pair_of(row, fields):
    """A row, as of `row_of`, as a Pair."""
    texts = [row.get(name) or "" for name in fields]          # None: an empty cell, or no cell
    authors = [row.get(f"{name}_author") for name in FIELDS]
    return Pair(*texts, *[author if isinstance(author, str) else None for author in authors])


def row_of(kind, record, fields=FIELDS):
    """One record of a Chunk as a dict: texts, None or nothing at `fields`. Raises ValueError."""
    if isinstance(record, Pair):
        return record._asdict()
    if isinstance(record, bytes):
        record = record.decode("utf-8")                       # UnicodeDecodeError is a ValueError
        if kind == ".tsv":
            columns = record.split("\t")
            if len(columns) != 2:
                raise ValueError(f"{len(columns)} columns, expected 2 (input TAB response)")
            return dict(zip(FIELDS, columns))
        record = parse_json(record)
    if not isinstance(record, dict):
        raise ValueError("no JSON object")
    if None in record:
        raise ValueError("more cells than the header has; quote cells that hold a comma")
    for name in fields:
        if not isinstance(record.get(name), (str, NoneType)):
            raise ValueError(f'no text in the field "{name}"')
    return record


class ParsedChunk(NamedTuple):
    """What `read_rows` makes of one Chunk."""

    records: int       # number of records that it has read
    malformed: list    # (line number, reason)
    fields: tuple      # as of the Chunk
    rows: list         # dicts, column → value


def read_rows(path, progress=lambda position: None, columns=()):
    """Yield the ParsedChunks of a table or a log, read as training reads it."""
    return watched(path, map(_rows_of, read_chunks(path, progress, columns)))


def _rows_of(chunk):
    rows, malformed = parsed(chunk, row_of)
    return ParsedChunk(len(chunk.records), malformed, chunk.fields, rows)


def parsed(chunk, function):
    """What `parse` or `row_of` makes of a Chunk's records: values, [(number, reason of none)]."""
    values, malformed = [], []
    for number, record in enumerate(chunk.records, start=chunk.first):
        try:
            values.append(function(chunk.kind, record, chunk.fields))
        except ValueError as error:
            malformed.append((number, str(error)))
    return values, malformed


def watched(path, parts):
    """Yield the parts of a file; tell malformed records. UserError where more than 1 in 100 are."""
    lines = bad = 0
    first = None
    unit = KINDS[kind_of(path)].unit if kind_of(path) in KINDS else "line"

    def check():
        if bad * 100 > lines:
            raise UserError(f"{path}: {bad} of the first {lines} {unit}s are malformed, more than "
                            f"1 in 100 (first: {first}); expected {EXPECTED}")

    for part in parts:
        lines += part.records
        for line, reason in part.malformed:
            bad += 1
            first = first or f"{unit} {line}: {reason}"
            if bad <= 5:
                tqdm.write(f"{path}, {unit} {line}: left out: {reason}", file=sys.stderr)
        if lines >= 1_000:
            check()
        yield part
    check()
    if bad > 5:
        print(f"{path}: {bad} malformed {unit}s left out in all", file=sys.stderr)
