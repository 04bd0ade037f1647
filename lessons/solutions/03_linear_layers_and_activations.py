"""Solutions of lesson 3, Linear layers and activations.

1: Wᵀ = W hides the bug, and only a symmetric W does. A square one makes the shapes fit, but the
numbers differ.
2: e⁻ˣ/(1 + e⁻ˣ)² = y (1 − y). 1 − y² is tanh's slope: 1 at x = 0, where the sigmoid has ¼.
3: Every term of s_b holds ds_b once. Without it dW has the right shape and the rows' wrong
weights.
"""

from prove import run_lesson, solution

run_lesson(__file__)


def solution_unlucky_inputs(rng):
    weight = rng.standard_normal((3, 3))
    # symmetric: Wᵀ = W
    return rng.standard_normal((4, 3)), weight + weight.T, rng.standard_normal(3)


def tempting_unlucky_inputs(rng):
    # square is not enough
    return rng.standard_normal((3, 3)), rng.standard_normal((3, 3)), rng.standard_normal(3)


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


solution(1, solution_unlucky_inputs, tempting_unlucky_inputs)
solution(2, solution_sigmoid_backward, lambda dy, y: dy * (1 - y * y))          # tanh's
solution(3, solution_bilinear_backward, tempting_bilinear_backward)
