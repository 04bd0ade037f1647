"""Optimisers: one step on the dense parameters and on the touched rows of tables, in place.

A `rate` is a learning rate. A table's gradient is a list of SparseRows. Rows that a batch does not
use, and their state, are neither read nor written. `state` is a flat dict of arrays.
"""

import numpy as np

from ..backend import add_to, array_module, compiled, fair_shares, on_all_cores, on_gpu
from ..model import kernels, loops
from ..model.sparse_rows import by_row, joined, sum_rows

AT_ONCE = 2_048    # rows of a table, which caches hold: 2.5 MB of the paper's


class SGD:
    """p ← p − rate · g, the paper's optimiser (Yang et al. 2018, §3.1). It has no state."""

    def __init__(self, params):
        self.state = {}

    def step(self, params, grads, rate, table_rate):
        """Update params in place. rate: for dense parameters; table_rate: for tables."""
        dense = [name for name, grad in grads.items() if not isinstance(grad, list)]
        sgd([params[name] for name in dense], [grads[name] for name in dense], rate)
        for name in grads.keys() - dense:
            update_rows(params[name], grads[name], table_rate)


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
        dense = [name for name, grad in grads.items() if not isinstance(grad, list)]
        moments = ([self.state[f"{name}.{moment}"] for name in dense]
                   for moment in ("mean", "variance"))
        adam([params[name] for name in dense], [grads[name] for name in dense], *moments,
             int(self.state["steps"][0]), rate, self.BETA1, self.BETA2, self.EPSILON)
        for name in grads.keys() - dense:
            update_rows(params[name], grads[name], table_rate, self.state[f"{name}.squares"])


@on_gpu(kernels.sgd)
def sgd(params, grads, rate):
    """p ← p − rate · g for lists of arrays, in place."""
    for p, grad in zip(params, grads):
        add_to(p, grad, -rate)


@on_gpu(kernels.adam)
def adam(params, grads, means, variances, t, rate, beta1, beta2, epsilon):
    """m ← β₁m + (1 − β₁)g; s ← β₂s + (1 − β₂)g²; p ← p − rate · m̂ / (√ŝ + ε), for lists of arrays.

    m̂ = m/(1 − β₁ᵗ) and ŝ = s/(1 − β₂ᵗ) undo the start at zero. t: the number of this step, from 1
    """
    for p, grad, mean, variance in zip(params, grads, means, variances):
        mean += (1 - beta1) * (grad - mean)
        variance += (1 - beta2) * (grad * grad - variance)
        root = np.sqrt(variance / (1 - beta2 ** t))
        p -= (rate / (1 - beta1 ** t)) * mean / (root + epsilon)


@on_gpu(kernels.update_rows)
def update_rows(table, parts, rate, squares=None):
    """table_r ← table_r − rate · g_r for the rows r of a list of SparseRows, in place.

    With `squares` (R,) as row-wise Adagrad: s_r ← s_r + mean(g_r²); the rate is divided by √s_r.
    """
    grad = joined(parts)
    if not len(grad.rows):                                    # none of a worker's
        return
    places, rate = by_row(grad), table.dtype.type(rate)
    begins = places.begins

    def update(share):
        for first in range(share.start, share.stop, AT_ONCE):
            last = min(first + AT_ONCE, share.stop)
            sums = np.empty((last - first, table.shape[1]), table.dtype)  # of equal rows
            sum_rows(places.sources, begins[first:last + 1], grad.values, sums)
            step_rows(places.rows[first:last], sums, table, rate, squares)
    on_all_cores(update, fair_shares(begins[:-1] + np.arange(len(places.rows))))


@compiled(loops.step_rows, always=True)
def step_rows(rows, grads, table, rate, squares):
    """`update_rows` for distinct rows (U,) and gradients (U, d), which NumPy overwrites."""
    if squares is not None:
        total = squares[rows] + np.vecdot(grads, grads) / grads.shape[1]  # (U,)
        squares[rows] = total
        rate = rate / np.sqrt(total)[:, None]
    grads *= -rate
    grads += table.take(rows, axis=0)                         # faster than table[rows] += …
    table[rows] = grads
