"""Solutions of lesson 22, The shape of the space.

1: The squared length of the sum holds all u_i · u_j; n of them are a vector with itself. The
squared mean leaves those in. U Uᵀ is right, at once, in blocks or by rows, with n² products.
2: The first has the cosine c with all others and these have c² with each other; c = 0.71 gives a
lead of 0.21. Nearer to the first, c − c² is smaller.
"""

from prove import run_lesson, solution
import numpy as np

lesson = run_lesson(__file__)
unit = lesson.unit


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


def solution_hub_of_twenty():
    axes = np.eye(20)
    return np.concatenate([axes[:1], (axes[:1] + axes[1:]) / np.sqrt(2)])     # c² = 0.5, c = 0.71


def tempting_hub_of_twenty():
    axes = np.eye(20)
    return np.concatenate([axes[:1], unit(3 * axes[:1] + axes[1:])])          # too near each other


solution(1, solution_mean_cosine, tempting_mean_cosine, all_pairs, by_rows,
         lambda u: by_rows(u, 100))
solution(2, solution_hub_of_twenty, tempting_hub_of_twenty)
