"""The layers, each as a pair of pure functions: forward(x, …) → (y, cache), backward(dy, cache).

B is the number of sentences in a batch, N the number of their words; d and e are feature sizes. A
backward's docstring starts with the forward that it differentiates. A cache of one array has that
array's name in the backward. Results have the dtype and the device of the inputs.
"""

from typing import NamedTuple

import numpy as np

from ..backend import add_to, array_module, by_rows, on_gpu, product, products
from . import kernels

EPSILON = 1e-6    # of layer norm: tensor2tensor's


def linear_forward(x, weight, bias):
    """y = x W + b: x: (B, d), weight: (d, e), bias: (e,) or None for 0 → y: (B, e), cache."""
    y = product(x, weight)                                    # (B, e)
    if bias is not None:
        add_to(y, bias)
    return y, (x, weight)


def linear_backward(dy, cache):
    """Forward: y_be = Σ_d x_bd W_de + b_e.

    ∂y_be/∂W_de = x_bd, so dW_de = Σ_b x_bd dy_be = (xᵀ dy)_de; ∂y_be/∂x_bd = W_de, so
    dx = dy Wᵀ; b_e stands in every row, so db sums dy over the rows.
    dy: (B, e) → dx: (B, d), dweight: (d, e), dbias: (e,)
    """
    x, weight = cache
    dx, dweight = products((dy, weight.T), (x.T, dy))
    return dx, dweight, dy.sum(axis=0)


def tanh_forward(x):
    """y = tanh x, elementwise; x: (n, …)."""
    y = by_rows(array_module(x).tanh, x)
    return y, y


def tanh_backward(dy, y):
    """Forward: y = tanh x. dy/dx = 1 − tanh² x = 1 − y², so the cache is y alone."""
    return by_rows(lambda dy, y: dy * (1 - y * y), dy, y)


def relu_forward(x):
    """y = max(x, 0), elementwise; any shape."""
    y = by_rows(lambda x: array_module(x).maximum(x, 0), x)
    return y, y


def relu_backward(dy, y):
    """Forward: y = max(x, 0). dy/dx is 1 where y > 0 and 0 elsewhere (at 0 by convention)."""
    return by_rows(lambda dy, y: dy * (y > 0), dy, y)


@on_gpu(kernels.layer_norm_forward)
def layer_norm_forward(x, weight, bias):
    """Give each row mean 0 and variance 1, then scale and shift its features (Ba et al. 2016).

    y = x̂ · weight + bias, x̂ = (x − mean) / √(variance + ε), both taken over the row.
    x: (N, d), weight, bias: (d,) → y: (N, d), cache.
    """
    xp = array_module(x)

    def rows(x):
        normal = x - x.mean(axis=1, keepdims=True)                        # (N, d)
        variance = (normal * normal).mean(axis=1, keepdims=True)          # (N, 1)
        scale = 1 / xp.sqrt(variance + EPSILON)                           # (N, 1)
        normal *= scale
        y = normal * weight
        y += bias
        return y, normal, scale
    y, normal, scale = by_rows(rows, x)
    return y, (normal, scale, weight)


@on_gpu(kernels.layer_norm_backward)
def layer_norm_backward(dy, cache):
    """Forward: y = x̂ w + b, x̂ = (x − μ) s, s = 1/√(variance + ε).

    dw = Σ_n dy x̂, db = Σ_n dy, and dx̂ = dy w. μ and s depend on the whole row x. So two changes
    of a row leave x̂ as it is: adding a constant (μ takes it away) and, apart from ε, stretching
    along x̂ (s undoes it). Both directions are projected out of dx̂:
    dx = s (dx̂ − mean(dx̂) − x̂ mean(dx̂ x̂)).
    dy: (N, d) → dx: (N, d), dweight: (d,), dbias: (d,)
    """
    normal, scale, weight = cache
    dweight, dbias = array_module(dy).einsum("nd,nd->d", dy, normal), dy.sum(axis=0)

    def rows(dy, normal, scale):
        dx = dy * weight                                                  # (N, d): dx̂ so far
        along = (dx * normal).mean(axis=1, keepdims=True)                 # (N, 1)
        dx -= dx.mean(axis=1, keepdims=True)
        dx -= normal * along
        dx *= scale
        return dx
    return by_rows(rows, dy, normal, scale), dweight, dbias


@on_gpu(kernels.l2_normalize_forward)
def l2_normalize_forward(x):
    """Scale each row to unit length: y = x / ‖x‖ (Yang et al. 2018, §3.1).

    x: (B, d) → y: (B, d), cache. A zero row stays zero.
    """
    xp = array_module(x)
    norm = xp.sqrt(xp.vecdot(x, x))[:, None]                  # (B, 1)
    norm = xp.where(norm > 0, norm, 1)                        # keeps 0/0 from a zero row
    y = x / norm                                              # (B, d)
    return y, (y, norm)


@on_gpu(kernels.l2_normalize_backward)
def l2_normalize_backward(dy, cache):
    """Forward: y = x / n, n = ‖x‖.

    ∂yᵢ/∂xⱼ = (δᵢⱼ − yᵢ yⱼ) / n. So the part of dy along y is projected out (moving x along itself
    does not turn it), and the rest is divided by n.
    dy: (B, d) → dx: (B, d)
    """
    y, norm = cache
    dx = y * array_module(y).vecdot(dy, y)[:, None]           # (B, d): the part along y
    dx = array_module(y).subtract(dy, dx, out=dx)             # in place: saves fresh memory
    dx /= norm
    return dx


class Dropout(NamedTuple):
    """Dropout at one place of one step. rate: the share of numbers left out; key: of the bits."""

    rate: float
    key: int

    def at(self, place):
        """The Dropout of step, layer or group number `place` within this one: other random bits."""
        key = _mix_python(_mix_python(self.key) + place + 1) if self.rate else self.key
        return Dropout(self.rate, key)


NO_DROPOUT = Dropout(0.0, 0)    # at evaluation


@on_gpu(kernels.dropout_forward)
def dropout_forward(x, dropout, begins=np.zeros(1, np.uint64)):
    """Set a share of x to zero and scale the rest so that the expected value stays. Any shape.

    The random bits follow from the key and a number's place alone (SplitMix64 of a counter); NumPy
    and a GPU give the same. One 64-bit word decides eight numbers, so the share comes in steps of
    1/256.
    dropout: Dropout; with rate 0 nothing is left out; begins: uint64 (k,), on the host only, the
    counters at which each of k equal parts of x begins → y, cache.
    """
    threshold = round(256 * dropout.rate)
    if not threshold:
        return x, None
    size = x.size // len(begins)                              # of a part
    word = begins[:, None] + np.arange(-(-size // 8), dtype=np.uint64)    # (k, words)
    word += np.uint64(dropout.key)
    keep = _mix(word).view(np.uint8)[:, :size].reshape(x.shape) >= threshold
    factor = keep * x.dtype.type(256 / (256 - threshold))
    return x * factor, factor


@on_gpu(kernels.dropout_backward)
def dropout_backward(dy, factor):
    """Forward: y = x · factor, where factor is 0 or 1/(1 − rate). So dx = dy · factor."""
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


@on_gpu(kernels.dense_forward)
def dense_forward(x, weight, bias, activation=None, dropout=NO_DROPOUT):
    """y = dropout(f(x W + b)). On a GPU one kernel does all that follows the product.

    x: (N, d), weight: (d, e), bias: (e,) or None; activation: "tanh", "relu" or None; dropout:
    Dropout → y: (N, e), cache
    """
    y, linear_cache = linear_forward(x, weight, bias)
    f, f_backward = ACTIVATIONS[activation]
    y, activation_cache = f(y)
    y, dropout_cache = dropout_forward(y, dropout)
    return y, (linear_cache, f_backward, activation_cache, dropout_cache)


@on_gpu(kernels.dense_backward)
def dense_backward(dy, cache):
    """Forward: y = dropout(f(x W + b)). → dx: (N, d), dweight: (d, e), dbias: (e,)"""
    linear_cache, f_backward, activation_cache, dropout_cache = cache
    return linear_backward(f_backward(dropout_backward(dy, dropout_cache), activation_cache),
                           linear_cache)


ACTIVATIONS = {"tanh": (tanh_forward, tanh_backward), "relu": (relu_forward, relu_backward),
               None: (lambda x: (x, None), lambda dy, cache: dy)}


@on_gpu(kernels.add_norm_forward)
def add_norm_forward(x, y, weight, bias, dropout=NO_DROPOUT):
    """s = x + dropout(y), the residual connection around a sublayer; z = layer_norm(s).

    x, y: (N, d), y is overwritten; weight, bias: (d,) → s, z: (N, d), cache
    """
    y, dropout_cache = dropout_forward(y, dropout)
    add_to(y, x)
    z, norm_cache = layer_norm_forward(y, weight, bias)
    return y, z, (dropout_cache, norm_cache)


@on_gpu(kernels.add_norm_backward)
def add_norm_backward(dz, cache, ds=None):
    """Forward: s = x + dropout(y), z = layer_norm(s). s is used twice: its gradients add.

    dz: (N, d); ds: (N, d), or None where nothing but the norm reads s
    → dx, dy: (N, d), dweight, dbias: (d,)
    """
    dropout_cache, norm_cache = cache
    dx, dweight, dbias = layer_norm_backward(dz, norm_cache)
    if ds is not None:
        add_to(dx, ds)
    return dx, dropout_backward(dx, dropout_cache), dweight, dbias


def feed_forward(params, name, x):
    """Layers `name`.linear0, linear1, … with tanh between them: x: (B, d) → (B, e), cache."""
    caches = []
    while (layer := f"{name}.linear{len(caches)}") + ".weight" in params:
        last = f"{name}.linear{len(caches) + 1}.weight" not in params
        x, cache = dense_forward(x, params[f"{layer}.weight"], params.get(f"{layer}.bias"),
                                 None if last else "tanh")
        caches.append((layer, cache, f"{layer}.bias" in params))
    return x, caches


def feed_forward_backward(dx, caches):
    """Forward: x → linear0 → tanh → linear1 → … The chain rule starts at the last layer.

    dx: (B, e) → dx: (B, d), gradients by parameter name.
    """
    grads = {}
    for layer, cache, has_bias in reversed(caches):
        dx, grads[f"{layer}.weight"], dbias = dense_backward(dx, cache)
        if has_bias:
            grads[f"{layer}.bias"] = dbias
    return dx, grads
