"""Solutions of lesson 6, Text to ids.

1: The place of word i within its sentence is mirrored: first + last − i. Turning the whole array
round turns the order of the sentences as well.
"""

from prove import run_lesson, solution
import numpy as np

from convsim_mini.core.packed import Packed

run_lesson(__file__)


def solution_reverse_each(packed):
    b = packed.sentence_numbers
    first, last = packed.offsets[b], packed.offsets[b + 1] - 1
    return Packed(packed.ids[first + last - np.arange(len(packed.ids))], packed.offsets)


# sentences swap as well
solution(1, solution_reverse_each, lambda packed: Packed(packed.ids[::-1], packed.offsets))
