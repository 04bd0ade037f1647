"""What the solutions share: each file runs its lesson and then lets the lesson's judges decide.

A judge has to accept the solution and to refuse a tempting wrong answer.
Import this before NumPy, so that `lesson` can set the number of its threads.
"""

import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

LESSONS = Path(__file__).resolve().parent.parent
sys.path[0] = str(LESSONS)    # as if the lesson itself had been started

from lesson import judges
import numpy as np

DRAWS = 5    # of a judge's cases, each by a seed of its own


def run_lesson(path):
    """Run the lesson that the solutions in `path` belong to → its names, as attributes."""
    return SimpleNamespace(**runpy.run_path(str(LESSONS / Path(path).name), run_name="__main__"))


def solution(number, right, *tempting):
    """Prove that a judge accepts the right answer and refuses each tempting one in every draw."""
    judge, hints = judges[number], []
    for draw in range(DRAWS):
        judge(right, np.random.default_rng(draw))
        for wrong in tempting:
            try:
                judge(wrong, np.random.default_rng(draw))
            except AssertionError as error:
                hints += [str(error)] if draw == 0 else []
            else:
                raise AssertionError(f"exercise {number}: its check takes a wrong answer for "
                                     f"a right one: {wrong}")
    print(f"solution {number}: passes; a tempting wrong answer is refused ({' | '.join(hints)})")
