"""Solutions of lesson 9, Unit vectors and the response network.

1: Each step adds η² g²/‖x‖², with the length of now. With the length of the start throughout, the
growth is too large.
2: Solve u[reply] W = u. A W that turns a sentence towards its own reply lets the one before it win.
"""

from prove import run_lesson, solution
import numpy as np

run_lesson(__file__)


def solution_length_after(norm, rate, sideways):
    square = norm**2
    for g in sideways:
        square += rate**2 * g**2 / square    # ‖dx‖² = g²/‖x‖², with the length of now
    return np.sqrt(square)


def tempting_length_after(norm, rate, sideways):
    # the length of the start throughout
    return np.sqrt(norm**2 + rate**2 * sum(g**2 for g in sideways) / norm**2)


def solution_towards(u, reply):
    return np.linalg.pinv(u[reply]) @ u


solution(1, solution_length_after, tempting_length_after)
solution(2, solution_towards, lambda u, reply: np.linalg.pinv(u) @ u[reply],    # towards its reply
         lambda u, reply: -np.eye(u.shape[1]))                # away from itself, no more
