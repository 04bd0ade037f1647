"""Solutions of lesson 14, Many heads, many lengths.

1: Alone and in company a sentence must get the same rows. Changing the others' numbers misses the
forgotten mask, which depends only on their lengths. A leak may come from either side, so the first
or the last sentence is not enough.
"""

from prove import run_lesson, solution
import numpy as np

lesson = run_lesson(__file__)


def company():
    """Sentences of 2, 5, 3 and 1 words: qkv, offsets."""
    return np.random.default_rng(0).standard_normal((11, 24)), np.array([0, 2, 7, 10, 11])


def solution_leaks(attention):
    qkv, offsets = company()
    together = attention(qkv, offsets, 2)
    alone = [attention(qkv[first:last], np.array([0, last - first]), 2)
             for first, last in zip(offsets, offsets[1:])]
    return not np.allclose(together, np.concatenate(alone))


def tempting_leaks(attention):
    qkv, offsets = company()
    before = attention(qkv, offsets, 2)
    changed = qkv.copy()
    changed[:2] += 1    # the first sentence: does another one move?
    return not np.allclose(attention(changed, offsets, 2)[2:], before[2:])


def own_rows(attention):
    """The first sentence's rows, in company and on its own."""
    qkv, offsets = company()
    return attention(qkv, offsets, 2)[:2], attention(qkv[:2], offsets[:2], 2)


def only_last(attention):
    qkv, offsets = company()
    alone = attention(qkv[10:], np.array([0, 1]), 2)
    return not np.allclose(attention(qkv, offsets, 2)[10:], alone)


def not_the_librarys(attention):
    return not np.allclose(own_rows(attention)[0], own_rows(lesson.padded_forward)[0])


solution(1, solution_leaks, tempting_leaks, only_last, not_the_librarys,
         lambda attention: not np.allclose(*own_rows(attention)),    # no word is before the first
         lambda attention: not np.array_equal(*own_rows(attention)))    # to the last digit
