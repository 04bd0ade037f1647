"""Solutions of lesson 22, The shape of the space.

1: The squared length of the sum holds all u_i · u_j; n of them are a vector with itself. The
squared mean leaves those in. U Uᵀ is right, at once, in blocks or by rows, with n² products.
"""

from prove import run_lesson, solution
import numpy as np

run_lesson(__file__)


def solution_mean_cosine(u):
    total, n = u.sum(axis=0), len(u)
    return (total @ total - n) / (n * (n - 1))


def tempting_mean_cosine(u):
    return u.mean(axis=0) @ u.mean(axis=0)                    # with i = j among the pairs


def all_pairs(u):
    return (u @ u.T)[~np.eye(len(u), dtype=bool)].mean()


def by_rows(u, rows=1):
    total = sum(float((u[k:k + rows] @ u.T).sum()) for k in range(0, len(u), rows))
    return (total - len(u)) / (len(u) * (len(u) - 1))


solution(1, solution_mean_cosine, tempting_mean_cosine, all_pairs, by_rows,
         lambda u: by_rows(u, 100))
