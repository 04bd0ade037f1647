"""Dropout with random bits from a counter: the same on every device and in a resumed run."""

from functools import reduce
from typing import NamedTuple

import numpy as np

from .arrays import array_module, twinned


class Dropout(NamedTuple):
    """Dropout at one place in one step. rate: the share of values dropped; key: seeds the bits."""

    rate: float
    key: int

    def at(self, place):
        """The Dropout of step or layer `place` within this one, with its own bits."""
        key = _mix_python(_mix_python(self.key) + place + 1) if self.rate else self.key
        return Dropout(self.rate, key)


NO_DROPOUT = Dropout(0.0, 0)    # for evaluation


def dropout_of(rate, key):
    """The Dropout of a step. key: numbers such as (seed, step), or None or () to drop nothing."""
    return reduce(Dropout.at, key[1:], Dropout(rate, key[0])) if key else NO_DROPOUT


@twinned
def dropout_forward(x, dropout):
    """Set a share of x to zero and scale the rest to keep the expected value. Any shape.

    The random bits depend only on the key and a value's place (SplitMix64 of a counter), so NumPy
    and a GPU draw the same ones. One 64-bit word serves eight values, so the share is rounded to a
    multiple of 1/256.
    dropout: Dropout; rate 0 drops nothing → y, cache
    """
    threshold = round(256 * dropout.rate)
    if not threshold:
        return x, None
    xp = array_module(x)
    words = xp.arange(-(-x.size // 8), dtype=xp.uint64)
    words += xp.uint64(dropout.key)
    keep = _mix(words).view(xp.uint8)[:x.size].reshape(x.shape) >= threshold
    factor = keep * x.dtype.type(256 / (256 - threshold))
    return x * factor, factor


@twinned
def dropout_backward(dy, cache):
    """Forward: y = x · factor, where factor is 0 or 1/(1 − share). So dx = dy · factor."""
    factor = cache
    return dy if factor is None else dy * factor


def _mix(word):
    """SplitMix64's finaliser, in place: uint64 (n,); neighbouring counters get unrelated bits."""
    kind = array_module(word).uint64
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        word ^= word >> kind(shift)
        word *= kind(factor)
    word ^= word >> kind(31)
    return word


def _mix_python(number):
    """`_mix` of one Python int."""
    return int(_mix(np.array([number % 2**64], np.uint64))[0])
