"""Solutions of lesson 8, The √n combiner.

1: [1, 1] shows a count of 2 and a √2; [1] brings row 1 a second sentence. Without a word twice in
one sentence nobody sees that counts are ignored.
"""

from prove import run_lesson, solution

run_lesson(__file__)

solution(1, lambda: [[1, 1], [1]], lambda: [[1, 2], [1]])     # nothing comes twice in one sentence
