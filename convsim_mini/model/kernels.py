"""What a GPU runs in place of the NumPy functions: each stands here under its name and contract.

The kernels are CUDA C, in the .cu file beside the functions that they replace. The comment above a
kernel says which of the loops a block, a warp and a thread do. It ends with what a step of the
paper's Transformer, 128 pairs, moves and the time for that at an H200's 4.8 TB/s: arithmetic, not
measured (tests/benchmarks/kernel_table.py). Results are the same up to rounding; dropout draws the
same bits. No function waits for the device. Shapes stand in their docstrings.
"""

import re
from functools import cache
from pathlib import Path

import numpy as np

from .. import backend
from ..common.cli import UserError
from .sparse_rows import joined

FILES = ("model/layers.cu", "model/embeddings.cu", "model/attention.cu", "model/losses.cu",
         "training/optim.cu")
PACKAGE = Path(__file__).parents[1]
UNASKED = 47 * 1024          # bytes of shared memory; the kernel's own arrays have the 48th KB
ACTIVATIONS = {None: 0, "relu": 1, "tanh": 2}
PARAMETERS = np.dtype([(name, np.uint64, 96)                  # struct Parameters in optim.cu
                       for name in ("p", "grad", "mean", "variance", "size")])


def source(file, dtype, width=64):
    """The complete CUDA C of one of FILES for float32 or float64 and heads of this width."""
    real = {4: "float", 8: "double"}[np.dtype(dtype).itemsize]
    return f"typedef {real} real;\n#define WIDTH {width}\n" + "".join(
        (PACKAGE / name).read_text(encoding="utf-8") for name in ("model/common.cuh", file))


@cache
def _module(code):
    import cupy
    return cupy.RawModule(code=code, options=("-std=c++17",))


@cache
def _kernel(kernel, dtype, width):
    """The kernel "file.name", compiled, and for each of its parameters what makes an argument."""
    file, name = kernel.split(".")
    file = f"{'training' if file == 'optim' else 'model'}/{file}.cu"
    code = source(file, dtype, width)
    parameters = re.search(rf"__global__ void {name}\((.*?)\)", code, re.S)[1]
    kinds = {"int": np.int32, "i64": np.int64, "u64": np.uint64, "real": dtype.type,
             "Parameters": np.asarray}                        # is one of PARAMETERS already
    makers = [_pointer if "*" in parameter else kinds[parameter.split()[0]]
              for parameter in parameters.split(",")]
    return _module(code).get_function(name), makers


def _pointer(x):
    """A kernel's array, or its null pointer."""
    if x is None:
        return np.uint64(0)
    if not x._c_contiguous:                                   # CuPy's; x.flags costs ten times more
        raise ValueError(f"a kernel needs a C-contiguous array, not one of strides {x.strides}")
    return x


def launch(kernel, blocks, threads, like, *arguments, shared=0, width=64):
    """Start the kernel "file.name" on the current stream. It runs after this function returns.

    blocks, threads: tuples; like: an array, its dtype is the kernel's `real`; shared: how many
    `real` numbers each block has in shared memory; width: see `source`. Arguments are numbers,
    C-contiguous arrays or None (a null pointer). Raises ValueError for a wrong number of them and
    for an array that is not C-contiguous, UserError where the device has too little shared memory.
    """
    function, makers = _kernel(kernel, like.dtype, width)
    shared *= like.dtype.itemsize
    if shared > UNASKED:
        most = backend.shared_memory() - 1024
        if shared > most:
            raise UserError(f"--device gpu: {kernel} needs {shared:,} bytes of shared memory, the "
                            f"device has {most:,}; use more --model.heads or a smaller "
                            "--model.embedding_dim")
        function.max_dynamic_shared_size_bytes = shared
    function(blocks, threads, [make(x) for make, x in zip(makers, arguments, strict=True)],
             shared_mem=shared)


def _bits(dropout):
    """A Dropout as the kernels take it: its key, its share in 256ths."""
    rate, key = dropout
    return key, round(256 * rate)


def _like(x, *shape, dtype=None):
    import cupy
    return cupy.empty(shape or x.shape, dtype or x.dtype)


def _column_sums(kernel, dy, *arguments, columns, after=()):
    """A kernel's sums over the rows of dy: (N, d) → (columns,).

    A block has 8 columns, so 512 columns would leave half of a large GPU idle. Of 2,048 rows and
    more it sums a share, and a second launch adds these in order. after: the last arguments
    """
    shares = max(1, min(64, len(dy) // 1024))
    sums = _like(dy, shares, columns)
    launch(kernel, (-(-dy.shape[1] // 8), shares), (8, 64), dy, dy, *arguments, sums, *dy.shape,
           *after)
    return sums[0] if shares == 1 else _column_sums(
        "layers.bias_activation_backward", sums, None, None, columns=columns,
        after=(ACTIVATIONS[None], 0, 0))


def _warps(rows):
    """Blocks and threads of a kernel in which each warp has a row."""
    return (-(-rows // 4),), (128,)


def _threads(columns):
    """As many threads, in whole warps, as a row of `columns` numbers can use."""
    return (min(256, -(-columns // 32) * 32),)


# ---------------------------------------------------------------- layers.py

def low(x):
    """A matrix for `product`. With --precision bf16 float32 becomes bfloat16, held as uint16."""
    if backend.product_precision != "bf16" or x.dtype != np.float32:
        return x
    y = _like(x, dtype=np.uint16)
    launch("layers.to_bfloat16", (-(-x.size // 256),), (256,), x, x, y, x.size)
    return y


def product(a, b):
    """a @ b of two matrices from `low`, either of them transposed: (m, k), (k, n) → (m, n)."""
    if a.dtype != np.uint16:
        return a @ b
    from cupy.cuda import cublas, device, runtime
    y = _like(a, a.shape[0], b.shape[1], dtype=np.float32)
    one, zero = np.ones(1, np.float32), np.zeros(1, np.float32)
    (a_pointer, a_flag, a_stride), (b_pointer, b_flag, b_stride) = _for_cublas(a), _for_cublas(b)
    bf16, single = runtime.CUDA_R_16BF, runtime.CUDA_R_32F
    # cuBLAS counts columns first: yᵀ = bᵀ aᵀ
    cublas.gemmEx(device.get_cublas_handle(), b_flag, a_flag, b.shape[1], a.shape[0], a.shape[1],
                  one.ctypes.data, b_pointer, bf16, b_stride, a_pointer, bf16, a_stride,
                  zero.ctypes.data, y.data.ptr, single, b.shape[1], cublas.CUBLAS_COMPUTE_32F,
                  cublas.CUBLAS_GEMM_DEFAULT)
    return y


def _for_cublas(x):
    """A matrix's pointer, 1 if cuBLAS has to transpose it or else 0, its rows' length in memory."""
    if x._c_contiguous:
        return x.data.ptr, 0, x.shape[1]
    return x.data.ptr, 1, x.shape[0]


def dense_forward(x, weight, bias, activation=None, dropout=(0.0, 0)):
    x, weight, f, bits = low(x), low(weight), ACTIVATIONS[activation], _bits(dropout)
    y = product(x, weight)
    launch("layers.bias_activation", (len(y),), _threads(y.shape[1]), y, y, bias, y.shape[1], f,
           *bits)
    return y, (x, weight, y, f, bits)


def dense_backward(dy, cache):
    x, weight, y, f, bits = cache
    dx = _like(dy) if f or bits[1] else dy
    dbias = _column_sums("layers.bias_activation_backward", dy, y, dx, columns=dy.shape[1],
                         after=(f, *bits))
    dx = low(dx)
    return product(dx, weight.T), product(x.T, dx), dbias


def layer_norm_forward(x, weight, bias):
    return add_norm_forward(None, x, weight, bias)[1:]        # without x it only reads y


def layer_norm_backward(dy, cache):
    dx, _, dweight, dbias = add_norm_backward(dy, cache)
    return dx, dweight, dbias


def add_norm_forward(x, y, weight, bias, dropout=(0.0, 0)):
    z, normal, scale, bits = _like(y), _like(y), _like(y, len(y), 1), _bits(dropout)
    launch("layers.add_norm_forward", *_warps(len(y)), y, x, y, weight, bias, z, normal, scale,
           *y.shape, *bits)
    return y, z, (normal, scale, weight, bits)


def add_norm_backward(dz, cache, ds=None):
    normal, scale, weight, bits = cache
    dx, d = _like(dz), len(weight)
    dy = _like(dz) if bits[1] else dx
    launch("layers.add_norm_backward", *_warps(len(dz)), dz, dz, ds, normal, scale, weight, dx, dy,
           *dz.shape, *bits)
    sums = _column_sums("layers.norm_weights_backward", dz, normal, columns=2 * d)
    return dx, dy, sums[:d], sums[d:]


def l2_normalize_forward(x):
    y, norm = _like(x), _like(x, len(x), 1)
    launch("layers.l2_normalize_forward", *_warps(len(x)), x, x, y, norm, *x.shape)
    return y, (y, norm)


def l2_normalize_backward(dy, cache):
    y, norm = cache
    dx = _like(dy)
    launch("layers.l2_normalize_backward", *_warps(len(dy)), dy, dy, y, norm, dx, *dy.shape)
    return dx


def dropout_forward(x, dropout):
    bits = _bits(dropout)
    return dropout_backward(x, bits), bits


def dropout_backward(dy, bits):
    if not bits[1]:
        return dy
    dx = _like(dy)
    launch("layers.dropout", (-(-dy.size // 256),), (256,), dy, dy, dx, dy.size, *bits)
    return dx


# ---------------------------------------------------------------- embeddings.py

def word_bag_forward(table, packed, word_rows):
    B, d, M = len(packed.offsets) - 1, table.shape[1], 2 * len(packed.ids) - len(packed.offsets) + 1
    y, scale = _like(table, B, d), _like(table, B, 1)
    rows, sources = _like(table, M, dtype=np.int32), _like(table, M, dtype=np.int32)
    launch("embeddings.word_bag_forward", (B,), _threads(d), table, table, packed.ids,
           packed.offsets, y, scale, rows, sources, word_rows, len(table) - word_rows, d)
    return y, (rows, sources, scale)


def placed_embedding_forward(table, packed, signal, dropout=(0.0, 0)):
    d, bits = table.shape[1], _bits(dropout)
    x = _like(table, len(packed.ids), d)
    launch("embeddings.placed_embedding_forward", (len(packed.offsets) - 1, 4), (128, 4), table,
           table, packed.ids, packed.offsets, signal, x, d, *bits)
    return x, (packed.ids, bits)


def mean_pool_forward(x, packed):
    y = _like(x, len(packed.offsets) - 1, x.shape[1])
    launch("embeddings.mean_pool_forward", (len(y),), _threads(x.shape[1]), x, x, packed.offsets, y,
           x.shape[1])
    return y, (packed.offsets, len(x))


def word_sum(table, packed):
    means, _ = mean_pool_forward(table.take(packed.ids, axis=0), packed)
    return means * (packed.lengths ** 0.5).astype(table.dtype)[:, None]


def mean_pool_backward(dy, cache):
    offsets, N = cache
    dx = _like(dy, N, dy.shape[1])
    launch("embeddings.mean_pool_backward", (len(dy),), _threads(dy.shape[1]), dy, dy, offsets, dx,
           dy.shape[1])
    return dx


def update_rows(table, parts, rate, squares=None):
    grad, d = joined(parts), table.shape[1]
    launch("embeddings.update_rows", (len(grad.rows),), (32, 8), table, table, squares, grad.rows,
           grad.sources, grad.rows.argsort(), grad.values, len(grad.rows), d, rate,
           shared=8 * -(-d // 32) * 32)


# ---------------------------------------------------------------- attention.py

def attention_forward(qkv, offsets, heads, dropout=(0.0, 0)):
    N, d, bits = len(qkv), qkv.shape[1] // 3, _bits(dropout)
    y, log_sums, m = _like(qkv, N, d), _like(qkv, N, heads), d // heads
    launch("attention.attention_forward", (heads * (len(offsets) - 1),), (128,), qkv, qkv, offsets,
           y, log_sums, heads, *bits, shared=64 * (m | 1) + 16 * (m + 32), width=m)
    return y, (qkv, offsets, heads, bits, y, log_sums)        # log Σ_j e^s_ij of each i: (N, h)


def attention_backward(dy, cache):
    qkv, offsets, heads, bits, y, log_sums = cache
    dqkv, dots, m = _like(qkv), _like(log_sums), y.shape[1] // heads
    launch("attention.attention_backward", (heads * (len(offsets) - 1),), (128,), qkv, dy, y, qkv,
           offsets, log_sums, dots, dqkv, heads, *bits,
           shared=64 * (m | 1) + 16 * (2 * m + 64), width=m)
    return dqkv


# ---------------------------------------------------------------- losses.py

def batch_softmax_forward(u, v, scale=1.0, false_negatives=None, first=0):
    u, v, losses = low(u), low(v), _like(u, len(u))
    p = product(u, v.T)
    if false_negatives is not None:
        rows, columns = false_negatives
        launch("losses.mask_scores", (-(-len(rows) // 256),), (256,), p, p, rows, columns,
               len(rows), len(v))
    launch("losses.softmax_rows", (len(p),), _threads(len(v)), p, p, losses, len(v), first,
           scale)
    return losses.sum() / len(v), (u, v, scale, p, first)


def batch_softmax_backward(cache, dloss=1.0):
    u, v, scale, p, first = cache
    ds = _like(p)
    launch("losses.softmax_rows_backward", (len(p),), _threads(len(v)), p, p, ds, len(v), first,
           float(dloss * scale / len(v)))
    ds = low(ds)
    return product(ds, v), product(ds.T, u)


# ---------------------------------------------------------------- optim.py

def sgd(params, grads, rate):
    _update("sgd", (params, grads), rate)


def adam(params, grads, means, variances, t, rate, beta1, beta2, epsilon):
    _update("adam", (params, grads, means, variances), rate / (1 - beta1 ** t), 1 - beta2 ** t,
            1 - beta1, 1 - beta2, epsilon)


def _update(kernel, arrays, *numbers):
    """Update all dense parameters, 96 in each launch. arrays: lists, the parameters first."""
    params = arrays[0]
    for p, *others in zip(*arrays):                           # only pointers reach the kernel
        if not all(x._c_contiguous and x.dtype == p.dtype == params[0].dtype for x in (p, *others)):
            raise ValueError("parameters, gradients and states must be C-contiguous, of one dtype")
    most = PARAMETERS["p"].shape[0]
    for first in range(0, len(params), most):
        some, table = params[first:first + most], np.zeros((), PARAMETERS)
        for name, of_kind in zip(PARAMETERS.names, arrays):
            table[name][:len(some)] = [x.data.ptr for x in of_kind[first:first + most]]
        table["size"][:len(some)] = [p.size for p in some]
        launch(f"optim.{kernel}", (64, len(some)), (256,), some[0], table, *numbers)
