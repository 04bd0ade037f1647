"""Solutions of lesson 26, Counting, continued.

1: (1 − ρ²)/√e ≤ wanted, solved for e. 1/wanted² treats every cosine as one near 0.
2: By cosine y1 is nearer, but y2 is short, and for a large b distance decides. Vectors of one
length keep their order under any b.
"""

from prove import run_lesson, solution
import numpy as np

lesson = run_lesson(__file__)
unit = lesson.unit


def solution_columns_needed(rho, wanted):
    return max(1, int(np.ceil(((1 - rho**2) / wanted) ** 2)))


def tempting_columns_needed(rho, wanted):
    return int(np.ceil(1 / wanted**2))                        # as if every cosine were near 0


def solution_harmful_bias():
    x, y1, y2, b = np.eye(5)[:4]                              # y2 is orthogonal to x, but short
    return x, 10 * x + y1, 0.1 * y2, 5 * b


def tempting_harmful_bias():
    x, y1, y2, b = np.eye(5)[:4]
    return x, unit((x + y1)[None])[0], y2, 1000 * b           # squeezed, and in the same order


solution(1, solution_columns_needed, tempting_columns_needed)
solution(2, solution_harmful_bias, tempting_harmful_bias)
