"""A run in others' benchmarks: SentEval's own engine and mteb, both offline."""

import inspect
import math
import socket

import numpy as np
import pytest

import convsim_mini
from convsim_mini.evaluation import baselines, senteval, sts
from convsim_mini.evaluation.metrics import pearson, spearman
from convsim_mini.data.vectors import read_vectors

from glove import glove_file


# ---------------------------------------------------------------- SentEval's engine

@pytest.fixture(scope="module")
def tasks(data_folder):
    """Task name → Task, for MR, TREC and MRPC."""
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    (found,) = senteval.find(data_folder).values()
    return senteval.read({name: found[name] for name in ("MR", "TREC", "MRPC")})


@pytest.fixture(scope="module")
def whitened(tasks, tmp_path_factory):
    """Means of GloVe 6B 50d, rotated and scaled so that all directions have variance 1."""
    texts = senteval.texts_of(tasks)
    words = baselines.words_of(texts)
    vectors = read_vectors(glove_file(tmp_path_factory.mktemp("glove"), words), words)
    means = baselines.means_of_texts(texts, vectors)
    variance, directions = np.linalg.eigh(np.cov(means.T))
    turn, mean = directions / np.sqrt(variance), means.mean(axis=0)
    return lambda texts: ((baselines.means_of_texts(texts, vectors) - mean) @ turn).astype("f4")


@pytest.mark.filterwarnings("ignore")                         # from the engine's classifiers
@pytest.mark.parametrize(
    "name", [pytest.param("MR", marks=pytest.mark.long), "TREC", "MRPC"])
def test_sentevals_own_engine_finds_what_ours_finds(
        name, data_folder, monkeypatch, tasks, whitened):
    """The two accuracies differ by at most one standard error.

    Each chooses a regularisation strength from its own grid and folds. On TREC, with 500 tested,
    our four strengths are within 0.2 points in the folds and 0.4 on test. The vectors are whitened
    because the engine stops scikit-learn after 100 steps; with plain means the minimum takes up to
    864.
    """
    pytest.importorskip("torch", reason="PyTorch is not installed")
    from convsim_mini.evaluation import classifiers
    monkeypatch.syspath_prepend(data_folder / "senteval" / "engine")
    monkeypatch.setattr(inspect, "getargspec", lambda of: inspect.getfullargspec(of)[:4],
                        raising=False)                        # removed in Python 3.11
    engine = pytest.importorskip("senteval.engine", reason="SentEval's engine is missing")
    task, settings = tasks[name], {"task_path": str(data_folder / "senteval"), "kfold": 5,
                                   "usepytorch": False}
    theirs = engine.SE(settings, lambda params, batch: whitened([*map(" ".join, batch)]),
                       lambda params, samples: None).eval(name)["acc"]
    said = classifiers.learn(whitened(task.texts), task)
    error = math.sqrt(theirs * (100 - theirs) / len(task.tested))
    assert 100 * np.mean(said == task.tested) == pytest.approx(theirs, abs=error)


# ---------------------------------------------------------------- mteb

@pytest.fixture
def mteb(monkeypatch):
    """The package mteb, which must stay offline: any connection fails the test."""
    mteb = pytest.importorskip("mteb", reason="mteb is not installed")
    asked = []
    monkeypatch.setattr(socket.socket, "connect", lambda self, address: asked.append(address))
    yield mteb
    assert not asked


@pytest.fixture
def model(mteb, trained):
    """A run as a model for mteb."""
    from convsim_mini.evaluation.mteb_plugin import MtebModel
    return MtebModel(convsim_mini.load(trained[0]), "someone/small")


def scores_of(mteb, model, name, split, data, **settings):
    """mteb's figures for a model on the task NAME, whose data are replaced."""
    task = mteb.get_task(name, eval_splits=[split])
    task.dataset, task.data_loaded = {"default": data}, True
    for setting, value in settings.items():
        setattr(task, setting, value)
    results = mteb.evaluate(model, task, cache=None, show_progress_bar=False)
    return results.task_results[0].scores[split][0]


def test_mteb_finds_the_similarities_that_ours_finds(mteb, model):
    import datasets
    own = sts.read(sts.OWN)
    data = datasets.Dataset.from_dict({"sentence1": own.sentences1, "sentence2": own.sentences2,
                                       "score": own.labels})
    found = scores_of(mteb, model, "STSBenchmark.v2", "test", {"test": data})
    cosines = np.vecdot(*sts.unit_vectors(model.encoder.encode, own))
    for name, measure in (("pearson", pearson), ("spearman", spearman)):
        assert found[name] == pytest.approx(measure(cosines, own.labels), abs=1e-5)
        assert found[f"cosine_{name}"] == pytest.approx(found[name], abs=1e-5)


def test_mteb_searches_as_ours_does(mteb, model, pairs):
    """How often the true reply comes first among 300."""
    import datasets
    inputs, replies = zip(*{reply: (text, reply) for text, reply in pairs}.values())
    sides = {side: datasets.Dataset.from_dict({"id": [f"{side}{k}" for k in range(300)],
                                               "text": texts[:300]})
             for side, texts in (("queries", inputs), ("corpus", replies))}
    relevant = {f"queries{k}": {f"corpus{k}": 1} for k in range(300)}
    data = {"test": {**sides, "relevant_docs": relevant, "top_ranked": None}}
    found = scores_of(mteb, model, "NFCorpus", "test", data)
    cosines = model.similarity(model.encoder.encode(list(inputs[:300])),
                               model.encoder.encode(list(replies[:300])))
    assert float(cosines[:1, :1]) <= 1                        # SummEval asks for single ones
    first = np.mean(cosines.numpy().argmax(axis=1) == np.arange(300))
    assert found["recall_at_1"] == pytest.approx(first, abs=1e-4) and first > 0.02


def test_mteb_is_told_runs_apart(mteb, model, trained):
    """Otherwise it would return cached results of another run."""
    from convsim_mini.evaluation.mteb_plugin import MtebModel
    assert isinstance(model, mteb.EncoderProtocol)
    meta = model.mteb_model_meta
    assert (meta.name, meta.embed_dim) == ("someone/small", model.encoder.dimension)
    again, other = convsim_mini.load(trained[0]), convsim_mini.load(trained[0])
    other.identity = {**other.identity, "weights": 1 + other.identity["weights"]}
    assert MtebModel(again).mteb_model_meta.revision == meta.revision
    assert MtebModel(other).mteb_model_meta.revision != meta.revision
