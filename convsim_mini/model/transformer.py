"""The Transformer encoder: compose layers forward, unwind them backward."""

import math
from typing import NamedTuple

import numpy as np

from ..backend import add_to, array_module, to_device
from ..data.packed import Packed
from .attention import attention_backward, attention_forward, timing_signal
from .embeddings import (
    embedding_bag_backward, mean_pool_backward, mean_pool_forward, placed_embedding_backward,
    placed_embedding_forward, word_bag_forward)
from .layers import (
    NO_DROPOUT, add_norm_backward, add_norm_forward, dense_backward, dense_forward, feed_forward,
    feed_forward_backward, l2_normalize_backward, l2_normalize_forward, layer_norm_backward,
    layer_norm_forward)


class Sorted(NamedTuple):
    """B sentences by rising length, from `sort_by_length`."""

    packed: Packed
    order: np.ndarray     # (B,): sentence b was sentence order[b] before
    places: np.ndarray    # (B,): where each sentence stands now, so places[order[b]] = b


class TransformerCache(NamedTuple):
    """The order of sort_by_length, and the parts' caches."""

    order: np.ndarray
    embedding: tuple
    first_norm: tuple | None    # None for post-norm
    sublayers: list             # of SublayerCache
    pool: tuple
    linear: list
    bag: tuple | None           # None without `bag`
    unit: tuple


class SublayerCache(NamedTuple):
    """What the backward of a sublayer needs: self-attention or a feed-forward network."""

    name: str          # with which its parameters' names begin
    norm: str          # the same of the layer norm that follows it
    inner: tuple       # its own cache
    add_norm: tuple    # the cache of its residual connection and of that layer norm


class AttendCache(NamedTuple):
    """The caches of self-attention's three steps."""

    qkv: tuple
    attention: tuple    # on the host an AttentionCache
    output: tuple


def transformer_forward(params, ordered, config, dropout=NO_DROPOUT, word_rows=None, keep=True):
    """Transformer encoder (Vaswani et al. 2017; Yang et al. 2018, §2.3.2 and §3.1).

    Word embeddings times √d plus the timing signal; layers of self-attention and feed-forward
    networks, each with a residual connection; the mean of a sentence's rows; a linear layer to the
    width of a sentence embedding (ours: the paper does not say how 512 becomes 500); unit length.

    x is the residual stream and z what the next sublayer reads. Pre-norm: z = norm(x), and the
    stream itself is never normalised. Post-norm: both are norm(x). With config.bag the vector
    before unit length is y = √d bag(table) W_bag + mean(sublayers) W: what a DAN gives of the same
    sentences, and what attention adds (ours).
    params: as model/initial.py lists them; ordered: Sorted word ids of B sentences, on the host or
    the device; config: ModelConfig; word_rows: rows of the table that are words, for the bag; keep:
    the sublayers' caches, without which nothing can go back
    → u: (B, e) unit vectors, TransformerCache
    """
    table = params["encoder.embedding.weight"]
    xp, width = array_module(table), table.shape[1]
    packed, order, places = to_device(ordered, xp)
    signal = timing_signal(config.max_tokens, width, table.dtype, xp)

    z, embedding_cache = placed_embedding_forward(table, packed, signal, dropout)     # (N, d)
    x = z
    names = sublayers(config)
    first_norm_cache, norms = None, [f"{name}.norm" for name in names]
    if config.pre_norm:
        z, first_norm_cache = layer_norm_forward(x, *_weights(params, norms[0]))
        norms = [*norms[1:], "encoder.norm"]
    caches = []
    for k, (name, norm) in enumerate(zip(names, norms)):
        here = dropout.at(k // 2).at(k % 2)
        if name.endswith("attention"):
            y, inner = _attend_forward(params, name, z, packed.offsets, config.heads, here.at(0))
        else:
            y, inner = _position_wise_forward(params, name, z, here.at(0))
        x, z, join = add_norm_forward(x, y, *_weights(params, norm), here)            # (N, d)
        x = x if config.pre_norm else z
        caches += [SublayerCache(name, norm, inner, join)] if keep else []
        del inner, join
    y, pool_cache = mean_pool_forward(z, packed)                          # (B, d)
    y, linear_cache = feed_forward(params, "encoder", y)                  # (B, e)
    bag_cache = None
    if config.bag:
        bag, bag_cache = _bag_forward(params, packed, word_rows)          # (B, e)
        y += bag
    u, unit_cache = l2_normalize_forward(y)                               # (B, e), sorted by length
    return u.take(places, axis=0), TransformerCache(order, embedding_cache, first_norm_cache,
                                                    caches, pool_cache, linear_cache, bag_cache,
                                                    unit_cache)


def transformer_backward(du, cache):
    """Forward: u = unsort(normalise(y)), y = linear(mean(sublayers(dropout(√d E + timing)))).

    Each step is undone in turn, last first. dz is the gradient of what a sublayer's norm gave; dx
    is that of the residual stream, None where nothing but the norm reads it. Post-norm's stream is
    z itself, so there both gradients add up in dz. With a bag y += √d bag(table) W_bag: dy reaches
    both summands as it is, and the table, which both read, gets the sum of two gradients.
    du: (B, e) → gradients by parameter name; the table's is a list of SparseRows
    """
    dy = l2_normalize_backward(du.take(cache.order, axis=0), cache.unit)              # (B, e)
    dz, grads = feed_forward_backward(dy, cache.linear)                   # (B, d)
    dtable = [] if cache.bag is None else _bag_backward(dy, cache.bag, grads)
    dz = mean_pool_backward(dz, cache.pool)                               # (N, d)
    dx = None
    pre_norm = cache.first_norm is not None
    for name, norm, inner, join in reversed(cache.sublayers):
        dx, dy, grads[f"{norm}.weight"], grads[f"{norm}.bias"] = add_norm_backward(dz, join, dx)
        if name.endswith("attention"):
            dz = _attend_backward(dy, name, inner, grads)
        else:
            dz = _position_wise_backward(dy, name, inner, grads)
        if not pre_norm:
            add_to(dz, dx)
            dx = None
    if pre_norm:
        dz = _collect(grads, f"{cache.sublayers[0].name}.norm",
                      layer_norm_backward(dz, cache.first_norm))
        add_to(dz, dx)
    grads["encoder.embedding.weight"] = dtable + placed_embedding_backward(dz, cache.embedding)
    return grads


def transformer_shapes(config):
    """Name → shape of the parameters of a ModelConfig's Transformer layers."""
    d, hidden = config.embedding_dim, config.hidden
    layer = {"attention.norm": (d,), "attention.qkv": (d, 3 * d), "attention.output": (d, d),
             "feed_forward.norm": (d,), "feed_forward.linear0": (d, hidden),
             "feed_forward.linear1": (hidden, d)}
    weights = {f"layer{k}.{name}": shape for k in range(config.transformer_layers)
               for name, shape in layer.items()}
    if config.pre_norm:
        weights["norm"] = (d,)
    bag = {"encoder.bag.weight": (d, config.layers[-1])} if config.bag else {}
    return bag | {f"encoder.{name}.{kind}": shape if kind == "weight" else shape[-1:]
                  for name, shape in weights.items() for kind in ("weight", "bias")}


def sublayers(config):
    """The names of a ModelConfig's sublayers, in their order."""
    return [f"encoder.layer{k}.{kind}" for k in range(config.transformer_layers)
            for kind in ("attention", "feed_forward")]


def attention_weights(cache):
    """Attention in a TransformerCache of the host: for each layer, p (g, h, n, n) of each Group."""
    return [layer.inner.attention.p for layer in cache.sublayers[::2]]


def sort_by_length(packed, max_tokens):
    """Bring sentences of equal length side by side: few groups for attention.

    packed: on the host → Sorted, each sentence cut to its first max_tokens words
    """
    order = np.argsort(packed.lengths, kind="stable")
    return Sorted(packed.take(order, max_tokens), order, np.argsort(order))


# ---------------------------------------------------------------- a bag, two kinds of sublayers

def _bag_forward(params, packed, word_rows):
    """y = √d bag(table) W: a DAN of one layer. √d undoes what initial.py divides the table by.

    packed: word ids of B sentences → y: (B, e), cache
    """
    x, rows_cache = word_bag_forward(params["encoder.embedding.weight"], packed, word_rows)
    x *= math.sqrt(x.shape[1])                                                        # (B, d)
    y, linear_cache = dense_forward(x, params["encoder.bag.weight"], None)            # (B, e)
    return y, (rows_cache, linear_cache)


def _bag_backward(dy, cache, grads):
    """Forward: y = √d bag(table) W. → dtable: list of SparseRows; dW goes to grads."""
    rows_cache, linear_cache = cache
    dx, grads["encoder.bag.weight"], _ = dense_backward(dy, linear_cache)             # (B, d)
    return embedding_bag_backward(dx * math.sqrt(dx.shape[1]), rows_cache)


def _attend_forward(params, name, x, offsets, heads, dropout):
    """Linear to queries, keys and values; attention; linear: x: (N, d) → (N, d), AttendCache."""
    qkv, qkv_cache = dense_forward(x, *_weights(params, f"{name}.qkv"))               # (N, 3d)
    y, attention_cache = attention_forward(qkv, offsets, heads, dropout)              # (N, d)
    y, output_cache = dense_forward(y, *_weights(params, f"{name}.output"))           # (N, d)
    return y, AttendCache(qkv_cache, attention_cache, output_cache)


def _attend_backward(dy, name, cache, grads):
    """Forward: y = output(attention(qkv(x))). → dx: (N, d); parameters' gradients go to grads."""
    dy = _collect(grads, f"{name}.output", dense_backward(dy, cache.output))          # (N, d)
    dqkv = attention_backward(dy, cache.attention)                                    # (N, 3d)
    return _collect(grads, f"{name}.qkv", dense_backward(dqkv, cache.qkv))


def _position_wise_forward(params, name, x, dropout):
    """Two linear layers with relu between them, for each position alone: (N, d) → (N, d), cache."""
    first, second = (_weights(params, f"{name}.linear{k}") for k in (0, 1))
    y, first_cache = dense_forward(x, *first, "relu", dropout)                        # (N, hidden)
    y, second_cache = dense_forward(y, *second)                                       # (N, d)
    return y, (first_cache, second_cache)


def _position_wise_backward(dy, name, cache, grads):
    """Forward: y = linear1(dropout(relu(linear0(x)))). → dx: (N, d); the others go to grads."""
    first_cache, second_cache = cache
    dy = _collect(grads, f"{name}.linear1", dense_backward(dy, second_cache))         # (N, hidden)
    return _collect(grads, f"{name}.linear0", dense_backward(dy, first_cache))


def _weights(params, name):
    """Weight and bias of a linear layer or a layer norm."""
    return params[f"{name}.weight"], params[f"{name}.bias"]


def _collect(grads, name, gradients):
    """Enter a layer's dweight and dbias into `grads`; → its dx. gradients: (dx, dweight, dbias)."""
    dx, grads[f"{name}.weight"], grads[f"{name}.bias"] = gradients
    return dx
