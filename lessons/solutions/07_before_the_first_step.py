"""Solutions of lesson 7, Before the first step.

1: Two words that meet everybody meet each other less often than chance says: 10 times, where 28 ·
28/46 = 17 are expected. A count that towers over all others brings its own words near PMI 0 alone.
2: The two share "the … of the …" alone, which a/(a + p) makes small. In the tempting pair they
share what matters, and weights do not part them.
"""

from prove import run_lesson, solution

run_lesson(__file__)

solution(1, lambda: [[10, 9, 9], [9, 0, 0], [9, 0, 0]], lambda: [[100, 1, 1], [1, 1, 0], [1, 0, 1]])
# the second pair shares what matters
solution(2, lambda: ("the mother of the man", "the end of the movie"),
         lambda: ("my mother likes pizza", "her mother likes pizza"))
