"""Solutions of lesson 21, Ranking and MAP.

1: The k-th relevant one stands at rank n − R + k, where k are relevant. R/n is the share at the
last rank alone.
2: Only equals change places, so average over the orders by falling score. A stable sort takes one
of them: the file's.
"""

import itertools

from prove import run_lesson, solution
import numpy as np

from convsim_mini.evaluation.metrics import average_precision

lesson = run_lesson(__file__)
padded = lesson.padded


def solution_worst(n, R):
    k = np.arange(1, R + 1)
    return float(np.mean(k / (n - R + k)))    # the k-th of them stands at rank n − R + k


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


# the mean of all orders, not the worst
solution(1, solution_worst, lambda n, R: R / n)
solution(2, solution_expected, tempting_expected)
