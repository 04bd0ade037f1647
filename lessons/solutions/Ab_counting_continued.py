"""Solutions of lesson A, Counting, continued.

1: cos' = (c + ‖b‖²)/(1 + ‖b‖²), solved for c. Subtracting ‖b‖² alone forgets that x + b is longer.
2: By cosine y1 is nearer, but y2 is short, and for a large b distance decides. Vectors of one
length keep their order under any b.
"""

from prove import run_lesson, solution
import numpy as np

lesson = run_lesson(__file__)
unit = lesson.unit


def solution_harmful_bias():
    x, y1, y2, b = np.eye(5)[:4]                              # y2 is orthogonal to x, but short
    return x, 10 * x + y1, 0.1 * y2, 5 * b


def tempting_harmful_bias():
    x, y1, y2, b = np.eye(5)[:4]
    return x, unit((x + y1)[None])[0], y2, 1000 * b           # squeezed, and in the same order


solution(1, lambda cosines, squared: cosines * (1 + squared) - squared,
         lambda cosines, squared: cosines - squared)
solution(2, solution_harmful_bias, tempting_harmful_bias)
