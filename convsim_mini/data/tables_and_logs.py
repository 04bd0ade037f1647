"""Tables of pairs and logs of conversations: .tsv, .csv, .jsonl and .parquet files → pairs.

KINDS says what kinds of files there are and how each is read. The names of a file's columns tell
what it holds: the input and response of a pair, or a message with its thread, or a message with the
one that it replies to. The default corpus is such a log, in a format of its own.
"""

import csv
import sys
from contextlib import suppress
from functools import cache, partial
from importlib.util import find_spec
from itertools import chain, pairwise
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

from ..common.cli import UserError, python_m, this_python, user_errors
from ..common.decompress import MOST, SUFFIXES
from ..common.files import chunked, decoded, parse_json, read_lines, read_object

PAIRS = (("input", "response"), ("question", "answer"), ("query", "answer"), ("prompt", "response"),
         ("prompt", "completion"), ("instruction", "output"), ("context", "response"),
         ("context", "reply"), ("message", "reply"), ("comment", "reply"), ("post", "comment"),
         ("post", "reply"), ("parent", "comment"), ("parent", "child"), ("title", "text"),
         ("title", "selftext"), ("source", "target"), ("utterance", "response"),
         ("text", "response"), ("text", "reply"))
TEXT = ("text", "message", "body", "content", "utterance", "value")
THREAD = ("thread", "thread_id", "conversation", "conversation_id", "dialogue_id", "dialog_id",
          "ticket", "ticket_id", "case_id", "chat_id")
SPEAKER = ("speaker", "author", "user", "sender", "role", "from")
ID = ("id", "message_id")
REPLY_TO = ("reply_to", "reply-to", "in_reply_to", "parent_id")
NAME_THEM = "name two of them: --columns INPUT RESPONSE (in encode one: --column NAME)"
LOOKED_AT = 100    # rows that may name a column: a first message has no reply_to
LONG_TURN = 65_536    # characters, from which on a turn takes no more messages
FIELDS = ("input", "response")
IN_LOGS = {"text": TEXT, "thread": THREAD, "speaker": SPEAKER, "id": ID, "reply_to": REPLY_TO}


def default_corpus():
    """Path of the data file inside the installed package chitchat-dataset."""
    if package := find_spec("chitchat_dataset"):
        return Path(package.origin).with_name("dataset.json")
    raise UserError("the default corpus, the package chitchat-dataset, is not installed: "
                    f"{python_m('pip install chitchat-dataset')}, or name your own files with "
                    "--pairs")


def conversion():
    """How a JSON array becomes an object a line."""
    return "a JSON array becomes an object a line with: " + this_python(    # in any shell
        """-c "import json; open('LINES.jsonl', 'w').writelines(json.dumps(row) + '\\n' """
        """for row in json.load(open('ARRAY.json', encoding='utf-8')))\"""")


class Layout(NamedTuple):
    """How the rows of a file become pairs."""

    kind: str        # "pairs", "threads" or "replies"
    columns: dict    # "input", "response", or a key of IN_LOGS → the file's name for it

    def __str__(self):
        named = ", ".join(f'{what} = "{name}"' for what, name in self.columns.items())
        return {"pairs": "a pair in each row", "threads": "the messages of each thread in turn",
                "replies": "messages and replies to them"}[self.kind] + f" ({named})"


def layout(path, names, columns=()):
    """The Layout of a file with the columns `names`. columns: as the user names them. UserError."""
    held = ", ".join(map(str, names))
    for name in columns:
        if name not in names:
            raise UserError(f'{path}: has no column "{name}"; it has {held}; {NAME_THEM}')
    if columns:
        return Layout("pairs", dict(zip(FIELDS, columns)))
    known = _plain_names(names)
    found = _columns_of_log(names)
    if found.keys() >= {"text", "id", "reply_to"}:
        return Layout("replies", found)
    if found.keys() >= {"text", "thread"}:
        return Layout("threads", found)
    for pair in PAIRS:
        if known.keys() >= set(pair):
            return Layout("pairs", {"input": known[pair[0]], "response": known[pair[1]]})
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


def read_records(path, kind, progress, columns=()):
    """Open a file of one of KINDS; → (number of the first record, fields of a pair, records).

    A record is a line as bytes, or a row as a dict; in a log a dict of FIELDS and what is known.
    """
    if kind in (".tsv", ".jsonl") and not columns and _is_plain(path, kind):
        return 1, FIELDS, read_lines(path, progress)
    rows = KINDS[kind].rows(path, progress)
    begin = next(chunked(rows, LOOKED_AT), None)
    if not begin:
        raise UserError(f"{path}: holds no row below its header; expected a table with pairs")
    if not columns and (name := _chat_in(begin)):
        _say_once(f"{path}: a conversation in each row ({name})")
        return 1, FIELDS, _turns_of_chats(chain(begin, rows), name)
    found = layout(path, list(dict.fromkeys(chain.from_iterable(begin))), columns)
    _say_once(f"{path}: {found}")
    rows = chain(begin, rows)
    messages = (_message(row, found.columns) for row in rows)
    if found.kind == "replies":
        return 1, FIELDS, _replies(messages)
    if found.kind == "threads":
        return 1, FIELDS, _adjacent_turns(messages)
    if kind == ".jsonl":                                      # a worker parses the lines
        rows = read_lines(path, progress)
    return KINDS[kind].first, tuple(found.columns.values()), rows


@cache
def _say_once(text):
    tqdm.write(text, file=sys.stderr)


def _is_plain(path, kind):
    """Whether a file has no header that `layout` knows, or the fields input and response."""
    if not path.is_file():                                    # a pipe can be read only once
        return True
    lines = next(chunked(read_lines(path), LOOKED_AT))
    if kind == ".jsonl":
        names = set()
        for line in lines:
            with suppress(ValueError, AttributeError):
                names |= parse_json(line).keys()
        return names >= set(FIELDS) if names else lines[0].lstrip()[:1] != b"["    # an array
    try:
        layout(path, lines[0].decode("utf-8", "replace").split("\t"))
    except UserError:                                         # a mistake that reading will explain
        return True
    return False


def _delimited_rows(path, progress, tabs=False):
    """Yield the rows of a CSV, or of a TSV, where a quotation mark is a character like others."""
    length = 0                                                # characters since the last row

    def read():
        nonlocal length
        lines = decoded(path, read_lines(path, progress), "save the table as UTF-8")
        for number, line in enumerate(lines, start=1):
            length += len(line)
            if length > MOST:
                raise UserError(f"{path}, line {number}: stands in a row of more than {MOST:,} "
                                "characters; close its quotation marks, or break it up")
            yield f"{line}\n"

    lines = read()
    csv.field_size_limit(MOST)
    if tabs:
        table = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    else:
        header = next(lines)
        if header.lower().startswith("sep="):                 # Excel's line, which says delimiter
            header = next(lines, "")
        delimiter = max(",;\t|", key=header.count)            # some programs write ; or tabs
        table = csv.DictReader(chain([header], lines), delimiter=delimiter, strict=True)
    try:
        for row in table:
            length = 0
            yield row
    except csv.Error as error:
        raise UserError(f"{path}: what follows line {table.line_num} is no row of a table ({error})"
                        '; quote cells that hold a comma or a line break, and write " in them as ""'
                        ) from None


def _json_rows(path, progress):
    for number, line in enumerate(read_lines(path, progress), start=1):
        if number == 1 and line.lstrip()[:1] == b"[":
            raise UserError(f"{path}: is one JSON array, expected an object a line; {conversion()}")
        if not line.strip():
            continue
        with user_errors(f"{path}, line {number}: is no JSON object",
                         "expected one with the same fields in every line", ValueError):
            row = parse_json(line)
            if not isinstance(row, dict):
                raise ValueError(f"but a {type(row).__name__}")
        yield row


def _parquet_rows(path, progress):
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise UserError(f"{path}: reading Parquet needs a package: "
                        f"{python_m('pip install pyarrow')}") from None
    try:
        with open(path, "rb") as file:
            for batch in parquet.ParquetFile(file).iter_batches(1_000):
                progress(file.tell())
                yield from batch.to_pylist()
    except (OSError, ValueError, pyarrow.ArrowException) as error:
        raise UserError(f"{path}: cannot be read as Parquet ({error}); write it again") from None


class Kind(NamedTuple):
    """How a kind of file is read."""

    rows: object    # function(path, progress) that yields dicts, column name → value
    first: int      # number of the first row
    unit: str       # what the numbers count: "line" or "row"


KINDS = {
    ".tsv": Kind(partial(_delimited_rows, tabs=True), 2, "line"),
    ".csv": Kind(_delimited_rows, 2, "row"),
    ".jsonl": Kind(_json_rows, 1, "line"),
    ".parquet": Kind(_parquet_rows, 1, "row"),
}


def kind_of(path):
    """The suffix of a file's name, without .gz or .zst: a key of KINDS, or another suffix."""
    path = Path(path)
    if path.suffix in SUFFIXES:
        path = path.with_suffix("")
    return path.suffix.lower()


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


def _chat_in(rows):
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


def conversation_turns(path):
    """Yield (input, response): adjacent turns of different speakers in chitchat-dataset."""
    advice = "install chitchat-dataset again"
    for conversation in read_object(path, "is missing or damaged", advice).values():
        turns = [turn for turn in conversation["messages"] if turn]
        for turn, reply in pairwise(turns):
            if turn[0]["sender"] != reply[0]["sender"]:
                yield [" ".join(part["text"] for part in side) for side in (turn, reply)]
