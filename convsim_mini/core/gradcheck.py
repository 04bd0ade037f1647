"""Numeric gradients, and how far an analytic gradient is from them, for lessons and tests.

Inputs must be float64: central differences lose a third of the digits, and float32 has only seven.
"""

import numpy as np

from .arrays import to_host


def numeric_gradient(f, x, epsilon=1e-5):
    """Central differences (f(x + ε) − f(x − ε)) / 2ε of a scalar function, entry by entry.

    f: () → float, which reads x; x: array, changed and restored → array like x
    """
    gradient = np.empty_like(x)
    for place in np.ndindex(x.shape):
        kept = x[place]
        x[place] = kept + epsilon
        above = f()
        x[place] = kept - epsilon
        below = f()
        x[place] = kept
        gradient[place] = (above - below) / (2 * epsilon)
    return gradient


def relative_error(analytic, numeric):
    """‖a − n‖ / (‖a‖ + ‖n‖): 0 if the gradients are equal, 1 if only one of them is zero."""
    size = np.linalg.norm(analytic) + np.linalg.norm(numeric)
    return float(np.linalg.norm(analytic - numeric) / size) if size else 0.0


def layer_error(forward, backward, inputs, rng, epsilon=1e-5):
    """The largest relative error over the gradients of a layer's inputs.

    The upstream gradient dy is drawn at random. With dy = 1 the gradient of a softmax is zero,
    because its rows sum to 1 whatever x is, so a wrong backward that returns zeros would pass. A
    backward that writes zeros into dy or the inputs would pass, too, if it ran before the
    differences were taken. forward: (*inputs) → (y, cache); backward: (dy, cache) → gradients of
    the inputs, a tuple or an array; inputs: float64 arrays; rng: numpy Generator → float
    """
    y, cache = forward(*inputs)
    dy = np.asarray(rng.standard_normal(np.shape(y)))

    def weighted():
        return float((forward(*inputs)[0] * dy).sum())

    numeric = [numeric_gradient(weighted, x, epsilon) for x in inputs]    # backward may write
    analytic = backward(dy, cache)
    analytic = analytic if type(analytic) is tuple else (analytic,)
    errors = [relative_error(dense(gradient, x), n)
              for gradient, x, n in zip(analytic, inputs, numeric, strict=True)]
    return float(np.max(errors))                              # unlike max(), keeps a nan


def directional_error(loss_and_gradients, params, rng, epsilon=1e-6):
    """Relative error of a whole model's gradient along one random direction of all parameters.

    The slope (L(p + εr) − L(p − εr)) / 2ε must equal Σ g · r, for a unit vector r. The check takes
    two evaluations, however many parameters there are.
    loss_and_gradients: () → (loss, gradients by name), which reads params; params: float64 arrays
    by name, changed and restored → float
    """
    kept = {name: p.copy() for name, p in params.items()}
    _, grads = loss_and_gradients()
    direction = {name: rng.standard_normal(p.shape) for name, p in params.items()}
    length = np.sqrt(sum((r * r).sum() for r in direction.values()))
    slope = sum((dense(grads[name], p) * direction[name]).sum() for name, p in params.items())
    losses = []
    for sign in (1, -1):
        for name, p in params.items():
            p[...] = kept[name] + sign * epsilon / length * direction[name]
        losses.append(float(loss_and_gradients()[0]))
    for name, p in params.items():
        p[...] = kept[name]
    return relative_error(slope / length, (losses[0] - losses[1]) / (2 * epsilon))


def dense(gradient, like):
    """A table's gradient (host or GPU) as a full array shaped like `like`; any other, as it is."""
    if not isinstance(gradient, list):
        return gradient
    full = np.zeros_like(like)
    for part in gradient:
        np.add.at(full, to_host(part.rows), to_host(part.values[part.sources]))
    return full
