"""Which split a pair belongs to. The unit is the conversation, which no split cuts.

If pairs of one conversation stand in train and in test, an encoder that remembers train's texts
finds test's replies by their neighbours, and P@1 measures memory. So whatever is said together
stays together.
"""

import hashlib
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

SPLITS = ("train", "dev", "test")
LONG = 15          # characters; a shorter text, such as "yes", may be anybody's
OFTEN = 2          # a text that is a reply more often may be anybody's, too
LARGEST = 0.02     # of all pairs; a larger unit is cut into blocks
BLOCK = 50         # successive pairs
FEWEST = 100       # pairs in a split, and replies to choose among


class Origins(NamedTuple):
    """Where n pairs come from: what decides their splits. All hashes are those of `text_key`."""

    keys: np.ndarray     # uint64 (n, 2): of the two texts
    names: np.ndarray    # uint64 (n, 2): of the conversation, or of the ids of the two messages if
    #                      replies form it; 0 if it is unknown
    long: np.ndarray     # bool (n, 2): whether a text has LONG characters or more


class Splits(NamedTuple):
    """What `split_pairs` decides about n pairs."""

    names: np.ndarray    # (n,): one of SPLITS; "" for a pair that would connect two splits
    units: np.ndarray    # int (n,): the number of each pair's unit
    cut: int             # how many conversations were too large, and cut


def text_key(joined_tokens):
    """64-bit hash of a tokenised text, the same on every machine; equal texts have equal hashes."""
    return int.from_bytes(hashlib.blake2b(joined_tokens.encode(), digest_size=8).digest(), "little")


def split_pairs(origins):
    """The Splits of n pairs: about 10% test, 3.6% dev, the rest train, by the hash of their units.

    So the split of a unit does not depend on other units. But if too few pairs fall to dev or test,
    the units with the lowest hashes, 1 to 3 tenths of the pairs, are test, and the next as many
    dev. Another corpus may then train on conversations of this test split.
    """
    keys = origins.keys
    replies, times = np.unique(keys[:, 1], return_counts=True)
    own = origins.long & ~np.isin(keys, replies[times > OFTEN])    # texts of one conversation alone
    component = _components(origins, own)
    units, cut = _blocks(component)
    hashes = _lowest_hash(keys, own, units)
    digit, share = hashes % 10, np.searchsorted(np.sort(hashes), hashes) / max(1, len(hashes))
    order = np.argsort(component, kind="stable")
    ways = [(digit < 1, hashes // 10 % 25 == 0),
            *((share < part, share < 2 * part) for part in (0.1, 0.2, 0.3))]
    for test, dev in ways:
        names = np.where(test, "test", np.where(dev, "dev", "train"))
        # a block's first message is the reply before it, and may not stand in another split
        before, after = order[:-1], order[1:]
        within = component[before] == component[after]
        names[after[within & (names[before] != names[after])]] = ""
        times = (np.unique(keys[names == split, 1], return_counts=True)[1] for split in SPLITS[1:])
        if all(some.sum() - some.max(initial=0) >= FEWEST for some in times):    # other replies
            break
    return Splits(names, units, cut)


def _components(origins, own):
    """The conversation of each pair, as a number: int (n,).

    own: bool (n, 2), whether a text belongs to one conversation alone, as far as one can tell

    Conversations are the connected components of a graph whose edges are the pairs. A pair joins
    the ids of its two messages, so that a chain of replies is one conversation, or its known
    conversation to itself. If neither is known, it joins its two texts: a reply that is also a
    message links two pairs. A text that may be anybody's links nothing.
    """
    keys, names, _ = origins
    nodes = np.where(names == 0, np.where(own, keys, 0), names)           # (n, 2)
    nodes = np.where(nodes == 0, nodes[:, ::-1], nodes)       # a single node: an edge to itself
    pair = keys[:, :1] + np.uint64(3) * keys[:, 1:]           # no node: equal pairs stay together
    nodes, ends = np.unique(np.where(nodes == 0, pair, nodes), return_inverse=True)
    ends = ends.reshape(-1, 2)
    # bool: of small integers, 256 copies of an edge would add up to 0
    edges = coo_matrix((np.ones(len(ends), bool), ends.T), (len(nodes), len(nodes)))
    return connected_components(edges, directed=False)[1][ends[:, 0]]


def _blocks(component):
    """The unit of each pair, int (n,): its conversation, or a block of one that is too large.

    → units, how many conversations are cut
    """
    order, sizes = np.argsort(component, kind="stable"), np.bincount(component)
    large = (sizes > LARGEST * len(component)) & (sizes > BLOCK)
    place = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)    # in its component
    begins = (place == 0) | np.repeat(large, sizes) & (place % BLOCK == 0)
    units = np.empty_like(order)
    units[order] = np.cumsum(begins) - 1
    return units, int(large.sum())


def _lowest_hash(keys, own, units):
    """The lowest hash of each pair's unit: uint64 (n,). It depends on texts alone.

    So neither the name nor the order of files moves a pair. Texts that are anybody's have high
    hashes: otherwise one of them could decide for many units.
    """
    hashes = np.where(own, keys >> np.uint64(1), keys | np.uint64(1 << 63)).min(axis=1)
    lowest = np.full(units.max(initial=-1) + 1, np.iinfo(np.uint64).max, np.uint64)
    np.minimum.at(lowest, units, hashes)
    return lowest[units]


def straightness(origins, splits):
    """How straight these Splits are, for the corpus's report: a dict.

    conversations: units by split; cut: how many were too large; between: pairs left out because
    they would connect two splits; texts, known: how many different texts of LONG characters or more
    test has, and how many of them train has as well; same: how often a wrong candidate of a test
    pair is from its own unit
    """
    keys, _, long = origins
    inside = {split: splits.names == split for split in SPLITS}
    test, train = (np.unique(keys[inside[split]][long[inside[split]]])
                   for split in ("test", "train"))
    sizes = np.bincount(splits.units[inside["test"]])
    total = max(2, sizes.sum())
    return {"conversations": {split: len(np.unique(splits.units[which]))
                              for split, which in inside.items()},
            "cut": splits.cut, "between": int((splits.names == "").sum()), "texts": len(test),
            "known": len(np.intersect1d(test, train, assume_unique=True)),
            "same": float((sizes * (sizes - 1)).sum() / (total * (total - 1)))}
