"""Messages → pairs: threads, chats, and logs in which a message names the one that it answers."""

from collections import Counter, defaultdict
from itertools import chain, dropwhile

from ..common.cli import UserError, say
from .layouts import IN_CHATS, IN_LOGS, names_in
from .texts import id_of, text_of

PROMPTS = {"system", "developer"}                             # roles that prompt
TOOLS = "tool", "function", "ipython", "observation"          # how roles of tools begin
NOTHING = dict.fromkeys(IN_LOGS, "")                          # a message that is not there


def messages_of(name, records, columns):
    """Yield the messages in the records of the table `name`, as dicts with the keys IN_LOGS.

    columns: from `layout_of`. Raises UserError for a bad row.
    """
    for number, row in records:
        try:
            if isinstance(row, ValueError):
                raise row
            yield from (_chat(row.get(columns["messages"]) or [], str(number))
                        if "messages" in columns else [_message(row, columns)])
        except (ValueError, TypeError) as error:
            raise UserError(f"{name}, row {number}: {error}; expected a row with the same columns "
                            "as the others") from None


def _message(row, columns):
    """A row of a log as a dict with the keys IN_LOGS; the value of a missing column is ""."""
    message = NOTHING | {what: text_of(row.get(name)) for what, name in columns.items()}
    for what in ("thread", "id", "reply_to"):
        message[what] = id_of(message[what].removeprefix("t1_"))              # Reddit's prefix
    return message


def _chat(items, thread):
    """The messages in a list, without those from tools and without prompts.

    If there is only one other speaker, the system is the second, except for its first messages.
    """
    said = [_message(item, columns) | {"thread": thread} for item in items
            if (columns := names_in(item, IN_CHATS))]
    said = [message for message in said if not message["speaker"].lower().startswith(TOOLS)]
    others = [message for message in said if message["speaker"].lower() not in PROMPTS]
    if len({message["speaker"] for message in others}) > 1:
        return others
    return dropwhile(lambda message: message["speaker"].lower() in PROMPTS, said)


def replies(name, messages):
    """Yield each reply as a pair with its message; the log `name` may list them in any order.

    A reply to a missing message becomes a pair with an empty input, so that it is counted.
    """
    known, waiting, twice = {}, defaultdict(list), Counter()  # id → message; id → early replies
    for message in messages:
        own, parent = message["id"], message["reply_to"]
        parent = "" if parent == own else parent              # as some write for none
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
        say(f'{name}: {number:,} rows repeat the id of an earlier row, such as "{most}"; replies '
            "may be paired with the wrong message; expected each id only once")


def adjacent_turns(messages):
    """Yield each turn, a speaker's consecutive messages, and the turn that follows it as a pair.

    A message without text or thread becomes a pair of empty texts, so that it is counted.
    """
    turns = {}                                                # thread → its last two, as messages
    for message in messages:
        *before, turn = turns.get(message["thread"], [NOTHING])
        if not (message["text"] and message["thread"]):
            yield _pair(NOTHING, NOTHING)
        elif message["speaker"] and turn["speaker"] == message["speaker"]:
            turn["text"] += f" {message['text']}"
        else:
            yield from (_pair(one, turn) for one in before)
            turns[message["thread"]] = [turn, message] if turn["text"] else [message]
    yield from (_pair(*two) for two in turns.values() if len(two) == 2)


def _pair(message, reply):
    return {"input": message["text"], "response": reply["text"], "thread": message["thread"],
            "input_id": message["id"], "response_id": reply["id"],
            "input_author": message["speaker"] or None,
            "response_author": reply["speaker"] or None}
