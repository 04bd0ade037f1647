"""SentEval's own engine, offline, beside ours."""

import inspect
import math

import numpy as np
import pytest

from convsim_mini.core.text import tokenize
from convsim_mini.evaluation import senteval


@pytest.fixture(scope="module")
def tasks(data_folder):
    """Task name → Task, for MR, TREC and MRPC."""
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    (found,) = senteval.find(data_folder).values()
    return senteval.read({name: found[name] for name in ("MR", "TREC", "MRPC")})


def vectors_of(texts):
    """Means of random vectors of words, on which the engine's 100 steps of scikit-learn suffice."""
    tokens = [tokenize(text) or [""] for text in texts]
    table = {token: np.random.default_rng([*token.encode()]).standard_normal(50)
             for some in tokens for token in some}
    return np.array([np.mean([table[token] for token in some], axis=0) for some in tokens],
                    np.float32)


@pytest.mark.filterwarnings("ignore")                         # from the engine's classifiers
@pytest.mark.parametrize(
    "name", [pytest.param("MR", marks=pytest.mark.long), "TREC", "MRPC"])
def test_sentevals_own_engine_finds_what_ours_finds(
        name, data_folder, monkeypatch, tasks):
    """The two accuracies differ by at most one standard error.

    Each chooses a regularisation strength from its own grid and folds. On TREC, with 500 tested,
    our four strengths are within 0.2 points in the folds and 0.4 on test.
    """
    pytest.importorskip("torch", reason="PyTorch is not installed")
    from convsim_mini.evaluation import classifiers
    monkeypatch.syspath_prepend(data_folder / "senteval" / "engine")
    monkeypatch.setattr(inspect, "getargspec", lambda of: inspect.getfullargspec(of)[:4],
                        raising=False)                        # removed in Python 3.11
    engine = pytest.importorskip("senteval.engine", reason="SentEval's engine is missing")
    task, settings = tasks[name], {"task_path": str(data_folder / "senteval"), "kfold": 5,
                                   "usepytorch": False}
    theirs = engine.SE(settings, lambda params, batch: vectors_of([*map(" ".join, batch)]),
                       lambda params, samples: None).eval(name)["acc"]
    said = classifiers.learn(vectors_of(task.texts), task)
    error = math.sqrt(theirs * (100 - theirs) / len(task.tested))
    assert 100 * np.mean(said == task.tested) == pytest.approx(theirs, abs=error)
