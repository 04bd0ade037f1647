"""Solutions of lesson 11, All of it in one file.

1: s_ij depends on the scale with u_i · v_j as its slope, and ∂loss/∂s_ij is (p_ij − δ_ij)/B. The
sum of their products runs over all pairs, also over the wrong ones.
"""

from prove import run_lesson, solution

import numpy as np

run_lesson(__file__)


def p_and_cosines(u, v, scale):
    cosines = u @ v.T
    p = np.exp(scale * (cosines - 1))
    return p / p.sum(axis=1, keepdims=True), cosines


def solution_scale_gradient(u, v, scale):
    p, cosines = p_and_cosines(u, v, scale)
    return ((p - np.eye(len(u))) * cosines).sum() / len(u)


def tempting_scale_gradient(u, v, scale):
    p, cosines = p_and_cosines(u, v, scale)
    return ((p - 1) * cosines).diagonal().mean()              # of the true replies only


def tempting_sum(u, v, scale):
    return len(u) * solution_scale_gradient(u, v, scale)      # of a sum over the batch


solution(1, solution_scale_gradient, tempting_scale_gradient, tempting_sum)
