"""Solutions of lesson 18, Train it.

1: The test needs the same pairs in every step, not the right ones. A pairing drawn anew each time
cannot be learned by heart; sides exchanged or words reversed are the same pairs to a bag.
"""

from prove import run_lesson, solution
import numpy as np

lesson = run_lesson(__file__)
rng = lesson.rng


def solution_broken_batch(split, which):
    others = np.roll(which, 1)                                # the same wrong replies in every step
    numbers = np.concatenate([2 * which, 2 * others + 1])
    return split.batch(which)._replace(sentences=split.sentences(numbers))


def tempting_broken_batch(split, which):
    shuffled = rng.permutation(which)    # another pairing in every step cannot be learned by heart
    numbers = np.concatenate([2 * which, 2 * shuffled + 1])
    return split.batch(which)._replace(sentences=split.sentences(numbers))


def swapped_batch(split, which):
    numbers = np.concatenate([2 * which + 1, 2 * which])      # harmless: the pairs are the same
    return split.batch(which)._replace(sentences=split.sentences(numbers))


def reversed_batch(split, which):
    """Each sentence backwards, which is harmless to a bag of words."""
    batch = split.batch(which)
    sides = batch.sentences
    ids = np.concatenate([sides.part(b, b + 1).ids[::-1] for b in range(len(sides.lengths))])
    return batch._replace(sentences=sides._replace(ids=ids))


solution(1, solution_broken_batch, tempting_broken_batch, swapped_batch, reversed_batch)
