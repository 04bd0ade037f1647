"""Solutions of lesson 8, The √n combiner.

1: [1, 1] shows a count of 2 and a √2; [1] brings row 1 a second sentence. Without a word twice in
one sentence nobody sees that counts are ignored.
2: tanh(c z) is not a multiple of tanh(z), so the length comes back. A relu, leaky or not, of c z
is c relu(z), and unit length takes c away again.
"""

from prove import run_lesson, solution
import numpy as np

lesson = run_lesson(__file__)


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


weight = lesson.params["encoder.linear0.weight"]              # (4, 5)


def solution_sees_length(x):
    return unit(np.tanh(x @ weight))                          # a bias would do as well


def tempting_sees_length(x):
    return unit(np.maximum(x @ weight, 0.1 * x @ weight))     # leaky relu(c z) = c relu(z)


solution(1, lambda: [[1, 1], [1]], lambda: [[1, 2], [1]])     # nothing comes twice in one sentence
# noise; the length of x and nothing else
solution(2, solution_sees_length, tempting_sees_length,
         lambda x: unit(x @ weight + 0.1 * np.random.standard_normal((len(x), 5))),
         lambda x: unit(np.linalg.norm(x, axis=1, keepdims=True) * np.eye(5)[0] + np.arange(5)))
