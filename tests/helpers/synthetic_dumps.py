"""Monthly dumps of any size that no one wrote: Zipf's words in the fields and types of real ones.

Threads, deletions, robots, links, entities, duplicates, children before their parents and parents
that never come are there too. NUMBER dumps of a million comments:

    python -m tests.helpers.synthetic_dumps FOLDER NUMBER
"""

import json
import sys
from functools import cache
from itertools import cycle
from pathlib import Path

import numpy as np

from convsim_mini.common.lines import zstd

SPLIT = 50_000    # comments made at a time; replies stay inside such a part

# What a year's dumps have beside id, link_id, parent_id, author, body, subreddit and created_utc,
# with the types of real dumps; nothing reads it.
ALWAYS = {"score": 3, "ups": 3, "gilded": 0, "controversiality": 0, "retrieved_on": 1435759020,
          "subreddit_id": "t5_2qh1i", "distinguished": None, "author_flair_text": None,
          "author_flair_css_class": None, "edited": False}
NAMED = ALWAYS | {"name": "t1_c0", "downs": 0, "archived": True, "score_hidden": False}
FIELDS = {
    2007: ALWAYS | {"stickied": False, "edited": 1435462840.0},
    2010: NAMED,
    2012: NAMED | {"removal_reason": None, "distinguished": "moderator"},
    2014: NAMED | {"removal_reason": None, "edited": 1435462840},
    2016: ALWAYS | {"stickied": False, "author_flair_text": "Team Blue"},
}
TEXT_TIME = (2010, 2012, 2014)    # created_utc is a string


def lines(comments, year, seed):
    """Yield so many lines (bytes, with their ends) of a dump of that year."""
    rng = np.random.default_rng(seed)
    for made in range(0, comments, SPLIT):
        yield from part(min(SPLIT, comments - made), year, seed * 10**9 + made, rng)


def write_dump(file, comments, year, seed):
    """Write such a dump into an open file."""
    file.writelines(lines(comments, year, seed))


def part(number, year, first, rng):
    """Lines of whole threads, one of some 30 comments on average."""
    bodies = texts(np.maximum(rng.lognormal(2.8, 1.1, number), 1).astype(int), rng)
    threads = rng.integers(max(number // 30, 1), size=number)
    before = {}                                               # thread → ids of its comments so far
    chance = rng.random((number, 4))
    records = []
    for k in range(number):
        own, link = base_36(first + k), f"t3_{base_36(first // 7 + int(threads[k]))}"
        siblings = before.setdefault(link, [])
        if not siblings or chance[k, 0] < 0.4:
            parent = link
        elif chance[k, 0] < 0.43:
            parent = f"t1_{base_36(10**12 + k)}"              # never comes
        else:
            parent = f"t1_{siblings[int(chance[k, 1] * len(siblings))]}"
        siblings.append(own)
        body, author = changed(bodies[k], chance[k, 2], chance[k, 3])
        time = 1_340_000_000 + first % 10**8 + k
        record = FIELDS[year] | {
            "id": own, "link_id": link, "parent_id": parent, "author": author, "body": body,
            "subreddit": f"sub{k % 97}", "created_utc": str(time) if year in TEXT_TIME else time}
        records.append(json.dumps(record).encode() + b"\n")
    for k in range(7, number - 40, 500):                      # a child before its parent; a copy
        records[k], records[k + 30] = records[k + 30], records[k]
        records[k + 39] = records[k + 3]
    return records


@cache
def zipf(size=100_000):
    """Words, frequent ones short, and their shares by Zipf's law, added up: rank r, 1/(r + 2.7)."""
    rng = np.random.default_rng(0)
    syllables = [one + other for one in "bcdfghklmnprstvwz"
                 for other in ("a", "e", "i", "o", "ou", "y")]
    lengths = 1 + np.minimum(np.log(np.arange(1, size + 1)) / 3.2, 3).astype(int)
    weights = 1 / (np.arange(size) + 2.7)
    words = ["".join(syllables[k] for k in rng.integers(len(syllables), size=n)) for n in lengths]
    return words, np.cumsum(weights / weights.sum())


def texts(lengths, rng):
    """A text for each number of words."""
    words, cumulative = zipf()
    drawn = [words[k] for k in np.searchsorted(cumulative, rng.random(lengths.sum()))]
    return [" ".join(drawn[end - n:end]) for n, end in zip(lengths, np.cumsum(lengths))]


def changed(body, kind, who):
    """What people do to texts, in about the shares of real dumps; → body, author."""
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


def base_36(number):
    """A number as Reddit writes ids."""
    return np.base_repr(number, 36).lower()


if __name__ == "__main__":
    for k, year in zip(range(int(sys.argv[2])), cycle(FIELDS)):
        with zstd.open(Path(sys.argv[1], f"RC_{year}-{k:02d}.zst"), "wb") as stream:
            write_dump(stream, 1_000_000, year, k + 1)
