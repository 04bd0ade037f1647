"""One line of a dump or of a ConvoKit corpus → a comment; the part of its text to keep."""

import html
import re
from typing import NamedTuple

import numpy as np
import orjson

from convsim_mini.common.lines import parse_object
from convsim_mini.data.conversations import NOBODY
from convsim_mini.data.pairs import RULES, removed_by

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
        fields = orjson.loads(line)
    except ValueError:                                        # stricter than some old dumps
        fields = _lenient(line)
    if type(fields) is not dict:
        raise ValueError("not a JSON object")
    if "body" not in fields and "text" in fields:
        return _utterance(fields)
    link = fields.get("link_id")
    link = link if isinstance(link, str) else ""
    return _comment(fields, _bare(link), fields.get("parent_id"), fields.get("author"),
                    fields.get("body"))


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


def _utterance(fields):
    """An utterance of ConvoKit, new format or old; the first of a conversation is its post."""
    link = fields.get("conversation_id", fields.get("root"))
    link = link if isinstance(link, str) else ""
    parent = fields.get("reply-to", fields.get("reply_to"))
    author = fields.get("speaker", fields.get("user"))
    return _comment(fields, _bare(link), parent, author, fields["text"])


def _comment(fields, link, parent, author, body):
    if not isinstance(body, str):
        raise ValueError('no text in the field "body" or "text"')
    own = fields.get("id")
    if not isinstance(own, str) or not own:
        raise ValueError('no text in the field "id"')
    author = author if isinstance(author, str) and author not in NOBODY else None
    return Comment(link, _bare(own), _parent(parent, link), author, body)


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
