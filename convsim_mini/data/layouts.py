"""What the rows of a table hold, according to the names of its columns."""

from itertools import chain
from typing import NamedTuple

from ..common.cli import UserError, did_you_mean, say

FIELDS = ("input", "response")
# known names of columns; if a table has several for one role, the first of them here counts
IN_PAIRS = {"input": ("instruction", "question", "query", "prompt", "input", "message", "context"),
            "response": ("response", "answer", "completion", "output", "reply")}
IN_LOGS = ("text", "thread", "speaker", "id", "reply_to")
TIMES = ("time", "timestamp", "datetime", "date", "created_at", "created_utc", "ts")
IN_CHATS = {"text": ("content", "value", "text", "message", "parts", "utterance"),
            "speaker": ("role", "from", "speaker", "author", "sender")}    # ChatML, ShareGPT, …
NO_CHATS = ("answers", "comments", "replies", "responses")    # all to one message: not turns
# the layouts, as messages to users describe them
PAIRS, CHATS = "a pair in each row", "a conversation in each row"
REPLIES, THREADS = "messages and replies to them", "the messages of each thread, in order"
NAME_ONE = ("name the column to search in (with --replies, the one with the answers): --column "
            "NAME; for chat, name two: --columns INPUT RESPONSE")
NAME_TWO = "name two of them: --columns INPUT RESPONSE"
OF_LOGS = ("the columns of a log must be called thread, text and, if known, speaker; or id, "
           "reply_to and text; the messages in a chat's list must have role and content")


class Reading(NamedTuple):
    """What a user or a run says about the files to read."""

    columns: tuple = ()        # those of input and response, or one to embed; (): find them
    encoding: str = "utf-8"    # of text without a BOM
    known: tuple = ()          # the columns of a run, which are used if a table has them
    side: str | None = None    # "input" or "response": only these are wanted; None: both


def layout_of(name, rows, reading):
    """The layout of the table `name` (PAIRS, …), and a dict: role ("input", …) → its column.

    Columns that a user or a run names have priority over a guess by names, which is reported on
    standard error. Raises UserError for columns that are missing or unknown.
    """
    names = dict.fromkeys(chain.from_iterable(rows))
    given = reading.columns or (reading.known if {*reading.known} <= names.keys() else ())
    layout, columns = (PAIRS, dict(zip(FIELDS, given))) if given else by_names(rows)
    if not layout and reading.side and len(names) == 1:
        layout, columns = PAIRS, {"input": [*names][0]}
    has = "it has " + ", ".join(name or '""' for name in names)
    advice = NAME_ONE if reading.side else NAME_TWO
    if not columns:
        raise UserError(f"{name}: its column names do not show where input and response are; "
                        f"{has} (the first line of a .csv must name them); {advice}; {OF_LOGS}")
    for column in {*columns.values()} - names.keys():
        raise UserError(f'{name}: has no column "{column}"; {has}; {advice}'
                        f"{did_you_mean(column, names)}")
    if not reading.columns and [*columns.values()] not in ([*FIELDS], [*reading.known]):
        of = ", ".join(f'{what} = "{column}"' for what, column in columns.items())
        say(f"{name}: {layout} ({of})")
    return layout, columns


def by_names(rows):
    """The layout that the columns' names show, or None; and a dict: role ("input", …) → column."""
    known = {name.strip(' "').lower().replace("-", "_"): name for name in chain.from_iterable(rows)}
    if pair := names_in(known, IN_PAIRS):
        return PAIRS, {field: known[name] for field, name in pair.items()}
    for name, value in chain.from_iterable(row.items() for row in rows):
        items = value if isinstance(value, list) and name.lower() not in NO_CHATS else ()
        if items and names_in(items[0], IN_CHATS):
            return CHATS, {"messages": name}
    log = {what: known[what] for what in IN_LOGS if what in known}
    if times := [known[name] for name in TIMES if name in known]:
        log["time"] = times[0]
    if log.keys() >= {"text", "id", "reply_to"}:
        return REPLIES, log
    return (THREADS, log) if log.keys() >= {"text", "thread"} else (None, {})


def names_in(item, things):
    """A dict: each role in `things` → the first of its names that is a key of the dict `item`.

    An empty value does not count if another name has one. {} if a role has none, or if `item` is
    not a dict. things: IN_PAIRS or IN_CHATS
    """
    keys = item if isinstance(item, dict) else ()
    found = {}
    for what, names in things.items():
        has = [name for name in names if name in keys]
        full = [name for name in has if item[name] not in (None, "", [])]
        found[what] = next(iter(full or has), None)
    return {} if None in found.values() else found
