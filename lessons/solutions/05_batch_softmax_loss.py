"""Solutions of lesson 5, The batch softmax loss.

1: Rows and columns of ds sum to 0, so equal v's stop u, and equal u's stop v. If only the v's are
equal, they still move apart. Whole numbers and short vectors are as good as any.
2: A row whose reply comes c times in the batch reaches p = 1/c, and each row counts. The mean over
texts gives a text that comes four times no more weight than a text that comes once.
"""

from prove import judges, run_lesson, solution
import numpy as np

run_lesson(__file__)


def solution_dead_point():
    return np.ones((8, 5)), np.ones((8, 5))                   # rows and columns of ds sum to 0


def tempting_dead_point():
    # equal scores, but the v's can part
    return np.random.default_rng(0).standard_normal((8, 5)), np.ones((8, 5))


def solution_loss_floor(keys):
    _, group, count = np.unique(keys, return_inverse=True, return_counts=True)
    return np.log(count[group]).mean()


def tempting_loss_floor(keys):
    # the mean over texts, not over rows
    return np.log(np.unique(keys, return_counts=True)[1]).mean()


solution(1, solution_dead_point, tempting_dead_point, lambda: (np.zeros((8, 5)), np.ones((8, 5))),
         lambda: (np.full((8, 5), np.nan),) * 2)
judges[1](lambda: (np.full((8, 5), 1), np.full((8, 5), 0.02)), None)           # right as well
solution(2, solution_loss_floor, tempting_loss_floor)
