"""Files of pairs, tables and logs of conversations → pairs.

`KINDS` says how each kind of file is read: as rows, which are dicts, column → value. `layout_of`
says by the names of the columns what the rows hold: the input and response of a pair, a message
with its thread, a message with the one that it replies to, or a list of messages.
"""

import csv
import sys
from collections import Counter
from importlib.util import find_spec
from itertools import chain, islice, pairwise, zip_longest
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

from ..common.cli import UserError, did_you_mean, python_m, user_errors
from ..common.lines import MOST, SUFFIXES, parse_object, read_object, text_lines

FIELDS = ("input", "response")
PAIRS = (FIELDS, ("question", "answer"), ("query", "answer"), ("prompt", "response"),
         ("prompt", "completion"), ("instruction", "output"), ("context", "response"),
         ("message", "reply"))
IN_LOGS = ("text", "thread", "speaker", "id", "reply_to")
IN_CHATS = {"role": "speaker", "content": "text", "from": "speaker", "value": "text"}    # ChatML …
NAME_ONE = "name the one to search in (with --replies, that of the answers): --column NAME"
NAME_TWO = "name two of them: --columns INPUT RESPONSE"
OF_LOGS = "the columns of a log must be called thread, text and, if known, speaker; or id, reply_to"
ROWS, CHATS = "a pair in each row", "a conversation in each row"
REPLIES, THREADS = "messages and replies to them", "the messages of each thread in turn"
LOOKED_AT = 100    # rows that may name a column: a first message has no reply_to


class Reading(NamedTuple):
    """What a user or a run says of the files to read."""

    columns: tuple = ()        # those of input and response, or the one to embed, if not by name
    encoding: str = "utf-8"    # of text without a mark
    known: tuple = ()          # the columns of a run, which are taken where a table has them
    one: bool = False          # whether one column of a table is wanted, or input and response


def default_corpus():
    """Path of the data file inside the installed package chitchat-dataset."""
    if package := find_spec("chitchat_dataset"):
        return Path(package.origin).with_name("dataset.json")
    raise UserError("the default corpus, the package chitchat-dataset, is not installed: "
                    f"{python_m('pip install chitchat-dataset')}, or name your own files with "
                    "--pairs")


def read_records(path, progress=None, reading=Reading()):
    """Open a file of pairs or a log; → the columns of input and response, and its records.

    A record is (number, row). A row is a dict, or the ValueError that says why it is none.
    progress: as of `read_lines`.
    """
    kind = kind_of(path)
    if kind not in KINDS or (kind == ".json" and Path(path) != default_corpus()):
        raise UserError(f'{path}: unknown kind of file "{Path(path).name}"; expected {EXPECTED}')
    records = KINDS[kind](path, progress, reading)
    begin = [*islice(records, LOOKED_AT)]
    records = chain(begin, records)
    if not begin:
        raise UserError(f"{path}: holds no row below its header; expected a table with pairs")
    rows = [row for _, row in begin if isinstance(row, dict)]
    if not rows:                                              # whoever makes pairs tells why
        return FIELDS, records
    names = dict.fromkeys(chain.from_iterable(rows))
    columns = reading.columns or (reading.known if {*reading.known} <= names.keys() else ())
    layout, found = (ROWS, dict(zip(FIELDS, columns))) if columns else layout_of(rows)
    has, advice = f"it has {', '.join(map(str, names))}", NAME_ONE if reading.one else NAME_TWO
    for name in columns:
        if name not in names:
            hint = did_you_mean(str(name), [*map(str, names)])
            raise UserError(f'{path}: has no column "{name}"; {has}; {advice}{hint}')
    if not layout:
        raise UserError(f"{path}: cannot tell which columns hold input and response; {has}; "
                        f"{advice}; {OF_LOGS} and text")
    if not columns and tuple(found.values()) != FIELDS and not (reading.one and layout == ROWS):
        told = ", ".join(f'{what} = "{name}"' for what, name in found.items())
        tqdm.write(f"{path}: {layout} ({told})", file=sys.stderr)
    if layout == ROWS:
        return tuple(found.values()), records
    rows = _sound(path, records)
    if layout == CHATS:
        pairs = _chats(rows, found["messages"])
    else:
        messages = (_message(row, found) for row in rows)
        pairs = _replies(messages) if layout == REPLIES else _adjacent_turns(messages)
    return FIELDS, enumerate(pairs, start=1)


def layout_of(rows):
    """What rows hold by the names of their columns: ROWS, …, and what is needed → its column.

    (None, {}) where the names do not tell.
    """
    known = {str(name).strip(' "').lower(): name for name in chain.from_iterable(rows)}
    for pair in PAIRS:
        if known.keys() >= {*pair}:
            return ROWS, {field: known[name] for field, name in zip(FIELDS, pair)}
    for name, value in chain.from_iterable(row.items() for row in rows):
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return CHATS, {"messages": name}
    log = {what: known[what] for what in IN_LOGS if what in known}
    if log.keys() >= {"text", "id", "reply_to"}:
        return REPLIES, log
    return (THREADS, log) if log.keys() >= {"text", "thread"} else (None, {})


def _sound(path, records):
    """Yield the rows of records. Raises UserError where one is malformed."""
    for number, row in records:
        if isinstance(row, ValueError):
            raise UserError(f"{path}, row {number}: {row}; expected a row with the same columns as "
                            "the others")
        yield row


# ---------------------------------------------------------------- the records of a file

def read_table(path, progress=None, reading=Reading()):
    """The records of a .csv, or of another file with tabs between its cells.

    Where columns are not given and the first line names no columns, a file with tabs has no
    header: each line is an input and its response.
    """
    with_tabs = kind_of(path) != ".csv"
    lines = text_lines(path, progress, encoding=reading.encoding)
    table = (line.split("\t") for line in lines) if with_tabs else _cells_of_csv(path, lines)
    header, start = next(table), 2
    twice = [name for name, number in Counter(header).items() if name and number > 1]
    begin = [*islice(table, LOOKED_AT)]
    table = chain(begin, table)
    named = reading.columns or {*header} & {*reading.known}
    if with_tabs and not named and not _is_header(header, begin):
        table, header, start = chain([header], table), FIELDS, 1
    elif twice:
        raise UserError(f'{path}: two columns are called "{twice[0]}"; expected one; give each a '
                        "name of its own")
    for number, cells in enumerate(table, start):
        if len(cells) > len(header) or (len(cells) < 2 and header is FIELDS and cells[0]):
            advice = "input TAB response" if header is FIELDS else "quote cells that hold a comma"
            yield number, ValueError(f"{len(cells)} columns, expected {len(header)} ({advice})")
        elif any(cells):                                      # or it is a blank line
            yield number, dict(zip_longest(header, cells))


def _is_header(header, rows):
    """Whether the first line of a file with tabs names columns.

    It does with known names, or with only words above a column of ids: single words or numbers.
    """
    words = len(rows) > 1 and all(cell.strip().isidentifier() for cell in header)
    columns = zip_longest(*rows, fillvalue="")
    ids = any(all(" " not in cell for cell in column) for column in columns)
    return bool(layout_of([dict.fromkeys(header)])[0]) or words and ids


def _cells_of_csv(path, lines):
    header = next(lines)
    if header.lower().startswith("sep="):                     # Excel's line, which says delimiter
        header = next(lines, "")
    delimiter = max(",;\t|", key=header.count)                # some programs write ; or tabs
    csv.field_size_limit(MOST)
    table = csv.reader((f"{line}\n" for line in chain([header], lines)), delimiter=delimiter,
                       strict=True)
    try:
        yield from table
    except csv.Error as error:
        raise UserError(f"{path}: line {table.line_num} is not a row of a table ({error}); "
                        'quote cells that hold a comma or a line break, and write " in them as ""'
                        ) from None


def read_jsonl(path, progress=None, reading=Reading()):
    """The records of a .jsonl, an object a line; blank lines are passed over."""
    lines = text_lines(path, progress, encoding=reading.encoding)
    for number, line in enumerate(lines, start=1):
        if number == 1 and line.lstrip().startswith("["):
            raise UserError(f"{path}: is one JSON array; write each object on a line of its own")
        if line.strip():
            try:
                yield number, parse_object(line)
            except ValueError as error:
                yield number, error


def _read_parquet(path, progress, reading):
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise UserError(f"{path}: reading Parquet needs a package: "
                        f"{python_m('pip install pyarrow')}") from None
    damage = (OSError, ValueError, ArrowException)
    with user_errors(f"{path}: cannot be read as Parquet", "write it again", damage):
        batches = ParquetFile(path).iter_batches(1_000)
        yield from enumerate(chain.from_iterable(batch.to_pylist() for batch in batches), start=1)


def _read_chitchat(path, progress, reading):
    """Adjacent turns of different speakers in chitchat-dataset."""
    number = 0
    advice = "install chitchat-dataset again"
    for conversation in read_object(path, "is missing or damaged", advice).values():
        turns = [turn for turn in conversation["messages"] if turn]
        for turn, reply in pairwise(turns):
            if turn[0]["sender"] != reply[0]["sender"]:
                number += 1
                texts = (" ".join(part["text"] for part in side) for side in (turn, reply))
                yield number, dict(zip(FIELDS, texts))


# suffix → function(path, progress, Reading) that gives the records
KINDS = {".tsv": read_table, ".csv": read_table, ".jsonl": read_jsonl, ".parquet": _read_parquet,
         ".json": _read_chitchat}
TABLES = ", ".join(kind for kind in KINDS if kind != ".json")    # JSON: the default corpus only
EXPECTED = (f"pairs: a table with named columns ({TABLES}; plain, .gz or .zst), or lines of input "
            "TAB response in a .tsv; chat exports: python -m data_scripts.chats")


def kind_of(path):
    """The suffix of a file's name, without .gz or .zst: a key of KINDS, or another suffix."""
    path = Path(path)
    return (path.with_suffix("") if path.suffix in SUFFIXES else path).suffix.lower()


# ---------------------------------------------------------------- messages → pairs

def _message(row, columns):
    """A row of a log by the names of IN_LOGS; what it does not hold is ""."""
    message = dict.fromkeys(IN_LOGS, "")
    message |= {what: str(row[name]) for what, name in columns.items() if row.get(name) is not None}
    for what in ("thread", "id", "reply_to"):
        # beside empty cells the number 1 may be written 1.0; Reddit has t1_…
        message[what] = message[what].removesuffix(".0").removeprefix("t1_")
    return message


def _replies(messages):
    """Yield messages and replies as pairs. A reply stands below its message in the log."""
    known = {}                                                # id → message
    for message in messages:
        if message["reply_to"] in known:
            yield _pair(known[message["reply_to"]], message)
        if message["id"]:
            known[message["id"]] = message


def _chats(rows, column):
    """Yield turns and answers as pairs of rows that hold a list of messages each."""
    for number, row in enumerate(rows, start=1):
        said = [_message(one, {IN_CHATS[name]: name for name in one if name in IN_CHATS})
                for one in row.get(column) or [] if isinstance(one, dict)]
        yield from _adjacent_turns(message | {"thread": str(number)} for message in said
                                   if message["speaker"] != "system")


def _adjacent_turns(messages):
    """Yield turns and answers as pairs. Messages of one speaker in a row are a turn."""
    before, now = {}, {}                                      # thread → turn, as a message
    for message in messages:
        thread, turn = message["thread"], now.get(message["thread"])
        if not message["text"]:
            yield _pair(message, message)                     # which is counted as "no text"
        elif turn and message["speaker"] and turn["speaker"] == message["speaker"]:
            turn["text"] += f" {message['text']}"
        elif thread:
            if thread in before:
                yield _pair(before[thread], turn)
            if turn:
                before[thread] = turn
            now[thread] = message
    for thread in before:
        yield _pair(before[thread], now[thread])


def _pair(message, reply):
    return {"input": message["text"], "response": reply["text"], "thread": message["thread"],
            "id": message["id"], "input_author": message["speaker"] or None,
            "response_author": reply["speaker"] or None}
