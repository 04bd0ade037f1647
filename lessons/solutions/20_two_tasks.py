"""Solutions of lesson 20, Two tasks, one encoder.

1: Each label gets a hypothesis of its own form, and all labels stay true. The tempting one gives
the label away as well, but the labels are no longer true.
"""

from prove import run_lesson, solution

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


solution(1, solution_leaky_pair, tempting_leaky_pair)
