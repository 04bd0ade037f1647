"""Solutions of lesson B, Many workers.

1: A mean times its number is a sum again, and sums add. The mean of means gives each worker the
same weight, however few examples it has.
"""

from prove import run_lesson, solution

run_lesson(__file__)


def solution_from_means(means, sizes):
    return sum(mean * size for mean, size in zip(means, sizes)) / sum(sizes)


def tempting_from_means(means, sizes):
    return sum(means) / len(means)


def written_down(means, sizes):
    return sum(m * s for m, s in zip(means, (3, 3, 4, 4))) / sum((3, 3, 4, 4)[:len(means)])


solution(1, solution_from_means, tempting_from_means, written_down)
