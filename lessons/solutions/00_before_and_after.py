"""Solutions of lesson 0, Before and after.

1: Whoever asks how good it was, or how bad, hears how it was. So the replies are the same, and
training brings the two questions together. With "never" they were near before.
"""

from prove import run_lesson, solution

run_lesson(__file__)

solution(1, lambda: ("How good was it?", "How bad was it?"),          # from 0.67 to 0.92
         lambda: ("I like this movie.", "I hate this movie."),                   # only up to 0.79
         lambda: ("I always eat meat for dinner.", "I never eat meat for dinner."),    # 0.99 before
         lambda: ("I was there.", "I was there."))            # no opposites
