"""Messages → pairs: threads, chats, and logs in which a message names the one that it answers."""

from collections import Counter
from dataclasses import dataclass
from itertools import dropwhile

from ..common.cli import python_m, say
from .layouts import IN_CHATS, TIMES, names_in
from .texts import id_of, is_thought, text_of, time_of

PROMPTS = {"system", "developer"}                             # roles that prompt
TOOLS = "tool", "function", "ipython", "observation"          # how roles of tools begin
NOBODY = {"[deleted]", "Deleted Account"}                     # two of them may be two people
EXPORTED = {"messagetype", "sender_name", "senderName", "isPinned"}    # Skype, Messenger, Discord
DAY = 86_400    # seconds; what is said after a longer silence answers nothing


@dataclass(slots=True)
class Message:
    """What somebody said; or a turn, the messages that one speaker said in a row."""

    text: str = ""
    thread: str = ""
    speaker: str = ""           # "": unknown
    id: str = ""
    reply_to: str = ""          # the id of the message that it answers
    time: float | None = None   # seconds since 1970
    session: int = 0            # of its thread; `sessions` counts them

    def goes_on(self, reply):
        """Whether a reply is of the same speaker, so that it belongs to the same turn."""
        return bool(reply.speaker) and self.speaker == reply.speaker

    def add(self, reply):
        """Continue the turn."""
        self.text = f"{self.text} {reply.text}".strip()


NOTHING = Message()    # a message that is not there


def messages_of(records, columns, malformed):
    """Yield the Messages in records. columns: of `layout_of`; malformed: a list for such records"""
    for number, row in records:
        try:
            if isinstance(row, ValueError):
                raise row
            if "messages" in columns:
                yield from _chat(row.get(columns["messages"]) or [], str(number))
            else:
                yield _message(row, columns)
        except (ValueError, TypeError) as error:
            malformed.append((number, ValueError(error)))


def _message(row, columns):
    """A row of a log, or of a chat's list, as a Message."""
    found = {what: text_of(row.get(name), f'"{name}": ')
             for what, name in columns.items() if what != "time"}
    if columns.get("time") in row:
        found["time"] = time_of(row[columns["time"]])
    if found.get("speaker") in NOBODY:
        found["speaker"] = ""
    for what in {"thread", "id", "reply_to"} & found.keys():
        found[what] = id_of(found[what].removeprefix("t1_"))  # Reddit's prefix
    return Message(**found)


def _chat(items, thread):
    """The Messages in a list, without thoughts, prompts and those from tools.

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
            message = _message(item, columns)
            message.thread = thread
            if not message.speaker.lower().startswith(TOOLS):
                said.append(message)
    said = in_order(said)
    others = [message for message in said if message.speaker.lower() not in PROMPTS]
    if len({message.speaker for message in others}) > 1:
        return others
    return dropwhile(lambda message: message.speaker.lower() in PROMPTS, said)


def in_order(messages, name=""):
    """The Messages by time, those without one after the message before them in their thread.

    If most stand before an older one of their thread, the list runs backwards: `name` is told so.
    """
    messages, last, later, earlier = [*messages], {}, 0, 0
    for message in messages:
        before = last.get(message.thread)
        if message.time is None:
            message.time = before
        elif before is not None:
            later += message.time > before
            earlier += message.time < before
        last[message.thread] = message.time
    if earlier > later:
        messages.reverse()                                    # those of one minute, too
        if name:
            say(f"{name}: its last message is the oldest; it is read from the end")
    return sorted(messages, key=lambda message: message.time or 0)


def sessions(messages, silence=DAY):
    """Yield the Messages with the number of their session: a longer silence begins another."""
    last, session = {}, {}                                    # thread → a time, a number
    for message in messages:
        thread, time = message.thread, message.time
        if message.text and time is not None:
            if time - last.get(thread, time) > silence:
                session[thread] = session.get(thread, 0) + 1
            last[thread] = time
        message.session = session.get(thread, 0)
        yield message


def replies(name, messages):
    """Yield each reply as a pair with its message; the log `name` may list them in any order.

    What people answer to themselves goes on with their message, if that stands above. If ids start
    anew in each thread, a reply is to a message of its own thread. A reply to a missing message
    becomes a pair with an empty input, so that it is counted.
    """
    messages = [*messages]
    places = Counter((message.thread, message.id) for message in messages if message.id)
    anew = len({number for _, number in places}) < len(places)
    if repeated := places.total() - len(places):
        [((_, most), _)] = places.most_common(1)
        say(f'{name}: {repeated:,} rows repeat the id of an earlier row, such as "{most}"; replies '
            "may be paired with the wrong message; expected each id only once")
    turns, answers = {}, []    # (thread or "", id) → turn; (the place that it answers, turn)
    for message in messages:
        thread = message.thread if anew else ""
        place, above = (thread, message.id), (thread, message.reply_to)
        turn = turns.get(above, NOTHING)
        if turn.goes_on(message):
            turn.add(message)
        else:
            turn = message
            if message.reply_to and above != place:           # as some write for none
                answers.append((above, message))
        if message.id:
            turns[place] = turn
    for above, reply in answers:
        message = turns.get(above, NOTHING)
        if not message.goes_on(reply):
            yield _pair(message, reply)


def adjacent_turns(messages):
    """Yield each turn and the turn that follows it in its session as a pair.

    A message without text or thread becomes a pair of empty texts, so that it is counted.
    """
    last = {}                                                 # thread → its last turn
    for turn in _turns(sessions(messages)):
        if not (turn.text and turn.thread):
            yield _pair(NOTHING, NOTHING)
            continue
        before = last.get(turn.thread)
        if before and before.session == turn.session:
            yield _pair(before, turn)
        last[turn.thread] = turn


def _turns(messages):
    """Yield each turn when it has ended, and messages without text or thread as they come."""
    turns = {}                                                # thread → its turn that may go on
    for message in messages:
        turn = turns.get(message.thread, NOTHING)
        if not (message.text and message.thread):
            yield message
        elif turn.goes_on(message) and turn.session == message.session:
            turn.add(message)
        else:
            if turn is not NOTHING:
                yield turn
            turns[message.thread] = message
    yield from turns.values()


def _pair(message, reply):
    """A row with the columns of a pair."""
    return {"input": message.text, "response": reply.text, "thread": message.thread,
            "input_id": message.id, "response_id": reply.id,
            "input_author": message.speaker or None, "response_author": reply.speaker or None}
