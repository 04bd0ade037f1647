"""The deep averaging network: a bag of words and bigrams, then fully connected layers."""

from .embeddings import TABLE, embedding_bag_backward, embedding_bag_forward
from .layers import feed_forward, feed_forward_backward, l2_normalize_backward, l2_normalize_forward
from .packed import words_and_bigrams


def dan_forward(model, packed, key=()):
    """Deep averaging network (Iyyer et al. 2015; Yang et al. 2018, §2.3.1 and §3.1).

    The embeddings of a sentence's n words and of its bigrams are summed and divided by √n. The bag
    goes through fully connected layers, with tanh between them (ours: the paper names no
    activation), and the result is scaled to unit length.
    model: its params are "encoder.linear{k}.weight", ".bias" (the last layer has one only with
    encoder_bias), and the TABLE (R, d), with `word_rows` rows for words, then one for each of
    `bigrams`; packed: word ids of B sentences, on the host; key: ignored: a DAN has no dropout
    → u: (B, e) unit vectors, cache
    """
    rows = words_and_bigrams(packed, model.word_rows, model.bigrams)
    x, bag_cache = embedding_bag_forward(model.params[TABLE], rows, packed.lengths)   # (B, d)
    x, layers_cache = feed_forward(model, "encoder", x)                   # (B, e)
    u, unit_cache = l2_normalize_forward(x)                               # (B, e)
    return u, (bag_cache, layers_cache, unit_cache)


def dan_backward(du, cache):
    """Forward: u = normalise(layers(bag(table))). Each step is undone in turn, last first.

    du: (B, e) → gradients by parameter name; the table's is a list of SparseRows.
    """
    bag_cache, layers_cache, unit_cache = cache
    dx = l2_normalize_backward(du, unit_cache)                            # (B, e)
    dx, grads = feed_forward_backward(dx, layers_cache)                   # (B, d)
    grads[TABLE] = embedding_bag_backward(dx, bag_cache)
    return grads
