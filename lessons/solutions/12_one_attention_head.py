"""Solutions of lesson 12, One attention head.

1: x reaches y as a value, p dyᵀ, and through the scores, ds wᵀ: two ways, and their gradients
add. The tempting one has only the first.
2: Four directions like a compass's, for all of q, k, v, dy. s and dp are symmetric, and every row
has the same numbers, so p and ds are symmetric, too. In general each row of p has its own Z.
"""

from prove import run_lesson, solution
import numpy as np

run_lesson(__file__)


def solution_attention_pool_backward(dy, cache):
    x, w, p = cache
    dp = x @ dy                                               # (n,)
    ds = p * (dp - p @ dp)
    return np.outer(p, dy) + np.outer(ds, w), x.T @ ds        # as value, and as key


def tempting_attention_pool_backward(dy, cache):
    x, w, p = cache
    dp = x @ dy
    return np.outer(p, dy), x.T @ (p * (dp - p @ dp))    # the way through the scores is forgotten


compass = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]])
uneven = np.arange(8).reshape(4, 2) / 8
solution(1, solution_attention_pool_backward, tempting_attention_pool_backward)
solution(2, lambda: 4 * [compass], lambda: 4 * [uneven], lambda: 4 * [np.ones((4, 2))])
