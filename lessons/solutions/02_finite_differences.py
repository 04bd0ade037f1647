"""Solutions of lesson 2, Finite differences.

1: The derivative ε f‴/3 − u F/ε² is 0 there. The square root belongs to the one-sided difference,
whose first term is ε f″/2.
2: Where ‖x‖ = 1 a lost division by ‖x‖ changes nothing. A lost projection is seen at any length.
"""

from prove import run_lesson, solution
import numpy as np

run_lesson(__file__)


def solution_best_step(u, F, f3):
    return (3 * u * F / f3) ** (1 / 3)                        # d/dε: ε f3/3 − u F/ε² = 0


def solution_fooling_backward(dy, cache):
    y, norm = cache
    # the division by ‖x‖ is gone: nothing where ‖x‖ is 1
    return dy - (dy * y).sum(axis=1, keepdims=True) * y


# the best one-sided step; the two terms equal, not their slopes; nearly the right step
solution(1, solution_best_step, lambda u, F, f3: np.sqrt(2 * u * F / f3),
         lambda u, F, f3: np.cbrt(6 * u * F / f3), lambda u, F, f3: np.cbrt(3.08 * u * F / f3))
# no projection: seen at once
solution(2, solution_fooling_backward, lambda dy, cache: dy / cache[1])
