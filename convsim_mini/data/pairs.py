"""Conversations as they arrive: files of (input, response) pairs, and the paper's filters.

A pair file holds one pair a line, as TSV (input TAB response) or as JSON with the fields `input`
and `response` (and `input_author`, `response_author` where they are known). sources.py reads other
tables, and logs of conversations. All may be .gz or .zst.
"""

import string
from pathlib import Path
from typing import NamedTuple

from ..cli import UserError
from ..files import chunked, parse_json, read_lines
from ..sources import conversation_turns, default_corpus, table

CHUNK = 5_000    # lines that one worker takes at a time
ASCII_LETTERS = string.ascii_letters.encode()
ASCII_SPACES = bytes(code for code in range(128) if chr(code).isspace())

EXPECTED = ("pairs, one a line, in a .tsv (input TAB response) or .jsonl (fields input, response) "
            "file; or a .csv, .tsv, .jsonl, .parquet with named columns; plain, .gz or .zst")
FIELDS = ("input", "response")

RULES = {
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

    kind: str        # ".tsv", ".jsonl" or ".json"
    first: int       # number of the first line
    records: list    # lines as bytes, rows of a table as dicts, or Pairs
    fields: tuple    # where a row holds input and response


def removed_by(text, author=None, off=()):
    """The rule of the paper's §3 that removes this comment, a key of RULES not in `off`, or None.

    The paper does not say 70% of what: here it is of all characters but white space. A text without
    any letter or sign is removed whatever is off.
    """
    if len(text) >= 350 and "long" not in off:
        return "long"
    if text.isascii():                                        # deleting bytes is much faster
        data = text.encode()
        letters = len(data) - len(data.translate(None, ASCII_LETTERS))
        marks = len(data.translate(None, ASCII_SPACES))
    else:
        letters, marks = sum(map(str.isalpha, text)), sum(map(len, text.split()))
    # exact, as 0.7 · … is not
    if not marks or 10 * letters <= 7 * marks and "not alphabetic" not in off:
        return "not alphabetic"
    if text.startswith(("https", "/r/", "@")) and "link or mention" not in off:
        return "link or mention"
    if author and "bot" in author.lower() and "bot" not in off:
        return "bot"
    return None


def read_chunks(path, progress=lambda position: None, columns=()):
    """Yield the Chunks of a pair file, of a log of conversations, or of chitchat-dataset's JSON.

    progress as in `read_lines`; columns: the names of input and response in a table, or none: the
    header tells. Raises UserError for an unknown kind or header, and as `read_lines` does.
    """
    path = Path(path)
    kind = Path(path.stem if path.suffix in (".gz", ".zst") else path.name).suffix.lower()
    if kind == ".json" and path == default_corpus():
        first, fields = 1, FIELDS
        records = (Pair(*turn) for turn in conversation_turns(path))
    elif kind in (".tsv", ".jsonl", ".csv", ".parquet"):
        first, fields, records = table(path, kind, progress, columns) or (
            1, FIELDS, read_lines(path, progress))
    else:
        raise UserError(f'{path}: unknown kind of file "{path.name}"; expected {EXPECTED}')
    for chunk in chunked(records, CHUNK):
        yield Chunk(kind, first, chunk, fields)
        first += len(chunk)


def parse(kind, record, fields=FIELDS):
    """A Chunk's kind, one of its records, its fields → Pair. Raises ValueError: what is wrong."""
    if isinstance(record, tuple):
        return Pair(*record)
    if isinstance(record, bytes):
        record = record.decode("utf-8")                       # UnicodeDecodeError is a ValueError
        if kind == ".tsv":
            columns = record.split("\t")
            if len(columns) != 2:
                raise ValueError(f"{len(columns)} columns, expected 2 (input TAB response)")
            return Pair(*columns)
        record = parse_json(record)
    if not isinstance(record, dict):
        raise ValueError("no JSON object")
    if None in record:
        raise ValueError("more cells than the header has; quote cells that hold a comma")
    for name in fields:
        if not isinstance(record.get(name), str):
            raise ValueError(f'no text in the field "{name}"')
    authors = (record.get(f"{name}_author") for name in FIELDS)
    return Pair(*map(record.get, fields), *(a if isinstance(a, str) else None for a in authors))
