"""WhatsApp's export of a chat, and what its times mean: each country writes them its own way."""

import re
from collections import Counter
from functools import cache
from itertools import chain

import numpy as np
import regex

from convsim_mini.data.conversations import Message

# A date and a time, as each country writes them, are five or six numbers. The name, if there is
# one, follows.
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

# Morning and evening, as WhatsApp and LINE tell them apart
LATE = regex.compile(r"p\.?\s?m|μ\.?\s?μ|م|下午|午後|傍晚|晚上|오후", regex.IGNORECASE)
EARLY = regex.compile(r"a\.?\s?m|π\.?\s?μ|ص|上午|午前|凌晨|早上|오전", regex.IGNORECASE)
NUMBER = re.compile(r"(\d+)")
DATES = "dmy", "mdy", "ymd"    # orders of day, month and year; of equally good, the first

def whatsapp(text, thread):
    """The messages of WhatsApp's export (some have several lines); None for its own words."""
    stamps, times = stamps_of(text)
    ends = [*(stamp.start() for stamp in stamps[1:]), len(text)]
    bodies = [text[stamp.end():end] for stamp, end in zip(stamps, ends)]
    rows = []
    for body, name, time in zip(bodies, names_of(bodies), times):
        said = name and body[len(name) + 2:].strip()
        if said and (said[-1] == ">" or "(" in said):         # else there is no note: saves time
            said = NOTES.sub("", said)
        app = not said or EVENT.match(body) or APP_SAID.fullmatch(said)
        rows.append(None if app else Message(said, thread, name, time=time))
    return rows


def stamps_of(text):
    """The stamps (matches) with which the messages of WhatsApp's export begin, and their times.

    A pasted line with a stamp is part of a message: its stamp has another form, and what WhatsApp
    itself copies has the time first: [18:02, 12.3.2024] Ann: …
    """
    stamps = [*STAMP.finditer(text)]
    parts = [NUMBER.split(stamp[0]) for stamp in stamps]
    forms = [form_of(tuple(some[::2])) for some in parts]
    usual = max(forms, key=Counter(forms).get, default=None)
    known = {stamp["name"] for stamp, form in zip(stamps, forms) if form == usual} - {None}
    kept = [k for k, (stamp, form) in enumerate(zip(stamps, forms))
            if form == usual or stamp["name"] in known and not COPIED.match(stamp[0])]
    return [stamps[k] for k in kept], times_of([parts[k] for k in kept], [forms[k] for k in kept])


def names_of(bodies):
    """Yield the name with which each body begins, or None.

    "Ann: Work: hello": "Ann: Work" is the name if "Work" always follows "Ann: ".
    """
    possible = [*map(possible_names, bodies)]
    number = Counter(chain.from_iterable(possible))
    for names in possible:
        shortest = names[0] if names else None
        if number[shortest] > 1:
            shortest = [one for one in names if number[one] == number[shortest]][-1]
        yield shortest


def possible_names(body):
    """What is before each ": " in the first 100 characters of the first line, shortest first."""
    parts = body[:100].partition("\n")[0].split(": ")
    return [": ".join(parts[:number]) for number in range(1, len(parts))]


@cache
def form_of(between):
    """The form of a stamp, without letters and digits. between: what stands between its numbers"""
    return regex.sub(r"[\p{L}\p{M}\u200e]", "", "0".join(between))


def times_of(stamps, forms):
    """The times of stamps, in seconds since 1970; None for those that are none.

    stamps: as NUMBER splits them; forms: stamps of one form have one order of day, month and year
    """
    times = np.full(len(stamps), np.nan)
    for form in {*forms}:
        which = np.flatnonzero([one == form for one in forms])
        times[which] = _times_of_form([stamps[k] for k in which])
    return [None if time != time else time for time in times.tolist()]


def _times_of_form(stamps):
    """The times of stamps, (n,), by the order of day, month and year that is least strange."""
    numbers = np.array([[int(one[:9]) for one in parts[1::2]] for parts in stamps])    # (n, 5 or 6)
    halves = [half_of_day(tuple(parts[::2])) for parts in stamps]
    clock = "HMS"[:numbers.shape[1] - 3]
    clock_first = stamps[0][2] == ":"                         # between the first two numbers
    orders = [clock + date if clock_first else date + clock for date in DATES]
    return min((_times_by(order, numbers, halves) for order in orders), key=_strangeness)


def _strangeness(times):
    """How many are no times or step back; then, the time from the first to the last."""
    return np.isnan(times).sum() + (np.diff(times) < 0).sum(), np.abs(times[-1] - times[0])


def _times_by(order, numbers, halves):
    """Numbers in an order such as "dmyHMS" as times, (n,); nan for those that are no date.

    If nothing tells morning from evening, only the days count.
    """
    day, month, year, hour, minute = (numbers[:, order.index(one)] for one in "dmyHM")
    second = numbers[:, order.index("S")] if "S" in order else 0
    year = np.where(year < 100, 2000 + year, year)
    good = ((0 < day) & (day < 32) & (0 < month) & (month < 13) & (1400 < year) & (year < 2700)
            & (hour < 25))
    months = np.where(good, 12 * (year - 1970) + month - 1, 0).astype("datetime64[M]")
    days = months.astype("datetime64[D]").astype(np.int64) + day - 1
    if (hour > 12).any() or {*halves} == {""}:
        seconds = 3_600 * hour + 60 * minute + second
    elif "" in halves:
        seconds = 0
    else:
        late = 12 * (np.array(halves) == "late")
        seconds = 3_600 * (hour % 12 + late) + 60 * minute + second
    return np.where(good, 86_400 * days + seconds, np.nan)


@cache
def half_of_day(between):
    """Whether a stamp says "early" or "late", or "". between: as in `form_of`"""
    words = " ".join(between)
    return "late" if LATE.search(words) else "early" if EARLY.search(words) else ""
