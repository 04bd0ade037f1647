"""The Transformer encoder: compose layers forward, unwind them backward."""

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from ..backend import add_to, array_module, to_device
from .attention import attention_backward, attention_forward, groups, timing_signal
from .embeddings import embedding_backward, embedding_forward, mean_pool_backward, mean_pool_forward
from .layers import (
    NO_DROPOUT, dropout_backward, dropout_forward, feed_forward, feed_forward_backward,
    l2_normalize_backward, l2_normalize_forward, layer_norm_backward, layer_norm_forward,
    linear_backward, linear_forward, relu_backward, relu_forward,
)


class TransformerCache(NamedTuple):
    """The order of sort_by_length, and the parts' caches; layers: LayerCaches."""

    order: np.ndarray
    embedding: np.ndarray
    dropout: np.ndarray | None
    layers: list
    final_norm: tuple | None    # None for post-norm
    pool: tuple
    linear: list
    unit: tuple


class LayerCache(NamedTuple):
    """The ResidualCaches of a layer's two sublayers."""

    attention: tuple
    feed_forward: tuple


class ResidualCache(NamedTuple):
    """A sublayer with its residual connection; inner: an AttendCache, or position-wise layers'."""

    name: str
    pre_norm: bool
    norm: tuple
    inner: tuple
    dropout: np.ndarray | None


class AttendCache(NamedTuple):
    """Linear to queries, keys and values; attention, an AttentionCache; linear."""

    qkv: tuple
    attention: tuple
    output: tuple


def transformer_forward(params, packed, config, dropout=NO_DROPOUT):
    """Transformer encoder (Vaswani et al. 2017; Yang et al. 2018, §2.3.2 and §3.1).

    Word embeddings times √d plus the timing signal; layers of self-attention and feed-forward
    networks, each with a residual connection; the mean of a sentence's rows; a linear layer to the
    width of a sentence embedding (ours: the paper does not say how 512 becomes 500); unit length.

    params: as model/initial.py lists them; packed: word ids of B sentences, on the host;
    config: ModelConfig → u: (B, e) unit vectors, TransformerCache
    """
    table = params["encoder.embedding.weight"]
    xp, width = array_module(table), table.shape[1]
    packed, order = sort_by_length(packed, config.max_tokens)
    sentences, longest = groups(packed.offsets, config.heads), int(packed.lengths.max())
    packed, order = to_device(packed, xp), xp.asarray(order)

    x, embedding_cache = embedding_forward(table, packed.ids)             # (N, d)
    x *= math.sqrt(width)
    positions = xp.arange(len(x)) - packed.offsets.take(packed.sentence_numbers)
    x += timing_signal(longest, width, x.dtype, xp).take(positions, axis=0)
    x, dropout_cache = dropout_forward(x, dropout)
    layer_caches, norm_cache = [], None
    for k in range(config.transformer_layers):
        x, cache = _layer_forward(params, f"encoder.layer{k}", x, sentences, config, dropout.at(k))
        layer_caches.append(cache)
    if config.pre_norm:                                       # nothing has normalised x itself yet
        x, norm_cache = layer_norm_forward(x, *_weights(params, "encoder.norm"))
    x, pool_cache = mean_pool_forward(x, packed)                          # (B, d)
    x, linear_cache = feed_forward(params, "encoder", x)                  # (B, e)
    u, unit_cache = l2_normalize_forward(x)                               # (B, e), sorted by length
    unsorted = xp.empty_like(u)
    unsorted[order] = u
    return unsorted, TransformerCache(order, embedding_cache, dropout_cache, layer_caches,
                                      norm_cache, pool_cache, linear_cache, unit_cache)


def transformer_backward(du, cache):
    """Forward: u = unsort(normalise(linear(mean(norm(layers(dropout(√d E + timing))))))).

    Each step is undone in turn, last first. Unsorting moved row k to row order_k, so its gradient
    comes from there. The timing signal is a constant and has no gradient.
    du: (B, e) → gradients by parameter name; the table's is a list of SparseRows
    """
    dx = l2_normalize_backward(du[cache.order], cache.unit)               # (B, e)
    dx, grads = feed_forward_backward(dx, cache.linear)                   # (B, d)
    dx = mean_pool_backward(dx, cache.pool)                               # (N, d)
    if cache.final_norm is not None:
        dx = _collect(grads, "encoder.norm", layer_norm_backward(dx, cache.final_norm))
    for layer in reversed(cache.layers):
        dx, layer_grads = _layer_backward(dx, layer)
        grads.update(layer_grads)
    dx = dropout_backward(dx, cache.dropout) * math.sqrt(dx.shape[1])
    grads["encoder.embedding.weight"] = embedding_backward(dx, cache.embedding)
    return grads


def attention_weights(cache):
    """Attention in a TransformerCache: for each layer, p (g, h, n, n) of every Group."""
    return [layer.attention.inner.attention.p for layer in cache.layers]


def sort_by_length(packed, max_tokens):
    """Bring sentences of equal length side by side: few groups for attention.

    packed: on the host → Packed, each sentence cut to its first max_tokens words; order: (B,):
    sentence b of the result was sentence order[b].
    """
    order = np.argsort(packed.lengths, kind="stable")
    return packed.take(order, max_tokens), order


# ---------------------------------------------------------------- one layer

def _layer_forward(params, name, x, sentences, config, dropout):
    """Self-attention, then a feed-forward network, each around a residual connection."""
    attend = partial(_attend_forward, sentences=sentences, heads=config.heads)
    x, attention_cache = _residual_forward(params, f"{name}.attention", x, config.pre_norm,
                                           dropout.at(0), attend)
    x, feed_forward_cache = _residual_forward(params, f"{name}.feed_forward", x, config.pre_norm,
                                              dropout.at(1), _position_wise_forward)
    return x, LayerCache(attention_cache, feed_forward_cache)


def _layer_backward(dy, cache):
    """Forward: y = feed_forward(attention(x)), each with its residual. → dx, gradients by name."""
    dy, grads = _residual_backward(dy, cache.feed_forward, _position_wise_backward)
    dx, more = _residual_backward(dy, cache.attention, _attend_backward)
    return dx, grads | more


def _residual_forward(params, name, x, pre_norm, dropout, inner):
    """Pre-norm, tensor2tensor's default: x + dropout(inner(norm(x))).

    Post-norm: norm(x + dropout(inner(x))). inner: (params, name, x, dropout) → y, cache.
    """
    norm = _weights(params, f"{name}.norm")
    y, norm_cache = layer_norm_forward(x, *norm) if pre_norm else (x, None)
    y, inner_cache = inner(params, name, y, dropout.at(0))
    y, dropout_cache = dropout_forward(y, dropout)
    add_to(y, x)                                              # y is new: no one else reads it
    if not pre_norm:
        y, norm_cache = layer_norm_forward(y, *norm)
    return y, ResidualCache(name, pre_norm, norm_cache, inner_cache, dropout_cache)


def _residual_backward(dy, cache, inner_backward):
    """Forward: y = x + dropout(inner(norm(x))), or for post-norm y = norm(x + dropout(inner(x))).

    x influences y along two paths, so its gradient is the sum of theirs. Post-norm's norm is undone
    first, for both paths at once. inner_backward: (dy, name, cache) → dx, gradients by name
    → dx, gradients by name
    """
    norm, norm_grads = f"{cache.name}.norm", {}
    if not cache.pre_norm:
        dy = _collect(norm_grads, norm, layer_norm_backward(dy, cache.norm))
    dx, grads = inner_backward(dropout_backward(dy, cache.dropout), cache.name, cache.inner)
    if cache.pre_norm:
        dx = _collect(norm_grads, norm, layer_norm_backward(dx, cache.norm))
    add_to(dx, dy)
    return dx, grads | norm_grads


def _attend_forward(params, name, x, dropout, sentences, heads):
    """Linear to queries, keys and values; attention; linear: x: (N, d) → (N, d), AttendCache."""
    qkv, qkv_cache = linear_forward(x, *_weights(params, f"{name}.qkv"))              # (N, 3d)
    y, attention_cache = attention_forward(qkv, sentences, heads, dropout)            # (N, d)
    y, output_cache = linear_forward(y, *_weights(params, f"{name}.output"))          # (N, d)
    return y, AttendCache(qkv_cache, attention_cache, output_cache)


def _attend_backward(dy, name, cache):
    """Forward: y = output(attention(qkv(x))). → dx: (N, d), gradients by name"""
    grads = {}
    dy = _collect(grads, f"{name}.output", linear_backward(dy, cache.output))         # (N, d)
    dqkv = attention_backward(dy, cache.attention)                                    # (N, 3d)
    return _collect(grads, f"{name}.qkv", linear_backward(dqkv, cache.qkv)), grads


def _position_wise_forward(params, name, x, dropout):
    """Two linear layers with relu between them, for each position alone: (N, d) → (N, d), cache."""
    y, first_cache = linear_forward(x, *_weights(params, f"{name}.linear0"))          # (N, hidden)
    y, relu_cache = relu_forward(y)
    y, dropout_cache = dropout_forward(y, dropout)
    y, second_cache = linear_forward(y, *_weights(params, f"{name}.linear1"))         # (N, d)
    return y, (first_cache, relu_cache, dropout_cache, second_cache)


def _position_wise_backward(dy, name, cache):
    """Forward: y = linear1(dropout(relu(linear0(x)))). → dx: (N, d), gradients by name"""
    first_cache, relu_cache, dropout_cache, second_cache = cache
    grads = {}
    dy = _collect(grads, f"{name}.linear1", linear_backward(dy, second_cache))        # (N, hidden)
    dy = relu_backward(dropout_backward(dy, dropout_cache), relu_cache)
    return _collect(grads, f"{name}.linear0", linear_backward(dy, first_cache)), grads


def _weights(params, name):
    """Weight and bias of a linear layer or a layer norm."""
    return params[f"{name}.weight"], params[f"{name}.bias"]


def _collect(grads, name, gradients):
    """Enter a layer's dweight and dbias into `grads`; → its dx. gradients: (dx, dweight, dbias)."""
    dx, grads[f"{name}.weight"], grads[f"{name}.bias"] = gradients
    return dx
