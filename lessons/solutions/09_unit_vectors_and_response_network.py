"""Solutions of lesson 9, Unit vectors and the response network.

1: Solve u[reply] W = u. A W that turns a sentence towards its own reply lets the one before it win.
"""

from prove import run_lesson, solution
import numpy as np

run_lesson(__file__)


def solution_towards(u, reply):
    return np.linalg.pinv(u[reply]) @ u


solution(1, solution_towards, lambda u, reply: np.linalg.pinv(u) @ u[reply],
         lambda u, reply: -np.eye(u.shape[1]))
