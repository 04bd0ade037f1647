"""Sentence encoders: compose layers forward, unwind them backward."""

from .layers import (
    embedding_bag_backward,
    embedding_bag_forward,
    l2_normalize_backward,
    l2_normalize_forward,
    linear_backward,
    linear_forward,
    tanh_backward,
    tanh_forward,
)
from .text import words_and_bigrams


def dan_forward(params, packed, word_rows):
    """Deep averaging network (Iyyer et al. 2015; Yang et al. 2018, §2.3.1 and §3.1).

    The embeddings of a sentence's words and bigrams are summed and divided by √n; then come fully
    connected layers with tanh between them (ours: the paper names no activation); the result has
    unit length.

    params: "encoder.embedding.weight" (R, d), of which the first `word_rows` rows are words and
    the others hashed bigrams, and "encoder.linear{k}.weight" and ".bias"; packed: word ids of B
    sentences → u: (B, e) unit vectors, cache.
    """
    table = params["encoder.embedding.weight"]
    rows = words_and_bigrams(packed, word_rows, len(table) - word_rows)
    x, bag_cache = embedding_bag_forward(table, rows, packed.lengths)     # (B, d)
    x, layers_cache = feed_forward(params, "encoder", x)                  # (B, e)
    u, unit_cache = l2_normalize_forward(x)                               # (B, e)
    return u, (bag_cache, layers_cache, unit_cache)


def dan_backward(du, cache):
    """Forward: u = normalise(layers(bag(table))). Each step is undone in turn, last first.

    du: (B, e) → gradients by parameter name; the table's is a list of SparseRows.
    """
    bag_cache, layers_cache, unit_cache = cache
    dx = l2_normalize_backward(du, unit_cache)                            # (B, e)
    dx, grads = feed_forward_backward(dx, layers_cache)                   # (B, d)
    grads["encoder.embedding.weight"] = embedding_bag_backward(dx, bag_cache)
    return grads


def feed_forward(params, name, x):
    """Fully connected layers `name`.linear0, linear1, … with tanh between them.

    x: (B, d) → (B, e), cache.
    """
    caches = []
    while f"{name}.linear{len(caches)}.weight" in params:
        layer, tanh_cache = f"{name}.linear{len(caches)}", None
        if caches:
            x, tanh_cache = tanh_forward(x)
        x, linear_cache = linear_forward(x, params[f"{layer}.weight"], params[f"{layer}.bias"])
        caches.append((layer, tanh_cache, linear_cache))
    return x, caches


def feed_forward_backward(dx, caches):
    """Forward: x → linear0 → tanh → linear1 → … The chain rule walks the layers from the last.

    dx: (B, e) → dx: (B, d), gradients by parameter name.
    """
    grads = {}
    for layer, tanh_cache, linear_cache in reversed(caches):
        dx, grads[f"{layer}.weight"], grads[f"{layer}.bias"] = linear_backward(dx, linear_cache)
        if tanh_cache is not None:
            dx = tanh_backward(dx, tanh_cache)
    return dx, grads
