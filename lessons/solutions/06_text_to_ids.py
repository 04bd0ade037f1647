"""Solutions of lesson 6, Text to ids.

1: With 1,000 words 13% of the words are unknown, but three of four turns lose one: a turn has many
words. If you count different words, one that comes twice weighs no more than one that comes once.
"""

from collections import Counter

from prove import run_lesson, solution
import numpy as np

lesson = run_lesson(__file__)


def solution_cost(train, new, size):
    counts = Counter(word for turn in train for word in turn)
    known = {word for word, _ in counts.most_common(size)}
    unknown = [[word not in known for word in turn] for turn in new]
    return np.mean([one for turn in unknown for one in turn]), np.mean([any(t) for t in unknown])


def tempting_different_words(train, new, size):
    counts = Counter(word for turn in train for word in turn)
    known = {word for word, _ in counts.most_common(size)}
    words = {word for turn in new for word in turn}
    return len(words - known) / len(words), solution_cost(train, new, size)[1]


solution(1, solution_cost, tempting_different_words,          # and one word too many
         lambda train, new, size: solution_cost(train, new, size + 1))
words, turns = solution_cost(lesson.train, lesson.shuffled[lesson.split:], 1_000)
assert 0.12 < words < 0.15 and 0.7 < turns < 0.8, (words, turns)
