"""Solutions of lesson 19, What the scores become.

1: With z = e^s the pulls are a n/(z + n), the pushes n a z/(a z + n). Equal for z² + (n − a) z = n:
ln 1.44 = 0.36 for K = 64, q = ¼. With duplicates s is 0; ln (1 − q)/(1 − 2q) is for a large K only.
2: A candidate is the true one in proportion to p(j | i)/q(j), by Bayes. PMI divides by p(j),
which is right only where wrong answers come with p(j).
"""

from prove import run_lesson, solution
import numpy as np

run_lesson(__file__)


def solution_score_of_yes(K, q):
    a, n = q * K, (1 - q) * K
    return np.log((a - n + np.sqrt((n - a) ** 2 + 4 * n)) / 2)


def tempting_score_of_yes(K, q):
    return 0.0                                                # with the duplicates


def solution_wanted_scores(joint, q):
    return np.log(joint / joint.sum(axis=1, keepdims=True) / q)    # log p(j | i)/q(j)


def tempting_wanted_scores(joint, q):
    return np.log(joint / np.outer(joint.sum(axis=1), joint.sum(axis=0)))    # PMI, whatever q is


solution(1, solution_score_of_yes, tempting_score_of_yes,
         lambda K, q: np.log((1 - q) / (1 - 2 * q)))          # of a large batch
solution(2, solution_wanted_scores, tempting_wanted_scores)
