"""Solutions of lesson 7, Before the first step. Look when you have tried.

    python lessons/solutions/07_before_the_first_step.py
"""

import numpy as np
from prove import run_lesson, solution

run_lesson(__file__)


def solution_ppmi_of(counts):
    by_chance = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
    return np.log(np.maximum(counts / by_chance, 1))          # ln 1 = 0


def tempting_ppmi_of(counts):
    return np.maximum(np.log(np.maximum(counts, 1) / counts.sum(axis=1, keepdims=True)), 0)


solution(1, solution_ppmi_of, tempting_ppmi_of)
# the second pair shares what matters
solution(2, lambda: ("the mother of the man", "the end of the movie"),
         lambda: ("my mother likes pizza", "her mother likes pizza"))
