"""Monthly dumps of any size that no one wrote: Zipf's words in the fields and types of real ones.

Each year's fields and their JSON types are those measured in real dumps. Threads, deletions,
robots, links, entities, duplicates, children before their parents and parents that never come are
there too. NUMBER dumps of a million comments:

    python -m tests.helpers.synthetic_dumps FOLDER NUMBER
"""

import json
import sys
from itertools import cycle
from pathlib import Path

import numpy as np

from convsim_mini.common.lines import zstd

SPLIT = 50_000    # comments made at a time; replies stay inside such a part


def flair(rng):
    return "Team Blue" if rng.random() < 0.3 else None


def edited(rng):
    return 1435462840 if rng.random() < 0.03 else False


ALWAYS = {
    "score": lambda rng: int(rng.integers(-5, 40)),
    "ups": lambda rng: int(rng.integers(-5, 40)),
    "gilded": lambda rng: 0,
    "controversiality": lambda rng: 0,
    "retrieved_on": lambda rng: 1435759020,
    "subreddit_id": lambda rng: "t5_2qh1i",
    "distinguished": lambda rng: "moderator" if rng.random() < 0.01 else None,
    "author_flair_text": flair,
    "author_flair_css_class": flair,
    "edited": edited,
}
NAMED = {"name": None, "downs": lambda rng: 0, "archived": lambda rng: True,
         "score_hidden": lambda rng: False}
STICKIED = {"stickied": lambda rng: False}

# Fields of a year's dumps beside id, link_id, parent_id, author, body, subreddit and created_utc.
FIELDS = {
    2007: ALWAYS | STICKIED | {"edited": lambda rng: float(edited(rng)) or False,
                               "distinguished": lambda rng: None},
    2010: ALWAYS | NAMED,
    2012: ALWAYS | NAMED | {"removal_reason": lambda rng: None},
    2014: ALWAYS | NAMED | {"removal_reason": lambda rng: None},
    2016: ALWAYS | STICKIED,
}
TEXT_TIME = (2010, 2012, 2014)    # created_utc is a string


class Words:
    """Draws texts whose words follow Zipf's law: the word of rank r comes ∝ 1/(r + 2.7)."""

    def __init__(self, rng, size=100_000):
        syllables = [one + other for one in "bcdfghklmnprstvwz"
                     for other in ("a", "e", "i", "o", "ou", "y")]
        # Frequent words are short.
        lengths = 1 + np.minimum(np.log(np.arange(1, size + 1)) / 3.2, 3).astype(int)
        self.words = ["".join(syllables[k] for k in rng.integers(len(syllables), size=n))
                      for n in lengths]
        weights = 1 / (np.arange(size) + 2.7)
        self.cumulative = np.cumsum(weights / weights.sum())

    def draw(self, rng, lengths):
        """A text for each number of words."""
        words = self.words
        drawn = [words[k] for k in np.searchsorted(self.cumulative, rng.random(int(lengths.sum())))]
        ends = np.cumsum(lengths)
        return [" ".join(drawn[end - n:end]) for n, end in zip(lengths.tolist(), ends.tolist())]


def lines(comments, year, seed):
    """Yield so many lines (bytes, with their ends) of a dump of that year."""
    rng = np.random.default_rng(seed)
    words, made = Words(np.random.default_rng(0)), 0
    while made < comments:
        some = _part(min(SPLIT, comments - made), year, seed * 10**9 + made, words, rng)
        made += len(some)
        yield from some


def write_dump(file, comments, year, seed):
    """Write such a dump into an open file; → bytes written."""
    return sum(file.write(line) for line in lines(comments, year, seed))


def _part(number, year, first, words, rng):
    """Lines of whole threads, one of some 30 comments on average."""
    lengths = np.maximum(rng.lognormal(2.8, 1.1, number), 1).astype(int)    # 30 on average
    bodies = words.draw(rng, lengths)
    threads = rng.integers(max(number // 30, 1), size=number)
    before = {}                                               # thread → ids of its comments so far
    chance = rng.random((number, 4))
    fields = FIELDS[year]
    fillers = [{name: value(rng) for name, value in fields.items() if value} for _ in range(200)]
    records = []
    for k in range(number):
        own, link = _name(first + k), f"t3_{_name(first // 7 + int(threads[k]))}"
        siblings = before.setdefault(link, [])
        if not siblings or chance[k, 0] < 0.4:
            parent = link
        elif chance[k, 0] < 0.43:
            parent = f"t1_{_name(10**12 + k)}"                # never comes
        else:
            parent = f"t1_{siblings[int(chance[k, 1] * len(siblings))]}"
        siblings.append(own)
        body, author = _changed(bodies[k], chance[k, 2], chance[k, 3])
        time = 1_340_000_000 + first % 10**8 + k
        record = {**fillers[k % 200], "id": own, "link_id": link, "parent_id": parent,
                  "author": author, "body": body,
                  "subreddit": f"sub{k % 97}",
                  "created_utc": str(time) if year in TEXT_TIME else time}
        if "name" in fields:
            record["name"] = f"t1_{own}"
        records.append(json.dumps(record).encode() + b"\n")
    for k in range(7, number - 40, 500):                      # a child before its parent; a copy
        records[k], records[k + 30] = records[k + 30], records[k]
        records[k + 39] = records[k + 3]
    return records


def _changed(body, kind, who):
    """What people do to texts, in about the shares of real dumps."""
    author = f"user_{int(who * 3e6)}"
    author = "AutoTidyBot" if who < 0.02 else "[deleted]" if who < 0.07 else author
    if kind < 0.05:
        body = "[deleted]" if kind < 0.04 else "[removed]"
    elif kind < 0.08:
        body = f"&gt; {body}\n\n{body[:40]} &amp; {body[40:80]}"
    elif kind < 0.11:
        body = f"{body} [{body[:9]}](https://example.org/{body[:3]}_(x))"
    elif kind < 0.13:
        body = f"https://example.org/ {body}"
    elif kind < 0.135:
        body = f"{body}\0"
    elif kind < 0.17:
        body = f"{len(body)} + {len(body)} = {2 * len(body)}!"
    else:
        body = body.capitalize() + "."
    return body, author


def _name(number):
    """Base 36, as Reddit writes ids."""
    return np.base_repr(number, 36).lower()


if __name__ == "__main__":
    for k, year in zip(range(int(sys.argv[2])), cycle(FIELDS)):
        with zstd.open(Path(sys.argv[1], f"RC_{year}-{k:02d}.zst"), "wb") as stream:
            write_dump(stream, 1_000_000, year, k + 1)
