"""What a text is: the one rule for pairs, messages, rows to search and sentences to encode."""

import re
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from math import inf
from numbers import Real

from ..common.cli import say

MISSING = ("None", "nan", "NaN", "NaT", "<NA>")    # also of floats, Decimals, pandas's times
COMPACT_DATE = re.compile(r"(\d{8})[T_ ]?(\d{6})?")
FEW = 5    # misread texts, which may be quotations


def text_of(value, where=""):
    """The text in a cell: None, NaN, NA and blanks become "", and a number becomes its digits.

    A list of a chat's content parts (strings, or dicts such as {"type": "text", "text": …}) becomes
    their texts. Anything else raises a TypeError that begins with `where` and shows the value.
    """
    if hasattr(value, "as_py"):                               # arrow's
        value = value.as_py()
    if isinstance(value, str):
        return "" if value.isspace() else value
    if isinstance(value, list) and (len(value) < 2 or dict in map(type, value)) and all(
            isinstance(part, str) or _is_part(part) for part in value):
        parts = (part if isinstance(part, str) else part.get("text") for part in value
                 if isinstance(part, str) or not is_thought(part))
        return " ".join(text for part in parts if (text := text_of(part, where)))
    if str(value) in MISSING:                                 # a list begins with "["
        return ""
    if isinstance(value, (Real, Decimal)) and not isinstance(value, bool):
        with suppress(ArithmeticError):                       # of infinite or very long Decimals
            if value % 1 == 0:
                return str(int(value))
        return str(value)
    instead = f", such as one of its {', '.join(value)}" if isinstance(value, dict) else ""
    raise TypeError(f"{where}{type(value).__name__} {value!s:.60} is not text; expected a str or a "
                    f"number{instead:.100}")


def is_thought(part):
    """Whether a model thinks here, or calls a tool, and says nothing to the user."""
    return bool(part.get("thought")) or part.get("type") in ("reasoning", "thinking") or (
        part.get("channel") in ("analysis", "commentary"))


def _is_part(part):
    """Whether this is a content part of a chat's message, and not itself a message."""
    return isinstance(part, dict) and {"type", "text"} & {*part} and "role" not in part


def time_of(value):
    """The time in a cell, in seconds since 1970: a number, or text as ISO 8601 has it. Or None."""
    with suppress(ValueError):
        if compact := COMPACT_DATE.fullmatch(str(value)):     # 20260131 is no number
            return _seconds("T".join(filter(None, compact.groups())))
    with suppress(TypeError, ValueError, OverflowError):
        time = float(value)
        while 1e11 < time < inf:                              # milliseconds, or even less
            time /= 1_000
        return time if abs(time) < inf else None
    with suppress(ValueError):
        return _seconds(str(value))
    return None


def _seconds(date):
    time = datetime.fromisoformat(date)
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def misread(text):
    """What a text was before a program read its UTF-8 as cp1252 or Latin-1; None if it did not."""
    for encoding in () if text.isascii() else ("cp1252", "latin-1"):
        with suppress(UnicodeError):
            return text.encode(encoding).decode("utf-8")
    return None


def warn_if_misread(name, texts):
    """Report on standard error more than a few misread texts."""
    if len(texts) > FEW:
        say(f'{name}: {len(texts):,} texts are UTF-8 that a program read as cp1252 or Latin-1, '
            f'such as "{texts[0]:.40}" for "{misread(texts[0]):.40}"; export them again')


def id_of(value):
    """The text of an id, without ".0", because pandas writes 1 as 1.0 next to empty cells."""
    return re.sub(r"\A(\d+)\.0\Z", r"\1", text_of(value))


def texts_of(values):
    """An iterator of each value's text. Raises a TypeError that says which value is not text."""
    return (text_of(value, f"sentence {number}: ") for number, value in enumerate(values))
