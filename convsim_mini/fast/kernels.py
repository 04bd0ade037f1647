"""Twins for CuPy's arrays. The docstring of core's function of the same name applies to each.

Where core makes several passes over memory, each with its own launch, one kernel does all the work.
The kernels are CUDA C, in the .cu files; comments there say what a block, a warp and a thread do.
Results are the same up to rounding; dropout draws the same bits. No function waits for the device.
"""

import numpy as np

from ..core.dropout import NO_DROPOUT
from ..core.embeddings import joined
from .cuda import launch, like

PARAMETERS = np.dtype([(name, np.uint64, 96)                  # struct Parameters in optim.cu
                       for name in ("p", "grad", "mean", "square", "size")])


def _bits(dropout):
    """A Dropout as the kernels take it: its key, and its rate in 256ths."""
    return dropout.key, round(256 * dropout.rate)


def _column_sums(kernel, columns, dy, *arguments):
    """A kernel's sums over the rows of dy: (N, d) → (columns,).

    A block has 8 columns, so 512 columns leave half of a large GPU idle. With 16,384 rows or more,
    each block sums a part, and a second launch adds the parts in order. Fewer are not worth it.
    """
    shares = max(1, min(64, len(dy) // 8192))
    sums = like(dy, shares, columns)
    launch(kernel, (-(-dy.shape[1] // 8), shares), (8, 64), dy, *arguments, sums, *dy.shape)
    return sums[0] if shares == 1 else _bias_gradient(sums)


def _bias_gradient(dy, y=None, dx=None, threshold=0):
    return _column_sums("layers.bias_activation_backward", dy.shape[1], dy, y, dx, threshold)


def _warps(rows):
    """Blocks and threads of a kernel in which each warp has one row."""
    return (-(-rows // 4),), (128,)


def _threads(columns):
    """As many threads, in whole warps, as a row of `columns` values can use."""
    return (min(256, -(-columns // 32) * 32),)


def _elements(x):
    """Blocks and threads of a kernel in which each thread has one value of x."""
    return (-(-x.size // 256),), (256,)


# ---------------------------------------------------------------- layers, also of a Transformer

def linear_forward(x, weight, bias=None):
    y = x @ weight
    if bias is not None:
        _add_bias(y, bias)
    return y, (x, weight)


def linear_backward(dy, cache):
    x, weight = cache
    return dy @ weight.T, x.T @ dy, _bias_gradient(dy)


def _add_bias(y, bias, relu=False, bits=(0, 0)):
    launch("layers.bias_activation", (len(y),), _threads(y.shape[1]), y, bias, y.shape[1], relu,
           *bits)


def tanh_backward(dy, y):
    dx = like(dy)
    launch("layers.tanh_backward", *_elements(dy), dy, y, dx, dy.size)
    return dx


def position_wise_forward(x, weight0, bias0, weight1, bias1, dropout=NO_DROPOUT):
    h, bits = x @ weight0, _bits(dropout)
    _add_bias(h, bias0, True, bits)
    y, cache1 = linear_forward(h, weight1, bias1)
    return y, (x, weight0, h, bits, cache1)


def position_wise_backward(dy, cache):
    x, weight0, h, (_, threshold), cache1 = cache
    dh, dweight1, dbias1 = linear_backward(dy, cache1)
    dx = like(dh)                                            # before relu
    dbias0 = _bias_gradient(dh, h, dx, threshold)
    return dx @ weight0.T, x.T @ dx, dbias0, dweight1, dbias1


def layer_norm_forward(x, weight, bias):
    return add_norm_forward(None, x, weight, bias)[1:]        # without x it only reads y


def layer_norm_backward(dy, cache):
    dx, _, dweight, dbias = add_norm_backward((dy, None), cache)
    return dx, dweight, dbias


def add_norm_forward(x, y, weight, bias, dropout=NO_DROPOUT):
    z, normal, scale, bits = like(y), like(y), like(y, len(y), 1), _bits(dropout)
    launch("layers.add_norm_forward", *_warps(len(y)), x, y, weight, bias, z, normal, scale,
           *y.shape, *bits)
    return y, z, (normal, scale, weight, bits)


def add_norm_backward(dy, cache):
    dz, ds = dy
    normal, scale, weight, bits = cache
    dx, d = like(dz), len(weight)
    dy = like(dz) if bits[1] else dx
    launch("layers.add_norm_backward", *_warps(len(dz)), dz, ds, normal, scale, weight, dx, dy,
           *dz.shape, *bits)
    sums = _column_sums("layers.norm_weights_backward", 2 * d, dz, normal)
    return dx, dy, sums[:d], sums[d:]


def l2_normalize_forward(x):
    y, norm = like(x), like(x, len(x), 1)
    launch("layers.l2_normalize_forward", *_warps(len(x)), x, y, norm, *x.shape)
    return y, (y, norm)


def l2_normalize_backward(dy, cache):
    y, norm = cache
    dx = like(dy)
    launch("layers.l2_normalize_backward", *_warps(len(dy)), dy, y, norm, dx, *dy.shape)
    return dx


def dropout_forward(x, dropout):
    bits = _bits(dropout)
    return dropout_backward(x, bits), bits


def dropout_backward(dy, bits):
    if not bits[1]:
        return dy
    dx = like(dy)
    launch("layers.dropout", *_elements(dy), dy, dx, dy.size, *bits)
    return dx


# ---------------------------------------------------------------- embeddings.py

def placed_embedding_forward(table, packed, signal, dropout=NO_DROPOUT):
    d, bits = table.shape[1], _bits(dropout)
    x = like(table, len(packed.ids), d)
    launch("embeddings.placed_embedding_forward", (len(packed.offsets) - 1, 4), (128, 4), table,
           packed.ids, packed.offsets, signal, x, d, *bits)
    return x, (packed.ids, bits)


def sum_rows(table, packed):
    return _sum_rows(table, packed.ids, packed.offsets, False)


def mean_pool_forward(x, packed):
    return _sum_rows(x, None, packed.offsets, True), (packed.offsets, len(x))


def _sum_rows(table, ids, offsets, mean):
    """The sum or the mean of each sentence's rows. ids: None stands for all rows in order"""
    y = like(table, len(offsets) - 1, table.shape[1])
    launch("embeddings.sum_rows", (len(y),), _threads(y.shape[1]), table, ids, offsets, y,
           y.shape[1], mean)
    return y


def mean_pool_backward(dy, cache):
    offsets, N = cache
    dx = like(dy, N, dy.shape[1])
    launch("embeddings.mean_pool_backward", (len(dy),), _threads(dy.shape[1]), dy, offsets, dx,
           dy.shape[1])
    return dx


def update_rows(table, parts, rate, squares=None):
    grad, d = joined(parts), table.shape[1]
    launch("embeddings.update_rows", (len(grad.rows),), (32, 8), table, squares, grad.rows,
           grad.sources, grad.rows.argsort(), grad.values, len(grad.rows), d, rate,
           shared=8 * -(-d // 32) * 32)


# ---------------------------------------------------------------- attention.py

def attention_forward(qkv, offsets, heads, dropout=NO_DROPOUT):
    N, d, bits = len(qkv), qkv.shape[1] // 3, _bits(dropout)
    y, log_sums, m = like(qkv, N, d), like(qkv, N, heads), d // heads
    launch("attention.attention_forward", (heads * (len(offsets) - 1),), (128,), qkv, offsets, y,
           log_sums, heads, *bits, shared=64 * (m | 1) + 16 * (m + 32), width=m)
    return y, (qkv, offsets, heads, bits, y, log_sums)        # log Σ_j e^s_ij of each i: (N, h)


def attention_backward(dy, cache):
    qkv, offsets, heads, bits, y, log_sums = cache
    dqkv, dots, m = like(qkv), like(log_sums), y.shape[1] // heads
    launch("attention.attention_backward", (heads * (len(offsets) - 1),), (128,), dy, y, qkv,
           offsets, log_sums, dots, dqkv, heads, *bits,
           shared=64 * (m | 1) + 16 * (2 * m + 64), width=m)
    return dqkv


# ---------------------------------------------------------------- losses.py

def batch_softmax_forward(u, v, scale=1.0, first=0):
    losses, p = like(u, len(u)), u @ v.T
    launch("losses.softmax_rows", (len(p),), _threads(len(v)), p, losses, len(v), first, scale)
    return losses.sum() / len(v), (u, v, scale, p, first)


def batch_softmax_backward(dloss, cache):
    u, v, scale, p, first = cache
    ds = like(p)
    launch("losses.softmax_rows_backward", (len(p),), _threads(len(v)), p, ds, len(v), first,
           float(dloss * scale / len(v)))
    return ds @ v, ds.T @ u


# ---------------------------------------------------------------- optim.py

def sgd(params, grads, rate):
    _update("sgd", (params, grads), rate)


def adam(params, grads, means, squares, t, rate, beta1, beta2, epsilon):
    _update("adam", (params, grads, means, squares), rate / (1 - beta1 ** t), 1 - beta2 ** t,
            1 - beta1, 1 - beta2, epsilon)


def _update(kernel, arrays, *numbers):
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
        launch(f"optim.{kernel}", (64, len(some)), (256,), table, *numbers,
               dtype=params[0].dtype)
