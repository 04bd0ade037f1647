"""Which texts the paper leaves out (Yang et al. 2018, §3)."""

import string

import regex

ASCII_LETTERS = string.ascii_letters.encode()
LETTER = regex.compile(r"[\p{L}\p{M}]")    # vowel signs of Hindi and many others are marks

RULES = {    # as --text.filters_off names them
    "no_text": "no text or, in a log, no thread or no message that it answers",
    "long": "350 characters or more",
    "not_alphabetic": "70% or less of the characters other than spaces are letters",
    "link_or_mention": 'starts with "https", "/r/" or "@"',
    "bot": 'the author\'s name contains "bot", or is AutoModerator',    # the latter is ours
}


def removed_by(text, author=None, off=()):
    """The rule of the paper's §3 that removes this text (a key of RULES), or None.

    off: rules to skip. The paper does not say what its 70% is a share of; here it is a share of all
    characters except white space. "no_text" is ours and always applies.
    """
    if not text or text.isspace():
        return "no_text"
    if len(text) >= 350 and "long" not in off:
        return "long"
    if text.isascii():                                        # deleting bytes is much faster
        letters = len(text) - len(text.encode().translate(None, ASCII_LETTERS))
    else:
        letters = len(LETTER.findall(text))
    marks = sum(map(len, text.split()))
    if 10 * letters <= 7 * marks and "not_alphabetic" not in off:          # 0.7 is not exact
        return "not_alphabetic"
    if text.startswith(("https", "/r/", "@")) and "link_or_mention" not in off:
        return "link_or_mention"
    name = (author or "").lower()
    is_bot = "bot" in name or name == "automoderator"
    return "bot" if is_bot and "bot" not in off else None
