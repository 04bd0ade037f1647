"""Solutions of lesson 21, How good is it?

1: The same pairs are drawn for both systems, so what both get wrong cancels in each difference.
With a draw for each system it does not; without replacement all draws are the same pairs.
2: Only equals change places, so average over the orders by falling score. A stable sort takes one
of them: the file's.
"""

import itertools

from prove import run_lesson, solution
import numpy as np

from convsim_mini.evaluation.metrics import average_precision

lesson = run_lesson(__file__)
padded, r_by_hand = lesson.padded, lesson.r_by_hand


def draws_of(n, rng, draws):
    return rng.integers(0, n, (draws, n))


def solution_paired_interval(one, other, labels, rng, draws=2000):
    found = [r_by_hand(one[k], labels[k]) - r_by_hand(other[k], labels[k])
             for k in draws_of(len(one), rng, draws)]
    return np.quantile(found, (0.025, 0.975))


def tempting_paired_interval(one, other, labels, rng, draws=2000):
    found = [r_by_hand(one[k], labels[k]) - r_by_hand(other[l], labels[l])    # two draws
             for k, l in zip(*(draws_of(len(one), rng, draws) for _ in "kl"))]
    return np.quantile(found, (0.025, 0.975))


def shuffled(one, other, labels, rng, draws=2000):
    """Without replacement: the same pairs each time."""
    found = [r_by_hand(one[k], labels[k]) - r_by_hand(other[k], labels[k])
             for k in (rng.permutation(len(one)) for _ in range(draws))]
    return np.quantile(found, (0.025, 0.975))


def solution_expected(relevant, scores):
    found = []
    for order in itertools.permutations(range(len(scores))):
        if all(scores[a] >= scores[b] for a, b in zip(order, order[1:])):
            hits = np.cumsum([relevant[k] for k in order])
            found.append(np.mean([hits[k] / (k + 1) for k in range(len(order))
                                  if relevant[order[k]]]))
    return float(np.mean(found))


def tempting_expected(relevant, scores):
    # equals as they stand in the file
    order = np.argsort(-np.asarray(scores, float), kind="stable")
    return float(average_precision(padded(np.array([relevant])[:, order]))[0])


solution(1, solution_paired_interval, tempting_paired_interval, shuffled)
solution(2, solution_expected, tempting_expected)
