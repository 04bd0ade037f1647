"""The Transformer encoder: its layers in order forward, and in reverse order backward."""

import math

import numpy as np

from .arrays import array_module, to_device
from .attention import self_attention_backward, self_attention_forward, timing_signal
from .embeddings import (
    SparseRows, embedding_bag_backward, embedding_bag_forward, in_32_bits)
from .layers import (
    feed_forward, feed_forward_backward, l2_normalize_backward, l2_normalize_forward,
    linear_backward, linear_forward)
from .model import ENCODERS, TABLE, Encoder
from .packed import Packed, offsets_of, words_and_bigrams
from .transformer_layers import (
    dropout_backward, dropout_forward, dropout_of, layer_norm_backward, layer_norm_forward,
    mean_pool_backward, mean_pool_forward, position_wise_backward, position_wise_forward, positions)

# the sublayers of a layer, and the parts of each that have a weight and a bias
SUBLAYERS = {"attention": ("norm", "qkv", "output"), "feed_forward": ("norm", "linear0", "linear1")}
LAST_NORM = ("encoder.norm.weight", "encoder.norm.bias")


def transformer_forward(model, packed, key=()):
    """Transformer encoder (Vaswani et al. 2017; Yang et al. 2018, §2.3.2 and §3.1).

    In this order: word embeddings times √d plus the timing signal; layers of self-attention and
    feed-forward networks, each with a residual connection; a last norm; the mean of a sentence's
    rows; a linear layer to the width of a sentence embedding (ours: the paper does not say how 512
    becomes 500); scaling to unit length.

    With config.bag (ours), the vector to be scaled is y = √d bag(table) W_bag + mean(sublayers) W:
    what a DAN gives, plus what attention adds. √d undoes the table_divisor (see below).
    packed: word ids of B sentences, on the host; key: for dropout, see `encoder_forward`
    → u: (B, e) unit vectors, cache; with key None, the sublayers' caches are not kept
    """
    params, config = model.params, model.config
    on_host, order, places = sort_by_length(packed, config.max_tokens)
    table, ids = in_32_bits(params[TABLE], on_host.ids)
    xp, d = array_module(table), table.shape[1]
    packed, order, places = to_device((on_host._replace(ids=ids), order, places), xp)
    signal = timing_signal(config.max_tokens, d, table.dtype, xp)

    x = table.take(packed.ids, axis=0) * math.sqrt(d)                     # (N, d)
    x += signal.take(positions(packed), axis=0)
    x, words_cache = dropout_forward(x, dropout_of(config.dropout, key))
    caches = []
    for k in range(config.transformer_layers):
        for place, kind in enumerate(SUBLAYERS):
            dropout = dropout_of(config.dropout, key, k, place)
            x, cache = sublayer_forward(model, k, kind, x, packed.offsets, dropout)   # (N, d)
            caches += [] if key is None else [cache]
            del cache                                         # frees what is not kept
    z, norm_cache = layer_norm_forward(x, *(params[name] for name in LAST_NORM))
    y, pool_cache = mean_pool_forward(z, packed)                          # (B, d)
    y, linear_cache = feed_forward(model, "encoder", y)                   # (B, e)
    bag_cache = None
    if config.bag:
        rows = words_and_bigrams(on_host, model.word_rows, model.bigrams)
        bag, rows_cache = embedding_bag_forward(params[TABLE], rows, on_host.lengths)     # (B, d)
        bag, layer_cache = linear_forward(bag * math.sqrt(d), params["encoder.bag.weight"])
        y += bag
        bag_cache = rows_cache, layer_cache
    u, unit_cache = l2_normalize_forward(y)                               # (B, e), sorted by length
    return u.take(places, axis=0), (order, (packed.ids, words_cache), caches, norm_cache,
                                    pool_cache, linear_cache, bag_cache, unit_cache)


def transformer_backward(du, cache):
    """Forward: u = unsort(normalise(y)), y = linear(mean(norm(sublayers(dropout(√d E + timing))))).

    Each step is undone in turn, last first. dx is the gradient of the residual stream. The timing
    signal is a constant, so each place of a word adds √d times its row of dx to the word's row of
    the table. With a bag, y += √d bag(table) W_bag: dy reaches both summands unchanged, and the
    table, which both read, gets the sum of two gradients.
    du: (B, e) → gradients by parameter name; the table's is a list of SparseRows
    """
    (order, (ids, words_cache), caches, norm_cache, pool_cache, linear_cache, bag_cache,
     unit_cache) = cache
    dy = l2_normalize_backward(du.take(order, axis=0), unit_cache)                    # (B, e)
    dz, grads = feed_forward_backward(dy, linear_cache)                   # (B, d)
    dtable = []
    if bag_cache is not None:
        rows_cache, layer_cache = bag_cache
        dbag, grads["encoder.bag.weight"], _ = linear_backward(dy, layer_cache)       # (B, d)
        dtable = embedding_bag_backward(dbag * math.sqrt(dbag.shape[1]), rows_cache)
    dz = mean_pool_backward(dz, pool_cache)                               # (N, d)
    dx, *of_norm = layer_norm_backward(dz, norm_cache)
    grads |= zip(LAST_NORM, of_norm)
    for sublayer_cache in reversed(caches):
        dx = sublayer_backward(dx, sublayer_cache, grads)                 # (N, d)
    drows = dropout_backward(dx, words_cache) * math.sqrt(dx.shape[1])    # (N, d)
    places = array_module(ids).arange(len(ids), dtype=ids.dtype)
    grads[TABLE] = [*dtable, SparseRows(ids, drows, places)]
    return grads


def sublayer_forward(model, k, kind, x, offsets, dropout):
    """y = x + dropout(f(norm(x))), f: self-attention, or the position-wise network.

    It is pre-norm, tensor2tensor's default at the time: the norm is on the branch, and the residual
    stream x is never normalised. x: (N, d); k: the layer; kind: a name in SUBLAYERS; offsets: of
    the sentences → y: (N, d), cache
    """
    names = names_of(k, kind)
    norm_weight, norm_bias, *of_f = (model.params[name] for name in names)
    z, norm_cache = layer_norm_forward(x, norm_weight, norm_bias)
    if kind == "attention":
        y, f_cache = self_attention_forward(z, *of_f, offsets, model.config.heads)
    else:
        y, f_cache = position_wise_forward(z, *of_f)
    y, dropout_cache = dropout_forward(y, dropout)
    return x + y, (kind, names, norm_cache, f_cache, dropout_cache)


def sublayer_backward(dy, cache, grads):
    """Forward: y = x + dropout(f(norm(x))). x is used twice, so its two gradients add up.

    The first is dy itself, unchanged; the second is what the branch sends back.
    dy: (N, d) → dx: (N, d); the parameters' gradients are stored in grads
    """
    kind, names, norm_cache, f_cache, dropout_cache = cache
    backward = self_attention_backward if kind == "attention" else position_wise_backward
    dz, *of_f = backward(dropout_backward(dy, dropout_cache), f_cache)
    dx, *of_norm = layer_norm_backward(dz, norm_cache)
    grads |= zip(names, of_norm + of_f)
    return dy + dx


def names_of(k, kind):
    """The names of a sublayer's parameters, in the order in which they are used."""
    return [f"encoder.layer{k}.{kind}.{part}.{each}" for part in SUBLAYERS[kind]
            for each in ("weight", "bias")]


def transformer_shapes(config):
    """Name → shape, kind of the parameters that only a Transformer has. config: a ModelConfig"""
    d, hidden = config.embedding_dim, config.hidden
    weights = {"norm": ((d,), "ones"), "qkv": ((d, 3 * d), "qkv"), "output": ((d, d), "uniform"),
               "linear0": ((d, hidden), "uniform"), "linear1": ((hidden, d), "uniform")}
    shapes = {"encoder.bag.weight": ((d, config.layers[-1]), "identity")} if config.bag else {}
    names = [name for k in range(config.transformer_layers) for kind in SUBLAYERS
             for name in names_of(k, kind)]
    for name in [*names, *LAST_NORM]:
        part, each = name.split(".")[-2:]
        shape, start = weights[part]
        shapes[name] = (shape, start) if each == "weight" else (shape[-1:], "zeros")
    return shapes


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
    return [f_cache[1].p for kind, *_, f_cache, _ in cache[2] if kind == "attention"]


ENCODERS["transformer"] = Encoder(
    transformer_forward, transformer_backward, transformer_shapes,
    has_bigrams=lambda config: config.bag, table_divisor=math.sqrt)
