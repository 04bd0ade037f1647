"""The module that an array belongs to, copies between host and device, a hook for faster twins."""

from functools import singledispatch, wraps

import numpy as np


def array_module(x):
    """The module that array x belongs to: numpy, or cupy when x is a CuPy array."""
    if isinstance(x, (np.ndarray, np.generic)):
        return np
    import cupy
    return cupy.get_array_module(x)


def twinned(plain):
    """Decorator: the function may have a faster twin for each type of array.

    The type of its first array decides which one runs. A twin takes the same arguments and returns
    the same results, up to rounding; only its cache may differ. convsim_mini.fast registers the
    twins. Without them the function runs as written; tests compare the twins with that version.
    """
    twins = singledispatch(plain)

    @wraps(plain)
    def fastest(*arguments, **named):
        return twins.dispatch(type(first_array(arguments)))(*arguments, **named)

    fastest.plain, fastest.register = plain, twins.register
    return fastest


@twinned
def matmul(a, b):
    """The matrix product a b: (n, k), (k, m) → (n, m). Its twin shares the rows among the cores."""
    return a @ b


def first_array(values):
    """The first array with at least one axis in nested tuples and lists, or None."""
    for x in values:
        if isinstance(x, (tuple, list)):
            x = first_array(x)
        if getattr(x, "ndim", 0):
            return x
    return None


def to_device(x, xp):
    """An array, or a dict or tuple of arrays, converted to arrays of module xp."""
    if isinstance(x, dict):
        return {name: to_device(value, xp) for name, value in x.items()}
    if isinstance(x, tuple):
        parts = [to_device(part, xp) for part in x]
        return x._make(parts) if hasattr(x, "_make") else tuple(parts)
    return xp.asarray(x)


def to_host(x):
    """A CuPy array, or a dict of arrays, converted to NumPy arrays; anything else as it is."""
    if isinstance(x, dict):
        return {name: to_host(value) for name, value in x.items()}
    return x.get() if hasattr(x, "get") else x
