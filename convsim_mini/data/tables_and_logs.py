"""Tables of pairs and logs of conversations: .tsv, .csv, .jsonl and .parquet files → pairs.

KINDS says what kinds of files there are and how each is read. The names of a file's columns tell
what it holds: the input and response of a pair, or a message with its thread, or a message with the
one that it replies to. The default corpus is such a log, in a format of its own.
"""

import csv
import sys
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from itertools import chain, islice, pairwise
from pathlib import Path

from tqdm import tqdm

from ..common.cli import UserError, python_m
from ..common.files import MOST, SUFFIXES, decoded, parse_json, read_lines, read_object

FIELDS = ("input", "response")
PAIRS = (FIELDS, ("question", "answer"), ("query", "answer"), ("prompt", "response"),
         ("prompt", "completion"), ("instruction", "output"), ("context", "response"),
         ("message", "reply"))
IN_LOGS = {
    "text": ("text", "message", "body", "content", "utterance", "value"),
    "thread": ("thread", "thread_id", "conversation", "conversation_id", "dialogue_id", "dialog_id",
               "ticket", "ticket_id", "case_id", "chat_id"),
    "speaker": ("speaker", "author", "user", "sender", "role", "from"),
    "id": ("id", "message_id"),
    "reply_to": ("reply_to", "reply-to", "in_reply_to", "parent_id"),
}
EXPECTED = ("pairs, one a line, in a .tsv (input TAB response) or .jsonl (fields input, response) "
            "file; or a .csv, .tsv, .jsonl, .parquet with named columns; plain, .gz or .zst")
ROWS, THREADS = "a pair in each row", "the messages of each thread in turn"
REPLIES = "messages and replies to them"
NAME_THEM = "name two of them: --columns INPUT RESPONSE (in encode one: --column NAME)"
LOOKED_AT = 100    # rows that may name a column: a first message has no reply_to
LONG_TURN = 65_536    # characters, from which on a turn takes no more messages


def default_corpus():
    """Path of the data file inside the installed package chitchat-dataset."""
    if package := find_spec("chitchat_dataset"):
        return Path(package.origin).with_name("dataset.json")
    raise UserError("the default corpus, the package chitchat-dataset, is not installed: "
                    f"{python_m('pip install chitchat-dataset')}, or name your own files with "
                    "--pairs")


def read_records(path, progress=lambda position: None, columns=()):
    """Open a file of pairs or a log; → the columns of input and response, and its records.

    A record is (number, row). A row is a dict, or the ValueError that says why it is none.
    """
    kind = kind_of(path)
    if kind not in KINDS or (kind == ".json" and Path(path) != default_corpus()):
        raise UserError(f'{path}: unknown kind of file "{Path(path).name}"; expected {EXPECTED}')
    records = KINDS[kind](path, progress, columns)
    begin = [*islice(records, LOOKED_AT)]
    if not begin:
        raise UserError(f"{path}: holds no row below its header; expected a table with pairs")
    records = chain(begin, records)
    rows = [row for _, row in begin if isinstance(row, dict)]
    names = list(dict.fromkeys(chain.from_iterable(rows)))
    if not rows or (not columns and {*FIELDS} <= {*names}):
        return FIELDS, records
    if not columns and (name := _column_of_chats(rows)):
        _say_once(f"{path}: a conversation in each row ({name})")
        return FIELDS, enumerate(_turns_of_chats(_sound(path, records), name), start=1)
    layout, found = layout_of(path, names, columns)
    told = ", ".join(f'{what} = "{name}"' for what, name in found.items())
    _say_once(f"{path}: {layout} ({told})")
    if layout == ROWS:
        return tuple(found.values()), records
    messages = (_message(row, found) for row in _sound(path, records))
    return FIELDS, enumerate((_replies if layout == REPLIES else _adjacent_turns)(messages), 1)


def layout_of(path, names, columns=()):
    """What a file with these columns holds: ROWS, …, and what is needed → its name for it.

    columns: as the user names them. Raises UserError where the names tell nothing.
    """
    log, known = _columns_of_log(names), _plain_names(names)
    held = ", ".join(map(str, names))
    for name in columns:
        if name not in names:
            raise UserError(f'{path}: has no column "{name}"; it has {held}; {NAME_THEM}')
    if columns:
        return ROWS, dict(zip(FIELDS, columns))
    if log.keys() >= {"text", "id", "reply_to"}:
        return REPLIES, log
    if log.keys() >= {"text", "thread"}:
        return THREADS, log
    for pair in PAIRS:
        if known.keys() >= {*pair}:
            return ROWS, {field: known[name] for field, name in zip(FIELDS, pair)}
    raise UserError(f"{path}: cannot tell which columns hold input and response; it has {held}; "
                    f"{NAME_THEM}; the columns of a log must be called thread, text and, if known, "
                    "speaker")


def _plain_names(names):
    return {str(name).strip(' "\ufeff').lower(): name for name in names}


def _columns_of_log(names):
    """A key of IN_LOGS → the one of `names` that means it."""
    known, found = _plain_names(names), {}
    for what, choices in IN_LOGS.items():
        if here := [name for name in choices if name in known]:
            found[what] = known[here[0]]
    return found


@cache
def _say_once(text):
    tqdm.write(text, file=sys.stderr)


def _sound(path, records):
    """Yield the rows of records. Raises UserError where one is malformed."""
    for number, row in records:
        if isinstance(row, ValueError):
            raise UserError(f"{path}, {unit_of(path)} {number}: {row}; expected a row with the "
                            "same columns as the others")
        yield row


# ---------------------------------------------------------------- the records of a file

def read_tsv(path, progress=lambda position: None, columns=()):
    """The records of a .tsv: a table where its first line names columns, or else a pair a line."""
    lines = read_lines(path, progress)
    first = next(lines)
    lines = chain([first], lines)
    with suppress(UserError):                                 # no names that tell something
        if not columns:
            layout_of(path, first.decode("utf-8", "replace").split("\t"))
        return _table(path, lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    return enumerate(map(_pair_of_line, lines), start=1)


def _pair_of_line(line):
    try:
        cells = line.decode("utf-8").split("\t")
    except ValueError as error:
        return error
    if len(cells) != 2:
        return ValueError(f"{len(cells)} columns, expected 2 (input TAB response)")
    return dict(zip(FIELDS, cells))


def _read_csv(path, progress, columns):
    lines = read_lines(path, progress)
    header = next(lines)
    if header.lower().startswith(b"sep="):                    # Excel's line, which says delimiter
        header = next(lines, b"")
    delimiter = max(",;\t|", key=header.decode("latin-1").count)    # some programs write ; or tabs
    return _table(path, chain([header], lines), delimiter=delimiter, strict=True)


def _table(path, lines, **form):
    lines = (f"{line}\n" for line in decoded(path, lines, "save the table as UTF-8"))
    csv.field_size_limit(MOST)
    table = csv.DictReader(lines, **form)
    try:
        yield from enumerate(table, start=2)
    except csv.Error as error:
        raise UserError(f"{path}: what follows line {table.line_num} is no row of a table ({error})"
                        '; quote cells that hold a comma or a line break, and write " in them as ""'
                        ) from None


def read_jsonl(path, progress=lambda position: None, columns=()):
    """The records of a .jsonl, an object a line; blank lines are passed over."""
    for number, line in enumerate(read_lines(path, progress), start=1):
        if number == 1 and line.lstrip()[:1] == b"[":
            raise UserError(f"{path}: is one JSON array; write each object on a line of its own")
        if line.strip():
            yield number, _object_of_line(line)


def _object_of_line(line):
    try:
        row = parse_json(line.decode("utf-8"))
    except ValueError as error:
        return ValueError(f"is no JSON object ({error})")
    return row if isinstance(row, dict) else ValueError("is no JSON object")


def _read_parquet(path, progress, columns):
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise UserError(f"{path}: reading Parquet needs a package: "
                        f"{python_m('pip install pyarrow')}") from None
    try:
        with open(path, "rb") as file:
            number = 0
            for batch in parquet.ParquetFile(file).iter_batches(1_000):
                progress(file.tell())
                yield from enumerate(batch.to_pylist(), start=number + 1)
                number += len(batch)
    except (OSError, ValueError, pyarrow.ArrowException) as error:
        raise UserError(f"{path}: cannot be read as Parquet ({error}); write it again") from None


def _read_chitchat(path, progress, columns):
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


# suffix → function(path, progress, columns) that gives the records
KINDS = {".tsv": read_tsv, ".csv": _read_csv, ".jsonl": read_jsonl, ".parquet": _read_parquet,
         ".json": _read_chitchat}


def kind_of(path):
    """The suffix of a file's name, without .gz or .zst: a key of KINDS, or another suffix."""
    path = Path(path)
    if path.suffix in SUFFIXES:
        path = path.with_suffix("")
    return path.suffix.lower()


def unit_of(path):
    """What the numbers of a file's records count, in one word."""
    return "line" if kind_of(path) in (".tsv", ".jsonl") else "row"


# ---------------------------------------------------------------- messages → pairs

def _message(row, columns):
    """A row of a log, with the keys of IN_LOGS; what it does not hold is ""."""
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


def _adjacent_turns(messages):
    """Yield turns and answers as pairs. Messages of one speaker in a row are a turn."""
    before, now = {}, {}                                      # thread → turn, as a message
    for message in messages:
        thread = message["thread"]
        if not message["text"]:
            yield _pair(message, message)                     # which is counted as "no text"
        if not (message["text"] and thread):
            continue
        turn = now.get(thread)
        if turn and message["speaker"] and turn["speaker"] == message["speaker"]:
            if len(turn["text"]) < LONG_TURN:
                turn["text"] += f" {message['text']}"
            continue
        if thread in before:
            yield _pair(before[thread], turn)
        if turn:
            before[thread] = turn
        now[thread] = message
    for thread in before:
        yield _pair(before[thread], now[thread])


def _column_of_chats(rows):
    """The column whose cells are lists of messages, as of ChatML and ShareGPT, or None."""
    for row in rows:
        for name, value in row.items():
            if isinstance(value, list) and value and isinstance(value[0], dict):
                return name
    return None


def _turns_of_chats(rows, name):
    """Yield turns and answers as pairs of rows that hold a list of messages each."""
    for number, row in enumerate(rows, start=1):
        messages = [message for message in row.get(name) or [] if isinstance(message, dict)]
        said = [_message(message, _columns_of_log(message)) for message in messages]
        yield from _adjacent_turns(message | {"thread": str(number)} for message in said
                                   if message["speaker"] != "system")


def _pair(message, reply):
    return {"input": message["text"], "response": reply["text"], "thread": message["thread"],
            "id": message["id"], "input_author": message["speaker"] or None,
            "response_author": reply["speaker"] or None}
