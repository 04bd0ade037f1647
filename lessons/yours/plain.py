"""The layers of the pages in plain NumPy; tests compare them with the library's.

A page shows the forward. The backward is what a reader is to find: look when you have tried.
"""

import numpy as np


def tanh_forward(x):
    """y = tanh x, number by number. Any shape → y, cache."""
    y = np.tanh(x)
    return y, y


def tanh_backward(dy, cache):
    """Forward: y = tanh x.

    dy → dx, of the same shape
    """
    y = cache
    return dy * (1 - y * y)


def linear_forward(x, weight, bias):
    """y = x W + b. x: (B, d), weight: (d, e), bias: (e,) → y: (B, e), cache."""
    return x @ weight + bias, (x, weight)


def linear_backward(dy, cache):
    """Forward: y = x W + b.

    dy: (B, e) → dx: (B, d), dweight: (d, e), dbias: (e,)
    """
    x, weight = cache
    return dy @ weight.T, x.T @ dy, dy.sum(axis=0)


def l2_normalize_forward(x):
    """y = x/‖x‖ for each row. x: (B, d), no row is zero → y: (B, d), cache."""
    norm = np.sqrt((x * x).sum(axis=1, keepdims=True))        # (B, 1)
    y = x / norm
    return y, (y, norm)


def l2_normalize_backward(dy, cache):
    """Forward: y = x/‖x‖.

    dy: (B, d) → dx: (B, d)
    """
    y, norm = cache
    along = (dy * y).sum(axis=1, keepdims=True)               # (B, 1)
    return (dy - y * along) / norm


def embedding_bag_forward(table, rows, sources, lengths):
    """y_b = (Σ E_row over all places of sentence b)/√n_b.

    table: (R, d); place m holds the row rows[m] and is in sentence sources[m]: (M,) both;
    lengths: (B,) n → y: (B, d), cache
    """
    y = np.zeros((len(lengths), table.shape[1]), table.dtype)
    for row, b in zip(rows, sources):
        y[b] += table[row]
    scale = (1 / np.sqrt(lengths)).astype(table.dtype)[:, None]           # (B, 1)
    return y * scale, (rows, sources, scale)


def embedding_bag_backward(dy, cache):
    """Forward: y_b = (Σ E_row over all places of sentence b)/√n_b.

    A table is large and a batch uses few of its rows. So the gradient is a list of places: the k-th
    adds values[k] to the gradient of the row places[k]. A row may be named several times.
    dy: (B, d) → places: (P,), values: (P, d)
    """
    rows, sources, scale = cache
    return rows, (dy * scale)[sources]


def batch_softmax_forward(u, v, scale):
    """loss = −mean log p_ii, p the softmax of each row of s = scale · u vᵀ. u, v: (B, d)."""
    s = scale * u @ v.T                                       # (B, B)
    p = np.exp(s - s.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    return -np.log(p.diagonal()).mean(), (u, v, scale, p)


def batch_softmax_backward(dloss, cache):
    """Forward: loss = −mean log p_ii, p the softmax of each row of s = scale · u vᵀ.

    dloss: the loss's own gradient, a number → du: (B, d), dv: (B, d)
    """
    u, v, scale, p = cache
    ds = dloss * (p - np.eye(len(p), dtype=p.dtype)) / len(p)
    return scale * ds @ v, scale * ds.T @ u


def loss_and_gradients_forward(table, weight, response, bias, counts, scale):
    """The whole encoder: bags, unit(x W), unit(v + v R + b) of the replies alone, batch softmax.

    table: (r, d), weight: W (d, e), response: R (e, e), bias: b (e,); counts: (2B, r), how often
    each row is in each of B messages, then in their replies → loss, cache
    """
    counts = counts.astype(table.dtype)
    root = 1 / np.sqrt(counts.sum(axis=1, keepdims=True))     # (2B, 1), 1/√n
    x = counts @ table * root                                 # (2B, d)
    both, unit_cache = l2_normalize_forward(x @ weight)       # (2B, e): u, then v
    u, v = np.split(both, 2)
    v_prime, y_cache = l2_normalize_forward(v + v @ response + bias)      # (B, e)
    loss, loss_cache = batch_softmax_forward(u, v_prime, scale)
    return loss, (weight, response, counts, root, x, both, unit_cache, y_cache, loss_cache)


def loss_and_gradients_backward(dloss, cache):
    """Forward: x = counts E/√n, (u, v) = unit(x W), v′ = unit(v + v R + b), loss of u and v′.

    The backwards of its parts are there to be called.
    dloss: the loss's own gradient → dtable: (r, d), dweight: (d, e), dresponse: (e, e), dbias: (e,)
    """
    weight, response, counts, root, x, both, unit_cache, y_cache, loss_cache = cache
    v = both[len(both) // 2:]
    du, dv_prime = batch_softmax_backward(dloss, loss_cache)
    dy = l2_normalize_backward(dv_prime, y_cache)             # y = v + v R + b
    dv = dy + dy @ response.T
    dz = l2_normalize_backward(np.concatenate([du, dv]), unit_cache)      # z = x W
    return counts.T @ (dz @ weight.T * root), x.T @ dz, v.T @ dy, dy.sum(axis=0)


def attention_forward(q, k, v):
    """s = q kᵀ/√m, p = softmax(s), y = p v.

    q: (n, m), k: (l, m), v: (l, e) → y: (n, e), cache
    """
    scale = q.shape[1] ** -0.5                                # 1/√m
    s = q @ k.T * scale                                       # (n, l)
    p = np.exp(s - s.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    return p @ v, (q, k, v, p, scale)


def attention_backward(dy, cache):
    """Forward: s = q kᵀ/√m, p = softmax(s), y = p v.

    The gradients of p and of s, two steps on the way, are judged as well.
    dy: (n, e) → dp, ds: (n, l), dq: (n, m), dk: (l, m), dv: (l, e)
    """
    q, k, v, p, scale = cache
    dp = dy @ v.T
    ds = p * (dp - (p * dp).sum(axis=1, keepdims=True))
    return dp, ds, ds @ k * scale, ds.T @ q * scale, p.T @ dy


def mean_pool_forward(x, sentences, lengths):
    """y_b = (1/n_b) Σ x_i over the words i of sentence b.

    x: (N, d); sentences: (N,) the sentence of each word; lengths: (B,) n → y: (B, d), cache
    """
    y = np.zeros((len(lengths), x.shape[1]), x.dtype)
    for i, b in enumerate(sentences):
        y[b] += x[i]
    share = (1 / lengths).astype(x.dtype)                     # (B,)
    return y * share[:, None], (share, sentences)


def mean_pool_backward(dy, cache):
    """Forward: y_b = (1/n_b) Σ x_i over the words i of sentence b.

    dy: (B, d) → dx: (N, d)
    """
    share, sentences = cache
    return (dy * share[:, None])[sentences]


def layer_norm_forward(x, weight, bias):
    """y = x̂ w + b, x̂ = (x − mean)/√(variance + ε), both of the row.

    x: (N, d), weight, bias: (d,) → y: (N, d), cache
    """
    centred = x - x.mean(axis=1, keepdims=True)
    scale = 1 / np.sqrt((centred * centred).mean(axis=1, keepdims=True) + 1e-6)   # (N, 1)
    normal = centred * scale                                  # (N, d): x̂
    return normal * weight + bias, (normal, scale, weight)


def layer_norm_backward(dy, cache):
    """Forward: y = x̂ w + b, x̂ = (x − mean)/√(variance + ε).

    dy: (N, d) → dx: (N, d), dweight: (d,), dbias: (d,)
    """
    normal, scale, weight = cache
    g = dy * weight
    along = (g * normal).mean(axis=1, keepdims=True)          # (N, 1)
    dx = scale * (g - g.mean(axis=1, keepdims=True) - normal * along)
    return dx, (dy * normal).sum(axis=0), dy.sum(axis=0)
