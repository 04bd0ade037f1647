"""Solutions of lesson 4, Text to ids.

1: One word in 1,000 falls into a given bucket, so about 1,000 tries find a double. Adding an "s"
tries one word.
2: The place of word i within its sentence is mirrored: first + last − i. Turning the whole array
round turns the order of the sentences as well.
"""

from prove import run_lesson, solution
import numpy as np

from convsim_mini.core.packed import Packed

run_lesson(__file__)


def solution_double_of(word, vocabulary):
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    rng = np.random.default_rng(0)
    while True:                                               # 1,000 buckets: about 1,000 tries
        candidate = "".join(rng.choice(letters, 10))
        if candidate not in vocabulary.ids and vocabulary.id(candidate) == vocabulary.id(word):
            return candidate


def solution_reverse_each(packed):
    b = packed.sentence_numbers
    first, last = packed.offsets[b], packed.offsets[b + 1] - 1
    return Packed(packed.ids[first + last - np.arange(len(packed.ids))], packed.offsets)


solution(1, solution_double_of, lambda word, vocabulary: word + "s")
# sentences swap as well
solution(2, solution_reverse_each, lambda packed: Packed(packed.ids[::-1], packed.offsets))
