"""Conversations as they arrive: files of (input, response) pairs, and the paper's filters.

A pair file holds one pair a line, as TSV (input TAB response) or as JSON with the fields `input`
and `response` (and `input_author`, `response_author` where they are known); plain, .gz or .zst.
"""

import json
import string
import sys
from importlib.util import find_spec
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

from ..cli import UserError
from ..files import read_lines

CHUNK = 5_000    # lines that one worker takes at a time
ASCII_LETTERS = string.ascii_letters.encode()
ASCII_SPACES = bytes(code for code in range(128) if chr(code).isspace())

EXPECTED = ("pairs, one a line, in a .tsv (input TAB response) or .jsonl (fields input, response) "
            "file, plain, .gz or .zst")

# A first line of a .tsv file that holds two of these words names its columns and is no pair.
COLUMNS = set("""input response context reply question answer query prompt completion message
              comment parent child post title text utterance source target""".split())

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
    records: list    # lines as bytes; for ".json" Pairs


def removed_by(text, author=None):
    """The rule of the paper's §3 that removes this comment, a key of RULES, or None.

    The paper does not say 70% of what: here it is of all characters but white space.
    """
    if len(text) >= 350:
        return "long"
    if text.isascii():                                        # deleting bytes is much faster
        data = text.encode()
        letters = len(data) - len(data.translate(None, ASCII_LETTERS))
        marks = len(data.translate(None, ASCII_SPACES))
    else:
        letters, marks = sum(map(str.isalpha, text)), sum(map(len, text.split()))
    if 10 * letters <= 7 * marks:                             # exact, as 0.7 · … is not
        return "not alphabetic"
    if text.startswith(("https", "/r/", "@")):
        return "link or mention"
    if author and "bot" in author.lower():
        return "bot"
    return None


def default_corpus():
    """Path of the data file inside the installed package chitchat-dataset."""
    if package := find_spec("chitchat_dataset"):
        return Path(package.origin).with_name("dataset.json")
    raise UserError("the default corpus, the package chitchat-dataset, is not installed: "
                    "pip install chitchat-dataset, or name your own files with --pairs")


def read_chunks(path, progress=lambda position: None):
    """Yield the Chunks of a pair file, or of chitchat-dataset's JSON.

    progress as in `read_lines`. Raises UserError for an unknown kind, and as `read_lines` does.
    """
    path, first = Path(path), 1
    kind = Path(path.stem if path.suffix in (".gz", ".zst") else path.name).suffix
    if kind == ".json" and path == default_corpus():
        records = _conversation_turns(path, progress)
    elif kind in (".tsv", ".jsonl"):
        records = read_lines(path, progress)
        begin = list(islice(records, 1))
        if kind == ".tsv" and begin and _names_columns(begin[0]):
            tqdm.write(f"{path}, line 1: left out: it names the columns", file=sys.stderr)
            first, begin = 2, []
        records = chain(begin, records)
    else:
        raise UserError(f'{path}: unknown kind of file "{path.name}"; expected {EXPECTED}')
    while chunk := list(islice(records, CHUNK)):
        yield Chunk(kind, first, chunk)
        first += len(chunk)


def _names_columns(line):
    columns = line.decode("utf-8", "replace").lower().split("\t")
    return len(columns) == 2 and {column.strip(' "\ufeff') for column in columns} <= COLUMNS


def parse(kind, record):
    """A Chunk's kind and one of its records to a Pair. Raises ValueError: what is wrong."""
    if isinstance(record, Pair):
        return record
    line = record.decode("utf-8")                             # UnicodeDecodeError is a ValueError
    if kind == ".tsv":
        columns = line.split("\t")
        if len(columns) != 2:
            raise ValueError(f"{len(columns)} columns, expected 2 (input TAB response)")
        return Pair(*columns)
    try:
        fields = json.loads(line)
    except RecursionError:
        raise ValueError("JSON nested too deeply") from None
    if not isinstance(fields, dict):
        raise ValueError("no JSON object")
    for name in ("input", "response"):
        if not isinstance(fields.get(name), str):
            raise ValueError(f'no text in the field "{name}"')
    return Pair(**{name: fields[name] for name in Pair._fields
                   if isinstance(fields.get(name), str)})


def _conversation_turns(path, progress):
    """Pairs of adjacent turns, lists of messages, of different speakers in chitchat-dataset."""
    for conversation in json.loads(b"\n".join(read_lines(path, progress))).values():
        for pair in pairwise(filter(None, conversation["messages"])):
            if pair[0][0]["sender"] != pair[1][0]["sender"]:
                yield Pair(*(" ".join(message["text"] for message in turn) for turn in pair))
