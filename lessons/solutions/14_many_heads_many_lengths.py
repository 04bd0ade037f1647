"""Solutions of lesson 14, Many heads, many lengths.

1: Alone and in company a sentence must get the same rows. Changing the others' numbers misses the
forgotten mask, which depends on their lengths alone.
"""

from prove import run_lesson, solution
import numpy as np

attention_forward = run_lesson(__file__).attention_forward


def company(rng=None):
    """Sentences of 2, 5, 3 and 1 words: qkv, offsets."""
    rng = rng or np.random.default_rng(0)
    return rng.standard_normal((11, 24)), np.array([0, 2, 7, 10, 11])


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


def to_the_last_digit(attention):
    qkv, offsets = company()
    first = attention(qkv[:2], offsets[:2], 2)
    return not np.array_equal(attention(qkv, offsets, 2)[:2], first)


def not_the_librarys(attention):
    qkv, offsets = company()
    return not np.allclose(attention(qkv, offsets, 2), attention_forward(qkv, offsets, 2)[0])


solution(1, solution_leaks, tempting_leaks, to_the_last_digit, not_the_librarys)
