"""Units of pairs → train, dev and test. No split cuts a unit, mostly a conversation (units.py).

If pairs of one conversation stand in train and in test, an encoder that remembers train's texts
finds test's replies by their neighbours, and P@1 measures memory. So whatever is said together
stays together.
"""

from typing import NamedTuple

import numpy as np

from ..core.packed import offsets_of
from .units import HIGHEST, conversations_of, cut_into_blocks, slices, telling_texts

SPLITS = ("train", "dev", "test")
LEFT_OUT = len(SPLITS)    # the code of a pair that would connect two splits
FEWEST = 100       # pairs in a split, and replies to choose among


class Splits(NamedTuple):
    """What `split_pairs` decides about n pairs."""

    codes: np.ndarray    # uint8 (n,): a place in SPLITS, or LEFT_OUT
    units: np.ndarray    # int32 (n,): the number of each pair's unit
    cut: int             # how many conversations were too large, and cut


def split_pairs(origins):
    """The Splits of n pairs: about 10% test, 3.6% dev, the rest train, by the hash of their units.

    So the split of a unit does not depend on other units. But if too few pairs fall to dev or test,
    the units with the lowest hashes, 1 to 3 tenths of the pairs, are test, and the next as many
    dev; of too few, 3 tenths stay. Another corpus may then train on conversations of this test.
    """
    keys, telling = origins.keys, telling_texts(origins)
    units, large = cut_into_blocks(conversations_of(origins, telling))
    for test, dev in _divisions(_lowest_hashes(keys, telling, units), units):
        codes = np.where(test, 2, np.where(dev, 1, 0)).astype(np.uint8)[units]
        # a block's first message is the reply before it, and may not stand in another split
        for pairs in large:
            of_pairs = codes[pairs]
            codes[pairs[1:][of_pairs[1:] != of_pairs[:-1]]] = LEFT_OUT
        if all(_can_be_ranked(keys[codes == code, 1]) for code in (1, 2)):
            break
    return Splits(codes, units, len(large))


def _lowest_hashes(keys, telling, units):
    """The lowest hash in each unit: uint64 (number of units,). It depends on texts alone.

    So neither the name nor the order of files moves a pair. Texts that are anybody's have high
    hashes: otherwise one of them could decide for many units.
    """
    lowest = np.full(units.max(initial=-1) + 1, HIGHEST)
    for some in slices(len(units)):
        hashes = np.where(telling[some], keys[some] >> np.uint64(1),
                          keys[some] | np.uint64(1 << 63))
        np.minimum.at(lowest, units[some], hashes.min(axis=1))
    return lowest


def _divisions(lowest, units):
    """Yield the divisions to try: which units are test, and which are dev unless they are test."""
    yield lowest % 10 < 1, lowest // 10 % 25 == 0
    order = np.argsort(lowest)
    before = offsets_of(np.bincount(units, minlength=len(lowest))[order])    # pairs
    share = before[np.searchsorted(lowest[order], lowest)] / max(1, len(units))
    yield from ((share < part, share < 2 * part) for part in (0.1, 0.2, 0.3))


def _can_be_ranked(replies):
    """Whether so many replies, as hashes, leave FEWEST wrong candidates for each."""
    times = np.unique(replies, return_counts=True)[1]
    return times.sum() - times.max(initial=0) >= FEWEST


def overlap(origins, splits):
    """What these Splits have in common, for the corpus's report: a dict.

    conversations: units by split; cut: how many were too large; between: pairs left out because
    they would connect two splits; texts, known: how many different long texts test has, and how
    many of them train has as well; same: how often a wrong candidate of a test pair is from its own
    unit
    """
    (keys, _, long), (codes, units, cut) = origins, splits
    test = codes == 2
    texts = np.append(np.sort(keys[test][long[test]]), HIGHEST)
    known = np.zeros(len(texts), bool)
    for some in slices(len(codes)):
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
