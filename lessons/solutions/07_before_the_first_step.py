"""Solutions of lesson 7, Before the first step.

1: Under independence n_wc is n_w n_c/T, and the logarithm of the quotient is 0. The tempting one
divides by n_w alone: it is ln p(c | w), which is large for any frequent c.
2: The two share "the … of the …" alone, which a/(a + p) makes small. In the tempting pair they
share what matters, and weights do not part them.
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
