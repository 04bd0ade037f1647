"""Solutions of lesson 1, Why replies reveal meaning.

1: A reply that comes after every sentence half of the time carries nothing, and the other half
carries what it did. Mixing in what all say halves the information as well, but changes the
proportions of the old replies.
"""

from prove import run_lesson, solution
import numpy as np

lesson = run_lesson(__file__)


def solution_evasive_world(P):
    # I′ = Σ ½ P ln(½P / ½P(r)) + ½ ln(½/½) = I/2
    return np.hstack([P / 2, np.full((len(P), 1), 0.5)])


def tempting_evasive_world(P):
    """Mixed with what all say, until half is left: "fine thanks" after "how old are you"."""
    low, high, wanted = 0.0, 1.0, lesson.mutual_information(P) / 2
    for _ in range(60):
        share = (low + high) / 2
        mixed = (1 - share) * P + share * P.mean(axis=0)
        low, high = (share, high) if lesson.mutual_information(mixed) > wanted else (low, share)
    return np.hstack([mixed, np.zeros((len(P), 1))])


def tempting_debt(P):
    """Half of the information and all proportions, but a probability of −1."""
    return np.hstack([P / 2, np.full((len(P), 1), 1.5), np.full((len(P), 1), -1.0)])


solution(1, solution_evasive_world, tempting_evasive_world, tempting_debt)
