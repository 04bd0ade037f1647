"""Solutions of lesson 16, Optimisers. Look when you have tried.

    python lessons/solutions/16_optimisers.py
"""

import numpy as np
from prove import run_lesson, solution

run_lesson(__file__)


def solution_best_momentum(low, high):
    root = (np.sqrt(high / low) - 1) / (np.sqrt(high / low) + 1)
    return (1 + root) ** 2 / high, root**2


def tempting_best_momentum(low, high):
    root = (np.sqrt(high / low) - 1) / (np.sqrt(high / low) + 1)
    return 2 / (low + high), root**2                          # the best rate of SGD


def solution_climbing_gradients():
    return [4500.0] + 4000 * [-1.0]    # s forgets the one in the course of the many


def tempting_climbing_gradients():
    return [10.0] + 9 * [-1.0]                                # s hardly changes in ten steps


solution(1, solution_best_momentum, tempting_best_momentum)
solution(2, solution_climbing_gradients, tempting_climbing_gradients)
