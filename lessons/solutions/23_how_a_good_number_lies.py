"""Solutions of lesson 23, How a good number lies.

1: Look for the strongest tie first: a pair, then a message in its own role, then a text in the
other. Whoever compares messages with messages alone makes this project's mistake.
2: A pair is an edge between its two texts; a text that anybody says gives way to the other one. A
component is known by its lowest hash, which no order changes. A hash of the message cuts chains.
3: All m worthless tries stay below z with the probability Φ(z)ᵐ. Two standard errors are enough
for one try, not for the best of thirty.
"""

from prove import run_lesson, solution
import numpy as np
import scipy.stats

from convsim_mini.data.units import text_key

lesson = run_lesson(__file__)


def telling(texts):
    return {text for text in texts if len(text) > 14}


def solution_leak(train, test):
    if any(pair in train for pair in test if telling(pair)):
        return "copies"
    (messages, replies), (asked, answers) = (map(telling, zip(*pairs)) for pairs in (train, test))
    if messages & asked:
        return "messages"
    return "neighbours" if messages & answers or replies & asked else "none"


def only_messages(train, test):
    if {*train} & {*test}:
        return "copies"
    return "messages" if {a for a, _ in train} & {a for a, _ in test} else "none"


def solution_split(pairs):
    hashes = np.array([[text_key(text) if len(text) > 14 else 0 for text in pair]
                       for pair in pairs], np.uint64)
    unit = lesson.components(np.where(hashes == 0, hashes[:, ::-1], hashes))
    lowest = np.full(unit.max() + 1, np.iinfo(np.uint64).max)
    np.minimum.at(lowest, unit, np.where(hashes == 0, hashes.max(axis=1)[:, None], hashes).min(1))
    return lowest[unit] % 5 == 0


def by_message(pairs):
    return [text_key(message) % 5 == 0 for message, _ in pairs]


def all_linked(pairs):
    """"yes" and "hi" join everybody."""
    hashes = np.array([[text_key(text) for text in pair] for pair in pairs], np.uint64)
    unit = lesson.components(hashes)
    return np.array([min(hashes[unit == k].ravel()) % 5 == 0 for k in range(unit.max() + 1)])[unit]


def in_order(pairs):
    """Units are right, but their numbers depend on the order in which pairs are read."""
    seen = {}
    hashes = np.array([[text_key(text) if len(text) > 14 else 0 for text in pair]
                       for pair in pairs], np.uint64)
    unit = lesson.components(np.where(hashes == 0, hashes[:, ::-1], hashes))
    return [seen.setdefault(k, len(seen)) % 5 == 0 for k in unit]


def solution_survives(gain, error, tries):
    return scipy.stats.norm.cdf(gain / error) ** tries > 0.95


solution(1, solution_leak, only_messages)
solution(2, solution_split, by_message, all_linked, in_order)
solution(3, solution_survives, lambda gain, error, tries: gain > 1.96 * error,
         lambda gain, error, tries: gain > 1.96 * error * np.sqrt(tries))
