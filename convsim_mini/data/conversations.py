"""Messages → pairs: threads, chats, and logs in which a message names the one that it answers."""

from collections import Counter
from itertools import dropwhile

from ..common.cli import python_m, say
from .layouts import IN_CHATS, IN_LOGS, TIMES, names_in
from .texts import id_of, is_thought, text_of, time_of

PROMPTS = {"system", "developer"}                             # roles that prompt
TOOLS = "tool", "function", "ipython", "observation"          # how roles of tools begin
NOBODY = {"[deleted]", "Deleted Account"}                     # two of them may be two people
EXPORTED = {"messagetype", "sender_name", "senderName", "isPinned"}    # Skype, Messenger, Discord
NOTHING = dict.fromkeys(IN_LOGS, "") | {"time": None}         # a message that is not there
DAY = 86_400.0    # seconds; what is said after a longer silence answers nothing


def messages_of(records, columns, wrong):
    """Yield the messages in the records of a table, as dicts with the keys of NOTHING.

    columns: from `layout_of`; wrong: a list that malformed records are added to, as in formats.py
    """
    for number, row in records:
        try:
            if isinstance(row, ValueError):
                raise row
            yield from (_chat(row.get(columns["messages"]) or [], str(number))
                        if "messages" in columns else [_message(row, columns)])
        except (ValueError, TypeError) as error:
            wrong.append((number, ValueError(error)))


def _message(row, columns):
    """A row of a log as a dict with the keys of NOTHING; the value of a missing column is ""."""
    message = NOTHING | {what: text_of(row.get(name), f'"{name}": ')
                         for what, name in columns.items() if what != "time"}
    message["time"] = time_of(row[columns["time"]]) if columns.get("time") in row else None
    if message["speaker"] in NOBODY:
        message["speaker"] = ""
    for what in ("thread", "id", "reply_to"):
        message[what] = id_of(message[what].removeprefix("t1_"))              # Reddit's prefix
    return message


def _chat(items, thread):
    """The messages in a list, without thoughts, prompts and those from tools.

    If there is only one other speaker, the system is the second, except for its first messages.
    """
    if not isinstance(items, list):
        raise TypeError(f"messages of type {type(items).__name__}, expected a list")
    if items and EXPORTED & {*items[0]}:
        raise ValueError("a chat as its program exports it; make a log of the whole export first: "
                         + python_m("data_scripts.chats FILE --out log.jsonl"))
    said = []
    for item in items:
        columns = names_in(item, IN_CHATS)
        if columns and not is_thought(item):
            columns["time"] = next((name for name in TIMES if name in item), None)
            message = _message(item, columns) | {"thread": thread}
            said += [message] * (not message["speaker"].lower().startswith(TOOLS))
    said = in_order(said)
    others = [message for message in said if message["speaker"].lower() not in PROMPTS]
    if len({message["speaker"] for message in others}) > 1:
        return others
    return dropwhile(lambda message: message["speaker"].lower() in PROMPTS, said)


def in_order(messages, name=""):
    """The messages by time, those without one after the message before them in their thread.

    If most stand before an older one of their thread, the list runs backwards: `name` is told so.
    """
    messages, last, steps = [*messages], {}, Counter()
    for message in messages:
        before = last.get(message["thread"])
        if message["time"] is None:
            message["time"] = before
        elif before is not None:
            steps[message["time"] > before] += message["time"] != before
        last[message["thread"]] = message["time"]
    if steps[False] > steps[True]:
        messages.reverse()                                    # those of one minute, too
        if name:
            say(f"{name}: its last message is the oldest; it is read from the end")
    return sorted(messages, key=lambda message: message["time"] or 0)


def replies(name, messages):
    """Yield each reply as a pair with its message; the log `name` may list them in any order.

    What people answer to themselves goes on with their message, if that stands above. If ids start
    anew in each thread, a reply is to a message of its own thread. A reply to a missing message
    becomes a pair with an empty input, so that it is counted.
    """
    messages = [*messages]
    places = Counter((message["thread"], message["id"]) for message in messages if message["id"])
    anew = len({own for _, own in places}) < len(places)
    if repeated := places.total() - len(places):
        [((_, most), _)] = places.most_common(1)
        say(f'{name}: {repeated:,} rows repeat the id of an earlier row, such as "{most}"; replies '
            "may be paired with the wrong message; expected each id only once")
    turns, answers = {}, []    # (thread or "", id) → turn; (the place that it answers, turn)
    for message in messages:
        place, above = ((message["thread"] if anew else "", message[which])
                        for which in ("id", "reply_to"))
        if _one_speaker(turns.get(above, NOTHING), message):
            message = _go_on(turns[above], message)
        elif message["reply_to"] and above != place:          # as some write for none
            answers.append((above, message))
        if message["id"]:
            turns[place] = message
    for above, message in answers:
        before = turns.get(above, NOTHING)
        if not _one_speaker(before, message):
            yield _pair(before, message)


def _one_speaker(message, reply):
    return bool(reply["speaker"]) and message["speaker"] == reply["speaker"]


def _go_on(turn, message):
    """A turn after one more message of its speaker."""
    turn |= {"text": f"{turn['text']} {message['text']}".strip(), "time": message["time"]}
    return turn


def adjacent_turns(messages):
    """Yield each turn, a speaker's consecutive messages, and the turn that follows it as a pair.

    A message without text or thread becomes a pair of empty texts, so that it is counted.
    """
    turns = {}                                                # thread → its last two, as messages
    for message in messages:
        *before, turn = turns.get(message["thread"], [NOTHING])
        late = (message["time"] or 0) - (turn["time"] or message["time"] or 0) > DAY
        if not (message["text"] and message["thread"]):
            yield _pair(NOTHING, NOTHING)
        elif _one_speaker(turn, message) and not late:
            _go_on(turn, message)
        else:
            yield from (_pair(one, turn) for one in before)
            turns[message["thread"]] = [turn, message] if turn["text"] and not late else [message]
    yield from (_pair(*two) for two in turns.values() if len(two) == 2)


def _pair(message, reply):
    return {"input": message["text"], "response": reply["text"], "thread": message["thread"],
            "input_id": message["id"], "response_id": reply["id"],
            "input_author": message["speaker"] or None,
            "response_author": reply["speaker"] or None}
