"""Solutions of lesson B, Many workers.

1: A mean times its number is a sum again, and sums add. The mean of means gives each worker the
same weight, however few examples it has.
2: Around the common mean, a set's squares grow by its number times the squared distance of its own
mean. Both together: n_a n_b/n · δ². The sum of both squares alone leaves out how far the means are
apart; mean(x²) − mean(x)² is the difference of two large numbers.
"""

from prove import run_lesson, solution

run_lesson(__file__)


def solution_from_means(means, sizes):
    return sum(mean * size for mean, size in zip(means, sizes)) / sum(sizes)


def tempting_from_means(means, sizes):
    return sum(means) / len(means)


def written_down(means, sizes):
    return sum(m * s for m, s in zip(means, (3, 3, 4, 4))) / sum((3, 3, 4, 4)[:len(means)])


def solution_merged(a, b):
    number, distance = a[0] + b[0], b[1] - a[1]
    return (number, a[1] + distance * b[0] / number,
            a[2] + b[2] + distance**2 * a[0] * b[0] / number)


def within_alone(a, b):
    number = a[0] + b[0]
    return number, a[1] + (b[1] - a[1]) * b[0] / number, a[2] + b[2]


def by_squares(a, b):
    """By mean(x²) − mean(x)²: exact on paper, negative in float32."""
    number = a[0] + b[0]
    mean = (a[0] * a[1] + b[0] * b[1]) / number
    squares = a[2] + a[0] * a[1] ** 2 + b[2] + b[0] * b[1] ** 2
    return number, mean, squares - number * mean**2


solution(1, solution_from_means, tempting_from_means, written_down)
solution(2, solution_merged, within_alone, by_squares)
