"""Solutions of lesson 0, Before and after.

1: Vectors have length 1, so the product is the cosine, and sorting its negative puts the best
first. The last `top` of a rising order are the right lines with the worst of them first.
"""

from prove import run_lesson, solution
import numpy as np

lesson = run_lesson(__file__)
encoder = lesson.after


def solution_search(question, lines, top):
    cosines = encoder.encode(lines) @ encoder.encode(question)
    return [lines[i] for i in np.argsort(-cosines)[:top]]


def tempting_search(question, lines, top):
    cosines = encoder.encode(lines) @ encoder.encode(question)
    return [lines[i] for i in np.argsort(cosines)[-top:]]     # the worst of them first


def tempting_places(question, lines, top):
    cosines = encoder.encode(lines) @ encoder.encode(question)
    return np.argsort(-cosines)[:top]                         # their places, not what they say


solution(1, solution_search, tempting_search, tempting_places,
         lambda question, lines, top: solution_search(question, lines, 4))
