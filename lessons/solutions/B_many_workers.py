"""Solutions of lesson B, Many workers.

1: dv_j loses Σ p_ij u_i over the inputs i of other workers. It is zero if v = 0, as in a network
whose last layer starts at zero, and each worker's inputs have the mean 0; or if each worker's pairs
have a direction of their own, so that the others' p is below 10⁻¹⁰. If every pair has one, the
gradient itself is zero.
2: A chunk has to travel past all other workers and end at its owner: chunk w leaves its owner's
right neighbour, w + 1, in step 0, and is passed along as it arrives. So worker w sends w − 1 −
step, modulo n. Each worker sends (n − 1)/n of an array, whatever n is. In the tempting ones the
sums end one place too early, or each sends its own chunk again and again, or chunks run against the
ring.
"""

from prove import run_lesson, solution
import numpy as np

run_lesson(__file__)


def solution_hiding_batch(rng):
    if rng.random() < 0.5:
        u = rng.standard_normal((4, 3, 5))
        return (u - u.mean(axis=1, keepdims=True)).reshape(12, 5), np.zeros((12, 5))
    own = 6 * np.eye(4).repeat(3, axis=0)
    return [np.hstack([own, rng.standard_normal((12, 3))]) for _ in "uv"]


solution(1, solution_hiding_batch, lambda rng: 9 * np.eye(12)[None].repeat(2, axis=0),
         lambda rng: rng.standard_normal((2, 12, 6)))
solution(2, lambda step, worker, workers: (worker - 1 - step) % workers,
         lambda step, worker, workers: (worker - step) % workers,
         lambda step, worker, workers: worker,
         lambda step, worker, workers: (worker + 1 + step) % workers)
