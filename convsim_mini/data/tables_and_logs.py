"""Tables and logs of conversations, in files and in memory → pairs.

`KINDS` says how each kind of file is read: as rows, which are dicts, column → value.
`rows_of_table` gives the same of a table in memory. `layout_of` says by the names of the columns
what the rows hold: the input and response of a pair, a message with its thread, a message with the
one that it replies to, or a list of messages.
"""

import csv
import sys
from collections import Counter, defaultdict, deque
from collections.abc import Mapping
from importlib.util import find_spec
from itertools import chain, dropwhile, islice, pairwise, zip_longest
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

from ..common.cli import UserError, did_you_mean, python_m, user_errors
from ..common.lines import MOST, SUFFIXES, parse_object, read_lines, read_object, text_lines
from .texts import id_of, text_of

FIELDS = ("input", "response")
# the names of columns; of several the first counts
INPUTS = ("instruction", "question", "query", "prompt", "input", "message", "context")
RESPONSES = ("response", "answer", "completion", "output", "reply")
IN_LOGS = ("text", "thread", "speaker", "id", "reply_to")
IN_CHATS = {"text": ("content", "value", "text", "message"),
            "speaker": ("role", "from", "speaker", "author", "sender")}    # ChatML, ShareGPT, …
PROMPTS = {"system", "developer"}                             # roles that prompt
TOOLS = "tool", "function", "ipython", "observation"          # how roles of tools begin
NOTHING = dict.fromkeys(IN_LOGS, "")                          # a message that is not there
NAME_ONE = ("name the one to search in (with --replies, that of the answers): --column NAME; of "
            "chat: --columns INPUT RESPONSE")
NAME_TWO = "name two of them: --columns INPUT RESPONSE"
OF_LOGS = "the columns of a log must be called thread, text and, if known, speaker; or id, reply_to"
ROWS, CHATS = "a pair in each row", "a conversation in each row"
REPLIES, THREADS = "messages and replies to them", "the messages of each thread in turn"
MOST_COLUMNS = 10_000    # of a table
LOOKED_AT = 100    # rows that may name a column (a first message has no reply_to); lines of a cell


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


def read_records(source, progress=None, reading=Reading()):
    """Open pairs or a log, a file or a table in memory; → the columns of input and response, and
    records.

    A record is (number, row). A row is a dict, or the ValueError that says why it is none.
    progress: as of `read_lines`.
    """
    in_file = isinstance(source, (str, Path))
    name = source if in_file else "the table"
    records = (open_file(source, progress, reading) if in_file
               else enumerate(rows_of_table(source), start=1))
    begin = next(held(records, LOOKED_AT), [])
    records = chain(begin, records)
    if not begin:
        raise UserError(f"{name}: holds no row below its header; expected a table with pairs")
    rows = [row for _, row in begin if isinstance(row, dict)]
    if not rows:                                              # whoever makes pairs tells why
        return FIELDS, records
    layout, found = _layout(name, rows, reading)
    if layout == ROWS:
        return tuple(found.values()), records
    messages = _messages(name, records, found)
    pairs = _replies(name, messages) if layout == REPLIES else _adjacent_turns(messages)
    return FIELDS, enumerate(pairs, start=1)


def held(records, number):
    """Yield lists of `number` records, shorter where these hold more than MOST characters."""
    some, letters = [], 0
    for record in records:
        some.append(record)
        if isinstance(row := record[1], Mapping):
            letters += sum(len(cell if isinstance(cell, str) else str(cell))
                           for cell in row.values())
        if len(some) == number or letters > MOST:
            yield some
            some, letters = [], 0
    if some:
        yield some


def open_file(path, progress, reading):
    """The records of a file of one of KINDS. Raises UserError for another."""
    kind = kind_of(path)
    if kind in KINDS and (kind != ".json" or Path(path) == default_corpus()):
        return KINDS[kind](path, progress, reading)
    next(read_lines(path))                                    # which knows zip files and folders
    raise UserError(f'{path}: unknown kind of file "{Path(path).name}"; expected {EXPECTED}')


def _layout(name, rows, reading):
    """As `layout_of`, where a user's or a run's columns come first; told, or a UserError."""
    names = dict.fromkeys(chain.from_iterable(rows))
    columns = reading.columns or (reading.known if {*reading.known} <= names.keys() else ())
    layout, found = (ROWS, dict(zip(FIELDS, columns))) if columns else layout_of(rows)
    has, advice = f"it has {', '.join(names)}", NAME_ONE if reading.one else NAME_TWO
    for column in columns:
        if column not in names:
            raise UserError(f'{name}: has no column "{column}"; {has}; {advice}'
                            f"{did_you_mean(column, names)}")
    if not layout and reading.one and len(names) == 1:
        layout, found = ROWS, dict.fromkeys(FIELDS[:1], *names)
    if not layout:
        raise UserError(f"{name}: cannot tell which columns hold input and response; {has}; the "
                        f"first line of a .csv must name its columns; {advice}; {OF_LOGS} and text")
    for column in found.values():
        if f"{column} (2)" in names:
            raise UserError(f'{name}: two columns are called "{column}"; expected one; give each a '
                            "name of its own")
    if not columns and tuple(found.values()) != FIELDS and not (reading.one and layout == ROWS):
        told = ", ".join(f'{what} = "{column}"' for what, column in found.items())
        tqdm.write(f"{name}: {layout} ({told})", file=sys.stderr)
    return layout, found


def layout_of(rows):
    """What rows hold by the names of their columns: ROWS, …, and what is needed → its column.

    (None, {}) where the names do not tell.
    """
    known = {name.strip(' "').lower().replace("-", "_"): name for name in chain.from_iterable(rows)}
    pair = [next((known[name] for name in names if name in known), None)
            for names in (INPUTS, RESPONSES)]
    if None not in pair:
        return ROWS, dict(zip(FIELDS, pair))
    for name, value in chain.from_iterable(row.items() for row in rows):
        if isinstance(value, list) and value and _columns_of_chat(value[0]):
            return CHATS, {"messages": name}
    log = {what: known[what] for what in IN_LOGS if what in known}
    if log.keys() >= {"text", "id", "reply_to"}:
        return REPLIES, log
    return (THREADS, log) if log.keys() >= {"text", "thread"} else (None, {})


# ---------------------------------------------------------------- the records of a file

def read_csv(path, progress=None, reading=Reading()):
    """The records of a .csv, whose first line names its columns."""
    lines = text_lines(path, progress, encoding=reading.encoding)
    return _records(path, _cells_of_csv(path, lines))


def read_tsv(path, progress=None, reading=Reading()):
    """The records of a file with tabs between its cells.

    Where columns are not given and the first line names none, it has no header: each line is an
    input and its response, and a quotation mark is a mark like any other.
    """
    lines = text_lines(path, progress, encoding=reading.encoding)
    begin = [*islice(lines, 1 + LOOKED_AT)]
    lines = chain(begin, lines)
    header, *rows = (line.split("\t") for line in begin)
    if reading.columns or {*header} & {*reading.known} or _is_header(header, rows):
        return _records(path, _cells_of_tsv(lines))
    if all(cell.isidentifier() for cell in header):
        tqdm.write(f"{path}: line 1, {header}, is taken for a pair; if it names the columns: "
                   "--columns INPUT RESPONSE", file=sys.stderr)
    return _records(path, chain([FIELDS], (line.split("\t") if line else [] for line in lines)))


def _is_header(header, rows):
    """Whether the first line of a file with tabs names columns.

    It does with known names, or with only words above a column of ids: single words or numbers.
    """
    words = len(rows) > 1 and all(cell.strip(' "').isidentifier() for cell in header)
    columns = zip_longest(*rows, fillvalue="")
    ids = any(all(" " not in cell for cell in column) for column in columns)
    return bool(layout_of([dict.fromkeys(header)])[0]) or words and ids


def _records(path, table):
    """The records of a table's rows of cells. The first row is its header, or FIELDS."""
    header = next(table)
    names, plain = distinct(_not_too_many(path, header)), header is FIELDS
    for number, cells in enumerate(table, start=1 if plain else 2):
        if any(cells[len(names):]) or plain and len(cells) == 1:
            advice = ("input TAB response" if plain else "as in the header: does it lack a name, "
                      "or a cell with a delimiter its quotation marks?")
            yield number, ValueError(f"{len(cells)} columns, expected {len(names)} ({advice})")
        elif cells:                                           # or it is a blank line
            yield number, dict(zip_longest(names, cells[:len(names)]))


def _not_too_many(path, names):
    """The names of a table's columns. Raises UserError."""
    if len(names) > MOST_COLUMNS:
        raise UserError(f"{path}: has {len(names):,} columns, expected at most {MOST_COLUMNS:,}; "
                        "write a table of those that hold the texts")
    return names


def distinct(names):
    """The names of columns, a list of str without white space around; a second "a" is "a (2)"."""
    names = [str(name).replace("\ufeff", "").strip() for name in names]
    return [f"{name} ({names[:place].count(name) + 1})" if name and name in names[:place] else name
            for place, name in enumerate(names)]


def _cells_of_csv(path, lines):
    lines = chain.from_iterable(line.split("\r") for line in lines)    # rows of old Macs end so
    header, first = next(lines), 1
    if header.lower().startswith("sep="):                     # Excel's line, which says delimiter
        header, first = next(lines, ""), 2
    row = next(lines, "")
    delimiter = max(",;\t|", key=lambda mark: (min(header.count(mark), row.count(mark)),
                                               header.count(mark)))
    csv.field_size_limit(MOST)
    table = csv.reader((f"{line}\n" for line in chain([header, row], lines)), strict=True,
                       delimiter=delimiter, skipinitialspace=True)
    begin = 0                                                 # lines before the row
    try:
        for cells in table:
            yield cells
            begin = table.line_num
    except csv.Error as error:
        raise UserError(f"{path}: line {begin + first} begins no row of a table ({error}); quote "
                        'cells that hold a comma or a line break, and write " in them as ""'
                        ) from None


def _cells_of_tsv(lines):
    """Rows of cells. A cell in quotation marks, as programs write it, may hold line breaks.

    Marks that do not enclose a whole cell are text.
    """
    ahead, columns = deque(islice(lines, LOOKED_AT)), 0
    while ahead:
        cells, taken = ahead[0].split("\t") if ahead[0] else [], 1
        for number in range(1, 1 + len(ahead) * ('"' in ahead[0])):
            text = "\n".join(islice(ahead, number))
            try:
                quoted = next(csv.reader([text], delimiter="\t", strict=True))
            except csv.Error as error:
                if "end of data" in str(error):               # the cell may end in a later line
                    continue
            else:
                if len(quoted) >= columns:
                    cells, taken = quoted, number
            break
        yield cells
        columns = columns or len(cells)                       # of the header
        for _ in range(taken):
            ahead.popleft()
        ahead.extend(islice(lines, taken))


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
        file = ParquetFile(path)
        _not_too_many(path, file.schema_arrow.names)
        batches = file.iter_batches(1_000)
        yield from enumerate(chain.from_iterable(map(rows_of_table, batches)), start=1)


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
KINDS = {".tsv": read_tsv, ".csv": read_csv, ".jsonl": read_jsonl, ".ndjson": read_jsonl,
         ".parquet": _read_parquet, ".json": _read_chitchat}
TABLES = ", ".join(kind for kind in KINDS if kind != ".json")    # JSON: the default corpus only
EXPECTED = (f"pairs: a table with named columns ({TABLES}; plain, .gz or .zst), or lines of input "
            "TAB response in a .tsv; chat exports: python -m data_scripts.chats")


def kind_of(path):
    """The suffix of a file's name, without .gz or .zst: a key of KINDS, or another suffix."""
    path = Path(path)
    return (path.with_suffix("") if path.suffix.lower() in SUFFIXES else path).suffix.lower()


# ---------------------------------------------------------------- tables in memory

def rows_of_table(table):
    """The rows of a table as dicts: an iterable.

    table: of pandas, polars or arrow, or an iterable of dicts, named tuples, or pairs (input,
    response): a Dataset of Hugging Face, rows of NumPy. Raises UserError for other rows.
    """
    if isinstance(table, Mapping) or hasattr(table, "collect"):
        raise UserError(f"a {type(table).__name__} has no rows; expected a table that has, as "
                        "pandas.DataFrame(it) or it.collect()")
    if hasattr(table, "itertuples"):                          # pandas
        empty = table.isna()
        table = table.astype(object).where(~empty, None)
        names = distinct(table.columns)
        return (dict(zip(names, map(_plain, row))) for row in table.itertuples(False, None))
    for method in ("to_pylist", "to_dicts"):                  # arrow, polars
        if hasattr(table, method):
            return getattr(table, method)()
    return map(_row, table)


def _row(row):
    if isinstance(row, Mapping):
        return {str(name): _plain(value) for name, value in row.items()}
    if hasattr(row, "_asdict"):
        return row._asdict()
    pair = _plain(row)
    if isinstance(pair, (list, tuple)) and len(pair) == 2:
        return dict(zip(FIELDS, pair))
    raise UserError(f"a row is {str(row):.60}; expected (message, reply), or a dict of columns")


def is_row(value):
    """Whether a value is the row of a table, or else a text."""
    return isinstance(_plain(value), (Mapping, tuple, list))


def _plain(value):
    """A value of NumPy as Python has it."""
    return value.tolist() if hasattr(value, "tolist") else value


# ---------------------------------------------------------------- messages → pairs

def _messages(name, records, columns):
    """Yield the messages in records, each a dict by IN_LOGS. Raises UserError for a bad row."""
    for number, row in records:
        try:
            if isinstance(row, ValueError):
                raise row
            if "messages" in columns:
                yield from _chat(row.get(columns["messages"]) or [], str(number))
            else:
                yield _message(row, columns)
        except ValueError as error:
            raise UserError(f"{name}, row {number}: {error}; expected a row with the same columns "
                            "as the others") from None


def _message(row, columns):
    """A row of a log by the names of IN_LOGS; what it does not hold is ""."""
    message = NOTHING | {what: text_of(row.get(name)) for what, name in columns.items()}
    for what in ("thread", "id", "reply_to"):
        message[what] = id_of(message[what].removeprefix("t1_"))              # as Reddit has it
    return message


def _columns_of_chat(item):
    """Where a message of a chat has what IN_CHATS names: what → its name; {} for another item."""
    names = item if isinstance(item, dict) else ()
    found = {what: name for what, those in IN_CHATS.items() for name in reversed(those)
             if name in names}
    return found if len(found) == len(IN_CHATS) else {}


def _chat(items, thread):
    """The messages of a list, without those of tools and without prompts.

    A system that speaks with one other is a speaker, but for what it says first.
    """
    columns = [(item, _columns_of_chat(item)) for item in items]
    said = [_message(item, names) | {"thread": thread} for item, names in columns if names]
    said = [message for message in said if not message["speaker"].lower().startswith(TOOLS)]
    if len({message["speaker"] for message in said if not _is_prompt(message)}) > 1:
        return [message for message in said if not _is_prompt(message)]
    return dropwhile(_is_prompt, said)


def _is_prompt(message):
    return message["speaker"].lower() in PROMPTS


def _replies(name, messages):
    """Yield messages and replies as pairs, in whatever order a log has them."""
    known, waiting, twice = {}, defaultdict(list), Counter()  # id → message; replies above theirs
    for message in messages:
        own, parent = message["id"], message["reply_to"]
        if parent in known:
            yield _pair(known[parent], message)
        elif parent:
            waiting[parent].append(message)
        if own:
            twice.update([own] if own in known else [])
            known[own] = message
            yield from (_pair(message, reply) for reply in waiting.pop(own, ()))
    yield from (_pair(NOTHING, reply) for reply in chain.from_iterable(waiting.values()))
    if number := twice.total():
        [(most, _)] = twice.most_common(1)
        tqdm.write(f'{name}: {number:,} rows have the id of a row above, as "{most}"; replies may '
                   "go to the wrong one; expected each id once", file=sys.stderr)


def _adjacent_turns(messages):
    """Yield turns and answers as pairs. Messages of one speaker in a row are a turn."""
    before, now = {}, {}                                      # thread → turn, as a message
    for message in messages:
        thread, turn = message["thread"], now.get(message["thread"])
        if not (message["text"] and thread):
            yield _pair(NOTHING, NOTHING)                     # which is counted as "no text"
        elif turn and message["speaker"] and turn["speaker"] == message["speaker"]:
            turn["text"] += f" {message['text']}"
        else:
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
