"""Solutions of lesson 21, Measuring similarity.

1: exp bends the scale and keeps the order; r sees the bend. A straight line changes neither.
2: Pairs that share a sentence are joined, and chains are followed to their end; the longest chain
first, each goes into the emptier fold. Labels that are joined in one, two or three passes over the
pairs leak where a later pair joins two chains.
"""

from collections import Counter

from prove import run_lesson, solution
import numpy as np

run_lesson(__file__)


def solution_spoiled(similarity):
    return np.exp(20 * similarity)    # nearly all pairs near 0, a few far out


def chains_of(first, second):
    """The chain of each pair, named by one of its sentences."""
    group = {sentence: sentence for sentence in [*first, *second]}

    def root(sentence):
        while group[sentence] != sentence:
            sentence = group[sentence]
        return sentence

    for a, b in zip(first, second):
        group[root(a)] = root(b)                              # join the two chains
    return [root(a) for a in first]


def balanced(chains):
    """The chain of each pair → its fold: the longest first, each into the emptier fold."""
    fold, filled = {}, [0, 0]
    for chain, count in Counter(chains).most_common():
        fold[chain] = int(filled[1] < filled[0])
        filled[fold[chain]] += count
    return [fold[chain] for chain in chains]


def tempting_folds(first, second):
    known = sorted(set(first))
    # keeps the first sentences apart, forgets the second
    return [known.index(a) % 2 for a in first]


def passes(number):
    def folds(first, second):
        label = {}
        for _ in range(number):
            for k, (a, b) in enumerate(zip(first, second)):
                label[a] = label[b] = min(label.get(a, k), label.get(b, k))
        return balanced([label[a] for a in first])
    return folds


def one_chain_held_out(first, second):
    """Nothing leaks, but hardly a pair is held out."""
    chains = chains_of(first, second)
    (shortest, _), = Counter(chains).most_common()[-1:]
    return [int(chain == shortest) for chain in chains]


# a straight line, which r does not see
solution(1, solution_spoiled, lambda similarity: 0.01 * similarity - 7)
solution(2, lambda first, second: balanced(chains_of(first, second)), tempting_folds,
         passes(1), passes(2), passes(3), one_chain_held_out)
