"""Solutions of lesson 6, The √n combiner. Look when you have tried.

    python lessons/solutions/06_sqrtn_combiner_and_dan.py
"""

import numpy as np
from prove import run_lesson, solution

run_lesson(__file__)


def solution_half_shared(m, variance):
    return len(m) * variance / (m @ m)                        # dσ² = n ‖m‖²


def tempting_half_shared(m, variance):
    return variance / (m @ m)    # one number's variance, where the vector's was meant


def solution_mean_bag_backward(dy, cache):
    table_rows, ids = cache
    dtable = np.zeros((table_rows, dy.shape[1]))
    np.add.at(dtable, ids.ids, (dy / ids.lengths[:, None])[ids.sentence_numbers])
    return dtable


def tempting_mean_bag_backward(dy, cache):
    table_rows, ids = cache
    dtable = np.zeros((table_rows, dy.shape[1]))
    # equal ids: the last one wins
    dtable[ids.ids] += (dy / ids.lengths[:, None])[ids.sentence_numbers]
    return dtable


solution(1, solution_half_shared, tempting_half_shared)
solution(2, solution_mean_bag_backward, tempting_mean_bag_backward)
solution(3, lambda: [[1, 1], [1]], lambda: [[1, 2], [1]])     # nothing stands twice in one sentence
