"""Tables and logs of conversations that people have: CSV, TSV, JSON Lines, Parquet → rows, pairs.

A header tells which columns are meant: a pair's input and response, or a message with its thread or
with the message that it replies to. The default corpus is such a log, in a format of its own.
"""

import csv
import sys
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from itertools import chain, pairwise
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

from .cli import UserError
from .decompress import MOST
from .files import chunked, decoded, parse_json, read_lines, read_object

PAIRS = (("input", "response"), ("question", "answer"), ("query", "answer"), ("prompt", "response"),
         ("prompt", "completion"), ("instruction", "output"), ("context", "response"),
         ("context", "reply"), ("message", "reply"), ("comment", "reply"), ("post", "comment"),
         ("post", "reply"), ("parent", "comment"), ("parent", "child"), ("title", "text"),
         ("title", "selftext"), ("source", "target"), ("utterance", "response"),
         ("text", "response"), ("text", "reply"))
TEXT = ("text", "message", "body", "content", "utterance")
THREAD = ("thread", "thread_id", "conversation", "conversation_id", "dialogue_id", "dialog_id",
          "ticket", "ticket_id", "case_id", "chat_id")
SPEAKER = ("speaker", "author", "user", "sender", "role", "from")
ID, REPLY_TO = ("id", "message_id"), ("reply_to", "reply-to", "in_reply_to", "parent_id")
LOOKED_AT = 100    # rows whose names are looked at: a first message has no reply_to
LONG_TURN = 65_536    # characters
ONE_LOG = ("text", "thread", "speaker", "id", "reply_to")


def default_corpus():
    """Path of the data file inside the installed package chitchat-dataset."""
    if package := find_spec("chitchat_dataset"):
        return Path(package.origin).with_name("dataset.json")
    raise UserError("the default corpus, the package chitchat-dataset, is not installed: "
                    "pip install chitchat-dataset, or name your own files with --pairs")


class Layout(NamedTuple):
    """How the rows of a file become pairs."""

    kind: str        # "pairs", "threads" or "replies"
    columns: dict    # "input", "response", or of ONE_LOG → the file's name for it

    def __str__(self):
        named = ", ".join(f'{what} = "{name}"' for what, name in self.columns.items())
        return {"pairs": "a pair in each row", "threads": "the messages of each thread in turn",
                "replies": "messages and replies to them"}[self.kind] + f" ({named})"


def layout(path, names, columns=()):
    """The Layout of a file with these column names. columns: the two that the user named, or none.

    Raises UserError where the file lacks them, or where no names are known.
    """
    held = ", ".join(map(str, names))
    if columns:
        for name in columns:
            if name not in names:
                raise UserError(f'{path}: has no column "{name}"; it has {held}; name two of them '
                                "with --columns")
        return Layout("pairs", dict(zip(("input", "response"), columns)))
    known = {str(name).strip(' "\ufeff').lower(): name for name in names}
    found = {what: next((known[name] for name in choices if name in known), None)
             for what, choices in zip(ONE_LOG, (TEXT, THREAD, SPEAKER, ID, REPLY_TO))}
    found = {what: name for what, name in found.items() if name is not None}
    for kind, needed in (("replies", {"text", "id", "reply_to"}), ("threads", {"text", "thread"})):
        if found.keys() >= needed:
            return Layout(kind, found)
    for pair in PAIRS:
        if known.keys() >= set(pair):
            return Layout("pairs", dict(zip(("input", "response"), map(known.get, pair))))
    raise UserError(f"{path}: cannot tell which columns hold input and response; it has {held}; "
                    "name two of them: --columns INPUT RESPONSE; the columns of a log must be "
                    "called thread, text and, if known, speaker")


def table(path, kind, progress, columns=()):
    """A table or a log: its first record's number, the fields of a pair in it, its records.

    kind: the file's suffix without .gz or .zst; columns: the two that the user named, or none.
    Records are dicts, or of a log tuples as `messages_to_pairs` yields them. → None for a plain
    file of pairs, .tsv or .jsonl. Raises UserError where the columns cannot be told.
    """
    if not (columns or kind in (".csv", ".parquet")) and _is_plain(path, kind):
        return None
    records = rows(path, kind, progress)
    if not (begin := next(chunked(records, LOOKED_AT), None)):
        raise UserError(f"{path}: holds no row below its header; expected a table with pairs")
    found = layout(path, list(dict.fromkeys(chain.from_iterable(begin))), columns)
    _say_once(f"{path}: {found}")
    records = chain(begin, records)
    if found.kind != "pairs":
        return 1, (), messages_to_pairs(records, found)
    if kind == ".jsonl":                                      # a worker parses the lines
        records = read_lines(path, progress)
    return 2 if kind in (".csv", ".tsv") else 1, tuple(found.columns.values()), records


@cache
def _say_once(text):
    tqdm.write(text, file=sys.stderr)


def _is_plain(path, kind):
    """Whether a file has no header that `layout` knows, or the fields input and response."""
    if not path.is_file():                                    # a pipe can be read only once
        return True
    lines = next(chunked(read_lines(path), LOOKED_AT))
    names = lines[0].decode("utf-8", "replace").split("\t")
    if kind == ".jsonl":
        names = {}
        for line in lines:
            with suppress(ValueError, TypeError):
                names |= parse_json(line)
        if {"input", "response"} <= names.keys():
            return True
    try:
        return not layout(path, list(names))
    except UserError:                                         # a mistake that reading will explain
        return True


def rows(path, kind, progress):
    """Yield the rows of a table as dicts: column name → value. kind: the suffix without .gz, .zst.

    Raises UserError for text that is not UTF-8, for a damaged table, and as `read_lines` does.
    """
    if kind == ".parquet":
        yield from _parquet_rows(path, progress)
    elif kind == ".jsonl":
        for number, line in enumerate(read_lines(path, progress), start=1):
            if line.strip():
                yield _json_row(path, number, line)
    else:
        yield from _table_rows(path, kind, progress)


def _table_rows(path, kind, progress):
    read = 0                                                  # characters since the last row

    def text():
        nonlocal read
        lines = decoded(path, read_lines(path, progress), "save the table as UTF-8")
        for number, line in enumerate(lines, start=1):
            read += len(line)
            if read > MOST:
                raise UserError(f"{path}, line {number}: stands in a row of more than {MOST:,} "
                                "characters; close its quotation marks, or break it up")
            yield f"{line}\n"

    lines = text()
    style = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if kind == ".tsv" else {
        "delimiter": _delimiter(first := next(lines)), "strict": True}
    table = csv.DictReader(lines if kind == ".tsv" else chain([first], lines), **style)
    csv.field_size_limit(MOST)
    try:
        for row in table:
            read = 0
            yield row
    except csv.Error as error:
        raise UserError(f"{path}: what follows line {table.line_num} is no row of a table ({error})"
                        "; quote cells that hold a comma or a line break, and double the quotation "
                        "marks in them") from None


def _delimiter(header):
    """A comma or, as some programs write it, a semicolon or a tab."""
    return max(",;\t", key=header.count)


def _json_row(path, number, line):
    try:
        row = parse_json(line)
    except ValueError as error:
        raise UserError(f"{path}, line {number}: is no JSON ({error}); expected an object with the "
                        "same fields in every line") from None
    if not isinstance(row, dict):
        raise UserError(f"{path}, line {number}: holds no JSON object; expected one in every line")
    return row


def _parquet_rows(path, progress):
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise UserError(f"{path}: reading Parquet needs a package: pip install pyarrow") from None
    try:
        with open(path, "rb") as file:
            for batch in parquet.ParquetFile(file).iter_batches(1_000):
                progress(file.tell())
                yield from batch.to_pylist()
    except (OSError, ValueError, pyarrow.ArrowException) as error:
        raise UserError(f"{path}: cannot be read as Parquet ({error}); write it again") from None


def messages_to_pairs(messages, layout):
    """Yield (input, response, input's speaker, response's speaker) from the rows of a log.

    In threads, messages of one speaker in a row are one turn, and each turn answers the one before.
    A turn takes no more messages from 65,536 characters on: the paper's filter takes 349 at most.
    A reply follows its message in the log. Messages without a text, thread or id are left out.
    Memory grows with the number of threads, or with a log of replies.
    """
    def part(row, what):
        value = row.get(layout.columns.get(what))
        return "" if value is None else str(value)

    def key(row, what):    # beside empty cells the number 1 may be written 1.0; Reddit has t1_…
        return part(row, what).removesuffix(".0").removeprefix("t1_")

    if layout.kind == "replies":
        known = {}
        for row in messages:
            text, speaker, number = part(row, "text"), part(row, "speaker"), key(row, "id")
            if text and (parent := known.get(key(row, "reply_to"))):
                yield _pair(parent, (text, speaker))
            if text and number:
                known[number] = (text, speaker)
        return
    before, now = {}, {}    # thread → turn, (text, speaker)
    for row in messages:
        text, speaker, thread = part(row, "text"), part(row, "speaker"), key(row, "thread")
        if not (text and thread):
            continue
        if thread in now and speaker and now[thread][1] == speaker:
            if len(now[thread][0]) < LONG_TURN:
                now[thread] = (f"{now[thread][0]} {text}", speaker)
            continue
        if thread in before:
            yield _pair(before[thread], now[thread])
        if thread in now:
            before[thread] = now[thread]
        now[thread] = (text, speaker)
    for thread in before:
        yield _pair(before[thread], now[thread])


def _pair(one, other):
    return one[0], other[0], one[1] or None, other[1] or None


def conversation_turns(path):
    """Yield (input, response): adjacent turns of different speakers in chitchat-dataset."""
    advice = "install chitchat-dataset again"
    for conversation in read_object(path, "is missing or damaged", advice).values():
        for pair in pairwise(filter(None, conversation["messages"])):
            if pair[0][0]["sender"] != pair[1][0]["sender"]:
                yield tuple(" ".join(message["text"] for message in turn) for turn in pair)
