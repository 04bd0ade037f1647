"""Solutions of lesson 16, Optimisers.

1: At the limit z = −1: 1 + (1 + μ − ηλ) + μ = 0, so η = 2 (1 + μ)/λ. Momentum *raises* SGD's
limit. The tempting 2 (1 − μ)/λ keeps the sum of the steps, η/(1 − μ), at SGD's limit.
2: s forgets one large gradient in the course of many small ones, so that at its return it counts
much; the many push x up. In ten steps s hardly changes.
"""

from prove import run_lesson, solution

run_lesson(__file__)


def solution_climbing_gradients():
    return [4500.0] + 4000 * [-1.0]    # s forgets the one in the course of the many


def tempting_climbing_gradients():
    return [10.0] + 9 * [-1.0]                                # s hardly changes in ten steps


solution(1, lambda curvature, mu: 2 * (1 + mu) / curvature,
         lambda curvature, mu: 2 * (1 - mu) / curvature)
solution(2, solution_climbing_gradients, tempting_climbing_gradients)
