"""Dumps and ConvoKit corpora: their lines, a line → a comment, the part of its text to keep."""

import html
import lzma
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import orjson

from convsim_mini.common.lines import DAMAGE, LONGEST_LINE, parse_object
from convsim_mini.data.conversations import NOBODY
from convsim_mini.data.filters import RULES, removed_by
from data_scripts.archives import decompressed

# Why a comment is left out; the reasons are tried in this order.
REASONS = {
    "post": "opens a ConvoKit conversation: it is a post, not a comment",
    "deleted": "its author or a moderator removed the text",
    **RULES,
    "only_links": "nothing is left after links are reduced to their text",
}

_DELETED = {"[deleted]", "[removed]", "[deleted by user]", "[ Removed by Reddit ]"}

_PREFIX = re.compile(r"t\d_")
_LINK = re.compile(r'\[([^\[\]]*)\]\((?:[^()\s]|\([^()\s]*\))*(?:\s+"[^"]*")?\s*\)')


class DumpLines:
    """Iterates over the lines of a dump, as bytes without their ends.

    number: lines given so far; open_end: True if the line just given is the last one and has no
    line break; cut: None, or where damage ended the dump and how. The first bytes show a dump's
    kind, because some have lost their suffix and others have a wrong one. Damage raises nothing:
    all whole lines before it are given. Raises OSError if the disk fails, and MemoryError.
    """

    def __init__(self, path):
        self.path, self.number = Path(path), 0
        self.open_end, self.cut = False, None

    def __iter__(self):
        with open(self.path, "rb") as file:
            text = decompressed(file)
            try:
                while line := text.readline(LONGEST_LINE + 1):
                    self.open_end = not line.endswith(b"\n")
                    if self.open_end and len(line) > LONGEST_LINE:
                        raise EOFError(f"a line exceeds the limit of {LONGEST_LINE:,} bytes")
                    self.number += 1
                    yield line.rstrip(b"\r\n")
            except (*DAMAGE, lzma.LZMAError, OSError) as error:
                if getattr(error, "errno", None) is not None:    # the disk's; bzip2's have none
                    raise
                if "not enough memory" in str(error):         # for a window: not damage
                    raise MemoryError(f"{self.path}: {error}; a dump written with --long=31 takes "
                                      "2 GiB") from None
                self.cut = f"{error} after line {self.number}"


class Comment(NamedTuple):
    """A comment. Its ids have no prefixes.

    link: the post that it belongs to, "" if unknown; parent: the comment that it answers, "" if
    that is a post or unknown; author: may be None; body: as written.
    """

    link: str
    id: str
    parent: str
    author: str | None
    body: str


def read_comment(line):
    """A line (bytes) to a Comment. Only the fields that pairing needs are looked at.

    Raises ValueError with a text that says what is wrong.
    """
    try:
        fields = orjson.loads(line)                           # duckdb's reader is no faster
    except ValueError:                                        # stricter than some old dumps
        fields = _lenient(line)
    if type(fields) is not dict:
        raise ValueError("not a JSON object")
    if "body" not in fields and "text" in fields:             # ConvoKit's, in either of its forms
        body, link = fields["text"], fields.get("conversation_id", fields.get("root"))
        parent = fields.get("reply-to", fields.get("reply_to"))
        author = fields.get("speaker", fields.get("user"))
    else:
        body, link = fields.get("body"), fields.get("link_id")
        parent, author = fields.get("parent_id"), fields.get("author")
    if not isinstance(body, str):
        raise ValueError('no text in the field "body" or "text"')
    own = fields.get("id")
    if not isinstance(own, str) or not own:
        raise ValueError('no text in the field "id"')
    link = _bare(link) if isinstance(link, str) else ""
    author = author if isinstance(author, str) and author not in NOBODY else None
    return Comment(link, _bare(own), _parent(parent, link), author, body)


def clean(comment):
    """The part of a comment's text to keep: (text, None), or (None, the reason: a key of REASONS).

    The rules see the text with its HTML entities unescaped and without any other change.
    """
    if comment.id == comment.link:
        return None, "post"
    text = comment.body
    if "&" in text:                                           # dumps hold &gt; &lt; &amp;
        text = html.unescape(text)
    if text.strip() in _DELETED:
        return None, "deleted"
    rule = removed_by(text, comment.author)
    if rule:
        return None, rule
    if "](" in text:
        text = _LINK.sub(r"\1", text)
    if "\0" in text:
        text = text.replace("\0", "")
    return (text, None) if text.strip() else (None, "only_links")


def _parent(parent, link):
    """The id of the comment that a parent_id names, "" if it names a post or nothing."""
    if type(parent) is int:                                   # a t1_ id in base 10, since 2022
        return np.base_repr(parent, 36).lower() if parent > 0 else ""
    if not isinstance(parent, str):
        return ""
    if parent.startswith("t1_"):
        return parent[3:]
    # Without a prefix, a post's id looks like a comment's.
    return "" if _PREFIX.match(parent) or parent == link else parent


def _bare(name):
    return name[3:] if _PREFIX.match(name) else name


def _lenient(line):
    """A line, read by Python's own parser: lone surrogates become U+FFFD, NaN is a number."""
    fields = parse_object(line.decode("utf-8"))               # UnicodeDecodeError is a ValueError
    return {name: value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            if isinstance(value, str) else value for name, value in fields.items()}
