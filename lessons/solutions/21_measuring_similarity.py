"""Solutions of lesson 21, Measuring similarity.

1: exp bends the scale and keeps the order; r sees the bend. A straight line changes neither.
2: Pairs that share a sentence are joined, and chains are followed to their end. Folds by the
first sentence alone let the second one leak.
"""

from prove import run_lesson, solution
import numpy as np

run_lesson(__file__)


def solution_spoiled(similarity):
    return np.exp(20 * similarity)    # nearly all pairs near 0, a few far out


def solution_folds(first, second):
    group = {sentence: sentence for sentence in [*first, *second]}

    def root(sentence):
        while group[sentence] != sentence:
            sentence = group[sentence]
        return sentence

    for a, b in zip(first, second):
        group[root(a)] = root(b)                              # join the two chains
    roots = sorted({root(a) for a in first})
    return [roots.index(root(a)) % 2 for a in first]


def tempting_folds(first, second):
    known = sorted(set(first))
    # keeps the first sentences apart, forgets the second
    return [known.index(a) % 2 for a in first]


# a straight line, which r does not see
solution(1, solution_spoiled, lambda similarity: 0.01 * similarity - 7)
solution(2, solution_folds, tempting_folds)
