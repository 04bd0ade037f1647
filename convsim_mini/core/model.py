"""The input-response model (Yang et al. 2018, §2.2): one call gives the loss and all gradients.

The model is a dual encoder (bi-encoder). Both sides share all parameters except the response
network's. Other files may add entries to two dicts: ENCODERS, and TASKS (what a batch can teach).
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from .arrays import array_module, to_host
from .dan import dan_backward, dan_forward
from .embeddings import TABLE
from .layers import (
    feed_forward, feed_forward_backward, l2_normalize_backward, l2_normalize_forward)
from .losses import loss_of

NO_BIGRAMS = np.empty(0, np.int64)


class Model(NamedTuple):
    """Everything that a forward pass needs."""

    params: dict      # name → array
    config: Any       # settings, with the fields of ModelConfig
    word_rows: int    # how many rows of the table are words
    bigrams: np.ndarray = NO_BIGRAMS    # on the host: the keys of those that have the other rows


# ---------------------------------------------------------------- sentences to vectors

class Encoder(NamedTuple):
    """An encoder's functions. config: a ModelConfig.

    The names of its parameters begin with "encoder.". Its last steps are
    feed_forward(model, "encoder", x) and scaling to unit length.
    """

    forward: Callable        # (Model, Packed on the host, key) → unit vectors (B, e), cache
    backward: Callable       # (du (B, e), cache) → gradients by parameter name
    shapes: Callable = lambda config: {}    # name → shape, kind (see initial.py) of those only here
    has_bigrams: Callable = lambda config: False    # whether its table holds rows for bigrams
    table_divisor: Callable = lambda width: 1.0     # of the table's initial values


ENCODERS = {"dan": Encoder(dan_forward, dan_backward, has_bigrams=lambda config: True)}
WORDS_AT_ONCE = 2**14    # most that `embed` encodes at once, but at least one sentence


def encoder_forward(model, packed, key=()):
    """The tied encoder: Packed of B sentences, on the host → unit vectors (B, e), cache.

    It is tied: both sides share it. key: decides a Transformer's dropout (a DAN ignores it): (seed,
    step) drops values, () drops none, and None drops none and says that the cache is not needed.
    Raises IndexError for ids that are not words.
    """
    if len(packed.ids):                                       # −1 would be the last row
        low, high = packed.ids.min(), packed.ids.max()
        if low < 0 or high >= model.word_rows:
            raise IndexError(f"word ids {low} to {high}, expected 0 to {model.word_rows - 1}")
    return ENCODERS[model.config.encoder].forward(model, packed, key)


def encoder_backward(model, du, cache):
    """Forward: u = encoder(packed). du: (B, e) → gradients by parameter name."""
    return ENCODERS[model.config.encoder].backward(du, cache)


def embed(model, packed, batch_size=1024, as_responses=False, shown=iter):
    """Sentence embeddings: Packed of n sentences on the host → (n, e) unit vectors on the host.

    as_responses: v′, with unit_response of unit length, too; shown: wraps the loop over batches,
    as a progress bar does. Raises FloatingPointError for nan or infinity.
    """
    batches, last = [], 0
    while last < len(packed.lengths):                         # few long ones, or many short ones
        first, limit = last, packed.offsets[last] + WORDS_AT_ONCE
        full = np.searchsorted(packed.offsets, limit, "right") - 1
        last = max(first + 1, min(first + batch_size, full))
        batches.append((first, last))
    dtype = np.result_type(model.params["encoder.linear0.weight"].dtype, np.float32)
    vectors = np.empty((last, model.config.layers[-1]), dtype)
    for first, last in shown(batches):
        u, _ = encoder_forward(model, packed.part(first, last), key=None)
        if as_responses:
            u, _ = response_forward(model, u)
        vectors[first:last] = to_host(u)
    if not np.isfinite(vectors.sum()):
        raise FloatingPointError("the model's vectors are not finite: its weights are damaged; "
                                 "restore them or train again")
    return vectors


# ---------------------------------------------------------------- the response network

def response_forward(model, v):
    """v′: the response embedding after the layers that only responses have (§2.2, figure 3).

    v: (B, e) → v′: (B, e), cache. With `residual_response`, v′ = v + layers(v), which starts near v
    (ours). With `unit_response`, v′ has unit length, so a score is a cosine (ours).
    """
    config = model.config
    x, layers_cache = feed_forward(model, "response", v)                  # (B, e)
    if config.residual_response:
        x += v
    unit_cache = None
    if config.unit_response:
        x, unit_cache = l2_normalize_forward(x)
    return x, (layers_cache, unit_cache, config.residual_response)


def response_backward(dy, cache):
    """Forward: v′ = normalise(v + layers(v)). v influences v′ along two paths; their gradients add.

    dy: (B, e) → dv: (B, e), gradients by parameter name
    """
    layers_cache, unit_cache, is_residual = cache
    if unit_cache is not None:
        dy = l2_normalize_backward(dy, unit_cache)
    dv, grads = feed_forward_backward(dy, layers_cache)
    if is_residual:
        dv += dy
    return dv, grads


def respond(model, v):
    """v′ of response embeddings, on the host: v: (n, e) → (n, e)."""
    v = array_module(model.params[TABLE]).asarray(v)
    return to_host(response_forward(model, v)[0])


# ---------------------------------------------------------------- vectors to a loss

def pick(model, u, v, weight, others):
    """Pick the true response to each input (§2.1, §2.2): u, v: (b, e) → loss, du, dv.

    weight: factor on the gradients, not on the loss; others: the processes that hold the rest of
    the batch (see training/workers.py), or None
    """
    forward, backward = loss_of(model.config)
    responses, first = others.gather(v) if others else (v, 0)             # (B, e)
    loss, cache = forward(u, responses, first=first)
    du, dresponses = backward(weight, cache)                              # (b, e), (B, e)
    return loss, du, others.reduce_scatter(dresponses) if others else dresponses


def replies(model, u, v, batch, weight, others):
    """The paper's first task: like `pick`, but v first goes through the response network.

    u, v: (b, e) encoded inputs and responses of a Batch
    → loss: 0-d array, du, dv: (b, e), gradients of the response network by name
    """
    v_prime, response_cache = response_forward(model, v)                   # (b, e)
    loss, du, dv_prime = pick(model, u, v_prime, weight, others)
    dv, grads = response_backward(dv_prime, response_cache)
    return loss, du, dv, grads


class Task(NamedTuple):
    """What a batch can teach. `weight` is the name of a setting in OptimConfig."""

    head: Callable                     # vectors to a loss and gradients, like `replies`
    loss: str = "loss"                 # the name of its loss in a run's log
    weight: str | None = None          # the setting that multiplies its gradients; None: 1

    def weight_in(self, config):
        """The factor on this task's gradients under these settings."""
        return getattr(config.optim, self.weight) if self.weight else 1.0


TASKS = {"replies": Task(replies)}


# ---------------------------------------------------------------- one step

def loss_and_gradients(model, batch, key=(), weight=1.0, others=None):
    """One forward and one backward pass over the B pairs of a Batch.

    Both sides of the pairs go through the tied encoder in one call, then through the task's head.
    batch: on the host; key: see `encoder_forward`; weight, others: see `pick`
    → loss: 0-d array, gradients, by name, of the parameters that the task uses
    """
    both, cache = encoder_forward(model, batch.sentences, key)                        # (2B, e)
    u, v = both[:len(both) // 2], both[len(both) // 2:]                               # (B, e) each
    loss, du, dv, grads = TASKS[batch.task].head(model, u, v, batch, weight, others)
    dboth = array_module(du).concatenate([du, dv])                                    # (2B, e)
    return loss, grads | encoder_backward(model, dboth, cache)


def one_column(sentences):
    """The sentences, unchanged. Raises TypeError for a table, a dict, bytes, a value, vectors."""
    if isinstance(sentences, (Mapping, bytes)) or hasattr(sentences, "columns") or (
            not hasattr(sentences, "__iter__")) or (
            isinstance(sentences, np.ndarray) and sentences.dtype.kind == "f"):
        raise TypeError(f"sentences: a {type(sentences).__name__}; expected texts, or one column "
                        "of a table")
    return sentences


class BiEncoder:
    """A trained Model with its Vocabulary, also called a dual encoder: sentences → vectors."""

    def __init__(self, model, vocabulary):
        self.model, self.vocabulary = model, vocabulary

    @property
    def dimension(self) -> int:
        """Length of an embedding."""
        return self.model.config.layers[-1]

    def encode(self, sentences, *, as_responses=False):
        """Embeddings of sentences; the dot product of two embeddings is their cosine.

        sentences: any iterable of n str, or one str → float32 (n, dimension), or (dimension,). ""
        counts as one unknown word; other types raise TypeError. as_responses: apply the response
        network, too; training ranks by encode(inputs) @ encode(responses, as_responses=True).T.
        """
        if isinstance(sentences, str):
            return self.encode([sentences], as_responses=as_responses)[0]
        return embed(self.model, self.packed(sentences), as_responses=as_responses)

    def packed(self, sentences):
        """The Packed of an iterable of str. Raises TypeError."""
        texts = list(one_column(sentences))
        for number, text in enumerate(texts):
            if not isinstance(text, str):
                raise TypeError(f"sentence {number} is {text!r}, expected a str")
        return self.vocabulary.encode(texts)
