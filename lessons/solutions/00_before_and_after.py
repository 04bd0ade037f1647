"""Solutions of lesson 0, Before and after.

1: Whoever asks why you like or why you hate a movie hears about the movie. So the replies are the
same, and training brings the two questions together. With "never" they were near before.
"""

from prove import run_lesson, solution

run_lesson(__file__)

solution(1, lambda: ("Why do you like this movie?", "Why do you hate this movie?"),
         lambda: ("I like this movie.", "I hate this movie."),                   # only up to 0.86
         lambda: ("I always eat meat for dinner.", "I never eat meat for dinner."),    # 0.99 before
         lambda: ("I was there.", "I was there."))            # no opposites
