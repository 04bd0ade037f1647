"""Chats as plain text: exports of the app LINE, and logs of IRC clients."""

import regex

from convsim_mini.data.conversations import Message
from data_scripts.whatsapp import NUMBER, times_of

# LINE: a line with the day, and below it lines of time, name and text; what the app says has no
# name, or is [Sticker], [Photo] …
LINE_APP_DAY = r"(?P<day>(?:\w+,\ )?\d+[./]\d+[./]\d+[^\d\n\t]{0,12})$"
LINE_APP_TIME = r"(?P<time>[^\d\n\t]{0,3}\d?\d:\d\d(?:\ ?[AP]M)?)\t"
LINE_APP_STAMP = regex.compile(rf"(?m)^(?:{LINE_APP_DAY}|{LINE_APP_TIME}(?:(?P<name>[^\t\n]*)\t)?)")
LINE_APP_BEGINS = regex.compile(rf"(?m)^{LINE_APP_DAY}\n{LINE_APP_TIME}")
LINE_APP_SAID = regex.compile(r"(?s)\[[^\[\]\n]{1,20}\]|☎.*")

# HexChat, irssi … <nick> text; WeeChat, with tabs, where -->, <--, -- and * are not nicks
IRC = regex.compile(r"""(?x) [^<\t*!]{0,40} \d:\d\d (?: -\d | [^<\t*!-] ){0,12}
    (?| <[\ @+%&~!]* ([^>]+) > [\ \t] | \t [@+%&~!]? ([^\s<*=-][^\t]*) \t ) (.*)""")


def line_app(text, thread):
    """The messages of LINE's export; None for its own words."""
    stamps, day, found = [*LINE_APP_STAMP.finditer(text)], "", []
    ends = [*(stamp.start() for stamp in stamps[1:]), len(text)]
    for stamp, end in zip(stamps, ends):
        day = stamp["day"] or day
        if stamp["time"]:
            said = text[stamp.end():end].strip()
            if "\n" in said:                                  # which is put in quotation marks
                said = said.removeprefix('"').removesuffix('"')
            app = not stamp["name"] or LINE_APP_SAID.fullmatch(said)
            found.append((NUMBER.split(f"{day} {stamp['time']}"),
                          None if app else Message(said, thread, stamp["name"])))
    times = times_of([parts for parts, _ in found], [len(parts) for parts, _ in found])
    for (_, message), time in zip(found, times):
        if message:
            message.time = time
        yield message


def irc(text, thread):
    """The messages of an IRC client's log; None for every other line."""
    lines = filter(str.strip, text.split("\n"))
    return [Message(one[2], thread, one[1]) if one else None for one in map(IRC.match, lines)]
