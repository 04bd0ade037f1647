"""Classifiers of SentEval's tasks: who learns from which rows, scores, networks, no warning."""

import sys
import warnings

import numpy as np
import pytest

from convsim_mini.common.cli import UserError
from convsim_mini.evaluation import senteval
from convsim_mini.evaluation.metrics import pearson
from convsim_mini.evaluation.senteval import files as senteval_files


@pytest.fixture
def fitting():
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    from convsim_mini.evaluation.senteval import fitting
    return fitting


def task_of(labels, *counts, **settings):
    """A Task of single sentences; counts: of train, dev and test."""
    parts = np.repeat(["train", "dev", "test"], counts) if counts else None
    return senteval_files.Task((["x"] * len(labels),), labels, parts, **settings)


def test_folds_have_their_share_of_each_class_and_are_the_same_every_time(fitting):
    labels, rows = np.random.default_rng(0).integers(0, 3, 997), np.arange(100, 900)
    found = fitting.folds(rows, labels)
    again = fitting.folds(rows, labels)
    assert all((one == other).all() for split, same in zip(found, again)
               for one, other in zip(split, same))
    for seen, held_out in found:
        assert sorted([*seen, *held_out]) == rows.tolist()
    counts = np.array([np.bincount(labels[held_out]) for _, held_out in found])
    assert np.ptp(counts, axis=0).max() <= 1
    assert sorted(np.concatenate([held_out for _, held_out in found])) == rows.tolist()


@pytest.mark.parametrize("hidden", [0, 3])
def test_no_row_is_judged_or_tested_by_a_classifier_that_saw_it(fitting, monkeypatch, hidden):
    calls = []

    def fit(x, task, train, rows, strength, hidden):
        assert not set(train) & set(rows)
        calls.append((set(train), set(rows)))
        return task.labels[rows]

    monkeypatch.setattr(fitting, "fit", fit)
    labels = np.arange(100) % 2
    said = fitting.learn(np.zeros((100, 1)), task_of(labels), hidden)
    assert (said == labels).all() and len(calls) == 10 * (4 * (1 if hidden else 10) + 1)
    finals = [call for call in calls if len(call[0]) == 90]
    assert len(finals) == 10 and set().union(*(rows for _, rows in finals)) == set(range(100))
    for train, rows in calls:                                 # a strength is chosen inside a train
        assert any(train | rows <= whole for whole, _ in finals) or (train, rows) in finals
    calls.clear()
    fitting.learn(np.zeros((100, 1)), task_of(labels, 60, 20, 20), hidden)
    assert calls == [(set(range(60)), set(range(60, 80)))] * 4 + [
        (set(range(60)), set(range(80, 100)))]


def test_nested_cross_validation_does_not_know_chance(fitting):
    rng = np.random.default_rng(0)
    x, chance = rng.standard_normal((200, 150)), np.arange(200) % 2
    by_heart = fitting.fit(x, task_of(chance), np.arange(200), np.arange(200), 1e-5, 0)
    assert np.mean(by_heart == chance) > 0.95
    assert np.mean(fitting.learn(x, task_of(chance)) == chance) < 0.65
    learnable = (x[:, 0] > 0).astype(int)
    assert np.mean(fitting.learn(x[:, :5], task_of(learnable)) == learnable) > 0.9


@pytest.mark.parametrize("scored", [False, True])
def test_the_strength_is_the_best_one_on_dev(fitting, monkeypatch, scored):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((400, 80))
    labels = (x[:, 0] + rng.standard_normal(400) > 0).astype(int)
    x[:, 0] *= 5                                              # costs little of the penalty
    if scored:
        labels = np.clip(2.5 + x[:, 0] / 5 + rng.normal(0, 0.3, 400), 1, 4)
    strengths = (1e-5, 0.3)                                   # the first one learns by heart
    monkeypatch.setattr(fitting, "STRENGTHS", strengths)
    task = task_of(labels, 100, 200, 100, grades=(1, 4) if scored else None)
    rows = np.arange(400)
    dev, test = ([fitting.fit(x, task, rows[:100], some, strength, 0) for strength in strengths]
                 for some in (rows[100:300], rows[300:]))
    measure = pearson if scored else lambda said, true: np.mean(said == true)
    figures = [measure(said, labels[100:300]) for said in dev]
    assert figures[1] > figures[0] + 0.02
    assert (fitting.learn(x, task) == test[1]).all()


def test_a_score_is_shared_among_its_two_grades(fitting):
    x, scores = np.repeat(np.eye(4), 50, axis=0), np.repeat([1, 3.6, 4, 2.25], 50)
    task = task_of(scores, grades=(1, 4))
    for hidden in (0, 4):
        said = fitting.fit(x, task, np.arange(200), np.arange(200), 1e-5, hidden)
        np.testing.assert_allclose(said, scores, atol=0.05)


def test_a_large_task_learned_by_blocks_is_the_same_regression(fitting, monkeypatch):
    rng = np.random.default_rng(0)
    monkeypatch.setattr(fitting, "ROWS_AT_ONCE", 300)
    x = rng.standard_normal((1_500, 6)) * (1, 2, 5, 1, 1, 1)
    labels = (x[:, :3] + rng.gumbel(size=(1_500, 3))).argmax(axis=1)
    task = task_of(labels, 1_000, 200, 300, large=True)
    expected = fitting.learn(x, task._replace(large=False))
    assert np.mean(fitting.learn(x, task) != expected) < 0.1


def test_a_hidden_layer_learns_what_no_line_divides(fitting):
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((600, 2)) * (1, 100) + (5, 0)).astype(np.float32)
    labels = ((x[:, 0] > 5) ^ (x[:, 1] > 0)).astype(int)
    task = task_of(labels, 300, 100, 200)
    alone, together = (np.mean(fitting.learn(x, task, hidden) == labels[400:])
                       for hidden in (0, 20))
    assert alone < 0.7 and together > 0.85


def test_no_warning_reaches_the_user(fitting, monkeypatch):
    monkeypatch.setattr(fitting, "STEPS", 20)
    rng = np.random.default_rng(0)
    x, labels = 100 * rng.standard_normal((60, 30)), (np.arange(60) % 15 == 0).astype(int)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for hidden in (0, 2):
            senteval.learn(x, task_of(labels, 40, 10, 10), hidden)
            senteval.learn(x, task_of(labels), hidden)
    assert not caught


def test_without_scikit_learn_it_says_what_it_needs(tmp_path, monkeypatch):
    (tmp_path / "MR").mkdir()
    for file in senteval_files.FILES["MR"].counts:
        (tmp_path / file).write_text("")
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(UserError, match="scikit-learn is missing .*; .* -m pip install scikit-l"):
        senteval.find(tmp_path, None)
