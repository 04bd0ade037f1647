"""The input-response model (Yang et al. 2018, §2.2): one call gives the loss and all gradients."""

from typing import NamedTuple

import numpy as np

from ..backend import add_to, array_module, to_device, to_host
from ..config import ModelConfig
from ..data.snli import EntailmentBatch, NliBatch
from .dan import dan_backward, dan_forward
from .layers import (
    NO_DROPOUT, feed_forward, feed_forward_backward, l2_normalize_backward, l2_normalize_forward,
)
from .losses import (
    batch_softmax_backward, batch_softmax_forward, cross_entropy_backward, cross_entropy_forward,
)
from .nli import classifier_backward, classifier_forward
from .transformer import sort_by_length, transformer_backward, transformer_forward
from .workers import ALONE

WORDS_AT_ONCE = 16_384    # in `embed`: with more, a Transformer's layers would need gigabytes


class Model(NamedTuple):
    """All that a forward pass needs. word_rows: how many rows of the table are words."""

    params: dict
    config: ModelConfig
    word_rows: int


def encoder_forward(model, packed, dropout=NO_DROPOUT):
    """The tied encoder: Packed of B sentences, on the host → unit vectors (B, e), cache.

    The vectors are on the model's device. Raises IndexError for ids that are no words.
    """
    return _encode(model, arrange(model, packed), dropout)


def encoder_backward(model, du, cache):
    """Forward: u = encoder(packed). du: (B, e) → gradients by parameter name."""
    return (dan_backward if model.config.encoder == "dan" else transformer_backward)(du, cache)


def arrange(model, packed):
    """Packed sentences, on the host, as the encoder wants them: a Transformer's are Sorted.

    Raises IndexError for ids that are no words: a GPU would read other rows without an error.
    """
    low, high = (packed.ids.min(), packed.ids.max()) if len(packed.ids) else (0, 0)
    if not 0 <= low <= high < model.word_rows:
        raise IndexError(f"word ids {low} to {high}, expected 0 to {model.word_rows - 1}")
    return packed if model.config.encoder == "dan" else (
        sort_by_length(packed, model.config.max_tokens))


def _encode(model, arranged, dropout, keep=True):
    """The encoder after `arrange`, on the host or already on the model's device."""
    if model.config.encoder == "dan":
        return dan_forward(model.params, arranged, model.word_rows)
    return transformer_forward(model.params, arranged, model.config, dropout, model.word_rows, keep)


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


def loss_and_gradients(model, batch, dropout=NO_DROPOUT, weight=1.0, workers=ALONE):
    """One forward and one backward pass over B pairs, a batch of any task, on the host.

    Both sides of the pairs pass the tied encoder in one call. The task's head follows.
    dropout: Dropout of this step, for a Transformer; weight: factor on the gradients; workers: of
    which this one has a share of the batch: the sums of what they return are the batch's
    → loss: 0-d array, gradients by parameter name, without those of the other task's head. Raises
    IndexError for ids that are no words.
    """
    xp = array_module(model.params["encoder.embedding.weight"])
    sentences, target = to_device((arrange(model, batch.sentences), batch[1]), xp)    # one transfer
    both, cache = _encode(model, sentences, dropout)                                # (2B, e)
    loss, dboth, grads = head(model, both, type(batch)(sentences, target), weight, workers)
    return loss, grads | encoder_backward(model, dboth, cache)


def loss_and_gradients_in_chunks(model, batch, chunk, dropout=NO_DROPOUT, weight=1.0,
                                 workers=ALONE):
    """`loss_and_gradients` in less memory, for more time: `chunk` pairs are encoded at once.

    The loss needs all vectors of the batch, but no cache of an encoder. So a first pass encodes
    chunk by chunk and keeps the vectors alone; then come the loss and the vectors' gradients; a
    second pass encodes each chunk once more and goes back from there (Gao et al. 2021, "Scaling
    Deep Contrastive Learning Batch Size under Memory Limited Setup"). The gradients are the same up
    to rounding. Dropout draws other bits than for a whole batch, in both passes the same.
    chunk: pairs; → as `loss_and_gradients`
    """
    xp, sentences = array_module(model.params["encoder.embedding.weight"]), batch.sentences
    cuts = [*range(0, len(sentences.lengths), 2 * chunk), len(sentences.lengths)]
    parts = [(slice(a, b), to_device(arrange(model, sentences.part(a, b)), xp), dropout.at(a))
             for a, b in zip(cuts, cuts[1:])]
    both = xp.concatenate([_encode(model, part, here, False)[0] for _, part, here in parts])
    batch = type(batch)(sentences, to_device(batch[1], xp))
    loss, dboth, grads = head(model, both, batch, weight, workers)
    for rows, part, here in parts:
        for name, grad in encoder_backward(
                model, dboth[rows], _encode(model, part, here)[1]).items():
            if name not in grads:
                grads[name] = grad
            elif isinstance(grad, list):
                grads[name] += grad                           # SparseRows add up
            else:
                add_to(grads[name], grad)
    return loss, grads


def head(model, both, batch, weight, workers=ALONE):
    """The loss on encoded pairs: each of Batch, NliBatch and EntailmentBatch has its own head.

    both: (2B, e), the B first sentences, then the B second ones; batch: its targets on the model's
    device; weight: factor on the gradients → loss: 0-d array, dboth: (2B, e), gradients by name.
    One of several workers has b of the B pairs.
    """
    u, v = both[:len(both) // 2], both[len(both) // 2:]                             # (B, e) each
    task_head = {NliBatch: nli_head, EntailmentBatch: entailment_head}
    task_head = task_head.get(type(batch), response_head)
    loss, du, dv, grads = task_head(model, u, v, batch, weight, workers)
    return loss, array_module(both).concatenate([du, dv]), grads


def response_head(model, u, v, batch, weight, workers):
    """The batch softmax over the responses of a Batch (§2.1, §2.2).

    u, v: (B, e) inputs and responses; weight: factor on the gradients
    → loss: 0-d array, du, dv: (B, e), gradients of the response network by name
    """
    v_prime, response_cache = response_forward(model.params, v, model.config)       # (B, e)
    loss, du, dv_prime = softmax_among_all(model, u, v_prime, batch, weight, workers)
    dv, grads = response_backward(dv_prime, response_cache)
    return loss, du, dv, grads


def nli_head(model, u1, u2, batch, weight, workers):
    """The three classes of an NliBatch (§2.4): like `response_head`, with NLI's classifier."""
    logits, classifier_cache = classifier_forward(model.params, u1, u2)             # (B, 3)
    loss, loss_cache = cross_entropy_forward(logits, batch.labels)
    share = len(u1) / workers.total(len(u1))                  # of the batch's mean, this worker's
    dlogits = cross_entropy_backward(loss_cache, weight * share)                    # (B, 3)
    du1, du2, grads = classifier_backward(dlogits, classifier_cache)                # (B, e) each
    return loss * share, du1, du2, grads


def entailment_head(model, u, v, batch, weight, workers):
    """The batch softmax of premises over hypotheses (ours): as `response_head`, but with v."""
    return *softmax_among_all(model, u, v, batch, weight, workers), {}


def softmax_among_all(model, u, v, batch, weight, workers):
    """The batch softmax of this worker's inputs over the responses of all workers.

    Gathering copies a response to every worker, and each copy gets a gradient. The response's own
    is their sum: the backward of a gather is a sum, cut to each worker's rows (reduce-scatter).
    u, v: (b, e) of this worker → loss: 0-d array, this worker's part; du, dv: (b, e)
    """
    everyone, begins = workers.gather(v)                                            # (B, e)
    loss, cache = batch_softmax_forward(u, everyone, model.config.scale, batch.false_negatives,
                                        begins[workers.place])
    du, dv = batch_softmax_backward(cache, weight)                                  # (b, e), (B, e)
    return loss, du, workers.reduce_scatter(dv, begins)


def embed(model, packed, batch_size=1024):
    """Sentence embeddings: Packed of n sentences on the host → (n, e) unit vectors on the host.

    Raises ValueError for a batch_size below 1.
    """
    if batch_size < 1:
        raise ValueError(f"batch_size is {batch_size}, expected 1 or more")
    parts, first = [], 0
    while first < len(packed.lengths):                    # few long sentences or many short ones
        full = np.searchsorted(packed.offsets, packed.offsets[first] + WORDS_AT_ONCE, "right") - 1
        last = max(first + 1, min(first + batch_size, full))
        arranged = arrange(model, packed.part(first, last))
        parts.append(to_host(_encode(model, arranged, NO_DROPOUT, keep=False)[0]))
        first = last
    dtype = model.params["encoder.embedding.weight"].dtype
    return np.concatenate(parts or [np.empty((0, model.config.layers[-1]), dtype)])


def respond(model, v):
    """v′ of response embeddings: v: (n, e) on the host → (n, e) on the host."""
    xp = array_module(model.params["encoder.embedding.weight"])
    return to_host(response_forward(model.params, xp.asarray(v), model.config)[0])
