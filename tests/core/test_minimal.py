"""minimal.py against the package: the same initial values and batches give the same 20 steps."""

import subprocess
import sys

import numpy as np
import pytest

from convsim_mini import minimal
from convsim_mini.config import ModelConfig
from convsim_mini.core.model import Model, loss_and_gradients
from convsim_mini.core.optim import Adaptive
from convsim_mini.core.batches import Batch

from conftest import ROOT
from small_transformer import pack

NAMES = {"table": "encoder.embedding.weight", "W": "encoder.linear0.weight",
         "R": "response.linear0.weight", "b": "response.linear0.bias"}
STEPS = 20
BIGRAMS = np.arange(1, 900, 23)    # keys: 30 · left + right


@pytest.fixture(autouse=True)
def sizes(monkeypatch):
    """Few rows and dimensions, so that rows repeat in a batch."""
    monkeypatch.setattr(minimal, "DIM", 7)
    monkeypatch.setattr(minimal, "BIGRAMS", len(BIGRAMS))


def some_batches(rng, words, pairs=11):
    for _ in range(STEPS):
        yield [[rng.integers(0, words, rng.integers(1, 9)) for _ in range(2)] for _ in range(pairs)]


def ids_of(words):
    """Row of a word, or of a pair of words; word 0 is the unknown one."""
    pairs = {divmod(key, words): words + k for k, key in enumerate(BIGRAMS.tolist())}
    return {word: word for word in range(words)} | pairs


def test_its_steps_are_those_of_the_package():
    rng, ids = np.random.default_rng(3), ids_of(30)
    params, state = minimal.initial_values(rng.integers(1, 50, 29), rng)
    params = {name: p + 0.1 * rng.standard_normal(p.shape) for name, p in params.items()}
    state = {name: (np.zeros_like(params[name]), np.zeros_like(params[name])) for name in "RbW"}
    state["table"] = np.full((len(params["table"]), 1), Adaptive.FIRST_SQUARE)
    config = ModelConfig(embedding_dim=7, layers=[7], scale=minimal.SCALE)
    model = Model({NAMES[name]: p.copy() for name, p in params.items()}, config, 30, BIGRAMS)
    optimizer = Adaptive(model.params)
    for step, pairs in enumerate(some_batches(rng, words=30)):
        rows = [[minimal.rows_of(side.tolist(), ids) for side in pair] for pair in pairs]
        loss, grads = minimal.loss_and_gradients(params, rows)
        minimal.update(params, grads, state, step)
        both = pack(*(pair[side] for side in (0, 1) for pair in pairs))
        of_package, grads = loss_and_gradients(model, Batch(both))
        optimizer.step(model.params, grads, minimal.RATE, minimal.TABLE_RATE)
        assert abs(loss - of_package) < 1e-9
        for name, p in params.items():
            assert p.dtype == np.float64
            np.testing.assert_allclose(p, model.params[NAMES[name]], rtol=0, atol=1e-9)


def test_its_initial_values_and_its_precision():
    rng, counts = np.random.default_rng(0), [60, 30, 10]
    params, _ = minimal.initial_values(counts, rng)
    drawn = np.random.default_rng(0).standard_normal((4, 7))
    for row, p in enumerate([0, 0.6, 0.3, 0.1]):
        np.testing.assert_allclose(params["table"][row], drawn[row] * 3e-4 / (3e-4 + p), rtol=1e-6)
    assert not params["table"][4:].any() and (params["W"] == np.eye(7)).all()
    pairs = [[minimal.rows_of(side.tolist(), ids_of(4)) for side in pair]
             for pair in next(some_batches(rng, words=4, pairs=200))]
    u, v = (minimal.encode(params, [pair[side] for pair in pairs])[0] for side in (0, 1))
    replies = v + v @ params["R"] + params["b"]
    replies /= np.linalg.norm(replies, axis=1, keepdims=True)
    right = sum(np.argmax(replies[k // 100 * 100:][:100] @ u[k]) == k % 100 for k in range(200))
    assert minimal.precision(params, pairs) == right / 2


def test_it_needs_numpy_and_the_corpus_alone():
    """It is self-contained: at most 150 lines, and it imports no file of the package."""
    path = ROOT / "convsim_mini" / "minimal.py"
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 150
    code = ("import runpy, sys; runpy.run_path(sys.argv[1]); "
            "print([name for name in sys.modules if name.startswith(('convsim', 'scipy'))])")
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr
