"""The input-response model (Yang et al. 2018, §2.2): one call gives the loss and all gradients.

The model is a dual encoder (bi-encoder). Both sides share all parameters but the response network.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..backend import add_to, array_module, to_device, to_host
from ..common.cli import UserError
from ..config import ModelConfig
from ..data.snli_files import LABELS
from .dan import dan_backward, dan_forward
from .layers import (
    NO_DROPOUT, feed_forward, feed_forward_backward, l2_normalize_backward, l2_normalize_forward)
from .losses import batch_softmax, cross_entropy_backward, cross_entropy_forward
from .nli import classifier_backward, classifier_forward
from .transformer import (
    sort_by_length, transformer_backward, transformer_forward, transformer_shapes)


class Model(NamedTuple):
    """All that a forward pass needs."""

    params: dict
    config: ModelConfig
    word_rows: int    # how many rows of the table are words


# ---------------------------------------------------------------- sentences to vectors

def encoder_forward(model, packed, dropout=NO_DROPOUT):
    """The tied encoder: Packed of B sentences, on the host → unit vectors (B, e), cache.

    The vectors are on the model's device. Raises IndexError for ids that are no words.
    """
    return encode(model, arrange(model, packed), dropout)


def encoder_backward(model, du, cache):
    """Forward: u = encoder(packed). du: (B, e) → gradients by parameter name."""
    return ENCODERS[model.config.encoder].backward(du, cache)


def arrange(model, packed):
    """Packed sentences, on the host, as the encoder wants them: a Transformer's are Sorted.

    Raises IndexError for ids that are no words: a GPU would read other rows without an error.
    """
    if len(packed.ids):
        low, high = packed.ids.min(), packed.ids.max()
        if low < 0 or high >= model.word_rows:
            raise IndexError(f"word ids {low} to {high}, expected 0 to {model.word_rows - 1}")
    return ENCODERS[model.config.encoder].arrange(packed, model.config)


def encode(model, arranged, dropout, keep=True):
    """The encoder after `arrange`, on the host or already on the model's device.

    keep: whether a Transformer keeps what its backward needs → unit vectors (B, e), cache
    """
    return ENCODERS[model.config.encoder].forward(model, arranged, dropout, keep)


class Encoder(NamedTuple):
    """What an encoder consists of; a new one is an entry in ENCODERS."""

    arrange: Callable     # (Packed, ModelConfig) → sentences as `forward` wants them
    forward: Callable     # (Model, these sentences, Dropout, keep) → unit vectors (B, e), cache
    backward: Callable    # (du (B, e), cache) → gradients by parameter name
    shapes: Callable      # (ModelConfig) → name → shape of parameters that it alone has
    words_at_once: int    # that `embed` encodes: more would need gigabytes


ENCODERS = {
    "dan": Encoder(
        arrange=lambda packed, config: packed,
        forward=lambda model, packed, dropout, keep: dan_forward(
            model.params, packed, model.word_rows),
        backward=dan_backward,
        shapes=lambda config: {},
        words_at_once=2**20),
    "transformer": Encoder(
        arrange=lambda packed, config: sort_by_length(packed, config.max_tokens),
        forward=lambda model, ordered, dropout, keep: transformer_forward(
            model.params, ordered, model.config, dropout, model.word_rows, keep),
        backward=transformer_backward,
        shapes=transformer_shapes,
        words_at_once=2**14),
}


def embed(model, packed, batch_size=1024):
    """Sentence embeddings: Packed of n sentences on the host → (n, e) unit vectors on the host.

    Raises UserError as `finite`.
    """
    dtype = model.params["encoder.embedding.weight"].dtype
    parts = [np.empty((0, model.config.layers[-1]), dtype)]   # where there are no sentences
    first, at_once = 0, ENCODERS[model.config.encoder].words_at_once
    while first < len(packed.lengths):                        # few long ones, or many short ones
        full = np.searchsorted(packed.offsets, packed.offsets[first] + at_once, "right") - 1
        last = max(first + 1, min(first + batch_size, full))
        arranged = arrange(model, packed.part(first, last))
        parts.append(to_host(encode(model, arranged, NO_DROPOUT, keep=False)[0]))
        first = last
    return finite(np.concatenate(parts))


def finite(vectors):
    """The same vectors. Raises UserError where they hold nan, as those of damaged parameters do."""
    if not np.isfinite(vectors.sum()):
        raise UserError("the model's vectors are not finite: its weights are damaged; restore them "
                        "or train again")
    return vectors


# ---------------------------------------------------------------- the response network

def response_forward(params, v, config):
    """v′: the response embedding after the layers that only responses pass (§2.2, figure 3).

    v: (B, e) → v′: (B, e), cache. With `residual_response` v′ = v + layers(v), which starts near v
    (ours). With `unit_response` v′ has unit length, so a score is a cosine (ours).
    """
    x, layers_cache = feed_forward(params, "response", v)                 # (B, e)
    if config.residual_response:
        x += v
    unit_cache = None
    if config.unit_response:
        x, unit_cache = l2_normalize_forward(x)
    return x, (layers_cache, unit_cache, config.residual_response)


def response_backward(dy, cache):
    """Forward: v′ = normalise(v + layers(v)). v influences v′ along two paths: gradients add.

    dy: (B, e) → dv: (B, e), gradients by parameter name
    """
    layers_cache, unit_cache, residual = cache
    if unit_cache is not None:
        dy = l2_normalize_backward(dy, unit_cache)
    dv, grads = feed_forward_backward(dy, layers_cache)
    if residual:
        dv += dy
    return dv, grads


def respond(model, v):
    """v′ of response embeddings: v: (n, e) on the host → (n, e) there. UserError as `finite`."""
    xp = array_module(model.params["encoder.embedding.weight"])
    return finite(to_host(response_forward(model.params, xp.asarray(v), model.config)[0]))


# ---------------------------------------------------------------- vectors to a loss, by task

def replies(model, u, v, targets, weight=1.0, softmax=batch_softmax):
    """Pick the true response to each input (§2.1, §2.2).

    u, v: (B, e) encoded inputs and responses; targets: false_negatives and labels of their Batch,
    on the model's device; weight: factor on the gradients; softmax: a function with the contract of
    `batch_softmax` → loss: 0-d array, du, dv: (B, e), gradients of the response network by name
    """
    false_negatives, _ = targets
    v_prime, response_cache = response_forward(model.params, v, model.config)       # (B, e)
    loss, du, dv_prime = softmax(u, v_prime, model.config.scale, false_negatives, weight)
    dv, grads = response_backward(dv_prime, response_cache)
    return loss, du, dv, grads


def entailments(model, u, v, targets, weight, softmax):
    """Pick the hypothesis that each premise entails (ours): as `replies`, but with v itself."""
    false_negatives, _ = targets
    loss, du, dv = softmax(u, v, model.config.scale, false_negatives, weight)
    return loss, du, dv, {}


def classes(model, u1, u2, targets, weight, softmax):
    """Natural language inference (§2.4): as `replies`, but with NLI's classifier of three classes.

    → loss: 0-d array, du1, du2: (B, e), gradients of the classifier by name
    """
    _, labels = targets
    logits, classifier_cache = classifier_forward(model.params, u1, u2)             # (B, 3)
    loss, loss_cache = cross_entropy_forward(logits, labels)
    dlogits = cross_entropy_backward(loss_cache, weight)                            # (B, 3)
    du1, du2, grads = classifier_backward(dlogits, classifier_cache)                # (B, e) each
    return loss, du1, du2, grads


class Task(NamedTuple):
    """What a batch can teach. Settings are named as in OptimConfig."""

    head: Callable            # vectors to a loss and its gradients, as `replies`
    loss: str                 # the name of its loss in log.jsonl
    batch_size: str           # the setting that tells the pairs in a batch
    weight: str | None        # the setting that multiplies its gradients; None: 1
    classes: int | None       # how many there are; None: one of the batch's pairs is right

    def weight_in(self, optim):
        """The factor on its gradients by an OptimConfig."""
        return getattr(optim, self.weight) if self.weight else 1.0

    def choices_in(self, optim):
        """The number of classes or pairs among which its loss picks one."""
        return self.classes or getattr(optim, self.batch_size)


TASKS = {
    "replies": Task(replies, "loss", "batch_size", None, None),
    "classes": Task(classes, "nli_loss", "nli_batch_size", "nli_weight", len(LABELS)),
    "entailments": Task(entailments, "nli_loss", "nli_batch_size", None, None),
}


# ---------------------------------------------------------------- one step

def loss_and_gradients(model, batch, dropout=NO_DROPOUT, weight=1.0, softmax=batch_softmax):
    """One forward and one backward pass over the B pairs of a Batch, on the host.

    Both sides of the pairs pass the tied encoder in one call. The task's head follows.
    dropout: Dropout of this step, for a Transformer; weight: factor on the gradients; softmax: see
    `replies` → loss: 0-d array, gradients by parameter name; other tasks' heads have none. Raises
    IndexError for ids that are no words.
    """
    xp = array_module(model.params["encoder.embedding.weight"])
    targets = batch.false_negatives, batch.labels
    sentences, targets = to_device((arrange(model, batch.sentences), targets), xp)    # one transfer
    both, cache = encode(model, sentences, dropout)                                 # (2B, e)
    u, v = both[:len(both) // 2], both[len(both) // 2:]                             # (B, e) each
    loss, du, dv, grads = TASKS[batch.task].head(model, u, v, targets, weight, softmax)
    return loss, grads | encoder_backward(model, xp.concatenate([du, dv]), cache)


def loss_and_gradients_in_chunks(model, batch, dropout=NO_DROPOUT, weight=1.0,
                                 softmax=batch_softmax, *, chunk):
    """`loss_and_gradients` in less memory, for more time: `chunk` pairs are encoded at once.

    The loss needs all vectors of the batch, but no cache of an encoder. So a first pass encodes
    chunk by chunk and keeps the vectors alone; then come the loss and the vectors' gradients; a
    second pass encodes each chunk once more and goes back from there (GradCache: Gao et al. 2021,
    "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup"). The gradients are
    the same up to rounding. Dropout draws other bits than for a whole batch, in both passes the
    same. chunk: pairs; → as `loss_and_gradients`
    """
    xp = array_module(model.params["encoder.embedding.weight"])
    sentences, targets = batch.sentences, to_device((batch.false_negatives, batch.labels), xp)
    cuts = [*range(0, len(sentences.lengths), 2 * chunk), len(sentences.lengths)]
    parts = [(slice(a, b), to_device(arrange(model, sentences.part(a, b)), xp), dropout.at(a))
             for a, b in zip(cuts, cuts[1:])]
    both = xp.concatenate([encode(model, part, here, keep=False)[0] for _, part, here in parts])
    u, v = both[:len(both) // 2], both[len(both) // 2:]
    loss, du, dv, grads = TASKS[batch.task].head(model, u, v, targets, weight, softmax)
    dboth = xp.concatenate([du, dv])
    for rows, part, here in parts:
        _, cache = encode(model, part, here)
        for name, grad in encoder_backward(model, dboth[rows], cache).items():
            if name not in grads:
                grads[name] = grad
            elif isinstance(grad, list):
                grads[name] += grad                           # SparseRows add up
            else:
                add_to(grads[name], grad)
    return loss, grads
