"""Optimisers: a step updates the dense parameters and the table rows in use, in place.

A `rate` is a learning rate. The table's gradient is a list of SparseRows. Rows that a batch does
not use, and their state, are neither read nor written. `state` is a flat dict of arrays.
"""

import numpy as np

from .arrays import array_module, twinned
from .embeddings import TABLE, summed


class SGD:
    """p ← p − rate · g, the paper's optimiser (Yang et al. 2018, §3.1). It has no state."""

    def __init__(self, params):
        self.state = {}

    def step(self, params, grads, rate, table_rate):
        """Update params in place. rate: for dense parameters; table_rate: for the table."""
        dense = [name for name in grads if name != TABLE]
        sgd([params[name] for name in dense], [grads[name] for name in dense], rate)
        if TABLE in grads:
            update_rows(params[TABLE], grads[TABLE], table_rate)


class Adaptive:
    """Adam on dense parameters (Kingma, Ba 2015), row-wise Adagrad on the table (Duchi, 2011).

    All parameters except the table are dense. Adagrad divides by the root of the sum of all squared
    gradients so far, so a rare word's tenth update is as large as a frequent word's tenth. Here a
    row has a single sum, of its mean squared gradients: (R,) values instead of (R, d).
    """

    BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
    FIRST_SQUARE = 1e-12    # tiny: only keeps 0/√0 from being nan

    def __init__(self, params):
        self.state = {"steps": np.zeros(1, np.int64)}         # on the host: only used for scalars
        for name, p in params.items():
            xp = array_module(p)
            if name == TABLE:
                self.state[f"{name}.squares"] = xp.full(len(p), self.FIRST_SQUARE, p.dtype)
            else:
                self.state[f"{name}.mean"] = xp.zeros_like(p)
                self.state[f"{name}.squares"] = xp.zeros_like(p)

    def step(self, params, grads, rate, table_rate):
        """Update params in place. rate: for dense parameters; table_rate: for the table."""
        self.state["steps"] += 1
        dense = [name for name in grads if name != TABLE]
        adam([params[name] for name in dense], [grads[name] for name in dense],
             [self.state[f"{name}.mean"] for name in dense],
             [self.state[f"{name}.squares"] for name in dense],
             int(self.state["steps"][0]), rate, self.BETA1, self.BETA2, self.EPSILON)
        if TABLE in grads:
            update_rows(params[TABLE], grads[TABLE], table_rate, self.state[f"{TABLE}.squares"])


OPTIMIZERS = {"adaptive": Adaptive, "sgd": SGD}    # by their names in the settings


@twinned
def sgd(params, grads, rate):
    """p ← p − rate · g for lists of arrays, in place."""
    for p, grad in zip(params, grads):
        p -= rate * grad


@twinned
def adam(params, grads, means, squares, t, rate, beta1, beta2, epsilon):
    """m ← β₁m + (1 − β₁)g; s ← β₂s + (1 − β₂)g²; p ← p − rate · m̂ / (√ŝ + ε), for lists of arrays.

    m̂ = m/(1 − β₁ᵗ), ŝ = s/(1 − β₂ᵗ) correct for the start at zero. t: number of the step, from 1
    """
    for p, grad, mean, square in zip(params, grads, means, squares):
        mean += (1 - beta1) * (grad - mean)
        square += (1 - beta2) * (grad * grad - square)
        root = array_module(p).sqrt(square / (1 - beta2 ** t))
        p -= (rate / (1 - beta1 ** t)) * mean / (root + epsilon)


@twinned
def update_rows(table, parts, rate, squares=None):
    """table_r ← table_r − rate · g_r for the rows r of a list of SparseRows, in place.

    With `squares` (R,) it is row-wise Adagrad: s_r ← s_r + mean(g_r²); the rate is divided by √s_r.
    """
    step_rows(table, *summed(parts), rate, squares)


def step_rows(table, rows, grads, rate, squares=None):
    """Like `update_rows`, but for distinct rows: (U,), and the gradient of each: (U, d)."""
    if squares is not None:
        squares[rows] += (grads * grads).mean(axis=1)
        rate = rate / array_module(squares).sqrt(squares[rows])[:, None]  # (U, 1)
    table[rows] = table.take(rows, axis=0) - rate * grads     # faster than table[rows] -= …
