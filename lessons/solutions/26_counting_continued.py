"""Solutions of lesson 26, Counting, continued. Look when you have tried.

    python lessons/solutions/26_counting_continued.py
"""

import numpy as np
from prove import run_lesson, solution

lesson = run_lesson(__file__)
unit = lesson.unit


def solution_powers_needed(ratio, wanted):
    return max(0, int(np.ceil((np.log(wanted) / np.log(ratio) - 1) / 2)))


def tempting_powers_needed(ratio, wanted):
    return int(np.ceil(np.log(wanted) / np.log(ratio)))       # one product each, and none before


def solution_harmful_bias():
    x, y1, y2, b = np.eye(5)[:4]                              # y2 is orthogonal to x, but short
    return x, 10 * x + y1, 0.1 * y2, 5 * b


def tempting_harmful_bias():
    x, y1, y2, b = np.eye(5)[:4]
    return x, unit((x + y1)[None])[0], y2, 1000 * b           # squeezed, and in the same order


solution(1, solution_powers_needed, tempting_powers_needed)
solution(2, solution_harmful_bias, tempting_harmful_bias)
