"""Solutions of lesson 20, Two tasks, one encoder.

1: du1 = d1 + dx + dp ∗ u2 and du2 = d2 − dx + dp ∗ u1, with dx = da ∗ sign(u1 − u2). The tempting
ones forget that u2 is subtracted, or that the slope of |x| is sign x.
"""

from prove import np, run_lesson, solution

run_lesson(__file__)


def backward(dy, u1, u2, sign=-1, slope=np.sign):
    d1, d2, da, dp = np.split(dy, 4, axis=1)
    dx = da * slope(u1 - u2)
    return d1 + dx + dp * u2, d2 + sign * dx + dp * u1


solution(1, backward, lambda *given: backward(*given, sign=1),
         lambda *given: backward(*given, slope=np.ones_like))
