"""A run in others' benchmarks: SentEval's own engine and mteb, both offline."""

import inspect
import math
import socket

import numpy as np
import pytest

import convsim_mini
from convsim_mini.export import __main__ as export
from convsim_mini.core.text import tokenize
from convsim_mini.evaluation import senteval, sts
from convsim_mini.evaluation.metrics import pearson, spearman


# ---------------------------------------------------------------- SentEval's engine

@pytest.fixture(scope="module")
def tasks(data_folder):
    """Task name → Task, for MR, TREC and MRPC."""
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    (found,) = senteval.find(data_folder).values()
    return senteval.read({name: found[name] for name in ("MR", "TREC", "MRPC")})


def vectors_of(texts):
    """Means of random vectors of words; the engine stops scikit-learn after 100 steps, enough here."""
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


# ---------------------------------------------------------------- mteb

@pytest.fixture
def mteb(monkeypatch):
    """The package mteb, which must stay offline: any connection fails the test."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    mteb = pytest.importorskip("mteb", reason="mteb is not installed")
    asked = []
    monkeypatch.setattr(socket.socket, "connect", lambda self, address: asked.append(address))
    yield mteb
    assert not asked


@pytest.fixture
def exported(mteb, trained, tmp_path):
    """A run's exported folder, opened in sentence_transformers."""
    library = pytest.importorskip("sentence_transformers")
    export.main([str(trained[0]), "--out", str(tmp_path / "small")])
    return library.SentenceTransformer(str(tmp_path / "small"), trust_remote_code=True,
                                       device="cpu")


def scores_of(mteb, model, name, split, data):
    """mteb's figures for a model on the task NAME, whose data are replaced."""
    task = mteb.get_task(name, eval_splits=[split])
    task.dataset, task.data_loaded = {"default": data}, True
    results = mteb.evaluate(model, task, cache=None, show_progress_bar=False)
    return results.task_results[0].scores[split][0]


@pytest.mark.filterwarnings("ignore")                         # mteb's, of sentence_transformers
def test_mteb_finds_in_an_exported_folder_what_ours_finds_in_the_run(
        mteb, exported, trained, pairs):
    """Similarity; and a search: how often the true reply comes first among 300."""
    import datasets
    own, encode = sts.read(sts.OWN), convsim_mini.load(trained[0]).encode
    data = datasets.Dataset.from_dict({"sentence1": own.sentences1, "sentence2": own.sentences2,
                                       "score": own.labels})
    found = scores_of(mteb, exported, "STSBenchmark.v2", "test", {"test": data})
    cosines = np.vecdot(*sts.unit_vectors(encode, own))
    for name, measure in (("pearson", pearson), ("spearman", spearman)):
        assert found[name] == pytest.approx(measure(cosines, own.labels), abs=1e-3)    # 16 bits
    inputs, replies = zip(*{reply: (text, reply) for text, reply in pairs}.values())
    sides = {side: datasets.Dataset.from_dict({"id": [f"{side}{k}" for k in range(300)],
                                               "text": texts[:300]})
             for side, texts in (("queries", inputs), ("corpus", replies))}
    relevant = {f"queries{k}": {f"corpus{k}": 1} for k in range(300)}
    data = {"test": {**sides, "relevant_docs": relevant, "top_ranked": None}}
    found = scores_of(mteb, exported, "NFCorpus", "test", data)
    cosines = encode(inputs[:300]) @ encode(replies[:300]).T
    first = np.mean(cosines.argmax(axis=1) == np.arange(300))
    assert found["recall_at_1"] == pytest.approx(first, abs=4e-3) and first > 0.02
