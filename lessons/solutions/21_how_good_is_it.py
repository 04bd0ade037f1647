"""Solutions of lesson 21, How good is it?

1: The same pairs are drawn for both systems, so what both get wrong cancels in each difference.
With a draw for each system it does not; without replacement all draws are the same pairs.
"""

from prove import run_lesson, solution
import numpy as np

lesson = run_lesson(__file__)
r_by_hand = lesson.r_by_hand


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


solution(1, solution_paired_interval, tempting_paired_interval, shuffled)
