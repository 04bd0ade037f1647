"""The Transformer encoder: compose layers forward, unwind them backward."""

import math

import numpy as np

from ..backend import add_to, array_module, to_device
from ..data.packed import Packed
from .attention import attention_backward, attention_forward, groups, timing_signal
from .embeddings import (
    embedding_backward,
    embedding_forward,
    mean_pool_backward,
    mean_pool_forward,
)
from .layers import (
    dropout_backward,
    dropout_forward,
    feed_forward,
    feed_forward_backward,
    l2_normalize_backward,
    l2_normalize_forward,
    layer_norm_backward,
    layer_norm_forward,
    linear_backward,
    linear_forward,
    relu_backward,
    relu_forward,
)

# ---------------------------------------------------------------- Transformer

def transformer_forward(params, packed, config, dropout=None):
    """Transformer encoder (Vaswani et al. 2017; Yang et al. 2018, §2.3.2 and §3.1).

    Word embeddings times √d plus the timing signal, then layers of self-attention and
    feed-forward networks, each around a residual connection; the rows of a sentence are
    averaged; a linear layer brings them to the embedding's width (ours: the paper does not say how
    512 becomes 500); the result has unit length.

    params: as `transformer_shapes` lists them; packed: word ids of B sentences, on the host;
    config: ModelConfig; dropout: Dropout in training → u: (B, e) unit vectors, cache.
    """
    xp = array_module(params["encoder.embedding.weight"])
    packed, order = sort_by_length(packed, config.max_tokens)
    sentences = groups(packed.offsets, config.heads)
    longest = int(packed.lengths.max())
    packed, order = to_device(packed, xp), xp.asarray(order)

    x, embedding_cache = embedding_forward(params["encoder.embedding.weight"], packed.ids)    # (N, d)
    x *= math.sqrt(config.embedding_dim)
    positions = xp.arange(len(x)) - packed.offsets.take(packed.sentence_numbers)
    x += timing_signal(longest, config.embedding_dim, x.dtype, xp).take(positions, axis=0)
    x, dropout_cache = dropout_forward(x, dropout)
    layer_caches = []
    for k in range(config.transformer_layers):
        x, layer_cache = _layer_forward(params, f"encoder.layer{k}", x, sentences, config, dropout and dropout.at(k))
        layer_caches.append(layer_cache)
    norm_cache = None
    if config.pre_norm:                                       # the residual stream has not been normalised yet
        x, norm_cache = layer_norm_forward(x, params["encoder.norm.weight"], params["encoder.norm.bias"])
    x, pool_cache = mean_pool_forward(x, packed)                          # (B, d)
    x, linear_cache = feed_forward(params, "encoder", x)                  # (B, e)
    u, unit_cache = l2_normalize_forward(x)                               # (B, e), sorted by length
    unsorted = xp.empty_like(u)
    unsorted[order] = u
    return unsorted, (order, embedding_cache, dropout_cache, layer_caches, norm_cache, pool_cache, linear_cache,
                      unit_cache, config)


def transformer_backward(du, cache):
    """Forward: u = unsort(normalise(linear(mean(norm(layers(dropout(√d E + timing))))))).

    Each step is undone in turn, last first. Unsorting sent row k to row order_k, so its gradient
    comes from there; the timing signal is a constant and takes none.

    du: (B, e) → gradients by parameter name; the table's is a list of SparseRows.
    """
    order, embedding_cache, dropout_cache, layer_caches, norm_cache, pool_cache, linear_cache, unit_cache, config = cache
    dx = l2_normalize_backward(du[order], unit_cache)                     # (B, e)
    dx, grads = feed_forward_backward(dx, linear_cache)                   # (B, d)
    dx = mean_pool_backward(dx, pool_cache)                               # (N, d)
    if norm_cache is not None:
        dx, grads["encoder.norm.weight"], grads["encoder.norm.bias"] = layer_norm_backward(dx, norm_cache)
    for k in reversed(range(len(layer_caches))):
        dx, layer_grads = _layer_backward(dx, layer_caches[k])
        grads.update(layer_grads)
    dx = dropout_backward(dx, dropout_cache)
    dx = dx * math.sqrt(config.embedding_dim)
    grads["encoder.embedding.weight"] = embedding_backward(dx, embedding_cache)
    return grads


def attention_weights(cache):
    """What transformer_forward's cache holds of attention: for each layer, p (g, h, n, n) of every Group."""
    layer_caches = cache[3]
    return [[p for p, _ in inner[2][3]] for (_, _, _, inner, _), _ in layer_caches]


def sort_by_length(packed, max_tokens):
    """Bring sentences of equal length side by side: few groups for attention.

    packed: on the host → Packed, each sentence cut to its first max_tokens words; order: (B,), so
    that sentence b of it was sentence order[b].
    """
    order = np.argsort(packed.lengths, kind="stable")
    lengths = np.minimum(packed.lengths[order], max_tokens)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    place = np.arange(offsets[-1]) + np.repeat(packed.offsets[:-1][order] - offsets[:-1], lengths)
    return Packed(packed.ids[place], offsets), order


def _layer_forward(params, name, x, sentences, config, dropout):
    """Self-attention, then a position-wise feed-forward network, each around a residual connection."""
    x, attention_cache = _residual_forward(
        params, f"{name}.attention", x, config.pre_norm, dropout and dropout.at(0),
        lambda x, places: _attend_forward(params, f"{name}.attention", x, sentences, config.heads, places))
    x, feed_forward_cache = _residual_forward(
        params, f"{name}.feed_forward", x, config.pre_norm, dropout and dropout.at(1),
        lambda x, places: _position_wise_forward(params, f"{name}.feed_forward", x, places))
    return x, (attention_cache, feed_forward_cache)


def _layer_backward(dy, cache):
    """Forward: y = feed_forward_with_residual(attention_with_residual(x)). → dx, gradients by name."""
    attention_cache, feed_forward_cache = cache
    dy, grads = _residual_backward(dy, feed_forward_cache, _position_wise_backward)
    dx, more = _residual_backward(dy, attention_cache, _attend_backward)
    return dx, grads | more


def _residual_forward(params, name, x, pre_norm, dropout, inner):
    """x + dropout(inner(norm(x))), pre-norm, tensor2tensor's default; or norm(x + dropout(inner(x)))."""
    weight, bias = params[f"{name}.norm.weight"], params[f"{name}.norm.bias"]
    y, norm_cache = layer_norm_forward(x, weight, bias) if pre_norm else (x, None)
    y, inner_cache = inner(y, dropout and dropout.at(0))
    y, dropout_cache = dropout_forward(y, dropout)
    add_to(y, x)                                              # y is new: nobody else holds it
    if not pre_norm:
        y, norm_cache = layer_norm_forward(y, weight, bias)
    return y, (name, pre_norm, norm_cache, inner_cache, dropout_cache)


def _residual_backward(dy, cache, inner_backward):
    """Forward: y = x + dropout(inner(norm(x))). x reaches y on two ways, whose gradients add.

    Post-norm: y = norm(x + dropout(inner(x))), so norm is undone first, for both ways at once.
    → dx, gradients by name.
    """
    name, pre_norm, norm_cache, inner_cache, dropout_cache = cache
    if not pre_norm:
        dy, dweight, dbias = layer_norm_backward(dy, norm_cache)
    dx, grads = inner_backward(dropout_backward(dy, dropout_cache), inner_cache)
    if pre_norm:
        dx, dweight, dbias = layer_norm_backward(dx, norm_cache)
    add_to(dx, dy)
    grads[f"{name}.norm.weight"], grads[f"{name}.norm.bias"] = dweight, dbias
    return dx, grads


def _attend_forward(params, name, x, sentences, heads, dropout):
    """Linear to queries, keys and values; attention; linear."""
    qkv, qkv_cache = linear_forward(x, params[f"{name}.qkv.weight"], params[f"{name}.qkv.bias"])           # (N, 3d)
    y, attention_cache = attention_forward(qkv, sentences, heads, dropout)                                # (N, d)
    y, output_cache = linear_forward(y, params[f"{name}.output.weight"], params[f"{name}.output.bias"])   # (N, d)
    return y, (name, qkv_cache, attention_cache, output_cache)


def _attend_backward(dy, cache):
    """Forward: y = output(attention(qkv(x))). → dx: (N, d), gradients by name."""
    name, qkv_cache, attention_cache, output_cache = cache
    grads = {}
    dy, grads[f"{name}.output.weight"], grads[f"{name}.output.bias"] = linear_backward(dy, output_cache)
    dqkv = attention_backward(dy, attention_cache)                                                        # (N, 3d)
    dx, grads[f"{name}.qkv.weight"], grads[f"{name}.qkv.bias"] = linear_backward(dqkv, qkv_cache)
    return dx, grads


def _position_wise_forward(params, name, x, dropout):
    """Two linear layers with relu between them, for each position alone."""
    y, first_cache = linear_forward(x, params[f"{name}.linear0.weight"], params[f"{name}.linear0.bias"])   # (N, hidden)
    y, relu_cache = relu_forward(y)
    y, dropout_cache = dropout_forward(y, dropout)
    y, second_cache = linear_forward(y, params[f"{name}.linear1.weight"], params[f"{name}.linear1.bias"])  # (N, d)
    return y, (name, first_cache, relu_cache, dropout_cache, second_cache)


def _position_wise_backward(dy, cache):
    """Forward: y = linear1(dropout(relu(linear0(x)))). → dx: (N, d), gradients by name."""
    name, first_cache, relu_cache, dropout_cache, second_cache = cache
    grads = {}
    dy, grads[f"{name}.linear1.weight"], grads[f"{name}.linear1.bias"] = linear_backward(dy, second_cache)
    dy = relu_backward(dropout_backward(dy, dropout_cache), relu_cache)                                   # (N, hidden)
    dx, grads[f"{name}.linear0.weight"], grads[f"{name}.linear0.bias"] = linear_backward(dy, first_cache)
    return dx, grads
