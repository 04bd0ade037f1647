"""Classifiers: their gradients, their minimum, who learns from which rows; networks by batches."""

import numpy as np
import pytest

from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from convsim_mini.evaluation import classifiers, stochastic
from convsim_mini.evaluation.metrics import pearson
from convsim_mini.gradcheck import (
    directional_error, layer_error, numeric_gradient, relative_error,
)
from convsim_mini.model.losses import cross_entropy_backward, cross_entropy_forward


def problem(seed, n=37, d=5, classes=3, k=4):
    """x: (n, d); labels that depend on x and chance; share: (n, k) of different rows."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d)) * rng.uniform(0.1, 3, d) + rng.standard_normal(d)
    labels = (x @ rng.standard_normal((d, classes)) + rng.gumbel(size=(n, classes))).argmax(axis=1)
    training = rng.random((k, n)) < 0.7
    return x, labels, (training / training.sum(axis=1, keepdims=True)).T


@pytest.mark.parametrize("seed", range(3))
def test_the_losses_gradient_is_the_numeric_one(seed):
    _, _, share = problem(seed, n=7)
    rng = np.random.default_rng(seed)
    logits, targets = rng.standard_normal((7, 3, 4)), rng.dirichlet(np.ones(3), 7)
    forward = lambda logits: classifiers.cross_entropies_forward(logits, targets, share)
    check = lambda backward: layer_error(forward, backward, [logits], np.random.default_rng(1))
    right = classifiers.cross_entropies_backward
    assert check(right) < 1e-6
    for wrong in (lambda dy, cache: 0 * right(dy, cache),
                  lambda dy, cache: right(np.ones_like(dy), cache),
                  lambda dy, cache: right(dy, (cache[0], cache[1][:, ::-1], share)),
                  lambda dy, cache: right(dy, (*cache[:2], np.ones_like(share)))):
        assert check(wrong) > 1e-2


def test_each_loss_is_the_one_classifiers_loss_on_its_own_rows():
    _, labels, share = problem(0)
    logits = np.random.default_rng(0).standard_normal((37, 3, 4))
    targets = classifiers.soft_targets(labels)
    losses, cache = classifiers.cross_entropies_forward(logits, targets, share)
    dlogits = classifiers.cross_entropies_backward(np.ones(4), cache)
    for k in range(4):
        rows = share[:, k] > 0
        loss, one = cross_entropy_forward(logits[rows, :, k], labels[rows])
        assert losses[k] == pytest.approx(loss)
        np.testing.assert_allclose(dlogits[rows, :, k], cross_entropy_backward(one), atol=1e-12)
        assert not dlogits[~rows, :, k].any()


def test_the_gradient_of_the_weights_is_the_numeric_one_over_several_blocks(monkeypatch):
    monkeypatch.setattr(classifiers, "ROWS_AT_ONCE", 10)
    z, _, share = problem(1)
    rng = np.random.default_rng(2)
    targets = rng.dirichlet(np.ones(3), 37)
    weights, penalty = rng.standard_normal((5, 3, 4)), rng.uniform(0, 1, (5, 4))

    def loss():
        logits = classifiers.softmax_logits(z, weights)
        losses, _ = classifiers.cross_entropies_forward(logits, targets, share)
        return losses.sum() + (penalty[:, None] * weights * weights).sum() / 2

    gradient = classifiers.loss_gradient(z, targets, share, penalty, weights)
    assert relative_error(gradient, numeric_gradient(loss, weights)) < 1e-6


def test_whitened_rows_have_variance_one_and_a_flat_direction_goes():
    x, _, _ = problem(3, n=400)
    x = np.column_stack([x, x[:, 0] - x[:, 1], np.full(400, 7.0)])        # two directions too many
    used = np.arange(400) % 3 > 0
    z, variance = classifiers.whiten(x, used)
    assert z.shape == (400, 6) and variance[-1] == np.inf and (z[:, -1] == 1).all()
    np.testing.assert_allclose(np.cov(z[used, :-1].T, bias=True), np.eye(5), atol=1e-8)
    np.testing.assert_allclose(z[used, :-1].mean(axis=0), 0, atol=1e-8)


@pytest.mark.parametrize("classes", [2, 4])
def test_the_classes_are_those_of_scikit_learn(classes):
    linear_model = pytest.importorskip("sklearn.linear_model")
    x, labels, share = problem(4, n=900, d=12, classes=classes, k=3)
    said = classifiers.fit(x.astype(np.float32), labels, share.T > 0, (1e-4, 1e-1))
    for rows, of_rows in zip(share.T > 0, said):
        for strength, found in zip((1e-4, 1e-1), of_rows):
            # two weights of a softmax that are each other's opposite have half a logistic's penalty
            c = (2 if classes == 2 else 1) / (strength * rows.sum())
            theirs = linear_model.LogisticRegression(C=c, tol=1e-8, max_iter=5_000)
            expected = theirs.fit(x[rows], labels[rows]).predict(x)
            assert np.mean(found != expected) < 0.005
    assert (said[:, 0] != said[:, 1]).any()


def test_a_classifier_learns_from_its_own_rows_and_strength_alone():
    x, labels, share = problem(5, n=300, d=6)
    training = share.T > 0
    together = classifiers.fit(x, labels, training, (1e-3, 1e-1))
    for rows, said in zip(training, together):
        for strength, expected in zip((1e-3, 1e-1), said):
            alone = classifiers.fit(x, np.where(rows, labels, 0), rows[None], (strength,))[0, 0]
            assert np.mean(alone != expected) < 0.005


def test_folds_have_their_share_of_each_class_and_are_the_same_every_time():
    labels = np.random.default_rng(0).integers(0, 3, 997)
    fold = classifiers.folds(labels)
    assert (fold == classifiers.folds(labels)).all()
    counts = np.stack([np.bincount(fold[labels == c], minlength=10) for c in range(3)])
    assert np.ptp(counts, axis=1).max() <= 1 and np.ptp(counts.sum(axis=0)) <= 1
    assert (np.diff(fold) != 0).mean() > 0.8                  # not in the order of the file


def test_the_strength_is_chosen_inside_the_training_rows():
    labels = np.random.default_rng(0).integers(0, 2, 200)
    train = classifiers.folds(labels) != np.arange(10)[:, None]
    training, held_out = classifiers.by_folds(labels, train)
    assert training.shape == (10, 11, 200) and held_out.shape == (10, 10, 200)
    assert (training[:, -1] == train).all()
    assert not (held_out & ~train[:, None]).any() and (held_out.sum(axis=1) == train).all()
    assert (training[:, :-1] == train[:, None] & ~held_out).all()


def test_what_a_plan_chooses_is_best_on_its_held_out_rows(monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((400, 80))
    labels = (x[:, 0] + rng.standard_normal(400) > 0).astype(int)
    x[:, 0] *= 5                                              # costs little of the penalty
    parts = np.repeat([0, 1, 2], [100, 200, 100])
    plan = classifiers.by_dev(parts == 0, parts == 1)
    monkeypatch.setattr(classifiers, "STRENGTHS", (1e-5, 1.0))   # the first one learns by heart
    said = classifiers.fit(x, labels, (parts == 0)[None], (1e-5, 1.0))[0]
    right = (said == labels)[:, parts == 1].mean(axis=1)
    assert right[1] > right[0] + 0.03
    assert (classifiers.predict(x, labels, plan, classifiers.fit)[0] == said[1]).all()


def test_nested_cross_validation_predicts_what_it_has_not_seen():
    rng = np.random.default_rng(0)
    x, chance = rng.standard_normal((200, 150)), np.arange(200) % 2
    by_heart = classifiers.fit(x, chance, np.ones((1, 200), bool), (1e-5,))[0, 0]
    assert np.mean(by_heart == chance) > 0.95
    nested = lambda x, labels: classifiers.nested_cross_validation(x, labels, classifiers.fit)
    assert np.mean(nested(x, chance) == chance) < 0.65
    learnable = (x[:, 0] > 0).astype(int)
    assert np.mean(nested(x[:, :5], learnable) == learnable) > 0.9


# ---------------------------------------------------------------- scores

GRADES = 1, 2, 3, 4


def rated(seed, n=300, d=6):
    """x: (n, d), and scores from 1 to 4 that depend on x and chance."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    return x, np.clip(2.5 + x[:, 0] - 0.5 * x[:, 1] + rng.normal(0, 0.3, n), 1, 4)


def test_a_score_is_shared_among_its_two_grades_and_a_class_is_one_hot():
    targets = classifiers.soft_targets(np.array([1, 3.6, 4, 2.25]), GRADES)
    expected = [[1, 0, 0, 0], [0, 0, 0.4, 0.6], [0, 0, 0, 1], [0, 0.75, 0.25, 0]]
    np.testing.assert_allclose(targets, expected, atol=1e-12)
    np.testing.assert_allclose(targets @ GRADES, [1, 3.6, 4, 2.25])
    assert (classifiers.soft_targets(np.array([2, 0, 1])) == np.eye(3)[[2, 0, 1]]).all()


def test_scores_are_those_at_the_minimum_that_scipy_finds():
    x, scores = rated(0)
    rows, targets = np.arange(300) % 4 > 0, classifiers.soft_targets(scores, GRADES)
    x1 = np.column_stack([x, np.ones(300)])
    for strength in (1e-4, 1e-1):
        def loss(flat):
            weight = flat.reshape(7, 4)
            cross = (targets * log_softmax(x1 @ weight, axis=1))[rows].sum(axis=1).mean()
            return strength / 2 * (weight[:-1] ** 2).sum() - cross
        weight = minimize(loss, np.zeros(28), tol=1e-10).x.reshape(7, 4)
        found = classifiers.fit(x, scores, rows[None], (strength,), GRADES)[0, 0]
        np.testing.assert_allclose(found, softmax(x1 @ weight, axis=1) @ GRADES, atol=5e-3)


def test_the_strength_for_scores_is_the_one_with_the_highest_r(monkeypatch):
    x, scores = rated(1, n=200, d=80)
    parts = np.repeat([0, 1, 2], [60, 100, 40])
    monkeypatch.setattr(classifiers, "STRENGTHS", (1e-5, 1e-1))   # the first one learns by heart
    said = classifiers.fit(x, scores, (parts == 0)[None], (1e-5, 1e-1), GRADES)[0]
    by_heart, right = (pearson(one[parts == 1], scores[parts == 1]) for one in said)
    assert right > by_heart + 0.03
    plan = classifiers.by_dev(parts == 0, parts == 1)
    assert (classifiers.predict(x, scores, plan, classifiers.fit, GRADES)[0] == said[1]).all()


# ---------------------------------------------------------------- networks by batches

@pytest.mark.parametrize("hidden", [0, 3])
def test_the_gradient_of_a_network_is_the_numeric_one(hidden):
    rng = np.random.default_rng(0)
    params = {name: rng.standard_normal(p.shape) for name, p in stochastic.first_params(
        [5, *[hidden] * (hidden > 0), 4], rng).items()}
    z, targets = rng.standard_normal((7, 5)), rng.dirichlet(np.ones(4), 7)
    penalty = {name: rng.uniform(0.1, 1, (len(p), 1)) for name, p in params.items()
               if name.endswith("weight")}
    right = lambda: stochastic.loss_and_gradients(params, z, targets, penalty)
    _, grads = right()
    for name, p in params.items():
        assert relative_error(grads[name], numeric_gradient(lambda: right()[0], p)) < 1e-6, name
    assert directional_error(right, params, rng) < 1e-6
    bare = lambda: (right()[0], stochastic.loss_and_gradients(params, z, targets, {})[1])
    assert directional_error(bare, params, rng) > 1e-3


def test_without_a_hidden_layer_it_finds_the_same_minimum():
    x, labels, share = problem(4, n=900, d=12, classes=4, k=2)
    training, strengths = share.T > 0, (1e-2, 1.0)
    expected = classifiers.fit(x.astype(np.float32), labels, training, strengths)
    found = stochastic.fit(x.astype(np.float32), labels, training, strengths)
    assert (found != expected).mean(axis=2).max() < 0.05
    assert (expected[:, 0] != expected[:, 1]).mean() > 0.1
    x, scores = rated(2)
    given = np.ones((1, 300), bool), (1e-1, 1.0), GRADES
    np.testing.assert_allclose(stochastic.fit(x, scores, *given),
                               classifiers.fit(x, scores, *given), atol=0.05)


def test_a_hidden_layer_learns_what_no_line_divides():
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((600, 2)) * (1, 100) + (5, 0)).astype(np.float32)
    labels = ((x[:, 0] > 5) ^ (x[:, 1] > 0)).astype(int)
    train = np.arange(600) < 400
    hidden_labels = np.where(train, labels, 1 - labels)       # of rows that it must not learn from
    said = [stochastic.fit(x, hidden_labels, train[None], (1e-5,), hidden=hidden)[0, 0, ~train]
            for hidden in (0, 20)]
    alone, together = (np.mean(one == labels[~train]) for one in said)
    assert alone < 0.7 and together > 0.9
