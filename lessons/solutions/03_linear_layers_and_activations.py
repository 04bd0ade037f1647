"""Solutions of lesson 3, Linear layers and activations.

1: e⁻ˣ/(1 + e⁻ˣ)² = y (1 − y). 1 − y² is tanh's slope: 1 at x = 0, where the sigmoid has ¼.
2: Every term of s_b holds ds_b once. Without it dW has the right shape and the rows' wrong
weights.
"""

from prove import run_lesson, solution
import numpy as np

run_lesson(__file__)


def solution_sigmoid_backward(dy, cache):
    y = cache
    return dy * y * (1 - y)                                   # e⁻ˣ/(1 + e⁻ˣ)² = y · (1 − y)


def solution_bilinear_backward(ds, cache):
    u, weight, v = cache
    ds = ds[:, None]    # (B, 1): each sentence's row carries its own
    return ds * (v @ weight.T), u.T @ (ds * v), ds * (u @ weight)


def tempting_bilinear_backward(ds, cache):
    u, weight, v = cache
    return ds[:, None] * (v @ weight.T), u.T @ v, ds[:, None] * (u @ weight)    # dweight without ds


# tanh's; four rows only; zeros, and a dy of zeros to go with them
solution(1, solution_sigmoid_backward, lambda dy, y: dy * (1 - y * y),
         lambda dy, y: np.vstack([dy[:4] * y[:4] * (1 - y[:4]), dy[4:]]),
         lambda dy, y: np.multiply(dy, 0, out=dy))
# no ds; a mean; no dv; all wiped
solution(2, solution_bilinear_backward, tempting_bilinear_backward,
         lambda ds, cache: [x / len(ds) for x in solution_bilinear_backward(ds, cache)],
         lambda ds, cache: solution_bilinear_backward(ds, cache)[:2],
         lambda ds, cache: [x.fill(0) for x in cache] and solution_bilinear_backward(ds, cache))
