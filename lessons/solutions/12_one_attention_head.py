"""Solutions of lesson 12, One attention head.

1: x reaches y as a value, p dyᵀ, and through the scores, ds wᵀ: two ways, and their gradients
add. The tempting one has only the first.
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


solution(1, solution_attention_pool_backward, tempting_attention_pool_backward)
