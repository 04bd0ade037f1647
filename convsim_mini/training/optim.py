"""Optimisers: one step on the dense parameters and on the touched rows of tables, in place.

A table's gradient is a list of SparseRows. Rows that a batch does not use, and their state, are
neither read nor written. `state` is a flat dict of arrays.
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

    Adagrad divides by the root of the sum of all squared gradients so far, so a rare word's tenth
    update is as large as a frequent word's. One sum a row, (R,), is less memory than (R, d).
    """

    BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
    FIRST_SQUARE = 1e-12    # far below any gradient's square: only keeps 0/√0 from being nan

    def __init__(self, params):
        self.state = {"steps": np.zeros(1, np.int64)}         # on the host: it gives scalars only
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
                on_all_cores(lambda part: self._adagrad(name, params[name], part, table_rate), grad)
            else:
                self._adam(name, params[name], grad, rate)

    def _adam(self, name, p, grad, rate):
        """m ← β₁m + (1 − β₁)g; s ← β₂s + (1 − β₂)g²; p ← p − rate · m̂ / (√ŝ + ε).

        m̂ = m/(1 − β₁ᵗ) and ŝ = s/(1 − β₂ᵗ) undo the start at zero.
        """
        mean, variance = self.state[f"{name}.mean"], self.state[f"{name}.variance"]
        xp, t = array_module(p), int(self.state["steps"][0])
        mean += (1 - self.BETA1) * (grad - mean)
        variance += (1 - self.BETA2) * (grad * grad - variance)
        root = xp.sqrt(variance / (1 - self.BETA2 ** t))
        p -= (rate / (1 - self.BETA1 ** t)) * mean / (root + self.EPSILON)

    def _adagrad(self, name, table, grad, rate):
        """s_r ← s_r + mean(g_r²); table_r ← table_r − rate · g_r / √s_r, for rows r of grad."""
        squares, xp, (rows, values) = self.state[f"{name}.squares"], array_module(table), grad
        total = squares[rows] + xp.einsum("rd,rd->r", values, values) / values.shape[1]
        squares[rows] = total
        add_to_rows(table, rows, values, -rate / xp.sqrt(total)[:, None])
