"""Pairs → units, which no split cuts: a conversation, or a block of one that is too large.

Conversations are the connected components of a graph whose edges are the pairs. What a pair joins:

    the ids of its two messages      if replies form conversations: a chain of replies is one
    its conversation, with itself    if the conversation has a name
    its two texts                    if neither is known: a reply that is also a message joins two
                                     pairs. Only texts that are telling: "yes" may be anybody's.

Pairs are gone through in slices, so memory grows by no more than BYTES a pair.
"""

import hashlib
import os
from itertools import chain
from typing import NamedTuple

import numpy as np

from ..common.cli import say

LONG = 15          # characters; a shorter text, such as "yes", may be anybody's
OFTEN = 2          # a text that is a reply more often may be anybody's, too
LARGEST = 0.02     # of all pairs; a larger conversation is cut into blocks
BLOCK = 50         # successive pairs
AT_ONCE = 20_000   # pairs in a slice
BYTES = 40         # of memory for each pair that is joined by its texts
HIGHEST = np.uint64(2**64 - 1)    # ends each ascending table, so that none is empty


class Origins(NamedTuple):
    """Where n pairs come from: what decides their splits. All hashes are those of `text_key`."""

    keys: np.ndarray     # uint64 (n, 2): of the two texts
    names: np.ndarray    # uint64 (n, 2): of the conversation, or of the ids of the two messages if
    #                      replies form it; 0 if it is unknown
    long: np.ndarray     # bool (n, 2): whether a text has LONG characters or more


def origins_of(sentences, conversations, file=0):
    """The Origins of n pairs.

    sentences: their 2n texts as lists of tokens; conversations: as in Pair; file: its number, so
    that files do not mix their ids
    """
    texts = [" ".join(tokens) for tokens in sentences]
    of_name = {name: text_key(f"{file} {name}") if name else 0 for name in {*chain(*conversations)}}
    keys = np.array([*map(text_key, texts)], np.uint64)
    names = np.array([of_name[name] for name in chain(*conversations)], np.uint64)
    long = np.array([len(text) >= LONG for text in texts], bool)
    return Origins(*(values.reshape(-1, 2) for values in (keys, names, long)))


def text_key(joined_tokens):
    """64-bit hash of a tokenised text, the same on every machine; equal texts have equal hashes."""
    return int.from_bytes(hashlib.blake2b(joined_tokens.encode(), digest_size=8).digest(), "little")


def slices(number):
    """Yield slices of AT_ONCE of so many pairs."""
    return (slice(k, min(k + AT_ONCE, number)) for k in range(0, number, AT_ONCE))


def by_slices(function, number, dtype):
    """The array (number, 2) that function(slice) gives slice by slice."""
    found = np.empty((number, 2), dtype)
    for some in slices(number):
        found[some] = function(some)
    return found


def telling_texts(origins):
    """Which texts belong to one conversation only, as far as one can tell: bool (n, 2)."""
    keys, names, long = origins
    often = _repeated(np.array(keys[:, 1]), OFTEN)

    def telling(some):
        return long[some] & (often[np.searchsorted(often, keys[some])] != keys[some])

    by_texts = sum(np.count_nonzero(names[some, 0] == 0) for some in slices(len(keys)))
    if not _fits_in_memory(by_texts):
        return np.zeros(keys.shape, bool)
    return by_slices(telling, len(keys), bool)


def _fits_in_memory(number):
    """Whether so many pairs without a conversation can be joined by their texts; if not, say so."""
    memory = (os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
              if hasattr(os, "sysconf") else np.inf)          # on Windows
    if number * BYTES > memory:
        say(f"{number:,} pairs without a conversation would need {number * BYTES / 1e9:.3g} GB of "
            f"memory to be joined by their texts, of {memory / 1e9:.3g}: each is split alone, so a "
            "message may be in train and its answer in test; give a column with conversations")
    return number * BYTES <= memory


def _repeated(values, times):
    """What occurs more than `times` times in values (n,), which are sorted in place: ascending."""
    values.sort()
    more = values[times:] == values[:-times]
    more[1:] &= ~more[:-1]                                    # only the first of each
    return np.append(values[:-times][more], HIGHEST)


def conversations_of(origins, telling):
    """The conversation of each pair, as a number: int32 (n,). telling: from `telling_texts`"""
    keys, names, _ = origins

    def ends_of(some):
        """What pairs join, as hashes (pairs, 2)."""
        ends = np.where(names[some] == 0, np.where(telling[some], keys[some], 0), names[some])
        ends = np.where(ends == 0, ends[:, ::-1], ends)       # a single end: joined with itself
        both = keys[some, :1] + np.uint64(3) * keys[some, 1:]
        return np.where(ends == 0, both, ends)                # none: equal pairs stay together

    def nodes_of(some):
        """The same, as places in `shared`; -1 if no other pair has either end."""
        ends = ends_of(some)
        nodes = np.searchsorted(shared, ends).astype(np.int32)
        nodes = np.where(shared[nodes] == ends, nodes, -1)
        return np.where(nodes == -1, nodes[:, ::-1], nodes)

    shared = _repeated(by_slices(ends_of, len(keys), np.uint64).ravel(), 1)
    edges = by_slices(nodes_of, len(keys), np.int32)
    alone = edges[:, 0] == -1
    edges[alone] = len(shared) + np.arange(alone.sum())[:, None]
    return connected(edges, len(shared) + alone.sum())[edges[:, 0]]


def connected(edges, number):
    """The lowest node that each of `number` nodes is connected to. edges: int32 (m, 2), of nodes

    Each root joins its lowest neighbour, until no edge is left between two roots: O(log n) times,
    if numbers are in a random order. SciPy's function needs twice the memory.
    """
    root, (one, other) = np.arange(number, dtype=np.int32), edges.T
    while (differ := one != other).any():
        one, other = one[differ], other[differ]
        np.minimum.at(root, np.maximum(one, other), np.minimum(one, other))
        while not np.array_equal(root, shorter := root[root]):
            root = shorter
        one, other = root[one], root[other]
    return root


def cut_into_blocks(conversations):
    """The unit of each pair, int32 (n,): its conversation, or a block of one that is too large.

    → units, the pairs of each conversation that is cut
    """
    sizes, units, cut = np.bincount(conversations), conversations.copy(), []
    for large in np.flatnonzero(sizes > max(LARGEST * len(conversations), BLOCK)):
        pairs = np.flatnonzero(conversations == large)
        units[pairs] = units.max() + 1 + np.arange(len(pairs)) // BLOCK
        cut.append(pairs)
    return units, cut
