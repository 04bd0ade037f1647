"""Which split a pair belongs to. The unit is the conversation, which no split cuts.

If pairs of one conversation stand in train and in test, an encoder that remembers train's texts
finds test's replies by their neighbours, and P@1 measures memory. So whatever is said together
stays together.
"""

import hashlib
import os
from typing import NamedTuple

import numpy as np

from ..common.cli import say
from ..core.packed import offsets_of

SPLITS = ("train", "dev", "test")
LONG = 15          # characters; a shorter text, such as "yes", may be anybody's
OFTEN = 2          # a text that is a reply more often may be anybody's, too
LARGEST = 0.02     # of all pairs; a larger unit is cut into blocks
BLOCK = 50         # successive pairs
FEWEST = 100       # pairs in a split, and replies to choose among
LEFT_OUT = len(SPLITS)    # a pair that would connect two splits
AT_ONCE = 20_000   # pairs, so that memory stays small
BYTES = 40         # of memory for each pair that is joined by its texts
HIGHEST = np.uint64(2**64 - 1)    # ends each ascending table, so that none is empty


class Origins(NamedTuple):
    """Where n pairs come from: what decides their splits. All hashes are those of `text_key`."""

    keys: np.ndarray     # uint64 (n, 2): of the two texts
    names: np.ndarray    # uint64 (n, 2): of the conversation, or of the ids of the two messages if
    #                      replies form it; 0 if it is unknown
    long: np.ndarray     # bool (n, 2): whether a text has LONG characters or more


class Splits(NamedTuple):
    """What `split_pairs` decides about n pairs."""

    codes: np.ndarray    # uint8 (n,): a place in SPLITS, or LEFT_OUT
    units: np.ndarray    # int32 (n,): the number of each pair's unit
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
    often = _repeated(np.array(keys[:, 1]), OFTEN)
    own = by_parts(len(keys), lambda some: (    # texts of one conversation alone
        origins.long[some] & (often[np.searchsorted(often, keys[some])] != keys[some])))
    if not _joined_in_memory(sum(int((origins.names[some, 0] == 0).sum())
                                 for some in in_parts(len(keys)))):
        own[:] = False                                        # so no text joins two pairs
    units, large = _units(_components(origins, own))
    for test, dev in _ways(_lowest_hashes(keys, own, units), units):
        codes = np.where(test, 2, np.where(dev, 1, 0)).astype(np.uint8)[units]
        # a block's first message is the reply before it, and may not stand in another split
        for pairs in large:
            of_pairs = codes[pairs]
            codes[pairs[1:][of_pairs[1:] != of_pairs[:-1]]] = LEFT_OUT
        times = (np.unique(keys[codes == code, 1], return_counts=True)[1] for code in (1, 2))
        if all(some.sum() - some.max(initial=0) >= FEWEST for some in times):    # other replies
            break
    return Splits(codes, units, len(large))


def _joined_in_memory(number):
    """Whether so many pairs without a conversation can be joined by their texts; if not, say so."""
    memory = (os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
              if hasattr(os, "sysconf") else np.inf)          # on Windows
    if number * BYTES > memory:
        say(f"{number:,} pairs without a conversation would need {number * BYTES / 1e9:.3g} GB of "
            f"memory to be joined by their texts, of {memory / 1e9:.3g}: each is split alone, so a "
            "message may be in train and its answer in test; give a column with conversations")
    return number * BYTES <= memory


def in_parts(number):
    """Yield slices of AT_ONCE of so many pairs."""
    return (slice(k, min(k + AT_ONCE, number)) for k in range(0, max(number, 1), AT_ONCE))


def by_parts(number, function):
    """What function(slice) returns for the parts of so many pairs, as one array (number, …)."""
    found = None
    for some in in_parts(number):
        part = function(some)
        if found is None:    # `concatenate` would need twice the memory
            found = np.empty((number, *part.shape[1:]), part.dtype)
        found[some] = part
    return found


def _repeated(values, times):
    """What occurs more than `times` times in values (n,), which are sorted in place: ascending."""
    values.sort()
    more = values[times:] == values[:-times]
    more[1:] &= ~more[:-1]                                    # only the first of each
    return np.append(values[:-times][more], HIGHEST)


def _components(origins, own):
    """The conversation of each pair, as a number: int32 (n,).

    own: bool (n, 2), whether a text belongs to one conversation alone, as far as one can tell

    Conversations are the connected components of a graph whose edges are the pairs. A pair joins
    the ids of its two messages, so that a chain of replies is one conversation, or its known
    conversation to itself. If neither is known, it joins its two texts: a reply that is also a
    message links two pairs. A text that may be anybody's links nothing.
    """
    def nodes_of(some):
        keys, names = origins.keys[some], origins.names[some]
        nodes = np.where(names == 0, np.where(own[some], keys, 0), names)
        nodes = np.where(nodes == 0, nodes[:, ::-1], nodes)   # a single node: an edge to itself
        pair = keys[:, :1] + np.uint64(3) * keys[:, 1:]       # no node: equal pairs stay together
        return np.where(nodes == 0, pair, nodes)              # (pairs, 2)

    def place(some):
        nodes = nodes_of(some)
        place = np.searchsorted(shared, nodes).astype(np.int32)
        return np.where(shared[place] == nodes, place, -1)

    shared = _repeated(by_parts(len(own), nodes_of).ravel(), 1)    # others join nothing
    ends = by_parts(len(own), place)
    ends = np.where(ends == -1, ends[:, ::-1], ends)
    alone = ends[:, 0] == -1
    ends[alone] = len(shared) + np.arange(alone.sum())[:, None]
    return connected(ends, len(shared) + alone.sum())[ends[:, 0]]


def connected(ends, number):
    """The lowest node that each of `number` nodes is connected to. ends: int32 (m, 2), the edges.

    Each root joins its lowest neighbour, until no edge is left between two roots: O(log n) times,
    if numbers are in a random order. SciPy's function needs twice the memory.
    """
    root, (one, other) = np.arange(number, dtype=np.int32), ends.T
    while (differ := one != other).any():
        one, other = one[differ], other[differ]
        np.minimum.at(root, np.maximum(one, other), np.minimum(one, other))
        while not np.array_equal(root, shorter := root[root]):
            root = shorter
        one, other = root[one], root[other]
    return root


def _units(component):
    """The unit of each pair, int32 (n,): its conversation, or a block of one that is too large.

    → units, the pairs of each conversation that is cut
    """
    sizes, units, cut = np.bincount(component), component.copy(), []
    for large in np.flatnonzero(sizes > max(LARGEST * len(component), BLOCK)):
        cut.append(np.flatnonzero(component == large))
        units[cut[-1]] = units.max() + 1 + np.arange(len(cut[-1])) // BLOCK
    return units, cut


def _lowest_hashes(keys, own, units):
    """The lowest hash in each unit: uint64 (number of units,). It depends on texts alone.

    So neither the name nor the order of files moves a pair. Texts that are anybody's have high
    hashes: otherwise one of them could decide for many units.
    """
    lowest = np.full(units.max(initial=-1) + 1, HIGHEST)
    for some in in_parts(len(units)):
        hashes = np.where(own[some], keys[some] >> np.uint64(1), keys[some] | np.uint64(1 << 63))
        np.minimum.at(lowest, units[some], hashes.min(axis=1))
    return lowest


def _ways(lowest, units):
    """Yield which units are test, and which are dev unless they are test: bool, bool."""
    yield lowest % 10 < 1, lowest // 10 % 25 == 0
    order = np.argsort(lowest)
    before = offsets_of(np.bincount(units, minlength=len(lowest))[order])    # pairs
    share = before[np.searchsorted(lowest[order], lowest)] / max(1, len(units))
    yield from ((share < part, share < 2 * part) for part in (0.1, 0.2, 0.3))


def straightness(origins, splits):
    """How straight these Splits are, for the corpus's report: a dict.

    conversations: units by split; cut: how many were too large; between: pairs left out because
    they would connect two splits; texts, known: how many different texts of LONG characters or more
    test has, and how many of them train has as well; same: how often a wrong candidate of a test
    pair is from its own unit
    """
    (keys, _, long), (codes, units, cut) = origins, splits
    test = codes == 2
    texts = np.append(np.sort(keys[test][long[test]]), HIGHEST)
    known = np.zeros(len(texts), bool)
    for some in in_parts(len(codes)):
        of_train = keys[some][long[some] & (codes[some] == 0)[:, None]]
        place = np.searchsorted(texts, of_train)
        known[place[texts[place] == of_train]] = True
    sizes = np.bincount(units[test])
    total = max(2, sizes.sum())
    return {"conversations": {split: int((np.bincount(units[codes == code]) > 0).sum())
                              for code, split in enumerate(SPLITS)},
            "cut": cut, "between": int((codes == LEFT_OUT).sum()),
            "texts": int((texts[1:] != texts[:-1]).sum()), "known": int(known.sum()),
            "same": float((sizes * (sizes - 1)).sum() / (total * (total - 1)))}
