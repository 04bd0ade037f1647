"""Exports of chats → a log that `train --pairs` reads.

    python -m data_scripts.chats "WhatsApp Chat with Ann.txt" --out chat.jsonl

It reads an export of WhatsApp, Telegram, Slack, Discord, Messenger, Instagram, Skype, LINE or IRC,
or a folder of them; Slack's has one folder per channel. A row of the log has `thread`, `speaker`
and `text`; a new thread begins after a long silence. If an export says which message a reply
answers, the rows have `id` and `reply_to`, too. What an app or a bot wrote, or someone only
forwarded, is left out.
"""

if not __package__:
    raise SystemExit("run it by name, in the repository: python -m data_scripts.chats")

import json
import sys

import regex

from convsim_mini.common.cli import (
    Parser, UserError, errors_in_one_line, path_of, positive_int, user_errors)
from convsim_mini.common.files import check_replaceable, write_text
from convsim_mini.common.arrays_file import UNREADABLE
from convsim_mini.common.lines import read_lines
from convsim_mini.data.conversations import in_order, sessions
from data_scripts.chats_of_json import read_json
from data_scripts.line_and_irc import LINE_APP_BEGINS, irc, line_app
from data_scripts.whatsapp import whatsapp

READ_IN_FOLDERS = {".txt", ".log", ".weechatlog", ".json", ".jsonl"}
# marks of text direction, except U+200E, which iPhones put before their own words; IRC's colours
INVISIBLE = regex.compile(r"(?V1)[\p{Bidi_Control}\ufeff--\u200e]"
                          r"|\x03(?:\d\d?(?:,\d\d?)?)?|[\x02\x0f\x11\x16\x1d-\x1f]")


@errors_in_one_line()
def main(arguments=None):
    """The command."""
    parser = Parser("data_scripts.chats", __doc__)
    parser.add_argument("export", type=path_of, metavar="FILE_OR_FOLDER")
    parser.add_argument("--silence", type=positive_int, default=24, metavar="HOURS",
                        help="what is said after a longer one answers nothing (default: 24)")
    parser.add_argument("--out", type=path_of, metavar="LOG",
                        help="the log, a .jsonl (default: print it)")
    options = parser.parse_args(arguments)
    if options.out:
        if options.out.suffix != ".jsonl":
            raise UserError(f"--out {options.out}: expected a name that ends in .jsonl, by which "
                            "training knows how to read it")
        check_replaceable(options.out)
    found = [*read_export(options.export.resolve())]
    said = [message for message in map(tidy, filter(None, found)) if message.text]
    if not said:
        raise UserError(f"{options.export}: no message found; expected WhatsApp's or LINE's .txt, "
                        "the JSON of Telegram (not HTML), Discord, Messenger, Instagram or Skype, "
                        "a log of HexChat, WeeChat or irssi, or Slack's folder; unpack a .zip "
                        "first")
    speakers = len({message.speaker for message in said} - {""})
    number = len({message.id or place for place, message in enumerate(said)})    # some stand twice
    print(f"{options.export}: messages: {number:,}, speakers: {speakers:,}, left out (by the "
          f"app, or without text): {len(found) - len(said):,}", file=sys.stderr)
    rows = rows_of([*sessions(in_order(said), 3_600 * options.silence)])
    log = "".join(f"{json.dumps(row)}\n" for row in rows)
    if options.out:
        write_text(options.out, log)
    else:
        sys.stdout.write(log)


def read_export(root):
    """Yield the Messages of a file, or of all files in a folder; None for one left out."""
    files = [root]
    if root.is_dir():
        files = sorted(path for path in root.rglob("*") if path.suffix.lower() in READ_IN_FOLDERS
                       and path.name[0] != "." and path.is_file() and path.stat().st_size)
    for path in files:
        thread = path.relative_to(root.parent).as_posix()
        if path.suffix.lower() not in (".json", ".jsonl"):
            yield from read_log(read_text(path), thread)
            continue
        with user_errors(f"{path}: is damaged, or not as Telegram, Slack or Discord write it",
                         "export the chat again, or move other files away", UNREADABLE):
            text = read_text(path)
            data = ([*map(json.loads, filter(str.strip, text.split("\n")))]
                    if path.suffix.lower() == ".jsonl" else json.loads(text))
            yield from read_json(data, thread, path)


def read_text(path):
    """A file as one text without INVISIBLE. Bytes that are not UTF-8, as in old logs, become �."""
    lines = (line.decode(errors="replace") for line in read_lines(path))
    return INVISIBLE.sub("", "\n".join(lines))


def read_log(text, thread):
    """The Messages of a log, by the reader that finds most in its beginning; None: left out."""
    def number_found(reader):
        return sum(map(bool, reader(text[:1_000_000], thread)))

    if LINE_APP_BEGINS.search(text[:10_000]):
        return line_app(text, thread)
    return max(irc, whatsapp, key=number_found)(text, thread)


def tidy(message):
    """The Message with single blanks instead of other white space."""
    message.speaker = " ".join(str(message.speaker or "").replace("\u200e", "").split())
    message.text = " ".join((message.text or "").replace("\u200e", "").split())
    return message


def rows_of(messages):
    """The Messages as rows of the log, with ids if some name what they reply to.

    Training pairs rows with ids only by their ids, and what people answer to themselves continues
    their message. So a message that answers nobody else answers the one before it.
    """
    rows, said, last = [], {}, {}                             # id → Message, thread → id
    with_ids = any(message.reply_to for message in messages)
    for number, message in enumerate(messages):
        thread = message.thread
        if message.session:                                   # after a long silence
            thread = f"{thread} ({1 + message.session})"
        row = {"thread": thread, "speaker": message.speaker or None, "text": message.text}
        if with_ids:
            row["id"], row["reply_to"] = message.id or str(number), message.reply_to
            answered = said.get(message.reply_to)
            if not answered or answered.speaker == message.speaker:
                row["reply_to"] = last.get(thread)
            said[row["id"]], last[thread] = message, row["id"]
        rows.append(row)
    return rows


if __name__ == "__main__":
    main()
