"""Optimisers: one step on dense parameters and on the touched rows of tables, in place."""

import numpy as np

from .backend import array_module
from .layers import SparseRows


class SGD:
    """p ← p − rate · g: the paper's optimiser (Yang et al. 2018, §3.1)."""

    def __init__(self, params):
        self.state = {}

    def step(self, params, grads, rate, table_rate):
        """Update params in place; `table_rate` is the rate of SparseRows gradients."""
        for name, grad in grads.items():
            if isinstance(grad, SparseRows):
                params[name][grad.rows] -= table_rate * grad.values
            else:
                params[name] -= rate * grad


class Adam:
    """Adam (Kingma and Ba 2015) on dense parameters; on tables, one second moment per row."""

    def __init__(self, params, beta1=0.9, beta2=0.999, epsilon=1e-8):
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon
        self.state = {}
        self.t = 0
