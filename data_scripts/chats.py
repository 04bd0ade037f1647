"""Exports of WhatsApp, Telegram, IRC and Slack → a log that `train --pairs` reads.

    python -m data_scripts.chats "WhatsApp Chat with Ann.txt" --out chat.jsonl

It reads an export, or a folder of them; Slack's has one folder per channel. A row of the log has
`thread`, `speaker` and `text`. If Telegram says which message a reply answers, the rows are
turns (a person's successive messages) with `id` and `reply_to`. What the app wrote is left out.
"""

import html
import json
import sys
from collections import Counter
from functools import cache
from itertools import chain
from pathlib import Path

import regex

from convsim_mini.common.cli import Parser, UserError, errors_in_one_line, user_errors
from convsim_mini.common.files import UNREADABLE, write_text
from convsim_mini.common.lines import read_lines

READ_IN_FOLDERS = {".txt", ".log", ".weechatlog", ".json"}
# marks of text direction, except U+200E, which iPhones put before their own words; IRC's colours
INVISIBLE = regex.compile(r"(?V1)[\p{Bidi_Control}\ufeff--\u200e]"
                          r"|\x03(?:\d\d?(?:,\d\d?)?)?|[\x02\x0f\x11\x16\x1d-\x1f]")

# WhatsApp: a date and a time, as each country writes them, are five or six numbers. The name, if
# there is one, follows.
STAMP = regex.compile(r"(?m)^\u200e?\[?\u200e?\d+(?:[^\d\n]{1,14}\d+){4,5}?[^\d\n:\],]{0,16}?"
                      r"(?:\]| [-–]|:) (?=(?:(?P<name>[^\n]*?): )?)")
COPIED = regex.compile(r"\[\d{1,2}:\d\d(?::\d\d)?(?:\s?[ap]\.?m\.?)?, \d", regex.IGNORECASE)
EVENT = regex.compile(r"[^:\n]*\b(?:created group|changed the|security code with)\b")
NOTES = regex.compile(r"""(?x)                                # what it adds to a person's text
    \s*<This\ message\ was\ edited>$ | \s*\u200e<[^<>\n]+>$
    | \A\u200e[^\n]+\.\w{2,4}\ \([^()\n]+\)(?=\n)
    | \A(?: [^\n]+\ \(file\ attached\) | \w+-\d{8}-WA\d+\.\w+\ \([^()\n]+\) )\n*""")
APP_SAID = regex.compile(r"""(?xis)
    \u200e.* | [^\n]+\ •\ \u200e.*                            # on an iPhone
    | <[^<>]+>                                                # <Media omitted>, in any language
    | (?-i:null) | (?:live\ )?location(?::\ https://\S+|\ shared) | poll:\n.*
    | (?:this\ message\ was\ deleted|you\ deleted\ this\ message)(?:\ (?:by|as)\ admin.*)?\.?
    | missed\ (?:group\ )?(?:voice|video)\ call(?:,?\ (?:at|tap)\ .*)?
    | (?:image|video|video\ note|audio|sticker|gif|document|contact\ card)\ omitted
    | (?:waiting\ for\ this\ message\. | messages\ [^\n]*\ end-to-end\ encrypted).*""")

# HexChat, irssi … <nick> text; WeeChat, with tabs, where -->, <--, -- and * are not nicks
IRC = regex.compile(r"""(?x) [^<\t*!]{0,40} \d:\d\d (?: -\d | [^<\t*!-] ){0,12}
    (?| <[\ @+%&~!]* ([^>]+) > [\ \t] | \t [@+%&~!]? ([^\s<*=-][^\t]*) \t ) (.*)""")

SLACK_SAID = {None, "file_share", "me_message", "thread_broadcast"}    # subtypes of people
SLACK_LINK = regex.compile(r"<[@#!]?([^<>|]+)(?:\|([^<>]*))?>")        # <@U1>, <http://x|label>


def main(arguments=None):
    """The command."""
    parser = Parser("data_scripts.chats", __doc__)
    parser.add_argument("export", type=Path, metavar="FILE_OR_FOLDER")
    parser.add_argument("--out", metavar="PAIRS", help="the log, a .jsonl (default: print it)")
    options = parser.parse_args(arguments)
    if options.out and not options.out.endswith(".jsonl"):
        raise UserError(f"--out {options.out}: expected a name that ends in .jsonl, by which "
                        "training knows how to read it")
    found = [*read_export(options.export.resolve())]
    rows = [row for row in found if row and row["text"]]
    if not rows:
        raise UserError(f"{options.export}: no message found; expected WhatsApp's .txt, Telegram's "
                        "result.json (not HTML), a log of HexChat, WeeChat or irssi, or Slack's "
                        "folder; unpack a .zip first")
    speakers = len({row["speaker"] for row in rows} - {None})
    print(f"{options.export}: messages: {len(rows):,}, speakers: {speakers:,}, left out (by the "
          f"app, or without text): {len(found) - len(rows):,}", file=sys.stderr)
    log = "".join(f"{json.dumps(row)}\n" for row in with_replies(rows))
    if options.out:
        write_text(options.out, log)
    else:
        sys.stdout.write(log)


def read_export(root):
    """Yield the messages of a file, or of all files in a folder, as rows; None for one left out."""
    files = [root]
    if root.is_dir():
        files = sorted(path for path in root.rglob("*") if path.suffix.lower() in READ_IN_FOLDERS
                       and path.name[0] != "." and path.is_file() and path.stat().st_size)
    for path in files:
        thread = path.relative_to(root.parent).as_posix()
        if path.suffix.lower() == ".json":
            with user_errors(f"{path}: is damaged, or not as Telegram or Slack write it",
                             "export the chat again, or move other files away", UNREADABLE):
                for place, messages in enumerate(message_lists(json.loads(read_text(path))), 1):
                    is_slack = any("ts" in one for one in messages)
                    yield from (slack(messages, path) if is_slack
                                else telegram(messages, f"{thread}/{place}"))
        else:
            text = read_text(path)
            yield from max(irc(text, thread), whatsapp(text, thread),
                           key=lambda found: sum(map(bool, found)))


def read_text(path):
    """A file as one text without INVISIBLE. Bytes that are not UTF-8, as in old logs, become �."""
    lines = (line.decode(errors="replace") for line in read_lines(path))
    return INVISIBLE.sub("", "\n".join(lines))


def message(thread, speaker, text, id=None, reply_to=None):
    """A row of the log; white space becomes single blanks."""
    speaker, text = (" ".join(f"{one or ''}".replace("\u200e", "").split())
                     for one in (speaker, text))
    return {"thread": thread, "speaker": speaker or None, "text": text, "id": id,
            "reply_to": reply_to}


def with_replies(rows):
    """The rows of the log: messages, or, if some name what they reply to, turns with ids.

    Rows with ids are paired only by ids in training. So a turn that names none gets the one before.
    """
    if not any(row["reply_to"] for row in rows):
        return [{name: row[name] for name in ("thread", "speaker", "text")} for row in rows]
    turns, turn_of, last = [], {}, {}                         # id → turn, thread → turn
    for number, row in enumerate(rows):
        row["id"] = row["id"] or str(number)
        before, answered = last.get(row["thread"]), turn_of.get(row["reply_to"])
        if not answered or answered["speaker"] == row["speaker"]:    # not an answer to oneself
            answered = before
        if answered and row["speaker"] and answered["speaker"] == row["speaker"]:
            before["text"] += f" {row['text']}"
        else:
            row["reply_to"] = answered and answered["id"]
            turns.append(row)
            last[row["thread"]] = row
        turn_of[row["id"]] = last[row["thread"]]
    return turns


# ---------------------------------------------------------------- logs of text

def irc(text, thread):
    """The messages of an IRC client's log; None for every other line."""
    lines = filter(str.strip, text.split("\n"))
    return [message(thread, *one.groups()) if one else None for one in map(IRC.match, lines)]


def whatsapp(text, thread):
    """The messages of WhatsApp's export (some have several lines); None for its own words."""
    stamps = [*STAMP.finditer(text)]
    # A pasted line with a stamp is part of a message: its stamp has another form, and what
    # WhatsApp itself copies has the time first: [18:02, 12.3.2024] Ann: …
    forms = [regex.sub(r"[\p{L}\p{M}\d\u200e]", "", stamp[0]) for stamp in stamps]
    usual = max(forms, key=Counter(forms).get, default=None)
    known = {stamp["name"] for stamp, form in zip(stamps, forms) if form == usual} - {None}
    stamps = [stamp for stamp, form in zip(stamps, forms)
              if form == usual or stamp["name"] in known and not COPIED.match(stamp[0])]
    ends = [*(stamp.start() for stamp in stamps[1:]), len(text)]
    bodies = [text[stamp.end():end] for stamp, end in zip(stamps, ends)]
    # "Ann: Work: hello": "Ann: Work" is the name if "Work" always follows "Ann: ".
    number = Counter(chain.from_iterable(map(possible_names, bodies)))
    rows = []
    for body in bodies:
        name, *longer = possible_names(body) or [None]
        if number[name] > 1:
            name = [name, *(one for one in longer if number[one] == number[name])][-1]
        said = name and NOTES.sub("", body[len(name) + 2:].strip())
        app = not said or EVENT.match(body) or APP_SAID.fullmatch(said)
        rows.append(None if app else message(thread, name, said))
    return rows


def possible_names(body):
    """What is before each ": " in the first 100 characters of the first line, shortest first."""
    line = body[:100].partition("\n")[0]
    return [line[:colon.start()] for colon in regex.finditer(": ", line)]


# ---------------------------------------------------------------- JSON

def message_lists(data):
    """Yield every list of messages, at any depth: a Telegram chat's, a Slack day's."""
    values = data.values() if isinstance(data, dict) else data
    messages = [one for one in values if isinstance(one, dict)]
    if any(one.get("type") == "message" for one in messages):
        yield messages
    else:
        for value in values:
            if isinstance(value, dict | list):
                yield from message_lists(value)


def telegram(messages, thread):
    """The messages of one of Telegram's chats; a text may be a list of strings and entities."""
    for one in messages:
        if one.get("type") != "message":
            yield None
            continue
        text = "".join(part if isinstance(part, str) else part["text"]
                       for part in one.get("text") or "")
        reply = one.get("reply_to_message_id")
        yield message(thread, one.get("from"), text, f"{thread}/{one.get('id')}",
                      f"{thread}/{reply}" if reply else None)


def slack(messages, path):
    """The messages of a channel's day. A message and what was said below it are a thread."""
    channel, names = path.parent.name, user_names(path.parent.parent / "users.json")
    for one in sorted(messages, key=lambda one: float(one.get("ts", 0))):
        text = SLACK_LINK.sub(lambda link: link[2] or names.get(link[1], link[1]),
                              one.get("text") or "")
        thread = f"{channel}/{one['thread_ts']}" if "thread_ts" in one else channel
        user = one.get("user") or one.get("username")
        yield (message(thread, names.get(user, user), html.unescape(text))
               if one.get("subtype") in SLACK_SAID else None)


@cache
def user_names(path):
    """id → name, from Slack's users.json; without that file, {}."""
    users = json.loads(read_text(path)) if path.exists() else []
    return {one["id"]: one.get("profile", {}).get("display_name") or one.get("real_name")
            or one["name"] for one in users}


if __name__ == "__main__":
    with errors_in_one_line():
        main()
