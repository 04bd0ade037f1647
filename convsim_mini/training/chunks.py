"""Large batches in little memory (GradCache: Gao et al. 2021)."""

from functools import partial

from ..core.arrays import array_module
from ..core.model import (
    TABLE, TASKS, encoder_backward, encoder_forward, loss_and_gradients)

LESS_MEMORY = "train with --optim.chunk or a lower --optim.batch_size"    # advice


def loss_and_gradients_of(config):
    """`loss_and_gradients`, or, if optim.chunk is set, the version that needs less memory."""
    if config.optim.chunk:
        return partial(loss_and_gradients_in_chunks, chunk=config.optim.chunk)
    return loss_and_gradients


def loss_and_gradients_in_chunks(model, batch, key=(), weight=1.0, others=None, *, chunk):
    """`loss_and_gradients` with less memory but more time: `chunk` pairs are encoded at a time.

    The loss needs all vectors of the batch, but no cache of the encoder. So a first pass encodes
    chunk by chunk and keeps only the vectors. From these come the loss and the gradients of the
    vectors. A second pass encodes each chunk again and runs its backward pass ("Scaling Deep
    Contrastive Learning Batch Size under Memory Limited Setup"). The gradients are the same up to
    rounding. Dropout draws different bits than for a whole batch, but the same ones in both passes.
    chunk: a number of pairs; → as `loss_and_gradients`
    """
    xp = array_module(model.params[TABLE])
    sentences = batch.sentences
    cuts = [*range(0, len(sentences.lengths), 2 * chunk), len(sentences.lengths)]
    parts = [(slice(a, b), sentences.part(a, b), key and (*key, a)) for a, b in zip(cuts, cuts[1:])]
    both = xp.concatenate([encoder_forward(model, part, here)[0] for _, part, here in parts])
    u, v = both[:len(both) // 2], both[len(both) // 2:]
    loss, du, dv, grads = TASKS[batch.task].head(model, u, v, batch, weight, others)
    dboth = xp.concatenate([du, dv])
    for rows, part, here in parts:
        _, cache = encoder_forward(model, part, here)
        for name, grad in encoder_backward(model, dboth[rows], cache).items():
            if name in grads:
                grads[name] += grad                           # lists of SparseRows are joined
            else:
                grads[name] = grad
    return loss, grads
