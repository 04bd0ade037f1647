"""Every backward, compared with central differences; each encoder's forward, with loops."""

from dataclasses import replace

import numpy as np
import pytest

from convsim_mini import tune
from convsim_mini.config import ModelConfig
from convsim_mini.core import (
    attention, dan, embeddings, layers, losses, model, multitask,
    transformer, transformer_layers)
from convsim_mini.core.gradcheck import dense, directional_error, layer_error
from convsim_mini.core.packed import Packed, offsets_of, words_and_bigrams
from convsim_mini.core.batches import Batch
from convsim_mini.training.options import config_of

import plain_forward
from small_transformer import pack, small_model
from twin_cases import plain

SEEDS = (0, 1, 2)
SMALL = 1e-6

# Ids repeated within and across sentences; sentences of one word.
IDS = pack([3, 1, 3, 4], [1], [0], [3, 2, 2], [2, 1])
ROWS = words_and_bigrams(IDS, words=5, bigrams=np.array([8, 16, 17, 19]))    # of 5 × left + right
U1, U2 = np.random.default_rng(3).standard_normal((2, 6, 4))
LABELS = np.random.default_rng(4).standard_normal(6)
CLASSES = np.array([2, 0, 1, 1, 0])
DROPOUT = transformer_layers.Dropout(0.4, key=5)


@pytest.fixture(autouse=True)
def as_written():
    """The functions run as they are written in core, without the faster twins of fast/."""
    with plain():
        yield


# name: (forward, backward, shapes of the inputs, further arguments of the forward); all axes
# have different lengths
CASES = {
    "linear": (layers.linear_forward, layers.linear_backward, [(4, 3), (3, 5), (5,)]),
    "tanh": (layers.tanh_forward, layers.tanh_backward, [(4, 3)]),
    "l2_normalize": (layers.l2_normalize_forward, layers.l2_normalize_backward, [(4, 3)]),
    "embedding_bag": (embeddings.embedding_bag_forward, embeddings.embedding_bag_backward,
                      [(12, 3)], ROWS, IDS.lengths),
    "relu": (transformer_layers.relu_forward, transformer_layers.relu_backward, [(4, 3)]),
    "layer_norm": (transformer_layers.layer_norm_forward, transformer_layers.layer_norm_backward,
                   [(4, 5), (5,), (5,)]),
    "position_wise": (
        transformer_layers.position_wise_forward, transformer_layers.position_wise_backward,
        [(4, 3), (3, 6), (6,), (6, 3), (3,)]),
    "mean_pool": (transformer_layers.mean_pool_forward, transformer_layers.mean_pool_backward,
                  [(11, 3)], IDS),
    "dropout": (transformer_layers.dropout_forward, transformer_layers.dropout_backward, [(7, 3)],
                DROPOUT),
    "attention": (attention.attention_forward, attention.attention_backward, [(11, 12)],
                  IDS.offsets, 2),
    "self_attention": (attention.self_attention_forward, attention.self_attention_backward,
                       [(11, 4), (4, 12), (12,), (4, 4), (4,)], IDS.offsets, 2),
    "nli_features": (multitask.nli_features_forward, multitask.nli_features_backward,
                     [(5, 3), (5, 3)]),
    "cross_entropy": (losses.cross_entropy_forward, losses.cross_entropy_backward,
                      [(5, 3)], CLASSES),
    "batch_softmax": (losses.batch_softmax_forward, losses.batch_softmax_backward,
                      [(5, 3), (5, 3)], 3.0),
    # inputs 1, 2 and 3 of five, as one of several processes holds them
    "batch_softmax, a part": (losses.batch_softmax_forward, losses.batch_softmax_backward,
                              [(3, 4), (5, 4)], 3.0, 1),
}


def error_of(case, seed, backward=None):
    """The gradient check's error for a case, optionally with another backward."""
    rng = np.random.default_rng(seed)
    forward, own, shapes, *more = CASES[case]
    return layer_error(lambda *inputs: forward(*inputs, *more), backward or own,
                       [rng.standard_normal(shape) for shape in shapes], rng)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("case", CASES)
def test_backward_is_the_derivative_of_forward(case, seed):
    assert error_of(case, seed) < SMALL


def test_every_function_of_core_has_a_case():
    """A new forward in core/ needs a case here, or in the whole models below."""
    of_models = {"dan", "transformer", "sublayer", "encoder", "response", "classifier", "feed"}
    forwards = {name.removesuffix("_forward")
                for module in (attention, dan, embeddings, layers, losses, model,
                               multitask, transformer, transformer_layers)
                for name in vars(module) if name.endswith("_forward")}
    assert forwards - of_models - CASES.keys() == set()


def test_the_check_fails_wrong_backwards():
    """One planted mistake of each kind: zeros, transposed, factor, term, sign, rows, NaN."""
    linear = layers.linear_backward
    wrong = {
        "linear": [lambda dy, cache: (0 * linear(dy, cache)[0], *linear(dy, cache)[1:]),
                   lambda dy, cache: (linear(dy, cache)[0],
                                      linear(dy, cache)[1].T.reshape(3, 5), dy.sum(axis=0)),
                   lambda dy, cache: (*linear(dy, cache)[:2], dy.mean(axis=0)),
                   lambda dy, cache: (*linear(dy, cache)[:2], np.nan * dy.sum(axis=0)),
                   lambda dy, cache: ([x.fill(0) for x in cache], linear(dy, cache))[1]],
        "tanh": [lambda dy, y: dy * (1 - y), lambda dy, y: np.multiply(dy, 0, out=dy)],
        "l2_normalize": [lambda dy, cache: dy / cache[1],
                         lambda dy, cache: -layers.l2_normalize_backward(dy, cache)],
        "embedding_bag": [lambda dy, cache: [embeddings.SparseRows(
            cache[0][::-1], dy * cache[2], cache[1])]],
        "cross_entropy": [lambda dloss, cache: losses.cross_entropy_backward(1.0, cache)],
        "batch_softmax": [lambda dloss, cache: losses.batch_softmax_backward(dloss, cache)[::-1]],
    }
    for case, backwards in wrong.items():
        for backward in backwards:
            assert not error_of(case, 0, backward) < 1e-3, case           # nan must fail too
    assert error_of("tanh", 0, lambda dy, y: np.multiply(dy, 1 - y * y, out=dy)) < SMALL


@pytest.mark.parametrize("case", CASES)
def test_functions_follow_the_dtype_of_their_inputs_and_leave_them_alone(case):
    def arrays(grads):
        grads = grads if type(grads) is tuple else (grads,)
        return [grad[0].values if isinstance(grad, list) else grad for grad in grads]

    forward, backward, shapes, *more = CASES[case]
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    kept = [x.copy() for x in inputs]
    y, cache = forward(*inputs, *more)
    dy = np.float32(1) if np.ndim(y) == 0 else np.ones_like(y)
    first, second = (arrays(backward(dy, cache)) for _ in range(2))
    assert np.asarray(y).dtype == np.float32 and all(grad.dtype == np.float32 for grad in first)
    assert all((x == k).all() for x, k in zip(inputs, kept)), "an input was changed"
    for a, b in zip(first, second, strict=True):
        assert (a == b).all(), "a second backward differs"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_of_rows_are_those_of_a_loop(dtype):
    rng, lengths = np.random.default_rng(0), [0, 1, 7, 8, 9, 31, 0]
    table = rng.integers(-9, 9, (23, 11)).astype(dtype)       # so that no sum is rounded
    packed = Packed(rng.integers(0, 23, sum(lengths), np.int32), offsets_of(lengths))
    y = embeddings.sum_rows(table, packed)
    expected = np.zeros((7, 11))
    for b, k in np.ndindex(expected.shape):
        for row in packed.ids[packed.offsets[b]:packed.offsets[b + 1]]:
            expected[b, k] += table[row, k]
    assert y.dtype == dtype and (y == expected).all()
    table[5] = [np.nan, np.inf, -np.inf, *table[5, 3:]]
    y = embeddings.sum_rows(table, Packed(np.array([5, 5, 4], np.int32), np.array([0, 2, 3])))
    assert np.isnan(y[0, 0]) and y[0, 1:3].tolist() == [np.inf, -np.inf] and np.isfinite(y[1]).all()


def test_each_number_in_16_bits_is_itself_in_32():
    table = np.arange(2**16, dtype=np.uint16).view(np.float16)
    table = table[np.isfinite(table)].reshape(-1, 2)
    ids = np.random.default_rng(0).integers(0, len(table), 3 * len(table))
    rows, places = embeddings.in_32_bits(table, ids)
    assert rows.dtype == np.float32 and len(rows) == len(np.unique(ids))
    np.testing.assert_array_equal(rows[places].view(np.int32),
                                  table[ids].astype(np.float32).view(np.int32))


def test_equal_rows_are_added_up():
    rng = np.random.default_rng(0)
    _, cache = embeddings.embedding_bag_forward(np.ones((12, 3)), ROWS, IDS.lengths)
    parts = [*embeddings.embedding_bag_backward(rng.standard_normal((5, 3)), cache),
             embeddings.SparseRows(IDS.ids, rng.standard_normal((11, 3)), np.arange(11)[::-1]),
             embeddings.SparseRows(IDS.ids[:2], rng.standard_normal((2, 3)), np.array([1, 0]))]
    for some in (parts, parts[:1], parts[1:]):
        rows, grads = embeddings.summed(some)
        assert rows.tolist() == sorted({int(row) for part in some for row in part.rows})
        expected = dense(some, np.zeros((12, 3)))
        assert np.abs(grads - expected[rows]).max() < 1e-14
        assert not np.delete(expected, rows, axis=0).any()


# ---------------------------------------------------------------- where a slope is zero

def test_a_zero_row_stays_zero_and_has_a_finite_gradient():
    y, cache = layers.l2_normalize_forward(np.zeros((2, 3), np.float32))
    assert (y == 0).all()
    assert np.abs(layers.l2_normalize_backward(np.ones((2, 3), np.float32), cache)).max() <= 1


def test_equal_sentences_pull_nowhere_through_their_difference():
    u = np.random.default_rng(0).standard_normal((4, 3))
    y, cache = multitask.nli_features_forward(u, u.copy())
    dy = np.zeros_like(y)
    dy[:, 6:9] = 1                                            # only |u1 − u2|
    assert all((du == 0).all() for du in multitask.nli_features_backward(dy, cache))


def test_softmax_survives_scores_that_overflow_exp():
    u = np.eye(3, dtype=np.float32)
    y, _ = attention.attention_forward(1e3 * np.tile(u, 3), np.array([0, 3]), 1)
    np.testing.assert_allclose(y, 1e3 * u)                    # each word attends only to itself
    loss, cache = losses.batch_softmax_forward(u, u, 1e4)
    assert loss == 0
    assert all(np.isfinite(grad).all() for grad in losses.batch_softmax_backward(1.0, cache))
    loss, cache = losses.cross_entropy_forward(1e4 * u, np.array([0, 1, 1]))
    assert loss == pytest.approx(1e4 / 3)
    assert np.isfinite(losses.cross_entropy_backward(1.0, cache)).all()


def test_a_sentence_beside_itself_or_its_opposite_has_no_slope():
    matrix = np.eye(4) + 0.1 * np.random.default_rng(0).standard_normal((4, 4))
    similarity, cache = tune.similarity_forward(matrix, U1, np.concatenate([U1[:3], -U1[3:]]))
    assert similarity == pytest.approx([0, 0, 0, -np.pi, -np.pi, -np.pi], abs=1e-7)
    assert (tune.similarity_backward(np.ones(6), cache) == 0).all()


# ---------------------------------------------------------------- whole models

TRANSFORMER = ModelConfig(encoder="transformer", embedding_dim=8, layers=[5], heads=2, hidden=6,
                          transformer_layers=2, scale=3.0, dropout=0.3)
CONFIGS = {
    "transformer": TRANSFORMER,
    "bag": replace(TRANSFORMER, bag=True, layers=[6, 5], max_tokens=3),
    "paper": replace(config_of({"preset": "paper"}).model, embedding_dim=4,
                     layers=[3, 3, 5], response_hidden=[6]),
    "chat": ModelConfig(embedding_dim=4, layers=[5], response_hidden=[6], scale=3.0),
}
# Three inputs, followed by their three responses.
SENTENCES = pack([3, 1, 3, 4], [1], [0], [3, 2, 2], [2, 1], [4, 0, 2])
BATCH = Batch(SENTENCES)
BATCHES = {"replies": BATCH, "entailments": BATCH._replace(task="entailments"),
           "classes": Batch(SENTENCES, labels=np.array([1, 0, 2]), task="classes")}


def tiny_model(name, seed):
    """A float64 model with 5 word rows and 7 bigram rows."""
    return small_model(replace(CONFIGS[name], nli_hidden=6), np.float64, seed, words=5, bigrams=7,
                       noise=0.1, classifies=True)


def model_error(small, batch, seed):
    """The gradient check's error for a whole model, in one random direction of all parameters."""
    def run():
        loss, grads = model.loss_and_gradients(small, batch, key=(11, 2))
        return loss, dict.fromkeys(small.params, 0.0) | grads    # some tasks do not use all
    return directional_error(run, small.params, np.random.default_rng(seed))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("task", BATCHES)
@pytest.mark.parametrize("name", CONFIGS)
def test_whole_models_along_random_directions(name, task, seed):
    small = tiny_model(name, seed)
    assert model_error(small, BATCHES[task], seed) < SMALL
    left_alone = {"replies": "nli.", "classes": "response.", "entailments": ("response.", "nli.")}
    _, grads = model.loss_and_gradients(small, BATCHES[task])
    assert grads.keys() == {key for key in small.params if not key.startswith(left_alone[task])}


def test_the_whole_model_check_fails_a_wrong_composition(monkeypatch):
    monkeypatch.setattr(model, "response_backward", lambda dy, cache: (dy, {}))
    assert not model_error(tiny_model("chat", 0), BATCH, 0) < 1e-3


def test_the_tuning_loss_along_random_directions():
    rng = np.random.default_rng(0)
    params = {"matrix": np.eye(4) + 0.1 * rng.standard_normal((4, 4))}

    def run():
        loss, gradient = tune.loss_and_gradient(params["matrix"], U1, U2, LABELS, 0.3)
        return loss, {"matrix": gradient}
    assert directional_error(run, params, rng) < SMALL


# ---------------------------------------------------------------- forwards by their definitions

@pytest.mark.parametrize("name", CONFIGS)
def test_the_forward_pass_is_what_loops_give(name):
    small = tiny_model(name, 2)
    params, config = small.params, small.config
    vectors, _ = model.encoder_forward(small, SENTENCES)
    for b, u in enumerate(vectors):
        ids = SENTENCES.part(b, b + 1).ids
        expected = (plain_forward.dan(params, ids, 5, small.bigrams) if config.encoder == "dan"
                    else plain_forward.transformer(params, config, ids, 5, small.bigrams))
        assert np.abs(u - expected).max() < 1e-12
    assert np.abs(model.embed(small, SENTENCES, 2) - vectors).max() < 1e-12

    u, v = vectors[:3], vectors[3:]
    v_prime = np.array([plain_forward.response(params, config, one) for one in v])
    assert np.abs(model.respond(small, v) - v_prime).max() < 1e-12
    expected = {"replies": plain_forward.pick_loss(u, v_prime, config.scale),
                "entailments": plain_forward.pick_loss(u, v, config.scale),
                "classes": plain_forward.class_loss(params, u, v, [1, 0, 2])}
    for task, batch in BATCHES.items():
        assert np.isclose(model.loss_and_gradients(small, batch)[0], expected[task], atol=1e-12)


@pytest.mark.parametrize("ids", [[-1, 0], [0, 5]])
@pytest.mark.parametrize("name", CONFIGS)
def test_ids_that_are_no_words_are_an_error(name, ids):
    with pytest.raises(IndexError, match=f"word ids {ids[0]} to {ids[1]}, expected 0 to 4"):
        model.encoder_forward(tiny_model(name, 0), pack(ids))


@pytest.mark.parametrize("words, sentences, expected", [
    (99, 2, [[4, 1], [1, 3], [2, 3]]), (3, 9, [[4], [1, 1], [3], [2], [3]])])
def test_embedding_takes_so_many_words_or_sentences_at_once(words, sentences, expected,
                                                            monkeypatch):
    small, sizes = tiny_model("chat", 0), []
    monkeypatch.setattr(model, "WORDS_AT_ONCE", words)
    monkeypatch.setitem(model.ENCODERS, "dan", model.ENCODERS["dan"]._replace(
        forward=lambda small, packed, key: (
            sizes.append(packed.lengths.tolist()) or np.zeros((len(packed.lengths), 5)), None)))
    assert model.embed(small, SENTENCES, sentences).shape == (6, 5)
    assert model.BiEncoder(small, None).dimension == 5
    assert sizes == expected


def test_vectors_that_are_not_finite_are_an_error():
    small = tiny_model("chat", 0)
    small.params["response.linear0.weight"][0, 0] = np.nan
    with pytest.raises(FloatingPointError, match="not finite: its weights are damaged"):
        model.embed(small, SENTENCES, as_responses=True)
