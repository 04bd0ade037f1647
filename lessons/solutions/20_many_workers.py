"""Solutions of lesson 20, Many workers. Look when you have tried.

    python lessons/solutions/20_many_workers.py
"""

from prove import run_lesson, solution

run_lesson(__file__)


def solution_from_means(means, sizes):
    return sum(mean * size for mean, size in zip(means, sizes)) / sum(sizes)


def tempting_from_means(means, sizes):
    return sum(means) / len(means)


def solution_reduce_scatter(arrays, begins):
    summed = sum(arrays)
    return [summed[a:b] for a, b in zip(begins, begins[1:])]


def tempting_reduce_scatter(arrays, begins):
    # each keeps its own copy: nothing is summed
    return [array[a:b] for array, a, b in zip(arrays, begins, begins[1:])]


solution(1, solution_from_means, tempting_from_means)
solution(2, solution_reduce_scatter, tempting_reduce_scatter)
