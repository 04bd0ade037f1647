"""Solutions of lesson 5, Embeddings.

1: The last place of a row survives, so the lost ones have to add up to zero: g and −g. Two equal
gradients lose one of the two.
2: Sorting brings equal ids together, and dy has to be sorted along. Without that each sum adds
its neighbours in the text.
"""

from prove import run_lesson, solution
import numpy as np

run_lesson(__file__)


def solution_unlucky_batch():
    g, h = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])
    return np.array([1, 1, 1]), np.array([g, -g, h])    # the first two are lost, and add up to zero


def tempting_unlucky_batch():
    g = np.array([1.0, 2.0, 3.0])
    return np.array([1, 1]), np.array([g, g])  # equal ones are lost as well: one of two is missing


def solution_sorted_backward(dy, ids):
    order = np.argsort(ids, kind="stable")
    ids = ids[order]
    begin = np.concatenate([[0], np.flatnonzero(ids[1:] != ids[:-1]) + 1])
    return ids[begin], np.add.reduceat(dy[order], begin, axis=0)


def tempting_sorted_backward(dy, ids):
    rows, begin = np.unique(ids, return_index=True)
    return rows, np.add.reduceat(dy, np.sort(begin), axis=0)    # dy was never sorted


solution(1, solution_unlucky_batch, tempting_unlucky_batch)
solution(2, solution_sorted_backward, tempting_sorted_backward)
