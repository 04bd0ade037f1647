"""Solutions of lesson 12, One attention head.

1: x reaches y as a value, p dyᵀ, and through the scores, ds wᵀ: two ways, and their gradients
add. The tempting one has the first alone.
2: One word four times has one value, so dp is the same for all j, dp − Σ p dp is 0, and so is ds.
A palindrome has different values.
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


def solution_blind_sentence(rng):
    return np.tile(rng.standard_normal(6), (4, 1))  # one word four times: all v_j equal, so ds = 0


def tempting_blind_sentence(rng):
    x = rng.standard_normal((2, 6))
    return np.concatenate([x, x[::-1]])    # a palindrome: symmetric, but not enough


solution(1, solution_attention_pool_backward, tempting_attention_pool_backward)
solution(2, solution_blind_sentence, tempting_blind_sentence)
