"""Solutions of lesson 3, Linear layers and activations.

1: For x > 0 the quotient rule gives 1/(1 + x)², and 1/(1 + x) = 1 − y. Left of 0 it is 1 + y.
2: Every term of s_b holds ds_b once. Without it dW has the right shape and the rows' wrong
weights.
"""

from prove import run_lesson, solution
import numpy as np

run_lesson(__file__)


def solution_softsign_backward(dy, cache):
    return dy * (1 - np.abs(cache))**2                        # 1/(1 + |x|)²


def solution_bilinear_backward(ds, cache):
    u, weight, v = cache
    ds = ds[:, None]    # (B, 1): each sentence's row carries its own
    return ds * (v @ weight.T), u.T @ (ds * v), ds * (u @ weight)


def tempting_bilinear_backward(ds, cache):
    u, weight, v = cache
    return ds[:, None] * (v @ weight.T), u.T @ v, ds[:, None] * (u @ weight)    # dweight without ds


# right of 0 only; four rows only; zeros, and a dy of zeros to go with them
solution(1, solution_softsign_backward, lambda dy, y: dy * (1 - y)**2,
         lambda dy, y: np.vstack([dy[:4] * (1 - np.abs(y[:4]))**2, dy[4:]]),
         lambda dy, y: np.multiply(dy, 0, out=dy))
# no ds; a mean; no dv; all wiped
solution(2, solution_bilinear_backward, tempting_bilinear_backward,
         lambda ds, cache: [x / len(ds) for x in solution_bilinear_backward(ds, cache)],
         lambda ds, cache: solution_bilinear_backward(ds, cache)[:2],
         lambda ds, cache: [x.fill(0) for x in cache] and solution_bilinear_backward(ds, cache))
