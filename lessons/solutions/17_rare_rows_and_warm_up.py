"""Solutions of lesson 17, Rare rows and warm-up.

1: s forgets one large gradient in the course of many small ones, so that at its return it counts
much; the many push x up. In ten steps s hardly changes.
"""

from prove import run_lesson, solution

run_lesson(__file__)


def solution_climbing_gradients():
    return [4500.0] + 4000 * [-1.0]    # s forgets the one in the course of the many


def tempting_climbing_gradients():
    return [10.0] + 9 * [-1.0]                                # s hardly changes in ten steps


solution(1, solution_climbing_gradients, tempting_climbing_gradients)
