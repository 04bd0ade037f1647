"""The input-response model (Yang et al. 2018, §2.2): one call gives the loss and all gradients."""

from typing import NamedTuple

import numpy as np

from ..backend import array_module, to_device, to_host
from ..config import ModelConfig
from .dan import dan_backward, dan_forward
from .layers import feed_forward, feed_forward_backward, l2_normalize_backward, l2_normalize_forward
from .losses import batch_softmax_backward, batch_softmax_forward
from .transformer import transformer_backward, transformer_forward

WORDS_AT_ONCE = 16_384    # when embedding, or a Transformer's layers would need gigabytes


class Model(NamedTuple):
    """All that a forward pass needs: parameters, ModelConfig, and how many table rows are words."""

    params: dict
    config: ModelConfig
    word_rows: int


def encoder_forward(model, packed, dropout=None):
    """The tied encoder: packed: B sentences on the host → unit vectors (B, e) on the model's device, cache.

    Raises IndexError for ids that are no words: a device would quietly take other rows.
    """
    if len(packed.ids) and not 0 <= packed.ids.min() <= packed.ids.max() < model.word_rows:
        raise IndexError(f"word ids {packed.ids.min()} to {packed.ids.max()}, expected 0 to {model.word_rows - 1}")
    if model.config.encoder == "dan":
        return dan_forward(model.params, packed, model.word_rows)
    return transformer_forward(model.params, packed, model.config, dropout)


def encoder_backward(du, cache, config):
    """Forward: u = dan(packed) or transformer(packed). → gradients by parameter name."""
    return (dan_backward if config.encoder == "dan" else transformer_backward)(du, cache)


def response_forward(params, v, config):
    """v′: the response embedding after the layers that only responses pass (§2.2, figure 3).

    With `residual_response` v′ = v + layers(v), which starts near v itself (ours); with
    `unit_response` v′ has unit length, so a score is a cosine (ours).

    v: (B, e) → v′: (B, e), cache.
    """
    x, layers_cache = feed_forward(params, "response", v)                 # (B, e)
    if config.residual_response:
        x += v
    unit_cache = None
    if config.unit_response:
        x, unit_cache = l2_normalize_forward(x)
    return x, (layers_cache, unit_cache, config.residual_response)


def response_backward(dy, cache):
    """Forward: v′ = normalise(v + layers(v)). v reaches v′ on two ways, whose gradients add.

    dy: (B, e) → dv: (B, e), gradients by parameter name.
    """
    layers_cache, unit_cache, residual = cache
    if unit_cache is not None:
        dy = l2_normalize_backward(dy, unit_cache)
    dv, grads = feed_forward_backward(dy, layers_cache)
    if residual:
        dv += dy
    return dv, grads


def embed(model, packed, batch_size=1024):
    """Sentence embeddings: Packed of n sentences on the host → (n, e) unit vectors on the host."""
    parts, first = [], 0
    while first < len(packed.lengths):                        # few long sentences at a time, or many short ones
        full = np.searchsorted(packed.offsets, packed.offsets[first] + WORDS_AT_ONCE, "right") - 1
        last = max(first + 1, min(first + batch_size, full))
        parts.append(to_host(encoder_forward(model, packed.part(first, last))[0]))
        first = last
    return np.concatenate(parts)


def cut_report(config, lengths):
    """One line on how many sentences of these lengths (n,) a Transformer's ModelConfig cuts."""
    return (f"{(lengths > config.max_tokens).sum():,} of {len(lengths):,} sentences have more than {config.max_tokens} words "
            "and are cut there")


def respond(model, v):
    """v′ of response embeddings: v: (n, e) on the host → (n, e) on the host."""
    xp = array_module(model.params["encoder.embedding.weight"])
    return to_host(response_forward(model.params, xp.asarray(v), model.config)[0])


def loss_and_gradients(model, batch, dropout=None):
    """One forward and one backward pass over a Batch of B pairs, which is on the host.

    Inputs and responses pass the tied encoder at once. dropout: Dropout of this step, for a
    Transformer → loss: 0-d array, gradients by parameter name.
    """
    params, config, _ = model
    xp = array_module(params["encoder.embedding.weight"])
    both, encoder_cache = encoder_forward(model, batch.sentences, dropout)      # (2B, e)
    u, v = both[:len(both) // 2], both[len(both) // 2:]                         # (B, e) each
    v_prime, response_cache = response_forward(params, v, config)               # (B, e)
    loss, loss_cache = batch_softmax_forward(u, v_prime, config.scale, to_device(batch.false_negatives, xp))

    du, dv_prime = batch_softmax_backward(loss_cache)                           # (B, e) each
    dv, grads = response_backward(dv_prime, response_cache)
    dboth = xp.concatenate([du, dv])                                            # (2B, e): tied, so one pass
    grads.update(encoder_backward(dboth, encoder_cache, config))
    return loss, grads
