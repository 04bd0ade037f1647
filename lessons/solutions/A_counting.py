"""Solutions of lesson A, Counting.

1: "a" and "b" meet only each other, so their rows have no neighbour in common; "c" and "d" both
meet only "e". In the tempting ones "c" and "d" meet, or have no neighbour in common.
"""

from prove import run_lesson, solution

run_lesson(__file__)

solution(1, lambda: ["a b", "c e", "d e"], lambda: ["a b", "c e", "d f"],
         lambda: ["a b", "c d e"])
