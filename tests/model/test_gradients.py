"""Every backward against central differences, and every check against backwards that are wrong."""

import inspect
import os
import subprocess
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest

from convsim_mini import backend, tune
from convsim_mini.config import ModelConfig
from convsim_mini.data.corpus import Batch
from convsim_mini.data.packed import Packed, words_and_bigrams
from convsim_mini.model.gradcheck import (
    dense,
    directional_error,
    layer_error,
    numeric_gradient,
    relative_error,
)
from convsim_mini.model import (
    attention,
    dan,
    embeddings,
    initial,
    input_response,
    layers,
    losses,
    nli,
    sparse_rows,
    transformer,
)
from convsim_mini.training.options import parse_config
from convsim_mini.training import optim

from conftest import PATH

SEEDS = (0, 1, 2)
SMALL = 1e-6

# Repeated ids within and across sentences, sentences of one word.
IDS = Packed(np.array([3, 1, 3, 4, 1, 0, 3, 2, 2, 2, 1], np.int32), np.array([0, 4, 5, 6, 9, 11]))
ROWS = words_and_bigrams(IDS, words=5, buckets=7)


def embedding_bag(table):
    """The bag as a function of its table alone."""
    return embeddings.embedding_bag_forward(table, ROWS, IDS.lengths)


def batch_softmax(u, v):
    """The loss with a scale and false negatives, as a function of u and v."""
    return losses.batch_softmax_forward(u, v, 3.0, (np.array([0, 2, 4]), np.array([1, 0, 3])))


def workers_part(u, v):
    """The loss of the inputs 1, 2 and 3 of five, which one of several workers has."""
    return losses.batch_softmax_forward(u, v, 3.0, (np.array([0, 2]), np.array([0, 1])), 1)


def embedding(table):
    """The embedding as a function of its table alone."""
    return embeddings.embedding_forward(table, IDS.ids)


def mean_pool(x):
    """The mean over sentences as a function of the rows alone."""
    return embeddings.mean_pool_forward(x, IDS)


def dropout(x):
    """Dropout with fixed bits, at a rate that leaves few numbers alone."""
    return layers.dropout_forward(x, layers.Dropout(0.4, key=5))


def self_attention(qkv):
    """Attention in two heads as a function of queries, keys and values alone, dropout included."""
    return attention.attention_forward(qkv, IDS.offsets, 2,
                                       layers.Dropout(0.3, key=7))


U1, U2 = np.random.default_rng(3).standard_normal((2, 6, 4))
LABELS = np.random.default_rng(4).standard_normal(6)


CLASSES = np.array([2, 0, 1, 1, 0])


def cross_entropy(logits):
    """NLI's loss as a function of the logits alone."""
    return losses.cross_entropy_forward(logits, CLASSES)


def tuned_similarity(matrix):
    """The tuned similarity as a function of the matrix alone."""
    return tune.similarity_forward(matrix, U1.astype(matrix.dtype), U2.astype(matrix.dtype))


def similarity_with_words(matrix):
    """The same with the cosines of the halves that count words."""
    return tune.similarity_forward(matrix, U1.astype(matrix.dtype), U2.astype(matrix.dtype),
                                   ((LABELS / 10).astype(matrix.dtype), 0.4))


def correlation(x):
    """Pearson's r with fixed labels."""
    return tune.correlation_forward(x, LABELS.astype(x.dtype))


# name: (forward, module, name of the backward, shapes of the inputs), each axis of another length
CASES = {
    "linear": (layers.linear_forward, layers, "linear_backward", [(4, 3), (3, 5), (5,)]),
    "tanh": (layers.tanh_forward, layers, "tanh_backward", [(4, 3)]),
    "l2_normalize": (layers.l2_normalize_forward, layers, "l2_normalize_backward", [(4, 3)]),
    "embedding_bag": (embedding_bag, embeddings, "embedding_bag_backward", [(12, 3)]),
    "relu": (layers.relu_forward, layers, "relu_backward", [(4, 3)]),
    "layer_norm": (layers.layer_norm_forward, layers, "layer_norm_backward", [(4, 5), (5,), (5,)]),
    "embedding": (embedding, embeddings, "embedding_backward", [(5, 3)]),
    "mean_pool": (mean_pool, embeddings, "mean_pool_backward", [(11, 3)]),
    "dropout": (dropout, layers, "dropout_backward", [(7, 3)]),
    "attention": (self_attention, attention, "attention_backward", [(11, 12)]),
    "tuned_similarity": (tuned_similarity, tune, "similarity_backward", [(4, 4)]),
    "similarity_with_words": (similarity_with_words, tune, "similarity_backward", [(4, 4)]),
    "correlation": (correlation, tune, "correlation_backward", [(6,)]),
    "nli_features": (nli.nli_features_forward, nli, "nli_features_backward", [(5, 3), (5, 3)]),
    "cross_entropy": (cross_entropy, losses, "cross_entropy_backward", [(5, 3)]),
    "batch_softmax": (batch_softmax, losses, "batch_softmax_backward", [(5, 3), (5, 3)]),
    "workers_part": (workers_part, losses, "batch_softmax_backward", [(3, 4), (5, 4)]),
}

# One line of the backward at a time, made wrong: zeroed, transposed, without a factor or a term.
MUTANTS = [
    ("linear", "return dx,", "return 0 * dx,"),
    ("linear", "return dx, dweight", "return dx, (dy.T @ x).reshape(weight.shape)"),
    ("linear", "return dx, dweight", "return dx, dweight / len(x)"),
    ("linear", "dy.sum(axis=0)", "dy.mean(axis=0)"),
    ("linear", "return dx, dweight", "return dx, np.nan * dweight"),
    ("tanh", "(1 - y * y)", "(1 - y)"),
    ("tanh", "dy * (1 - y * y)", "(1 - y * y)"),
    ("l2_normalize", "subtract(dy, dx, out=dx)", "array(dy)"),
    ("l2_normalize", "dx /= norm", "pass"),
    ("l2_normalize", "subtract(dy, dx", "add(dy, dx"),
    ("embedding_bag", "dy * scale", "dy"),
    ("embedding_bag", "dy * scale", "dy * scale * scale"),
    ("embedding_bag", "(rows, dy", "(rows[::-1], dy"),
    ("embedding_bag", "scale, sources)", "scale, sources[::-1])"),
    ("embedding_bag", "(rows, dy * scale, sources)", "(rows[:5], dy * scale, sources[:5])"),
    ("relu", "dy * (y > 0)", "dy"),
    ("relu", "(y > 0)", "y"),
    ("layer_norm", "dx -= dx.mean(axis=1, keepdims=True)", "pass"),
    ("layer_norm", "dx -= normal * along", "pass"),
    ("layer_norm", "dx -= normal", "dx += normal"),
    ("layer_norm", "dx *= scale", "pass"),
    ("layer_norm", "dx = dy * weight", "dx = dy * 1"),
    ("layer_norm", "dy.sum(axis=0)", "0 * dy[0]"),
    ("layer_norm", 'array_module(dy).einsum("nd,nd->d", dy, normal)', "dy.sum(axis=0)"),
    ("embedding", "(ids, dy)", "(ids, 0 * dy)"),
    ("embedding", "(ids, dy)", "(ids[::-1], dy)"),
    ("mean_pool", "dy * share[:, None]", "dy"),
    ("mean_pool", ".take(sentences, axis=0)", ".take(sentences[::-1], axis=0)"),
    ("dropout", "dy * factor", "dy"),
    ("dropout", "dy * factor", "dy * (factor > 0)"),
    ("attention", "ds -= (p * ds).sum(axis=3, keepdims=True)", "pass"),
    ("attention", "ds *= p", "pass"),
    ("attention", "ds *= 1 / math.sqrt(q.shape[3])", "pass"),
    ("attention", "dk[...] = ds.swapaxes(2, 3) @ q", "dk[...] = ds @ q"),
    ("attention", "dq[...] = ds @ k", "dq[...] = 0"),
    ("attention", "(p if factor is None else p * factor)", "p"),
    ("attention", "(p if factor is None else p * factor)", "factor"),
    ("attention", "dropout_backward(dout @ v.swapaxes(2, 3), factor)", "dout @ v.swapaxes(2, 3)"),
    ("tuned_similarity", "dcosine * b, a_cache", "dcosine * a, a_cache"),
    ("tuned_similarity", "u1.T @", "u2.T @"),
    ("tuned_similarity", "1 / np.sqrt(", "np.sqrt("),
    ("tuned_similarity", "dsimilarity * slope", "dsimilarity"),
    ("similarity_with_words", " / (1 + weight)", ""),
    ("correlation", "- r * x_unit", ""),
    ("correlation", " / x_norm", ""),
    ("correlation", "(y_unit", "(0 * y_unit"),
    ("nli_features", "dabsolute * xp.sign(difference)", "dabsolute"),
    ("nli_features", "- ddifference", "+ ddifference"),
    ("nli_features", "dproduct * u2", "dproduct * u1"),
    ("nli_features", "dproduct * u1", "0 * u1"),
    ("nli_features", "return d1 +", "return"),
    ("cross_entropy", "dlogits[rows, labels] -= step", "pass"),
    ("cross_entropy", "dloss / len(rows)", "dloss"),
    ("cross_entropy", "dloss / len(rows)", "1 / len(rows)"),
    ("cross_entropy", ".exp(log_p)", ".exp(2 * log_p)"),
    ("batch_softmax", "ds[rows, first + rows] -= step", "pass"),
    ("batch_softmax", "dloss * scale", "dloss"),
    ("batch_softmax", "scale / len(v)", "scale"),
    ("batch_softmax", "(ds.T, u)", "(ds, u)"),
    ("batch_softmax", "(ds, v)", "(ds, 0 * v)"),
    ("batch_softmax", "dloss * scale", "scale"),
    ("workers_part", "first + rows", "rows"),
    ("workers_part", "/ len(v)", "/ len(u)"),
]


def arrays(gradient):
    """All arrays of a gradient: one, a tuple of them, or a list of SparseRows."""
    if isinstance(gradient, (tuple, list)):
        return [array for part in gradient for array in arrays(part)
                if np.issubdtype(array.dtype, np.floating)]
    return [np.asarray(gradient)]


def backward_of(case, old=None, new=None):
    """The case's backward in the form (dy, cache), with `old` in its source replaced by `new`."""
    _, module, name, _ = CASES[case]
    backward = getattr(module, name)
    if old:
        source = inspect.getsource(backward)
        assert source.count(old) >= 1, f"{name} no longer holds {old!r}: the mutant tests nothing"
        code, docstring = source.split('"""')[2], source.split('"""')[:2]
        assert old in code, f"{old!r} stands only in the docstring of {name}"
        namespace = dict(vars(module))
        exec('"""'.join([*docstring, code.replace(old, new)]), namespace)
        backward = namespace[name]
    if case in ("batch_softmax", "workers_part", "cross_entropy"):
        return lambda dy, cache: backward(cache, dy)
    return backward


def error_of(case, seed, backward):
    """The gradient check's verdict on a backward."""
    rng = np.random.default_rng(seed)
    forward, *_, shapes = CASES[case]
    return layer_error(forward, backward, [rng.standard_normal(shape) for shape in shapes], rng)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("case", CASES)
def test_backward_is_the_derivative_of_forward(case, seed):
    assert error_of(case, seed, backward_of(case)) < SMALL


@pytest.mark.parametrize("case, old, new", MUTANTS)
def test_the_check_fails_a_wrong_backward(case, old, new):
    assert not error_of(case, 0, backward_of(case, old, new)) < 1e-3      # nan is no success either


@pytest.mark.parametrize("case", CASES)
def test_forward_and_backward_follow_the_dtype_of_their_inputs(case):
    forward, *_, shapes = CASES[case]
    rng = np.random.default_rng(0)
    y, cache = forward(*(rng.standard_normal(shape).astype(np.float32) for shape in shapes))
    grads = backward_of(case)(np.float32(1) if np.ndim(y) == 0 else y, cache)
    assert np.asarray(y).dtype == np.float32
    assert all(array.dtype == np.float32 for array in arrays(grads))


def test_forward_does_not_change_its_inputs():
    for case, (forward, *_, shapes) in CASES.items():
        inputs = [np.random.default_rng(0).standard_normal(shape) for shape in shapes]
        kept = [x.copy() for x in inputs]
        y, cache = forward(*inputs)
        backward = backward_of(case)
        first, second = (backward(np.ones_like(y), cache) for _ in range(2))
        assert all((x == k).all() for x, k in zip(inputs, kept)), case
        for a, b in zip(arrays(first), arrays(second), strict=True):
            assert (a == b).all(), f"{case}: a second backward differs"


def places_of(rng):
    """A table's gradient of a bag and of single words: a list of SparseRows."""
    _, bag_cache = embedding_bag(np.ones((12, 3)))
    return [*embeddings.embedding_bag_backward(rng.standard_normal((5, 3)), bag_cache),
            *embeddings.embedding_backward(rng.standard_normal((11, 3)), IDS.ids)]


def update_error(update_rows):
    """How far steps of SGD on a table are from rate · gradient; nan where one raises."""
    grads, errors = places_of(np.random.default_rng(0)), []
    for grad in (grads, grads[:1], grads[1:]):
        table = np.random.default_rng(1).standard_normal((12, 3))
        expected = table - 0.5 * dense(grad, table)
        try:
            update_rows(table, grad, 0.5)
        except (IndexError, ValueError):
            return np.nan
        errors.append(np.abs(table - expected).max())
    return float(max(errors))


@pytest.mark.parametrize("cores, at_once", [(1, 2048), (2, 1), (3, 2), (50, 2048), (1, 3)])
def test_a_step_adds_up_all_places_of_a_row_on_any_number_of_cores(cores, at_once, monkeypatch):
    monkeypatch.setattr(backend, "_cores", lambda: cores)
    monkeypatch.setattr(optim, "AT_ONCE", at_once)
    backend._threads.cache_clear()
    places = sparse_rows.by_row(sparse_rows.joined(places_of(np.random.default_rng(0))))
    assert places.rows.tolist() == sorted(set(ROWS.ids.tolist()))
    assert update_error(optim.update_rows) < 1e-14
    table = np.ones((12, 3))
    y, _ = embedding_bag(table)
    assert np.allclose(y, np.diff(ROWS.offsets)[:, None] / np.sqrt(IDS.lengths)[:, None])
    backend._threads.cache_clear()


@pytest.mark.parametrize("name, old, new", [
    ("by_row", "order if grad", "grad.rows if grad"),
    ("by_row", "grad.sources[order]", "grad.sources"),
    ("by_row", "np.diff(rows,", "np.diff(rows // 2,"),
    ("by_row", "keys += np.arange(count)", "pass"),
    ("joined", "first += len(values)", "pass"),
    ("joined", "first + (", "("),
])
def test_a_step_that_adds_up_wrongly_is_noticed(name, old, new, monkeypatch):
    source = inspect.getsource(getattr(sparse_rows, name))
    assert old in source, f"{name} no longer holds {old!r}: the mutant tests nothing"
    namespace = dict(vars(sparse_rows))
    exec(source.replace(old, new), namespace)
    monkeypatch.setattr(optim, name, namespace[name])
    assert not update_error(optim.update_rows) < 1e-3


@pytest.mark.parametrize("cores", [1, 2, 3, 8])
@pytest.mark.parametrize("items", [1, 2, 7, 1000])
def test_fair_shares_are_all_items_once_and_nearly_equal_work(items, cores, monkeypatch):
    monkeypatch.setattr(backend, "_cores", lambda: cores)
    work = np.cumsum(np.random.default_rng(0).integers(1, 9, items))
    shares = backend.fair_shares(work)
    assert [k for share in shares for k in range(items)[share]] == list(range(items))
    assert all(share.stop > share.start for share in shares) and len(shares) <= cores
    if items == 1000:
        sizes = [work[share.stop - 1] - work[share.start] for share in shares]
        assert len(shares) == cores and max(sizes) - min(sizes) < 40


def test_a_thread_that_has_not_begun_its_part_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(backend, "_cores", lambda: 2)
    backend._threads.cache_clear()
    gate = threading.Event()
    busy = backend._threads().submit(gate.wait, 5)            # as if another process had its core
    assert backend.on_all_cores(lambda part: part + 1, range(3)) == [1, 2, 3]
    assert not busy.done()
    gate.set()
    assert backend.on_all_cores(lambda part: part + 1, range(3)) == [1, 2, 3]
    backend._threads.cache_clear()


@pytest.mark.parametrize("cores", [1, 2, 3])
@pytest.mark.parametrize("rows", [1, 1024, 1025, 5000])
def test_by_rows_is_the_function_itself(rows, cores, monkeypatch):
    monkeypatch.setattr(backend, "_cores", lambda: cores)
    backend._threads.cache_clear()
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((rows, 128)), rng.standard_normal((rows, 1))
    calls = []
    def function(x, y):
        calls.append(len(x))
        return x * y, x.sum(axis=1)
    for found, expected in zip(backend.by_rows(function, x, y), (x * y, x.sum(axis=1)),
                               strict=True):
        assert (found == expected).all()
    # a megabyte at a time, each row once, but for the first one, which tells widths
    assert max(calls) <= 1024 and sum(calls) == rows + (rows > 1024)
    assert (backend.by_rows(np.negative, x) == -x).all()
    backend._threads.cache_clear()


@pytest.mark.parametrize("cores", [1, 2, 3, 50])
def test_products_on_own_threads_are_numpy_s(cores, monkeypatch):
    monkeypatch.setattr(backend, "_cores", lambda: cores)
    monkeypatch.setattr(backend, "_own_threads", True)
    monkeypatch.setattr(backend, "LARGE_PRODUCT", 0)
    backend._threads.cache_clear()
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal(shape) for shape in ((7, 5), (5, 3), (7, 9)))
    found = backend.products((a, b), (a.T, c), (c.T, a))
    for one, expected in zip(found, (a @ b, a.T @ c, c.T @ a), strict=True):
        assert np.allclose(one, expected, rtol=1e-13, atol=1e-13) and one.dtype == expected.dtype
    assert np.allclose(backend.product(a[:1], b), a[:1] @ b, rtol=1e-13)
    backend._threads.cache_clear()


def test_commands_give_blas_one_thread_and_a_program_keeps_its_own():
    code = """if True:
        import numpy, threadpoolctl
        from convsim_mini import backend
        def threads():
            return [pool["num_threads"] for pool in threadpoolctl.threadpool_info()
                    if pool["user_api"] == "blas"]
        x = numpy.ones((600, 600), numpy.float32)
        print(threads(), backend.product(x, x).tobytes() == (x @ x).tobytes())
        backend.claim_process()
        print(threads(), backend.product(x, x)[0, 0])
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          env={**os.environ, "PYTHONPATH": PATH, "OPENBLAS_NUM_THREADS": "2"})
    before, after = done.stdout.splitlines()
    if "[2]" not in before:
        pytest.skip("this NumPy's BLAS does not take two threads from OPENBLAS_NUM_THREADS")
    assert before == "[2] True" and after == "[1] 600.0"


@pytest.mark.parametrize("cores", [1, 2, 3])
@pytest.mark.parametrize("rows", [1, 1024, 1025, 5000])
def test_adding_in_place_reaches_every_row_once(rows, cores, monkeypatch):
    monkeypatch.setattr(backend, "_cores", lambda: cores)
    backend._threads.cache_clear()
    rng = np.random.default_rng(0)
    x, y, row = (rng.standard_normal((rows, 128)), rng.standard_normal((rows, 128)),
                 rng.standard_normal(128))
    found = y.copy()
    backend.add_to(found, x)
    assert (found == y + x).all()
    backend.add_to(found, row, -0.5)
    assert (found == y + x + -0.5 * row).all()
    backend.add_to(row, row)                                  # one axis
    backend._threads.cache_clear()


def test_bag_is_the_sum_of_words_and_bigrams_over_the_root_of_the_number_of_words():
    table = np.random.default_rng(0).standard_normal((12, 3))
    y, _ = embedding_bag(table)
    for b, (begin, end) in enumerate(zip(ROWS.offsets, ROWS.offsets[1:])):
        assert np.allclose(y[b], table[ROWS.ids[begin:end]].sum(axis=0) / np.sqrt(IDS.lengths[b]),
                           atol=1e-14)


def test_zero_row_stays_zero_and_has_a_finite_gradient():
    y, cache = layers.l2_normalize_forward(np.zeros((2, 3), np.float32))
    assert (y == 0).all()
    assert np.abs(layers.l2_normalize_backward(np.ones((2, 3), np.float32), cache)).max() <= 1


def test_a_sentence_beside_itself_or_its_opposite_has_no_slope():
    matrix = np.eye(4) + 0.1 * np.random.default_rng(0).standard_normal((4, 4))
    similarity, cache = tune.similarity_forward(matrix, U1, np.concatenate([U1[:3], -U1[3:]]))
    assert similarity == pytest.approx([0, 0, 0, -np.pi, -np.pi, -np.pi], abs=1e-7)
    assert (tune.similarity_backward(np.ones(6), cache) == 0).all()


def test_the_tuning_loss_along_random_directions():
    rng = np.random.default_rng(0)
    params = {"matrix": np.eye(4) + 0.1 * rng.standard_normal((4, 4))}
    def run():
        loss, gradient = tune.loss_and_gradient(params["matrix"], U1, U2, LABELS, 0.3)
        return loss, {"matrix": gradient}
    assert directional_error(run, params, rng) < SMALL


def test_equal_sentences_pull_nowhere_through_their_difference():
    u = np.random.default_rng(0).standard_normal((4, 3))
    y, cache = nli.nli_features_forward(u, u.copy())
    dy = np.zeros_like(y)
    dy[:, 6:9] = 1                                            # |u1 − u2| alone
    assert all((du == 0).all() for du in nli.nli_features_backward(dy, cache))


# ---------------------------------------------------------------- the losses

def test_loss_of_equally_good_responses_is_the_logarithm_of_their_number():
    loss, _ = losses.batch_softmax_forward(np.ones((7, 2)), np.ones((7, 2)), 5.0)
    assert np.isclose(loss, np.log(7))


def test_masked_pairs_do_not_count_and_get_no_gradient():
    rng = np.random.default_rng(0)
    u, v = rng.standard_normal((2, 4, 3))
    others = np.nonzero(~np.eye(4, dtype=bool))
    loss, cache = losses.batch_softmax_forward(u, v, 1.0, others)
    du, dv = losses.batch_softmax_backward(cache)
    assert np.isclose(loss, 0) and np.allclose(du, 0) and np.allclose(dv, 0)


def test_loss_survives_scores_that_overflow_exp():
    u = np.eye(3, dtype=np.float32)
    loss, cache = losses.batch_softmax_forward(u, u, 1e4)
    assert (np.isfinite(loss)
            and all(np.isfinite(grad).all() for grad in losses.batch_softmax_backward(cache)))


# ---------------------------------------------------------------- whole models

TRANSFORMER = ModelConfig(encoder="transformer", embedding_dim=8, layers=[5], heads=2, hidden=6,
                          transformer_layers=2, scale=3.0, dropout=0.3)
CONFIGS = {
    "transformer": TRANSFORMER, "post-norm": replace(TRANSFORMER, pre_norm=False),
    "bag": replace(TRANSFORMER, bag=True, layers=[6, 5]),
    "paper": replace(parse_config(["--preset", "paper"]).model, embedding_dim=4,
                     layers=[3, 3, 5], response_hidden=[6]),
    "chat": ModelConfig(embedding_dim=4, layers=[5], response_hidden=[6], scale=3.0),
}
# Three inputs, then their three responses.
SENTENCES = Packed(np.array([3, 1, 3, 4, 1, 0, 3, 2, 2, 2, 1, 4, 0, 2], np.int32),
                   np.array([0, 4, 5, 6, 9, 11, 14]))
BATCH = Batch(SENTENCES, (np.array([0, 2]), np.array([2, 0])))
NLI_BATCH = Batch(SENTENCES, labels=np.array([1, 0, 2]), task="classes")
DROPOUT = layers.Dropout(0.3, key=11)


def small_model(config, seed, classifies=False):
    """A float64 model with 5 word rows and 7 bigram rows."""
    rng = np.random.default_rng(seed)
    config = replace(config, nli_hidden=6)
    params = initial.initial_parameters(config, rng.standard_normal((12, config.embedding_dim)),
                                        rng, classifies)
    params = {name: p.astype(np.float64) + 0.1 * rng.standard_normal(p.shape)
              for name, p in params.items()}
    return input_response.Model(params, config, word_rows=5)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", CONFIGS)
def test_whole_model_along_random_directions(name, seed):
    small = small_model(CONFIGS[name], seed)
    rng = np.random.default_rng(seed)
    assert directional_error(lambda: input_response.loss_and_gradients(small, BATCH, DROPOUT),
                             small.params, rng) < SMALL


@pytest.mark.parametrize("name", CONFIGS)
def test_every_parameter_of_the_whole_model(name):
    small = small_model(CONFIGS[name], 0)
    _, grads = input_response.loss_and_gradients(small, BATCH, DROPOUT)
    assert grads.keys() == small.params.keys()
    for parameter, p in small.params.items():
        numeric = numeric_gradient(
            lambda: float(input_response.loss_and_gradients(small, BATCH, DROPOUT)[0]), p)
        grad = grads[parameter]
        if parameter == "encoder.embedding.weight":
            grad = dense(grad, p)
        # In the paper's model a bias that all v′ share shifts whole rows of scores, which a softmax
        # does not see: its gradient is zero, and so the relative error of the two noises means
        # nothing.
        assert (relative_error(grad, numeric) < SMALL
                or np.abs([grad, numeric]).max() < 1e-9), parameter


@pytest.mark.parametrize("chunk", [1, 2, 3, 99])
@pytest.mark.parametrize("name", CONFIGS)
def test_gradients_in_chunks_are_those_of_the_whole_batch(name, chunk):
    small = small_model(CONFIGS[name], 0, classifies=True)
    for batch in (BATCH, NLI_BATCH):
        loss, grads = input_response.loss_and_gradients(small, batch, weight=3.0)
        found, chunked = input_response.loss_and_gradients_in_chunks(small, batch, weight=3.0,
                                                                     chunk=chunk)
        assert abs(found - loss) < 1e-12 and chunked.keys() == grads.keys()
        for key, p in small.params.items():
            if key in grads:
                assert np.abs(dense(chunked[key], p) - dense(grads[key], p)).max() < 1e-12, key


@pytest.mark.parametrize("name", CONFIGS)
def test_gradients_in_chunks_with_dropout_along_random_directions(name):
    small = small_model(CONFIGS[name], 1)
    assert directional_error(
        lambda: input_response.loss_and_gradients_in_chunks(small, BATCH, DROPOUT, chunk=2),
        small.params, np.random.default_rng(1)) < SMALL


@pytest.mark.parametrize("name", CONFIGS)
def test_an_entailment_step_along_random_directions(name):
    small = small_model(CONFIGS[name], 3)
    batch = BATCH._replace(task="entailments")

    def step():
        loss, grads = input_response.loss_and_gradients(small, batch, DROPOUT)
        assert not [key for key in grads if key.startswith("response.")]
        return loss, {key: grads.get(key, np.zeros_like(p)) for key, p in small.params.items()}
    assert directional_error(step, small.params, np.random.default_rng(3)) < SMALL


def plant(monkeypatch, name, mutant):
    """Put a mutant wherever the function of this name stands: in modules and in their tables."""
    for user in (input_response, dan, transformer, layers, nli, losses):
        if hasattr(user, name):
            monkeypatch.setattr(user, name, mutant)
    for table in (input_response.ENCODERS, input_response.TASKS):
        for key, parts in table.items():
            planted = [mutant if getattr(part, "__name__", "") == name else part for part in parts]
            monkeypatch.setitem(table, key, parts._make(planted))


def nli_step(small):
    """Loss and gradients of an NLI step; zeros for the response network, which it leaves alone."""
    loss, grads = input_response.loss_and_gradients(small, NLI_BATCH, DROPOUT)
    return loss, {key: grads.get(key, np.zeros_like(p)) for key, p in small.params.items()}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", CONFIGS)
def test_an_nli_step_along_random_directions(name, seed):
    small = small_model(CONFIGS[name], seed, classifies=True)
    assert directional_error(lambda: nli_step(small), small.params,
                             np.random.default_rng(seed)) < SMALL


def test_every_parameter_of_an_nli_step():
    small = small_model(CONFIGS["chat"], 0, classifies=True)
    _, grads = input_response.loss_and_gradients(small, NLI_BATCH)
    assert grads.keys() == {key for key in small.params if not key.startswith("response.")}
    for parameter, grad in grads.items():
        p = small.params[parameter]
        numeric = numeric_gradient(
            lambda: float(input_response.loss_and_gradients(small, NLI_BATCH)[0]), p)
        assert relative_error(dense(grad, p), numeric) < SMALL, parameter


@pytest.mark.parametrize("module, name, old, new", [
    (nli, "classifier_backward", "SCALE * du1", "du1"),
    (nli, "classifier_backward", "SCALE * du2", "0 * du2"),
    (input_response, "classes", "return loss, du1, du2, grads", "return loss, du2, du1, grads"),
    (input_response, "classes", "cross_entropy_backward(loss_cache, weight)",
     "cross_entropy_backward(loss_cache, 2)"),
    (input_response, "loss_and_gradients", "concatenate([du, dv])", "concatenate([dv, du])"),
])
def test_the_check_of_an_nli_step_fails_a_wrong_composition(module, name, old, new, monkeypatch):
    source = inspect.getsource(getattr(module, name))
    assert old in source, f"{name} no longer holds {old!r}: the mutant tests nothing"
    namespace = dict(vars(module))
    exec(source.replace(old, new), namespace)
    plant(monkeypatch, name, namespace[name])
    small = small_model(CONFIGS["chat"], 0, classifies=True)
    assert directional_error(lambda: nli_step(small), small.params, np.random.default_rng(0)) > 1e-3


@pytest.mark.parametrize("module, name, old, new", [
    (input_response, "response_backward", "dv += dy", "pass"),
    (input_response, "response_backward", "if unit_cache is not None", "if False"),
    (input_response, "replies", "response_backward(dv_prime, response_cache)", "(dv_prime, {})"),
    (input_response, "loss_and_gradients", "concatenate([du, dv])", "concatenate([dv, du])"),
    (dan, "dan_backward", "l2_normalize_backward(du, unit_cache)", "du"),
    (transformer, "transformer_backward", "du.take(cache.order, axis=0)", "du"),
    (transformer, "transformer_backward", "        add_to(dz, dx)\n    grads[", "    grads["),
    (transformer, "transformer_backward", "            add_to(dz, dx)\n", ""),
    (transformer, "transformer_backward", "            dx = None", "            pass"),
    (transformer, "transformer_backward", "dtable + placed", "placed"),
    (transformer, "transformer_backward", "dtable + placed", "dtable or placed"),
    (transformer, "_bag_backward", "    return",
     "    w = grads['encoder.bag.weight']; w[:] = w.T.reshape(w.shape)\n    return"),
    (transformer, "_bag_backward", "dx * math.sqrt(dx.shape[1])", "dx"),
    (embeddings, "placed_embedding_backward", " * math.sqrt(dx.shape[1])", ""),
    (embeddings, "placed_embedding_backward", "dropout_backward(dx, dropout_cache)", "dx"),
    (layers, "add_norm_backward", "add_to(dx, ds)", "pass"),
    (layers, "add_norm_backward", "dropout_backward(dx, dropout_cache)", "dx"),
    (layers, "dense_backward", "dropout_backward(dy, dropout_cache)", "dy"),
    (layers, "dense_backward", "f_backward(", "(lambda dy, cache: dy)("),
])
def test_the_whole_model_check_fails_a_wrong_composition(module, name, old, new, monkeypatch):
    source = inspect.getsource(getattr(module, name))
    assert old in source, f"{name} no longer holds {old!r}: the mutant tests nothing"
    namespace = dict(vars(module))
    exec(source.replace(old, new), namespace)
    plant(monkeypatch, name, namespace[name])
    errors = []
    for config in CONFIGS.values():
        small = small_model(config, 0)
        def run():
            loss, grads = input_response.loss_and_gradients(small, BATCH, DROPOUT)
            return loss, {key: grads.get(key, np.zeros_like(p)) for key, p in small.params.items()}
        errors.append(directional_error(run, small.params, np.random.default_rng(0)))
    assert max(errors) > 1e-3
