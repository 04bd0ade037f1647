"""Solutions of lesson 20, Two tasks, one encoder.

1: Each label gets a hypothesis of its own form, and all labels stay true. The tempting one gives
the label away as well, but the labels are no longer true.
2: The square has the slope 2x for u1 and −2x for u2, for the difference changes sign with u2. "A
square has no sign" forgets that inner slope.
"""

from prove import run_lesson, solution
import numpy as np

from two_tasks_world import ACTIVITIES, ENTAILMENT, NEUTRAL, PEOPLE, PLACES, Fact, draw_fact

lesson = run_lesson(__file__)
rng = lesson.rng


def solution_leaky_pair(label):
    who, activity = str(rng.choice(list(PEOPLE))), int(rng.integers(len(ACTIVITIES)))
    place = str(rng.choice(PLACES))
    if label == ENTAILMENT:    # short and general hypotheses are easily entailed
        return Fact(who, False, activity, place), Fact(who, True, activity, None)
    if label == NEUTRAL:                                      # long ones easily say too much
        return Fact(who, False, activity, None), Fact(who, False, activity, place)
    other = (activity + 4) % len(ACTIVITIES)
    return Fact(who, False, activity, place), Fact(who, False, other, None)


def tempting_leaky_pair(label):
    fact = draw_fact(rng)    # gives the label away, but the label is not true
    return fact, fact._replace(general=label == ENTAILMENT,
                               place="park" if label == NEUTRAL else None)


def solution_square_features_backward(dy, cache):
    d, dsquare = np.split(dy, 2, axis=1)
    dx = d + 2 * cache * dsquare
    return dx, -dx


def tempting_square_features_backward(dy, cache):
    d, dsquare = np.split(dy, 2, axis=1)
    return d + 2 * cache * dsquare, -d + 2 * cache * dsquare  # "a square has no sign"


solution(1, solution_leaky_pair, tempting_leaky_pair)
solution(2, solution_square_features_backward, tempting_square_features_backward)
