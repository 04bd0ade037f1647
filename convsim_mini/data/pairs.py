"""Pairs from people's own files and tables."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sized
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from ..common.cli import UserError, say
from ..common.lines import chunked
from .conversations import adjacent_turns, in_order, messages_of, replies
from .filters import removed_by
from .formats import EXPECTED, read_file
from .layouts import FIELDS, PAIRS, REPLIES, Reading, layout_of
from .tables import rows_of_table
from .texts import MISSING, id_of, misread, text_of, time_of, warn_if_misread

CHUNK = 5_000      # records in a Chunk
LOOKED_AT = 100    # records that may name a column: a log's first message has no reply_to
# columns of a pair besides its texts; the first of CONVERSATION that has a value counts
AUTHORS = "input_author", "response_author"
CONVERSATION = "thread", "thread_id", "conversation_id", "dialogue_id", "dialog_id", "link_id"
IDS = "input_id", "response_id"    # of messages that form a conversation by replies
LABEL_COLUMNS = {"label", "labels", "score", "is_duplicate", "is_correct"}    # maybe of 0 and 1
BINARY = {"0": 0, "0.0": 0, "False": 0, "1": 1, "1.0": 1, "True": 1}
CHAT_AS_JSON = re.compile(r"""\[?\{["'](?:role|content|type|from|value|parts)["']:""")

class Pair(NamedTuple):
    """One input and its response, as written; an author may be None.

    conversation: its name, twice; or the ids of the two messages, if replies form it; "": unknown
    """

    input: str
    response: str
    input_author: str | None = None
    response_author: str | None = None
    conversation: tuple[str, str] = ("", "")


def left_out(pair, off=()):
    """Which side of a Pair the filters remove and by which rule, such as "input: long"; or None."""
    for side, text, author in zip(FIELDS, pair[:2], pair[2:4]):
        if rule := removed_by(text, author, off):
            return f"{side}: {rule}"
    return None


class Chunk(NamedTuple):
    """The contents of a few thousand consecutive records of a file."""

    fields: tuple    # the columns of input and response; or the one column that is asked for
    rows: list       # those that are well formed: dicts, column → value
    pairs: list      # the same as Pairs
    records: int     # number of all records


def read_rows(source, progress=None, reading=Reading()):
    """Yield the Chunks of a table, a log or chitchat-dataset. Malformed records are left out.

    source: a file, or a table as in `rows_of_table`. Raises UserError if it cannot be read, or if
    more than 1 in 100 rows are malformed.
    """
    name, fields, records = _open_source(source, progress, reading)
    number, malformed, first, misread_texts = 0, 0, "", []
    labels = Counter()    # (column, 0, 1 or None for another value)
    for some in chunked(records, CHUNK):
        chunk = Chunk(fields, [], [], len(some))
        for place, row in some:
            try:
                chunk.pairs.append(pair_of(row, fields))
                chunk.rows.append(row)
            except (ValueError, TypeError) as error:
                first = first or f"row {place}: {error}"
        number += len(some)
        malformed += len(some) - len(chunk.rows)
        if malformed * 100 > number:
            raise UserError(f"{name}: {malformed} of the first {number} rows are malformed, more "
                            f"than 1 in 100 (first: {first}); expected {EXPECTED}")
        labels.update((label, BINARY.get(str(row[label]))) for row in chunk.rows
                      for label in LABEL_COLUMNS & row.keys())
        texts = (text for pair in chunk.pairs for text in pair[:len(fields)])
        misread_texts += filter(misread, texts)
        yield chunk
    if not number:
        raise UserError(f"{name}: no message in it answers another; expected messages with their "
                        "replies (or, to search in its texts, give --column NAME)")
    if malformed:
        say(f"{name}: malformed rows left out: {malformed} of {number:,} (first: {first})")
    if not reading.side:
        _warn_of_labels(name, labels)
    warn_if_misread(name, misread_texts)


def _warn_of_labels(name, labels):
    """Report on standard error columns of 0 and 1, which may mark wrong replies. labels: counts"""
    for label in sorted({label for label, _ in labels}):
        zeros, ones, others = (labels[label, value] for value in (0, 1, None))
        if zeros and ones and not others:
            say(f"{name}: {zeros:,} rows have 0 as {label} and {ones:,} have 1; all are read as "
                f"pairs; if 0 marks wrong replies, keep the others: table[table.{label} == 1] with "
                "pandas")


def _open_source(source, progress, reading):
    """A source's name, its columns of input and response, and its records, as in formats.py."""
    if isinstance(source, (str, Path)):
        name, records = source, read_file(source, progress, reading)
    else:
        name, records = "the table", enumerate(rows_of_table(source), start=1)
    begin = next(chunked(records, LOOKED_AT), [])
    records = chain(begin, records)
    if not begin:
        raise UserError(f"{name}: holds no row below its header; expected a table with pairs")
    rows = [row for _, row in begin if isinstance(row, dict)]
    if not rows:                                              # read_rows will say why
        return name, FIELDS, records
    layout, columns = layout_of(name, rows, reading)
    if layout == PAIRS:
        return name, tuple(columns.values()), records
    malformed = []                                            # filled while pairs are read
    messages = messages_of(records, columns, malformed)
    if "time" in columns:
        times = [time for row in rows if (time := row.get(columns["time"])) not in (None, "")]
        if times and all(time_of(time) is None for time in times):
            say(f'{name}: "{times[0]}" is not read as a time, so the rows stay in their order; '
                "expected ISO 8601 or seconds since 1970")
        messages = in_order(messages, name)
    pairs = replies(name, messages) if layout == REPLIES else adjacent_turns(messages)
    return name, FIELDS, chain(enumerate(pairs, start=1), malformed)


def pair_of(row, fields=FIELDS):
    """A row as a Pair. Raises a ValueError or TypeError that says what is wrong with it."""
    if isinstance(row, ValueError):
        raise row
    texts = [text_of(row.get(name), f'"{name}": ') for name in fields]
    if any(map(CHAT_AS_JSON.match, texts)):
        raise ValueError("a cell holds a chat as JSON, expected a text")
    authors = [author if isinstance(author, str) else None for author in map(row.get, AUTHORS)]
    return Pair(texts[0], texts[-1], *authors, conversation_of(row))


def conversation_of(row):
    """The names that say to which conversation a row's pair belongs, as in Pair."""
    for column in CONVERSATION:
        name = row.get(column)
        if isinstance(name, list) and [*map(type, name)] == [str, str]:    # by `write_pairs`
            return tuple(name)
        if str(name) not in ("", *MISSING):
            return str(name), str(name)
    message, reply = (id_of(row.get(column)) for column in IDS)
    return message, message and (reply or message)


def write_pairs(pairs, path, reading=Reading()):
    """Write the pairs of files or of a table into a .jsonl, under reading's columns."""
    names = (*(reading.columns or FIELDS), *AUTHORS, CONVERSATION[0])
    pairs = [*pairs] if isinstance(pairs, Iterator) else pairs    # such as a folder's glob
    if isinstance(pairs, Sized) and not len(pairs):
        raise UserError("pairs is empty; give 500 pairs or more")
    are_files = isinstance(pairs, (list, tuple)) and all(
        isinstance(one, (str, Path)) for one in pairs)
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        for number, source in enumerate(pairs if are_files else [pairs]):
            for chunk in read_rows(source, reading=reading):
                for pair in chunk.pairs:                      # files may give names twice
                    own = [name and f"{number} {name}" for name in pair.conversation]
                    row = dict(zip(names, pair._replace(conversation=own)))
                    file.write(f"{json.dumps(row)}\n")
