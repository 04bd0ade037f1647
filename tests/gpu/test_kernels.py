"""Every CUDA kernel against the NumPy function in whose place it runs, and broken kernels.

Needs CuPy and a GPU, or the emulated device: tests/gpu/vgpu/README.md.
"""

import faulthandler
import os
import re
import sys
from functools import cache

import numpy as np
import pytest

from convsim_mini.backend import set_precision, to_device, to_host
from convsim_mini.config import Config, ModelConfig
from convsim_mini.data.corpus import Batch
from convsim_mini.data.packed import Packed
from convsim_mini.model.gradcheck import dense
from convsim_mini.model import attention, embeddings, kernels, layers, losses
from convsim_mini.model.initial import initial_parameters
from convsim_mini.model.input_response import (
    Model, loss_and_gradients, loss_and_gradients_in_chunks,
)
from convsim_mini.model.layers import NO_DROPOUT, Dropout
from convsim_mini.training import optim
from convsim_mini.training.monitor import Monitor
from tests.benchmarks import kernel_table

pytestmark = pytest.mark.gpu
TOLERANCE = {np.float32: 2e-5, np.float64: 1e-12}
DROPOUT = Dropout(0.3, 2**63 + 11)    # a key that needs all 64 bits
emulated = sys.modules.get("vgpu")      # the module of the emulated device, or None


def pack(lengths, words=9):
    """Sentences of these lengths; few different words, so that each stands in many places."""
    ids = np.random.default_rng(3).integers(0, words, sum(lengths)).astype(np.int32)
    return Packed(ids, np.cumsum([0, *lengths]))


def numbers(dtype, *shapes):
    """Random arrays of these shapes."""
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def flat(result):
    """The arrays of a function's result on the host; a table's gradient as a full table of 40."""
    if isinstance(result, tuple) and not hasattr(result, "_fields"):
        return [array for part in result for array in flat(part)]
    if not isinstance(result, list):
        return [to_host(result)]
    return [dense(result, np.zeros((40, result[0].values.shape[1])))]


def assert_same(cupy, function, *arguments, results=None):
    """A function gives the same on both devices; → the results on the host and on the device.

    arguments: host arrays, or tuples of them; results: how many to compare from the
    front, −1 for all but the last; the others are caches
    """
    both = [function(*(to_device(x, xp) if isinstance(x, (np.ndarray, tuple)) else x
                       for x in arguments)) for xp in (np, cupy)]
    compared = [flat(result if results is None else result[:results]) for result in both]
    for mine, theirs in zip(*compared, strict=True):
        atol = TOLERANCE[np.float32 if mine.dtype == np.float32 else DTYPE[0]]
        np.testing.assert_allclose(theirs, mine, rtol=0, atol=atol * max(1, np.abs(mine).max()))
    return both


DTYPE = [np.float64]    # of the check that runs: a full table is float64 whatever it holds


@pytest.fixture(params=TOLERANCE, ids=lambda dtype: dtype.__name__)
def dtype(request):
    DTYPE[0] = request.param
    return request.param


def there_and_back(cupy, forward, backward, arguments, dy, also=()):
    """Both passes agree; the backward reads the cache of its own device."""
    here, there = assert_same(cupy, forward, *arguments, results=-1)
    grads = [backward(to_device(dy, xp), result[-1], *(to_device(x, xp) for x in also))
             for xp, result in ((np, here), (cupy, there))]
    assert_same(cupy, lambda x: grads[0] if isinstance(x, np.ndarray) else grads[1], dy)


# ---------------------------------------------------------------- the checks, by kernel

def check_dense(cupy, dtype, activation="tanh", dropout=DROPOUT, shape=(70, 33, 37), bias=True):
    N, d, e = shape
    x, weight, bias, dy = numbers(dtype, (N, d), (d, e), (e,), (N, e)) if bias else (
        *numbers(dtype, (N, d), (d, e)), None, *numbers(dtype, (N, e)))
    there_and_back(cupy, lambda *some: layers.dense_forward(*some, activation, dropout),
                   layers.dense_backward, [x, weight, bias], dy)


def check_add_norm(cupy, dtype, dropout=DROPOUT, shape=(67, 41), stream=True):
    N, d = shape
    x, y, weight, bias, dz, ds = numbers(dtype, (N, d), (N, d), (d,), (d,), (N, d), (N, d))
    y[-1] = x[-1] = 0.01                                       # a row whose variance is nearly 0
    there_and_back(cupy, lambda x, y, *some: layers.add_norm_forward(x, y.copy(), *some, dropout),
                   layers.add_norm_backward, [x, y, weight, bias], dz, [ds] if stream else [])


def check_layer_norm(cupy, dtype):
    x, weight, bias, dy = numbers(dtype, (9, 300), (300,), (300,), (9, 300))
    there_and_back(cupy, layers.layer_norm_forward, layers.layer_norm_backward, [x, weight, bias],
                   dy)


def check_l2_normalize(cupy, dtype):
    x, dy = numbers(dtype, (9, 70), (9, 70))
    x[3] = 0
    there_and_back(cupy, layers.l2_normalize_forward, layers.l2_normalize_backward, [x], dy)


def check_dropout(cupy, dtype):
    x, dy = numbers(dtype, (31, 9), (31, 9))
    there_and_back(cupy, lambda x: layers.dropout_forward(x, DROPOUT), layers.dropout_backward, [x],
                   dy)


LENGTHS = [1, 2, 7, 40, 1, 19]


def check_word_bag(cupy, dtype):
    table, dy = numbers(dtype, (40, 70), (len(LENGTHS), 70))
    there_and_back(cupy, lambda table, packed: embeddings.word_bag_forward(table, packed, 9),
                   embeddings.embedding_bag_backward, [table, pack(LENGTHS)], dy)


def check_placed_embedding(cupy, dtype, dropout=DROPOUT):
    table, signal, dx = numbers(dtype, (40, 34), (64, 34), (sum(LENGTHS), 34))
    there_and_back(cupy, lambda *some: embeddings.placed_embedding_forward(*some, dropout),
                   embeddings.placed_embedding_backward, [table, pack(LENGTHS), signal], dx)


def check_mean_pool(cupy, dtype):
    x, dy = numbers(dtype, (sum(LENGTHS), 35), (len(LENGTHS), 35))
    there_and_back(cupy, embeddings.mean_pool_forward, embeddings.mean_pool_backward,
                   [x, pack(LENGTHS)], dy)


def check_word_sum(cupy, dtype):
    table, = numbers(dtype, (9, 70))
    assert_same(cupy, embeddings.word_sum, table, pack(LENGTHS))


def check_attention(cupy, dtype, lengths=(1, 3, 31, 32, 33, 70), heads=3, width=5, dropout=DROPOUT):
    qkv, dy = numbers(dtype, (sum(lengths), 3 * heads * width), (sum(lengths), heads * width))
    there_and_back(cupy, lambda qkv, offsets: attention.attention_forward(
        qkv, offsets, heads, dropout), attention.attention_backward,
        [qkv, np.cumsum([0, *lengths])], dy)


def check_batch_softmax(cupy, dtype, B=70, masked=(np.array([0, 2, 69]), np.array([1, 0, 3])),
                        of_all=0, first=0):
    u, v = numbers(dtype, (B, 11), (of_all or B, 11))
    here, there = assert_same(cupy, losses.batch_softmax_forward, u, v, 3.0, masked, first,
                              results=1)
    grads = [losses.batch_softmax_backward(cache, 0.7) for _, cache in (here, there)]
    assert_same(cupy, lambda x: grads[0] if isinstance(x, np.ndarray) else grads[1], u)


def check_update_rows(cupy, dtype, adagrad=True, lengths=LENGTHS, words=9):
    table, dy = numbers(dtype, (40, 70), (len(lengths), 70))
    squares = np.full(40, 1e-3, dtype) if adagrad else None

    def step(table, packed, dy, squares):
        _, cache = embeddings.word_bag_forward(table, packed, 9)
        table, squares = table.copy(), None if squares is None else squares.copy()
        optim.update_rows(table, embeddings.embedding_bag_backward(dy, cache), 0.1, squares)
        return (table,) if squares is None else (table, squares)
    assert_same(cupy, step, table, pack(lengths, words), dy, squares)


def check_dense_parameters(cupy, dtype, name="adam"):
    """More parameters than one launch takes, two steps."""
    sizes = [(3, 5), (7,), *[(2,)] * 95, (300, 70)]

    def steps(*arrays):
        params = [array.copy() for array in arrays]
        means, variances = ([array * 0 for array in arrays] for _ in range(2))
        for t in (1, 2):
            if name == "adam":
                optim.adam(params, arrays, means, variances, t, 0.1, 0.9, 0.999, 1e-8)
            else:
                optim.sgd(params, arrays, 0.1)
        return tuple(params)
    assert_same(cupy, steps, *numbers(dtype, *sizes))


def check_product_in_bfloat16(cupy, _):
    """Factors are rounded to 8 significant bits; each may be transposed."""
    def rounded(x):
        mantissa, exponent = np.frexp(x)
        return np.ldexp(np.round(mantissa * 256) / 256, exponent)

    for m, k, n in ((5, 7, 3), (64, 32, 48), (1, 9, 1)):
        a, b = numbers(np.float32, (m, k), (k, n))
        expected = rounded(a) @ rounded(b)
        at, bt = (np.ascontiguousarray(x.T) for x in (a, b))
        set_precision("bf16")
        try:
            a, at, b, bt = (kernels.low(cupy.asarray(x)) for x in (a, at, b, bt))
            for left in (a, at.T):
                for right in (b, bt.T):
                    np.testing.assert_allclose(to_host(kernels.product(left, right)), expected,
                                               atol=1e-5 * k)
        finally:
            set_precision("fp32")


CHECKS = {
    "dense": check_dense,
    "dense, relu": lambda *some: check_dense(*some, "relu", shape=(300, 9, 40)),
    "dense, tanh": lambda *some: check_dense(*some, "tanh", NO_DROPOUT, shape=(3, 9, 600)),
    "dense alone": lambda *some: check_dense(*some, None, NO_DROPOUT, shape=(1, 1, 1)),
    "dense without bias": lambda *some: check_dense(*some, None, NO_DROPOUT, (9, 5, 40), False),
    "add_norm": check_add_norm,
    "add_norm without a stream": lambda *some: check_add_norm(*some, NO_DROPOUT, (3, 5), False),
    "layer_norm": check_layer_norm,
    "l2_normalize": check_l2_normalize,
    "dropout": check_dropout,
    "word_bag": check_word_bag,
    "placed_embedding": check_placed_embedding,
    "mean_pool": check_mean_pool,
    "word_sum": check_word_sum,
    "attention": check_attention,
    "attention, wide heads": lambda *some: check_attention(*some, (2, 40), 1, 70, NO_DROPOUT),
    "attention, the paper's width": lambda *some: check_attention(*some, (17, 40), 2, 64),
    "attention of single words": lambda *some: check_attention(*some, (1,) * 5, 2, 4),
    "batch_softmax": check_batch_softmax,
    "batch_softmax of two": lambda *some: check_batch_softmax(*some, 2, None),
    "batch_softmax, a worker's part": lambda *some: check_batch_softmax(*some, of_all=93, first=20),
    "update_rows, Adagrad": check_update_rows,
    "update_rows, SGD": lambda *some: check_update_rows(*some, False),
    "update_rows, a word in 601 places": lambda *some: check_update_rows(*some, True, [600, 1], 1),
    "dense, rows in shares": lambda *some: check_dense(*some, "relu", shape=(3200, 3, 9)),
    "add_norm, rows in shares": lambda *some: check_add_norm(*some, shape=(2100, 9)),
    "adam": check_dense_parameters,
    "sgd": lambda *some: check_dense_parameters(*some, "sgd"),
    "product in bfloat16": check_product_in_bfloat16,
}


@pytest.mark.parametrize("name", CHECKS)
def test_a_kernel_is_its_numpy_function(cupy, name, dtype):
    CHECKS[name](cupy, dtype)


BARRIER = "__syncthreads();" + 42 * " "                      # then a comment, which says why
MUTANTS = [
    ("layer_norm", "warp_sum(squares) / d", "warp_sum(squares)"),                 # a scale
    ("layer_norm", "mean - normal[at] * along", "mean"),
    ("add_norm", "dx[at] = ds ? g + ds[at] : g", "dx[at] = g"),
    ("add_norm", "dx[at] * dropout_factor(key, threshold, at)", "dx[at]"),
    ("dense", "c < e; c += blockDim.x", "c < e - 1; c += blockDim.x"),            # a bound
    ("dense, relu", "c < e ? rows : 0", "c < e ? rows - 1 : 0"),
    ("dense, relu", "1 / kept", "1"),
    ("dense", "__syncthreads();\n        if (threadIdx.y < half)", "if (threadIdx.y < half)"),
    ("l2_normalize", "- along * y[begin + c]", ""),
    ("l2_normalize", "x[begin + c] / length", "x[begin + c]"),
    ("add_norm, rows in shares", "2 * d + d + c] = bias", "2 * d + d + c] = weight"),
    ("batch_softmax", "    __syncthreads();\n    x = parts", "    x = parts"),    # a barrier
    ("batch_softmax", "scores[rows[k] * B + columns[k]]", "scores[columns[k] * B + rows[k]]"),
    ("batch_softmax, a worker's part", "row[first + blockIdx.x]", "row[blockIdx.x]"),
    ("batch_softmax, a worker's part", "j == first + blockIdx.x", "j == blockIdx.x"),
    ("word_bag", f"{BARRIER}// each thread", "//"),
    ("word_bag", "sum * share", "sum"),
    ("placed_embedding", "root * table", "table"),
    ("mean_pool", "sum / n", "sum"),
    ("mean_pool", "dy[(i64)blockIdx.x * d + c] / n", "dy[(i64)blockIdx.x * d + c]"),
    ("placed_embedding", "i < n; i += step", "i < min(n, 16ll); i += step"),
    ("update_rows, SGD", "j < count && rows", "j < count - 1 && rows"),
    ("update_rows, a word in 601 places", "found < 32", "true"),
    ("dense, rows in shares", "step = gridDim.y * blockDim.y", "step = blockDim.y"),
    ("update_rows, SGD", "    __syncthreads();\n    real square", "    real square"),
    ("update_rows, Adagrad", "rate /= sqrt(total)", ""),
    ("attention", "    }\n    __syncthreads();\n}", "    }\n}"),
    ("attention", "of[w] * shrink + warp_sum(e)", "of[w] + warp_sum(e)"),
    ("attention", "sum[k].of[w] *= shrink", "sum[k].of[w] *= 1"),
    ("attention", "- dots[i * heads]) * scale", "- dots[i * heads])"),
    ("attention", "of[w] = weight * factor", "of[w] = weight"),
    ("attention", "__syncwarp();\n            add_rows", "add_rows"),
    ("attention", "if (first >= n) continue", "if (first >= n) break"),           # a deadlock
    ("attention, the paper's width", "stride + c] * factor;", "stride + c];"),
    ("attention, the paper's width", "row[c];\n    }\n    return", "row[0];\n    }\n    return"),
    ("adam", "*variance / correction", "*variance"),
    ("product in bfloat16", "(bits + 0x7fff + (bits >> 16 & 1)) >> 16", "bits >> 16"),
    ("sgd", "rate * all.grad[y][k]", "all.grad[y][k]"),
    ("dropout", "counter / 8", "counter / 4"),
]


if os.environ.get("VGPU_ORDER"):                              # not seen in the usual order
    MUTANTS += [("attention", f"{BARRIER}// all have read the tile", "//"),
                ("layer_norm", f"{BARRIER}// of a call before", "//")]


@pytest.mark.emulated    # a real GPU may survive a missing barrier by luck
@pytest.mark.parametrize("name, old, new", MUTANTS, ids=lambda text: text[:30])
def test_a_broken_kernel_fails_its_check(cupy, name, old, new, monkeypatch):
    correct = kernels.source
    for cached in (kernels._module, kernels._kernel):
        monkeypatch.setattr(kernels, cached.__name__, cache(cached.__wrapped__))
    assert any(old in correct(file, np.float64) for file in kernels.FILES), (
        f"no kernel holds {old!r}: the mutant tests nothing")
    monkeypatch.setattr(kernels, "source", lambda *some: correct(*some).replace(old, new))
    assert outcome_in_a_child(lambda: CHECKS[name](cupy, np.float64)) in ("wrong", "killed")


def outcome_in_a_child(check):
    """"right", "wrong" or "killed": how a check ends that may touch memory it must not."""
    child = os.fork()
    if child == 0:
        faulthandler.disable()                                # it would report where the child died
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)          # as the device does
        DTYPE[0] = np.float64
        try:
            check()
        except AssertionError:
            os._exit(1)
        except BaseException:
            os._exit(2)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 139:       # VGPU_STRICT exits with 139
        return "killed"
    return ["right", "wrong", "another error"][os.WEXITSTATUS(status)]


def test_the_table_of_kernels_has_each_of_them():
    names = [name for file in kernels.FILES for name in
             re.findall(r"__global__ void (\w+)", kernels.source(file, np.float32))]
    assert sorted(names) == sorted([*kernel_table.STEP, *kernel_table.OTHERS])


# ---------------------------------------------------------------- whole steps

def test_an_array_that_is_not_contiguous_is_refused(cupy):
    x = cupy.ones((6, 4), np.float32)[:, ::2]
    with pytest.raises(ValueError, match="C-contiguous"):
        layers.l2_normalize_forward(x)


def test_another_number_of_arguments_is_refused(cupy):
    x = cupy.ones(4, np.float32)
    with pytest.raises(ValueError, match="shorter"):
        kernels.launch("layers.dropout", (1,), (32,), x, x, x, 4, 0)


def test_a_tuple_travels_in_one_transfer_and_arrives_whole(cupy):
    there = (Packed(np.arange(5, dtype=np.int32), np.array([0, 2, 5])), None,
             (np.array([], np.int64), np.array([[1.5], [2.5]])))
    if emulated:
        emulated.reset()
    here = to_device(there, cupy)
    if emulated:
        assert emulated.counts().get("copy to device") == 1
    assert isinstance(here[0], Packed) and here[1] is None
    for mine, theirs in zip((*there[0], *there[2]), (*here[0], *here[2])):
        np.testing.assert_array_equal(to_host(theirs), mine)
        assert theirs.dtype == mine.dtype and theirs.shape == mine.shape


STEP_MODELS = {
    "dan": ModelConfig(embedding_dim=8, layers=[6, 6, 6], response_hidden=[6],
                       residual_response=False, unit_response=False),
    "transformer": ModelConfig(encoder="transformer", embedding_dim=8, layers=[6], heads=2,
                               hidden=12, response_hidden=[6]),
    "bag": ModelConfig(encoder="transformer", embedding_dim=8, layers=[6], heads=2, hidden=12,
                       response_hidden=[6], bag=True),
}


def step_on_device(cupy, name, chunk=None, optimizer=optim.SGD, dropout=DROPOUT):
    """A function that takes one training step on the device and gives its loss; the Model."""
    rng = np.random.default_rng(0)
    params = initial_parameters(STEP_MODELS[name], rng.standard_normal((40, 8)), rng)
    params = {key: p.astype(np.float64 if dropout is NO_DROPOUT else np.float32)
              for key, p in params.items()}
    model = Model(to_device(params, cupy), STEP_MODELS[name], 9)
    batch = Batch(pack([3, 1, 4, 2, 6, 2, 1, 3]), (np.array([0, 2]), np.array([1, 0])))
    stepper = optimizer(model.params)

    def step():
        if chunk:
            loss, grads = loss_and_gradients_in_chunks(model, batch, dropout, chunk=chunk)
        else:
            loss, grads = loss_and_gradients(model, batch, dropout)
        stepper.step(model.params, grads, 0.01, 0.01)
        return loss
    return step, model


@pytest.mark.emulated    # only the emulated device counts launches
@pytest.mark.parametrize("optimizer", [optim.SGD, optim.Adaptive])
@pytest.mark.parametrize("name, most", [("dan", 60), ("transformer", 300), ("bag", 330)])
def test_a_step_launches_little_waits_for_nothing_and_sends_one_buffer(cupy, name, most, optimizer):
    step, _ = step_on_device(cupy, name, optimizer=optimizer)
    step()                                                    # compiles, and makes the signal
    emulated.reset()
    step()
    counts = emulated.counts()
    print({what: number for what, number in counts.items() if not what.startswith("kernel")})
    assert counts["launches"] <= most
    assert not [what for what in counts if what.startswith("sync")], counts
    assert counts.get("copy to device") == 1 and "copy to host" not in counts


@pytest.mark.emulated    # only the emulated device counts copies
def test_the_log_reads_all_losses_in_one_copy(cupy, tmp_path):
    monitor = Monitor(tmp_path, Config(), dev=None)
    emulated.reset()
    for step in range(1, 11):
        monitor.after_step(step, {"loss": cupy.asarray(np.float32(step))})
    assert emulated.counts()["copy to host"] == 1
    assert [record["loss"] for record in monitor.steps] == [5.5]
    monitor.close()


@pytest.mark.parametrize("name", STEP_MODELS)
def test_steps_in_chunks_are_steps_of_the_whole_batch(cupy, name):
    weights = []
    for chunk in (None, 1, 3):
        step, model = step_on_device(cupy, name, chunk, optim.Adaptive, NO_DROPOUT)
        losses_of = [float(step()) for _ in range(3)]
        weights.append({**to_host(model.params), "losses": np.array(losses_of)})
    for other in weights[1:]:
        for key, mine in weights[0].items():
            np.testing.assert_allclose(other[key], mine, rtol=0, atol=1e-8, err_msg=key)


@pytest.mark.parametrize("name", STEP_MODELS)
def test_two_runs_are_the_same_bits(cupy, name):
    weights = []
    for _ in range(2):
        step, model = step_on_device(cupy, name, optimizer=optim.Adaptive)
        for _ in range(3):
            step()
        weights.append(to_host(model.params))
    for key, mine in weights[0].items():
        np.testing.assert_array_equal(weights[1][key], mine, err_msg=key)
