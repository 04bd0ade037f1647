"""The Transformer encoder: its layers in order forward, and in reverse order backward."""

import math

import numpy as np

from .arrays import array_module, to_device
from .attention import self_attention_backward, self_attention_forward, timing_signal
from .dan import word_bag
from .dropout import dropout_of
from .embeddings import embedding_bag_backward
from .layers import (
    feed_forward, feed_forward_backward, l2_normalize_backward, l2_normalize_forward,
    linear_backward, linear_forward)
from .model import ENCODERS, TABLE, Encoder
from .packed import Packed, offsets_of
from .transformer_layers import (
    add_norm_backward, add_norm_forward, layer_norm_backward, layer_norm_forward,
    mean_pool_backward, mean_pool_forward, placed_embedding_backward, placed_embedding_forward,
    position_wise_backward, position_wise_forward, positions)


def transformer_forward(model, packed, key=()):
    """Transformer encoder (Vaswani et al. 2017; Yang et al. 2018, §2.3.2 and §3.1).

    In this order: word embeddings times √d plus the timing signal; layers of self-attention and
    feed-forward networks, each with a residual connection; the mean of a sentence's rows; a linear
    layer to the width of a sentence embedding (ours: the paper does not say how 512 becomes 500);
    scaling to unit length.

    x is the residual stream. The next sublayer reads z = norm(x), but x itself is never normalised
    (pre-norm, tensor2tensor's default at the time). With config.bag (ours), the vector to be scaled
    is y = √d bag(table) W_bag + mean(sublayers) W: what a DAN gives, plus what attention adds.
    packed: word ids of B sentences, on the host; key: for dropout, see `encoder_forward`
    → u: (B, e) unit vectors, cache; with key None, the sublayers' caches are not kept
    """
    params, config = model.params, model.config
    dropout = dropout_of(config.dropout, key)
    table = params[TABLE]
    xp = array_module(table)
    on_host, order, places = sort_by_length(packed, config.max_tokens)
    packed, order, places = to_device((on_host, order, places), xp)
    signal = timing_signal(config.max_tokens, table.shape[1], table.dtype, xp)

    x, embedding_cache = placed_embedding_forward(table, packed, signal, dropout)     # (N, d)
    names = [f"encoder.layer{k}.{kind}" for k in range(config.transformer_layers)
             for kind in ("attention", "feed_forward")]
    first, *next_norms = *(f"{name}.norm" for name in names), "encoder.norm"
    z, first_norm_cache = layer_norm_forward(x, params[f"{first}.weight"], params[f"{first}.bias"])
    caches = []
    # Pre-norm is x += sublayer(norm(x)). A step of this loop begins and ends after a norm, so that
    # one function, on a GPU one kernel, adds y and normalises the sum for the next sublayer.
    for k, (name, next_norm) in enumerate(zip(names, next_norms)):
        here = dropout.at(k // 2).at(k % 2)
        of_layers, of_norm = ([params[p] for p in some] for some in parameters_of(name, next_norm))
        if name.endswith("attention"):
            y, inner = self_attention_forward(z, *of_layers, here.at(0), packed.offsets,
                                              config.heads)
        else:
            y, inner = position_wise_forward(z, *of_layers, here.at(0))
        x, z, join = add_norm_forward(x, y, *of_norm, here)                           # (N, d)
        caches += [] if key is None else [(name, next_norm, inner, join)]
        del inner, join                                       # frees what is not kept
    y, pool_cache = mean_pool_forward(z, packed)                          # (B, d)
    y, linear_cache = feed_forward(model, "encoder", y)                   # (B, e)
    bag_cache = None
    if config.bag:
        bag, bag_cache = bag_forward(model, on_host)                      # (B, e)
        y += bag
    u, unit_cache = l2_normalize_forward(y)                               # (B, e), sorted by length
    return u.take(places, axis=0), (order, embedding_cache, (first, first_norm_cache), caches,
                                    pool_cache, linear_cache, bag_cache, unit_cache)


def transformer_backward(du, cache):
    """Forward: u = unsort(normalise(y)), y = linear(mean(sublayers(dropout(√d E + timing)))).

    Each step is undone in turn, last first. dz is the gradient of what a sublayer's norm returned;
    dx is that of the residual stream, or None if only the norm reads the stream. With a bag,
    y += √d bag(table) W_bag: dy reaches both summands unchanged, and the table, which both read,
    gets the sum of two gradients.
    du: (B, e) → gradients by parameter name; the table's is a list of SparseRows
    """
    (order, embedding_cache, (first, first_norm_cache), caches, pool_cache, linear_cache, bag_cache,
     unit_cache) = cache
    dy = l2_normalize_backward(du.take(order, axis=0), unit_cache)                    # (B, e)
    dz, grads = feed_forward_backward(dy, linear_cache)                   # (B, d)
    dtable = [] if bag_cache is None else bag_backward(dy, bag_cache, grads)
    dz, dx = mean_pool_backward(dz, pool_cache), None                     # (N, d)
    for name, next_norm, inner, join in reversed(caches):
        is_attention = name.endswith("attention")
        backward = self_attention_backward if is_attention else position_wise_backward
        dx, dy, *of_norm = add_norm_backward((dz, dx), join)
        dz, *of_layers = backward(dy, inner)
        for names, gradients in zip(parameters_of(name, next_norm), (of_layers, of_norm)):
            grads |= zip(names, gradients)
    dz, *of_norm = layer_norm_backward(dz, first_norm_cache)
    grads |= zip((f"{first}.weight", f"{first}.bias"), of_norm)
    grads[TABLE] = dtable + placed_embedding_backward(dx + dz, embedding_cache)
    return grads


def transformer_shapes(config):
    """Name → shape of the parameters that only a Transformer has. config: a ModelConfig"""
    d, hidden = config.embedding_dim, config.hidden
    layer = {"attention.norm": (d,), "attention.qkv": (d, 3 * d), "attention.output": (d, d),
             "feed_forward.norm": (d,), "feed_forward.linear0": (d, hidden),
             "feed_forward.linear1": (hidden, d)}
    weights = {f"layer{k}.{name}": shape for k in range(config.transformer_layers)
               for name, shape in layer.items()} | {"norm": (d,)}
    bag = {"encoder.bag.weight": (d, config.layers[-1])} if config.bag else {}
    return bag | {f"encoder.{name}.{kind}": shape if kind == "weight" else shape[-1:]
                  for name, shape in weights.items() for kind in ("weight", "bias")}


def parameters_of(name, norm):
    """The parameter names of a sublayer, in its forward's order, and of the layer norm `norm`."""
    layers = ("qkv", "output") if name.endswith("attention") else ("linear0", "linear1")
    return ([f"{name}.{layer}.{kind}" for layer in layers for kind in ("weight", "bias")],
            [f"{norm}.weight", f"{norm}.bias"])


def bag_forward(model, packed):
    """y = √d bag(table) W: a DAN with one layer. √d undoes the table_divisor (see below).

    packed: word ids of B sentences, on the host → y: (B, e), cache
    """
    x, rows_cache = word_bag(model, packed)
    x *= math.sqrt(x.shape[1])                                            # (B, d)
    y, linear_cache = linear_forward(x, model.params["encoder.bag.weight"])           # (B, e)
    return y, (rows_cache, linear_cache)


def bag_backward(dy, cache, grads):
    """Forward: y = √d bag(table) W. → dtable: list of SparseRows; dW is stored in grads."""
    rows_cache, linear_cache = cache
    dx, grads["encoder.bag.weight"], _ = linear_backward(dy, linear_cache)            # (B, d)
    return embedding_bag_backward(dx * math.sqrt(dx.shape[1]), rows_cache)


def sort_by_length(packed, max_tokens):
    """Sort sentences by length, so that attention has few groups.

    packed: on the host → a Packed with sentences cut to max_tokens words; order (B,): its sentence
    b had the number order[b] before; places (B,): the number that each sentence has now
    """
    order = np.argsort(packed.lengths, kind="stable")
    packed = packed.take(order)
    cut = Packed(packed.ids[positions(packed) < max_tokens],
                 offsets_of(np.minimum(packed.lengths, max_tokens)))
    return cut, order, np.argsort(order)


def attention_weights(model, packed):
    """How much each word attends to every word: for each layer, p (g, h, n, n) of each Group."""
    _, cache = transformer_forward(model, packed)
    return [inner[1].p for name, _, inner, _ in cache[3] if name.endswith("attention")]


ENCODERS["transformer"] = Encoder(
    "Transformer", "Transformer", transformer_forward, transformer_backward, transformer_shapes,
    has_bigrams=lambda config: config.bag, table_divisor=math.sqrt,
    longest=lambda config: config.max_tokens, attention=attention_weights,
    preset="transformer-small",
    settings=("hidden", "transformer_layers", "heads", "bag", "max_tokens"))
