"""Solutions of lesson 9, Unit vectors and the response network.

1: Solve u[reply] W = u. A W that turns a sentence towards its own reply lets the one before it win.
2: Neighbours share an axis with opposite signs: their cosine is −½, that of all others 0. On a
circle with steps of 150° the neighbours of twelve are far apart, but opposite ones are farther.
"""

from prove import run_lesson, solution
import numpy as np

run_lesson(__file__)


def solution_towards(u, reply):
    return np.linalg.pinv(u[reply]) @ u


solution(1, solution_towards, lambda u, reply: np.linalg.pinv(u) @ u[reply],
         lambda u, reply: -np.eye(u.shape[1]))


def on_circle(n):
    angles = 2 * np.pi * np.arange(n) * ((n - 1) // 2) / n    # as far from the neighbour as can be
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


solution(2, lambda n: (np.eye(n) - np.roll(np.eye(n), 1, axis=1)) / np.sqrt(2), on_circle, np.eye)
