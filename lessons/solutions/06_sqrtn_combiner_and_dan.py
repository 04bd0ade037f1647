"""Solutions of lesson 6, The √n combiner.

1: Each place of a row adds dy/n, and np.add.at adds them all. `dtable[ids] += …` keeps one place
of each row.
2: [1, 1] shows a count of 2 and a √2; [1] brings row 1 a second sentence. Without a word twice in
one sentence nobody sees that counts are ignored.
3: tanh(c z) is no multiple of tanh(z), so the length comes back. relu(c z) = c relu(z), and unit
length takes c away again.
"""

import numpy as np
from prove import run_lesson, solution

lesson = run_lesson(__file__)


def solution_mean_bag_backward(dy, cache):
    table_rows, ids = cache
    dtable = np.zeros((table_rows, dy.shape[1]))
    np.add.at(dtable, ids.ids, (dy / ids.lengths[:, None])[ids.sentence_numbers])
    return dtable


def tempting_mean_bag_backward(dy, cache):
    table_rows, ids = cache
    dtable = np.zeros((table_rows, dy.shape[1]))
    # equal ids: the last one wins
    dtable[ids.ids] += (dy / ids.lengths[:, None])[ids.sentence_numbers]
    return dtable


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


weight = lesson.params["encoder.linear0.weight"]              # (4, 5)


def solution_sees_length(x):
    return unit(np.tanh(x @ weight))                          # a bias would do as well


def tempting_sees_length(x):
    return unit(np.maximum(x @ weight, 0))                    # relu(c z) = c relu(z)


solution(1, solution_mean_bag_backward, tempting_mean_bag_backward)
solution(2, lambda: [[1, 1], [1]], lambda: [[1, 2], [1]])     # nothing stands twice in one sentence
solution(3, solution_sees_length, tempting_sees_length)
