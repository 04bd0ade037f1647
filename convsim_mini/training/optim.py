"""Optimisers: one step on the dense parameters and on the touched rows of tables, in place.

A table's gradient is a list of SparseRows: rows that a batch does not use are neither read nor
written, nor is an optimiser's state for them. `state` is a flat dict of arrays.
"""

import numpy as np

from ..backend import add_to, add_to_rows, array_module, on_all_cores


class SGD:
    """p ← p − rate · g, the paper's optimiser (Yang et al. 2018, §3.1). It has no state."""

    def __init__(self, params):
        self.state = {}

    def step(self, params, grads, rate, table_rate):
        """Update params in place. rate: for dense parameters; table_rate: for tables."""
        for name, grad in grads.items():
            if isinstance(grad, list):
                on_all_cores(lambda part: add_to_rows(params[name], *part, -table_rate), grad)
            else:
                add_to(params[name], grad, -rate)


class Adaptive:
    """Adam on dense parameters (Kingma, Ba 2015), row-wise Adagrad on tables (Duchi et al. 2011).

    Adagrad divides a gradient by the root of the sum of the squares of all so far. So a rare word's
    tenth update is as large as a frequent word's tenth update. The sum is kept for each row, not
    for each number: state (R,) instead of (R, d), which a step need not carry through memory.
    """

    BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
    FIRST_SQUARE = 1e-12    # far below any gradient's square: only keeps 0/√0 from being nan

    def __init__(self, params):
        self.state = {"steps": np.zeros(1, np.int64)}         # on the host: only scalars come of it
        for name, p in params.items():
            xp = array_module(p)
            if name.endswith("embedding.weight"):
                self.state[f"{name}.squares"] = xp.full(len(p), self.FIRST_SQUARE, p.dtype)
            else:
                self.state[f"{name}.mean"] = xp.zeros_like(p)
                self.state[f"{name}.variance"] = xp.zeros_like(p)

    def step(self, params, grads, rate, table_rate):
        """Update params in place. rate: for dense parameters; table_rate: for tables."""
        self.state["steps"] += 1
        for name, grad in grads.items():
            if isinstance(grad, list):
                squares = self.state[f"{name}.squares"]
                on_all_cores(
                    lambda part: self._adagrad(params[name], part, squares, table_rate), grad)
            else:
                mean, variance = self.state[f"{name}.mean"], self.state[f"{name}.variance"]
                self._adam(params[name], grad, mean, variance, rate)

    def _adam(self, p, grad, mean, variance, rate):
        """m ← β₁m + (1 − β₁)g; s ← β₂s + (1 − β₂)g²; p ← p − rate · m̂ / (√ŝ + ε).

        m̂ = m/(1 − β₁ᵗ) and ŝ = s/(1 − β₂ᵗ) undo the start at zero.
        """
        xp, t = array_module(p), int(self.state["steps"][0])
        mean += (1 - self.BETA1) * (grad - mean)
        variance += (1 - self.BETA2) * (grad * grad - variance)
        root = xp.sqrt(variance / (1 - self.BETA2 ** t))
        p -= (rate / (1 - self.BETA1 ** t)) * mean / (root + self.EPSILON)

    def _adagrad(self, table, grad, squares, rate):
        """s_r ← s_r + mean(g_r²); table_r ← table_r − rate · g_r / √s_r, for its rows r."""
        xp, (rows, values) = array_module(table), grad
        seen = squares[rows] + xp.einsum("rd,rd->r", values, values) / values.shape[1]
        squares[rows] = seen
        add_to_rows(table, rows, values, -rate / xp.sqrt(seen)[:, None])
