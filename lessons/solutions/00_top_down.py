"""Solutions of lesson 0, Top down. Look when you have tried.

    python lessons/solutions/00_top_down.py
"""

import numpy as np
from prove import run_lesson, solution

lesson = run_lesson(__file__)
encoder, probes = lesson.after, lesson.probes


def solution_search(question, lines, top):
    cosines = encoder.encode(lines) @ encoder.encode(question)
    return [lines[i] for i in np.argsort(-cosines)[:top]]


def tempting_search(question, lines, top):
    cosines = encoder.encode(lines) @ encoder.encode(question)
    return [lines[i] for i in np.argsort(cosines)[-top:]]     # the worst of them first


solution(1, solution_search, tempting_search)
solution(2, lambda: probes["not"], lambda: ("Yes.", "Nothing."))
