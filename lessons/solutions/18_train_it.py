"""Solutions of lesson 18, Train it.

1: The test needs the same pairs in every step, not the right ones. A pairing drawn anew each time
cannot be learned by heart; sides exchanged or words reversed are the same pairs to a bag.
2: Rows that the step has not touched make the ratio small, whatever the step did. So take those
in the gradient, each once, that were not zero.
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


def solution_table_ratio(before, after, grad):
    rows = np.unique(np.concatenate([part.rows for part in grad]))
    rows = rows[before[rows].any(axis=1)]
    return np.linalg.norm(after[rows] - before[rows]) / np.linalg.norm(before[rows])


def with_repeats(before, after, grad):
    rows = np.concatenate([part.rows for part in grad])
    rows = rows[before[rows].any(axis=1)]                     # a row that stands twice counts twice
    return np.linalg.norm(after[rows] - before[rows]) / np.linalg.norm(before[rows])


solution(1, solution_broken_batch, tempting_broken_batch, swapped_batch, reversed_batch)
solution(2, solution_table_ratio, with_repeats,
         lambda before, after, grad: np.linalg.norm(after - before) / np.linalg.norm(before))
