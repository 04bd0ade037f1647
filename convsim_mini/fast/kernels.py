"""Twins for CuPy's arrays. The docstring of core's function of the same name applies to each.

Where core makes many passes over memory, each with its own launch, one kernel does all the work.
The kernels are CUDA C, in the .cu files; comments there say what a block, a warp and a thread do.
Results are the same up to rounding; dropout draws the same bits. No function waits for the device.
"""

import cupy
import numpy as np

from ..core import layers
from ..core.embeddings import joined
from ..core.transformer_layers import EPSILON
from .devices import launch

PARAMETERS = np.dtype([(name, np.uint64, 96)                  # struct Parameters in optim.cu
                       for name in ("p", "grad", "mean", "square", "size")])
WARP = (32,)    # threads


def like(x, *shape):
    """A new, uninitialised array like x, possibly of another shape."""
    return cupy.empty(shape or x.shape, x.dtype)


tanh_backward = cupy.fuse(layers.tanh_backward.plain)


def sum_rows(table, packed):
    y = like(table, len(packed.offsets) - 1, table.shape[1])
    threads = min(256, -(-y.shape[1] // 32) * 32)             # whole warps
    launch("embeddings.sum_rows", (len(y),), (threads,), table, packed.ids, packed.offsets, y,
           y.shape[1])
    return y


def cross_entropy_forward(logits, labels):
    losses, difference = like(logits, len(logits)), like(logits)          # p − δ
    labels = labels.astype(np.int64, copy=False)
    launch("layers.cross_entropy", (len(logits),), WARP, logits, labels, losses, difference,
           logits.shape[1])
    return losses.mean(), difference


def cross_entropy_backward(dloss, difference):
    return difference * (dloss / len(difference))


def update_rows(table, parts, rate, squares=None):
    grad, d = joined(parts), table.shape[1]
    launch("embeddings.update_rows", (len(grad.rows),), (32, 8), table, squares, grad.rows,
           grad.sources, grad.rows.argsort(), grad.values, len(grad.rows), d, rate,
           shared=8 * -(-d // 32) * 32)


def sgd(params, grads, rate):
    _update((params, grads), rate, 1, 1, 1, 1)                # the last four are Adam's


def adam(params, grads, means, squares, t, rate, beta1, beta2, epsilon):
    _update((params, grads, means, squares), rate / (1 - beta1 ** t), 1 - beta2 ** t, 1 - beta1,
            1 - beta2, epsilon)


def _update(arrays, *numbers):
    """Update all dense parameters, 96 per launch. arrays: lists of arrays, the parameters first"""
    params = arrays[0]
    for p, *others in zip(*arrays):                           # only pointers reach the kernel
        if not all(x._c_contiguous and x.dtype == p.dtype == params[0].dtype for x in (p, *others)):
            raise ValueError("arrays of parameters must be C-contiguous and all of one dtype")
    most = PARAMETERS["p"].shape[0]
    for first in range(0, len(params), most):
        some, table = params[first:first + most], np.zeros((), PARAMETERS)
        for name, of_kind in zip(PARAMETERS.names, arrays):
            table[name][:len(some)] = [x.data.ptr for x in of_kind[first:first + most]]
        table["size"][:len(some)] = [p.size for p in some]
        launch("optim.update", (64, len(some)), (256,), table, *numbers, dtype=params[0].dtype)


def attention_forward(qkv, offsets, heads):
    N, d = len(qkv), qkv.shape[1] // 3
    y, log_sums, m = like(qkv, N, d), like(qkv, N, heads), d // heads
    launch("attention.attention_forward", (heads * (len(offsets) - 1),), (256,), qkv, offsets, y,
           log_sums, heads, shared=64 * (m | 1), width=m)
    return y, (qkv, offsets, heads, y, log_sums)              # log Σ_j e^s_ij of each i: (N, h)


def attention_backward(dy, cache):
    qkv, offsets, heads, y, log_sums = cache
    dqkv, m = like(qkv), y.shape[1] // heads
    dots = (dy * y).reshape(len(y), heads, m).sum(axis=2)     # Σ_j p_ij dp_ij of each i: (N, h)
    launch("attention.attention_backward", (heads * (len(offsets) - 1),), (256,), dy, qkv, offsets,
           log_sums, dots, dqkv, heads, shared=64 * (m | 1), width=m)
    return dqkv


def layer_norm_forward(x, weight, bias):
    y, normal, scale = like(x), like(x), like(x, len(x), 1)
    launch("layers.layer_norm_forward", (len(x),), WARP, x, weight, bias, y, normal, scale,
           x.shape[1], EPSILON)
    return y, (normal, scale, weight)


def layer_norm_backward(dy, cache):
    normal, scale, weight = cache
    dx = like(dy)
    launch("layers.layer_norm_backward", (len(dy),), WARP, dy, normal, scale, weight, dx,
           dy.shape[1])
    return dx, (dy * normal).sum(axis=0), dy.sum(axis=0)


def dropout_forward(x, dropout):
    bits = dropout.key, round(256 * dropout.rate)             # as the kernel takes them
    return dropout_backward(x, bits), bits


def dropout_backward(dy, bits):
    if not bits[1]:
        return dy
    dx = like(dy)
    launch("layers.dropout", (-(-dy.size // 256),), (256,), dy, dx, dy.size, *bits)
    return dx
