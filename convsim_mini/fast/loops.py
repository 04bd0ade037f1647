"""Two loops over rows of a table, which numba compiles if it is installed.

NumPy and SciPy need several passes over the same values; a loop needs one. Tests run these loops
compiled and as plain Python, and compare them with the functions that they replace.
"""

from functools import cache

import numpy as np


def sum_rows(y, table, ids, offsets):
    """`host.sum_into`: y_b = Σ_m table[ids_m], m from offsets_b to offsets_{b+1} − 1.

    The rows are scattered over a table that does not fit in a cache. So eight are fetched together:
    the processor waits for all of them at once, and y_b is read and written once for every eight.
    """
    for b in range(len(y)):
        total = y[b]
        total[:] = 0
        m, end = offsets[b], offsets[b + 1]
        while m + 8 <= end:
            r, s, t, u = table[ids[m]], table[ids[m + 1]], table[ids[m + 2]], table[ids[m + 3]]
            v, w, x, z = table[ids[m + 4]], table[ids[m + 5]], table[ids[m + 6]], table[ids[m + 7]]
            for k in range(len(total)):
                total[k] += ((r[k] + s[k]) + (t[k] + u[k])) + ((v[k] + w[k]) + (x[k] + z[k]))
            m += 8
        while m < end:
            r = table[ids[m]]
            for k in range(len(total)):
                total[k] += r[k]
            m += 1


def step_rows(table, rows, grads, rate, squares):
    """The function of this name in core/optim.py, with a single pass over each row."""
    for u in range(len(rows)):
        row, grad = table[rows[u]], grads[u]
        step = rate
        if squares is not None:
            square = grad.dtype.type(0)
            for k in range(len(grad)):
                square += grad[k] * grad[k]
            squares[rows[u]] += square / len(grad)
            step = rate / np.sqrt(squares[rows[u]])
        for k in range(len(grad)):
            row[k] -= step * grad[k]


@cache
def compiled(loop):
    """The loop compiled by numba, without the GIL, or None if numba is not used."""
    if not (numba := numba_module()):
        return None
    options = {"nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "contract"}}
    try:    # nan stays nan; the cache notices a changed loop, not changed options
        return numba.njit(cache=True, **options)(loop)
    except RuntimeError:                                      # no folder for a cache is writable
        return numba.njit(**options)(loop)


@cache
def numba_module():
    """numba if it is installed and fits this Python and this NumPy, else None."""
    try:
        import numba
    except ImportError:
        return None
    return numba
