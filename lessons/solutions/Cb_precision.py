"""Solutions of lesson C, Precision.

1: (new − total) − x is what was added less what should have been; the next x gives it back. One
by one without it, roundings add up.
2: A sparse matrix of ones adds each segment by itself. Differences of a running total carry its
rounding into every segment.
"""

from prove import run_lesson, solution
import numpy as np
import scipy.sparse

run_lesson(__file__)


def solution_careful_sum(values):
    total = lost = np.float32(0)
    for x in values:
        x = x - lost
        new = total + x
        lost = (new - total) - x    # what was added, less what should have been
        total = new
    return total


def tempting_careful_sum(values):
    total = np.float32(0)
    for x in values:
        total = total + x    # one by one, and nothing is given back
    return total


def solution_segment_sums(x, offsets):
    ones = np.ones(len(x), np.float32)
    matrix = scipy.sparse.csr_matrix((ones, np.arange(len(x)), offsets),
                                     shape=(len(offsets) - 1, len(x)))
    return matrix @ x                                         # (B, N) (N, d)


def tempting_segment_sums(x, offsets):
    running = np.concatenate([np.zeros((1, x.shape[1]), x.dtype), np.cumsum(x, axis=0)])
    return running[offsets[1:]] - running[offsets[:-1]]


solution(1, solution_careful_sum, tempting_careful_sum,
         lambda values: np.float32(sum(values, np.float64(0))),           # a float64 total
         lambda values: np.float32(sum(float(x) for x in values)),
         lambda values: np.array(list(values), np.float32).sum())         # in pairs, not one by one
solution(2, solution_segment_sums, tempting_segment_sums,
         lambda x, offsets: np.add.reduceat(x, offsets[:-1], axis=0),     # an empty one gets a row
         lambda x, offsets: tempting_segment_sums(x.astype(float), offsets).astype(np.float32))
