"""Solutions of lesson 7, Embeddings.

1: Sorting brings equal ids together, and dy has to be sorted along. Without that each sum adds
its neighbours in the text.
"""

from prove import run_lesson, solution
import numpy as np

run_lesson(__file__)


def solution_sorted_backward(dy, ids):
    order = np.argsort(ids, kind="stable")
    ids = ids[order]
    begin = np.concatenate([[0], np.flatnonzero(ids[1:] != ids[:-1]) + 1])
    return ids[begin], np.add.reduceat(dy[order], begin, axis=0)


def tempting_sorted_backward(dy, ids):
    rows, begin = np.unique(ids, return_index=True)
    return rows, np.add.reduceat(dy, np.sort(begin), axis=0)    # dy was never sorted


def tempting_first_run(dy, ids):
    order = np.argsort(ids, kind="stable")
    begin = np.flatnonzero(np.diff(ids[order])) + 1           # where the id changes: not at place 0
    return np.unique(ids), (np.add.reduceat(dy[order], begin, axis=0) if len(begin) else dy[:0])


solution(1, solution_sorted_backward, tempting_sorted_backward, tempting_first_run)
