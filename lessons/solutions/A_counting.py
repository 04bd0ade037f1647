"""Solutions of lesson A, Counting.

1: The two share "the … of the …" alone, which a/(a + p) makes small. In the tempting pair they
share what matters, and weights do not part them.
2: cos' = (c + ‖b‖²)/(1 + ‖b‖²), solved for c. Subtracting ‖b‖² alone forgets that x + b is longer.
"""

from prove import run_lesson, solution

run_lesson(__file__)

# the second pair shares what matters
solution(1, lambda: ("the mother of the man", "the end of the movie"),
         lambda: ("my mother likes pizza", "her mother likes pizza"))
solution(2, lambda cosines, squared: cosines * (1 + squared) - squared,
         lambda cosines, squared: cosines - squared)
