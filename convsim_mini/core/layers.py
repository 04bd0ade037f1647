"""The layers of the DAN, each as two pure functions: forward(x, …) → y, cache; backward(dy, cache).

B is the number of sentences in a batch; d and e are numbers of features. A backward's docstring
starts with the forward that it differentiates; dx is ∂loss/∂x. Results have the dtype and the
device of the inputs.
"""

from .arrays import array_module, matmul, twinned


def linear_forward(x, weight, bias=None):
    """y = x W + b: x: (B, d), weight: (d, e), bias: (e,) or None for 0 → y: (B, e), cache."""
    y = matmul(x, weight)                                     # (B, e)
    if bias is not None:
        y += bias
    return y, (x, weight)


def linear_backward(dy, cache):
    """Forward: y_ik = Σ_j x_ij W_jk + bias_k.

    ∂y_ik/∂W_jk = x_ij, so dW_jk = Σ_i x_ij dy_ik, that is, dW = xᵀ dy. ∂y_ik/∂x_ij = W_jk, so
    dx = dy Wᵀ. The same bias is added to every row, so dbias is the sum of dy over the rows.
    dy: (B, e) → dx: (B, d), dweight: (d, e), dbias: (e,)
    """
    x, weight = cache
    return matmul(dy, weight.T), matmul(x.T, dy), dy.sum(axis=0)


def tanh_forward(x):
    """y = tanh x, elementwise; x: (n, …)."""
    y = array_module(x).tanh(x)
    return y, y


@twinned
def tanh_backward(dy, cache):
    """Forward: y = tanh x. ∂y/∂x = 1 − tanh² x = 1 − y², and y is the cache: (n, …) → (n, …)."""
    return dy * (1 - cache * cache)


def l2_normalize_forward(x):
    """Scale each row to unit length: y = x / ‖x‖ (Yang et al. 2018, §3.1).

    x: (B, d) → y: (B, d), cache. A zero row stays zero.
    """
    xp = array_module(x)
    norm = xp.sqrt((x * x).sum(axis=1, keepdims=True))        # (B, 1)
    norm = xp.where(norm > 0, norm, 1)                        # avoids 0/0 in a zero row
    y = x / norm                                              # (B, d)
    return y, (y, norm)


def l2_normalize_backward(dy, cache):
    """Forward: y = x / n, n = ‖x‖.

    ∂yᵢ/∂xⱼ = (δᵢⱼ − yᵢ yⱼ) / n. So the part of dy along y is projected out (moving x along itself
    does not turn it), and the rest is divided by n.
    dy: (B, d) → dx: (B, d)
    """
    y, norm = cache
    along = (dy * y).sum(axis=1, keepdims=True)               # (B, 1)
    return (dy - along * y) / norm


def feed_forward(model, name, x):
    """A Model's layers `name`.linear0, linear1, … with tanh between: x: (B, d) → (B, e), caches."""
    params, caches, tanh_cache = model.params, [], None
    while f"{name}.linear{len(caches)}.weight" in params:
        layer = f"{name}.linear{len(caches)}"
        if caches:                                            # before every layer but the first
            x, tanh_cache = tanh_forward(x)
        bias = params.get(f"{layer}.bias")
        x, linear_cache = linear_forward(x, params[f"{layer}.weight"], bias)
        caches.append((layer, bias is not None, tanh_cache, linear_cache))
    return x, caches


def feed_forward_backward(dy, caches):
    """Forward: x → linear0 → tanh → linear1 → … The chain rule starts at the last layer.

    dy: (B, e) → dx: (B, d), gradients by parameter name.
    """
    dx, grads = dy, {}
    for layer, has_bias, tanh_cache, linear_cache in reversed(caches):
        dx, grads[f"{layer}.weight"], dbias = linear_backward(dx, linear_cache)
        if has_bias:
            grads[f"{layer}.bias"] = dbias
        if tanh_cache is not None:
            dx = tanh_backward(dx, tanh_cache)
    return dx, grads
