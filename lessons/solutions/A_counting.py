"""Solutions of lesson A, Counting.

1: The two share only "the … of the …", which a/(a + p) makes small. In the tempting pair they
share what matters, and weights do not part them.
"""

from prove import run_lesson, solution

run_lesson(__file__)

# the second pair shares what matters
solution(1, lambda: ("the mother of the man", "the end of the movie"),
         lambda: ("my mother likes pizza", "her mother likes pizza"))
