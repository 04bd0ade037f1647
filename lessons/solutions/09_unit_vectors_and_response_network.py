"""Solutions of lesson 9, Unit vectors and the response network.

1: Each step adds η² g²/‖x‖², with the length of now. With the length of the start throughout, the
growth is too large.
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


solution(1, solution_length_after, tempting_length_after)
