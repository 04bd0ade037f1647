"""The layers that only a Transformer has, each as two pure functions.

A batch has N words in B sentences; d is the width of a word's vector.
"""

from typing import NamedTuple

import numpy as np

from .arrays import array_module, twinned
from .embeddings import sum_rows
from .layers import linear_backward, linear_forward
from .packed import Packed

EPSILON = 1e-6    # of layer norm: tensor2tensor's


def relu_forward(x):
    """y = max(x, 0), elementwise; any shape."""
    y = array_module(x).maximum(x, 0)
    return y, y


def relu_backward(dy, cache):
    """Forward: y = max(x, 0). ∂y/∂x is 1 where y > 0, else 0 (at 0 by convention)."""
    y = cache
    return dy * (y > 0)


@twinned
def layer_norm_forward(x, weight, bias):
    """Give each row mean 0 and variance 1, then scale and shift its features (Ba et al. 2016).

    y = x̂ · weight + bias, x̂ = (x − mean) / √(variance + ε), with the row's mean and variance.
    x: (N, d), weight, bias: (d,) → y: (N, d), cache.
    """
    normal = x - x.mean(axis=1, keepdims=True)                            # (N, d)
    variance = (normal * normal).mean(axis=1, keepdims=True)              # (N, 1)
    scale = 1 / array_module(x).sqrt(variance + EPSILON)                  # (N, 1)
    normal *= scale
    return normal * weight + bias, (normal, scale, weight)


@twinned
def layer_norm_backward(dy, cache):
    """Forward: y = x̂ w + b, x̂ = (x − μ) s, s = 1/√(variance + ε).

    dw = Σ_n dy x̂, db = Σ_n dy, and dx̂ = dy w. μ and s depend on the whole row x. So two changes
    to a row leave x̂ as it is: adding a constant (μ removes it) and, apart from ε, stretching the
    row along x̂ (s undoes it). Both directions are projected out of dx̂:
    dx = s (dx̂ − mean(dx̂) − x̂ mean(dx̂ x̂)).
    dy: (N, d) → dx: (N, d), dweight: (d,), dbias: (d,)
    """
    normal, scale, weight = cache
    dweight, dbias = (dy * normal).sum(axis=0), dy.sum(axis=0)
    dnormal = dy * weight                                                 # (N, d): dx̂
    along = (dnormal * normal).mean(axis=1, keepdims=True)                # (N, 1)
    dx = scale * (dnormal - dnormal.mean(axis=1, keepdims=True) - normal * along)
    return dx, dweight, dbias


def position_wise_forward(x, weight0, bias0, weight1, bias1):
    """y = relu(x W₀ + b₀) W₁ + b₁, each position by itself: x: (N, d) → (N, d), cache."""
    h, cache0 = linear_forward(x, weight0, bias0)                         # (N, hidden)
    h, relu_cache = relu_forward(h)
    y, cache1 = linear_forward(h, weight1, bias1)                         # (N, d)
    return y, (cache0, relu_cache, cache1)


def position_wise_backward(dy, cache):
    """Forward: y = linear1(relu(linear0(x))). dy: (N, d) → dx, dW₀, db₀, dW₁, db₁."""
    cache0, relu_cache, cache1 = cache
    dh, dweight1, dbias1 = linear_backward(dy, cache1)                    # (N, hidden)
    return *linear_backward(relu_backward(dh, relu_cache), cache0), dweight1, dbias1


def mean_pool_forward(x, packed):
    """The mean of each sentence's rows: x: (N, d), packed: Packed of N words → y: (B, d), cache."""
    xp = array_module(x)
    share = (1 / packed.lengths).astype(x.dtype)                          # (B,)
    y = sum_rows(x, Packed(xp.arange(len(x), dtype=xp.int32), packed.offsets))
    return y * share[:, None], (share, packed.sentence_numbers)


def mean_pool_backward(dy, cache):
    """Forward: y_b = (1/n_b) Σ x_i over sentence b. So dx_i = dy_b/n_b: dy: (B, d) → dx: (N, d)."""
    share, sentences = cache
    return (dy * share[:, None]).take(sentences, axis=0)


def positions(packed):
    """The place of each word in its sentence, counted from 0: (N,)."""
    numbers = array_module(packed.ids).arange(len(packed.ids))
    return numbers - packed.offsets.take(packed.sentence_numbers)


class Dropout(NamedTuple):
    """Dropout at one place in one step."""

    rate: float    # the share of values dropped
    key: int       # of the random bits


def dropout_of(rate, key, *place):
    """The Dropout of a place in a step. key: (seed, step), or None or () to drop nothing."""
    if not (rate and key):
        return Dropout(0.0, 0)
    drawn, = np.random.SeedSequence(key, spawn_key=place).generate_state(1, np.uint64)
    return Dropout(rate, int(drawn))


@twinned
def dropout_forward(x, dropout):
    """Set a share of x to zero and scale the rest to keep the expected value. Any shape.

    The random bits depend only on the key and a value's place (SplitMix64 of a counter), so NumPy
    and a GPU draw the same ones. One 64-bit word serves eight values, so the share is rounded to a
    multiple of 1/256. Rate 0 drops nothing. → y, cache
    """
    threshold = round(256 * dropout.rate)
    if not threshold:
        return x, None
    xp = array_module(x)
    words = xp.arange(-(-x.size // 8), dtype=xp.uint64)
    words += xp.uint64(dropout.key)
    keep = mixed(words).view(xp.uint8)[:x.size].reshape(x.shape) >= threshold
    factor = keep * x.dtype.type(256 / (256 - threshold))
    return x * factor, factor


@twinned
def dropout_backward(dy, cache):
    """Forward: y = x · factor, where factor is 0 or 1/(1 − share). So dx = dy · factor."""
    factor = cache
    return dy if factor is None else dy * factor


def mixed(words):
    """SplitMix64's finaliser, in place: uint64 (n,); neighbouring counters get unrelated bits."""
    kind = array_module(words).uint64
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        words ^= words >> kind(shift)
        words *= kind(factor)
    words ^= words >> kind(31)
    return words
