"""Solutions of lesson 19, What the scores become.

1: A candidate is the true one in proportion to p(j | i)/q(j), by Bayes. PMI divides by p(j),
which is right only where wrong answers come with p(j).
2: ln K must reach I, so K = ⌈e^I⌉: necessary, and not sufficient. 2^I would be right for bits.
"""

from prove import run_lesson, solution
import numpy as np

run_lesson(__file__)


def solution_wanted_scores(joint, q):
    return np.log(joint / joint.sum(axis=1, keepdims=True) / q)    # log p(j | i)/q(j)


def tempting_wanted_scores(joint, q):
    return np.log(joint / np.outer(joint.sum(axis=1), joint.sum(axis=0)))    # PMI, whatever q is


def solution_least_batch(information):
    return int(np.ceil(np.exp(information)))


def tempting_least_batch(information):
    return int(np.ceil(2**information)) + 1    # information in bits


solution(1, solution_wanted_scores, tempting_wanted_scores)
solution(2, solution_least_batch, tempting_least_batch,
         lambda information: int(np.exp(information)))        # the largest that ln K forbids
