"""Solutions of lesson 7, Embeddings.

1: Sorting brings equal ids together, and dy has to be sorted along. Without that each sum adds
its neighbours in the text.
2: An id that repeats shows a lost or averaged place, ids out of order show a dy that was not sorted
along. With a dy of ones nobody sees which place went where.
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


def tempting_in_place(dy, ids):
    ids.sort()    # dy was never sorted; a check that looks at these ids would not see it
    return tempting_sorted_backward(dy, ids)


def tempting_zeros(dy, ids):
    dy[...] = 0
    return solution_sorted_backward(dy, ids)


def solution_is_right(backward, ids=(2, 0, 2, 5, 2)):
    dy = np.random.default_rng(0).standard_normal((len(ids), 3))
    wanted = np.zeros((6, 3))
    np.add.at(wanted, list(ids), dy)
    return np.allclose(backward(dy, np.array(ids), 6), wanted)


solution(1, solution_sorted_backward, tempting_sorted_backward, tempting_first_run,
         tempting_in_place, tempting_zeros)
# no id repeats; each in its place; only the total is compared
solution(2, solution_is_right, lambda backward: solution_is_right(backward, (4, 0, 2, 5, 1)),
         lambda backward: solution_is_right(backward, (0, 0, 1, 1, 1)),
         lambda backward: backward(np.ones((3, 1)), np.array([2, 0, 2]), 4).sum() == 3)
