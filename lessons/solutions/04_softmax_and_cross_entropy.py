"""Solutions of lesson 4, Softmax and cross-entropy.

1: dp − mean(dp) gives zero for ones, and its rows sum to zero, but p is nowhere in it. p (dp −
mean dp) has rows that do not sum to zero.
2: Every y_k of a row holds −log Σ e^s, whose slope is p; so p meets the sum of dy. Without the
sum it is right only for a dy that sums to 1. Ones see something here: Σ_j log p_j is not constant.
"""

from prove import judges, run_lesson, solution
import numpy as np

lesson = run_lesson(__file__)


def solution_well_dressed_backward(dp, cache):
    return dp - dp.mean(axis=1, keepdims=True)    # a projection after all, but p is nowhere


def solution_log_softmax_backward(dy, cache):
    return dy - np.exp(cache) * dy.sum(axis=1, keepdims=True)


# rows ≠ 0; a copy from the lesson's list; the right one, with a factor for each row
solution(1, solution_well_dressed_backward, lambda dp, p: p * (dp - dp.mean(axis=1, keepdims=True)),
         lambda dp, p: -3 * p * (dp - (dp * p).sum(axis=1, keepdims=True)),
         lambda dp, p: np.c_[[1, -1, 1, -1]] * p * (dp - (dp * p).sum(axis=1, keepdims=True)),
         lambda dp, p: np.c_[[1, 2, 3, 4]] * p * (dp - (dp * p).sum(axis=1, keepdims=True)),
         lambda dp, p: np.c_[[0, 1, 1, 1]] * p * (dp - (dp * p).sum(axis=1, keepdims=True)))
for draw in range(5):    # another right answer, the backward of softmax(2s): rows nearly parallel
    judges[1](lambda dp, p: lesson.softmax_backward(dp, p**2 / (p**2).sum(axis=1, keepdims=True)),
              np.random.default_rng(draw))
# right only for a dy that sums to 1; zeros, and a dy of zeros to go with them
solution(2, solution_log_softmax_backward, lambda dy, y: dy - np.exp(y),
         lambda dy, y: np.multiply(dy, 0, out=dy))
