"""Logistic regression on fixed sentence vectors: all folds and all strengths trained at once.

Classifier k has its own training rows and its own strength λ_k of L2. It has to minimise

    mean over its rows of −Σ_c target_c log softmax(x W_k + b_k)_c + λ_k/2 ‖W_k‖²

which has one minimum. The target of a class is one-hot. A score has its two nearest grades as
target, and the mean grade of the softmax as answer. The weights of all classifiers stand side by
side, so that one matrix product serves them all. Rows that a classifier does not train on have the
weight 0 in its loss. On one core a loop over scikit-learn's took 6 to 30 times as long for nested
cross-validation on vectors of 50 numbers (tests/benchmark_classifiers.py).
"""

from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from ..cli import progress
from .metrics import pearson

STRENGTHS = (1e-5, 1e-4, 1e-3, 1e-2)    # SentEval's grid
FOLDS = 10
SEED = 2018
STEPS, ENOUGH = 500, 1e-8    # at most; what a step would gain at the end, in nats
ROWS_AT_ONCE = 1024          # their logits stay in the processor's cache
FLAT = 1e-9                  # a direction of less than this share of the largest variance is noise


class Plan(NamedTuple):
    """Who learns from which rows, and which rows choose the strength, for o choices over n rows.

    training: bool (o, t, n), the last of t is the one that counts; held_out: bool (o, h, n), the
    rows that the first h of t are judged by.
    """

    training: np.ndarray
    held_out: np.ndarray


def folds(labels):
    """A number from 0 to 9 for each row, drawn by a fixed seed; each fold has its share of a class.

    labels: (n,), classes or scores → int (n,)
    """
    order = np.random.Generator(np.random.Philox(SEED)).permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    numbers = np.empty(len(labels), int)
    numbers[order] = np.arange(len(labels)) % FOLDS
    return numbers


def by_folds(labels, train, judging=FOLDS):
    """The Plan that chooses the strength by 10-fold cross-validation inside the rows `train`.

    labels: (n,); train: bool (o, n), one choice for each of the o sets of rows; judging: how many
    of the folds are held out in turn
    """
    held_out = np.zeros((len(train), judging, len(labels)), bool)
    for rows, of_rows in zip(train, held_out):
        of_rows[:, rows] = folds(labels[rows]) == np.arange(judging)[:, None]
    return Plan(np.concatenate([train[:, None] & ~held_out, train[:, None]], axis=1), held_out)


def by_dev(train, dev):
    """The Plan that chooses the strength on the rows `dev`. train, dev: bool (n,)"""
    return Plan(train[None, None], dev[None, None])


def nested_cross_validation(x, labels, fit, judging=FOLDS):
    """The class of each row by a classifier that never saw its fold: x: (n, d) → int (n,).

    The strength is chosen by a second 10-fold cross-validation inside the other nine folds.
    fit: the function below, or one of its kind; judging: as in `by_folds`
    """
    fold = folds(labels)
    plan = by_folds(labels, fold != np.arange(FOLDS)[:, None], judging)
    return predict(x, labels, plan, fit)[fold, np.arange(len(labels))]


def predict(x, labels, plan, fit, grades=None):
    """What is said by the strength that a Plan chooses: x: (n, d); labels: (n,) → (o, n).

    That is the strength with the highest mean accuracy, or Pearson's r of scores, on held-out rows;
    the first of equals. fit: the function below, or one of its kind; grades: as it has them
    """
    choices, trainings, n = plan.training.shape
    said = fit(x, labels, plan.training.reshape(-1, n), STRENGTHS, grades)
    said = said.reshape(choices, trainings, len(STRENGTHS), n)
    measure = accuracy if grades is None else pearson
    chosen = [np.mean([[measure(one[rows], labels[rows]) for one in by_strength]
                       for by_strength, rows in zip(of_choice, held_out)], axis=0).argmax()
              for of_choice, held_out in zip(said, plan.held_out)]
    return said[np.arange(choices), -1, chosen]


def accuracy(predicted, labels):
    """The share that is right: int (n,), (n,) → float."""
    return np.mean(predicted == labels)


def fit(x, labels, training, strengths, grades=None):
    """Train a classifier for each set of rows and each strength; → what each says of all rows.

    x: (n, d); labels: int (n,) classes, or with grades scores between them; training: bool (m, n);
    strengths: (s,); grades: (c,), one apart → (m, s, n), int8 classes or mean grades
    """
    used = training.any(axis=0)
    z, variance = whiten(x, used)                                         # (n, e + 1), (e + 1,)
    targets = soft_targets(labels, grades).astype(z.dtype)                # (n, c)
    share = np.repeat(training[:, used].T, len(strengths), axis=1).astype(z.dtype)   # (rows, k)
    share /= share.sum(axis=0)
    penalty = np.tile(strengths, len(training)) / variance[:, None]       # (e + 1, k)
    weights = minimise(z[used], targets[used], share, penalty.astype(z.dtype))
    said = [answers(softmax_logits(z[rows], weights), grades) for rows in blocks(len(z))]
    return np.concatenate(said).T.reshape(len(training), len(strengths), len(x))


def soft_targets(labels, grades=None):
    """A score of 3.6 as 0.4 of grade 3 and 0.6 of grade 4, a class as one-hot (Tai et al. 2015).

    labels: (n,); grades: (c,), one apart, or None for the classes 0, 1, … → (n, c)
    """
    if grades is None:
        grades = np.arange(labels.max() + 1)
    return np.maximum(1 - abs(labels[:, None] - grades), 0)


def answers(logits, grades=None):
    """The most likely class, int8, or the mean grade by the softmax: (n, c, k) → (n, k)."""
    if grades is None:
        return logits.argmax(axis=1).astype(np.int8)
    return np.einsum("nck,c->nk", softmax(logits, axis=1), np.asarray(grades, logits.dtype))


def whiten(x, used):
    """x in other coordinates: centred, turned and scaled to variance 1 in each direction.

    The used rows alone say how. The minimum stays where it is if the penalty of a direction is
    divided by its variance. x: (n, d); used: bool (n,) → (n, e + 1), e ≤ d, with a last column of
    ones for the bias; variance: (e + 1,), infinite for the bias, which has no penalty
    """
    mean = x[used].mean(axis=0, dtype=np.float64)
    variance, directions = np.linalg.eigh(np.cov(x[used].T, bias=True).reshape(x.shape[1], -1))
    kept = variance > FLAT * variance[-1]
    turn = directions[:, kept] / np.sqrt(variance[kept])                  # (d, e)
    z = np.ones((len(x), kept.sum() + 1), x.dtype)
    z[:, :-1] = x @ turn.astype(x.dtype) - (mean @ turn).astype(x.dtype)
    return z, np.append(variance[kept], np.inf)


def minimise(z, targets, share, penalty):
    """Weights of k classifiers by Nesterov's accelerated gradient: → (e + 1, c, k).

    The Hessian of a softmax's loss in its logits is at most ½, and z has variance 1. So no
    direction curves more than ½ n max(share) + penalty, and one over that is a safe step (Böhning
    1992). The momentum of a classifier starts anew where it runs uphill (O'Donoghue, Candès 2015).
    z: (n, e + 1); targets: (n, c); share: (n, k), 1/(training rows) or 0; penalty: (e + 1, k)
    """
    step = 1 / (len(z) * share.max(axis=0) / 2 + penalty)[:, None]        # (e + 1, 1, k)
    weights = ahead = np.zeros((z.shape[1], targets.shape[1], share.shape[1]), z.dtype)
    time = np.ones(share.shape[1], z.dtype)                               # (k,)
    for _ in progress(range(STEPS), desc="classifiers", delay=3):
        gradient = loss_gradient(z, targets, share, penalty, ahead)
        before, weights = weights, ahead - step * gradient
        change = weights - before
        time[np.einsum("eck,eck->k", gradient, change) > 0] = 1
        later = (1 + np.sqrt(1 + 4 * time * time)) / 2
        ahead, time = weights + (time - 1) / later * change, later
        if np.einsum("eck,eck->k", gradient, step * gradient).max() < 2 * ENOUGH:
            break
    return weights


def loss_gradient(z, targets, share, penalty, weights):
    """The gradient of all k losses: Σ over rows of zᵀ dlogits, and penalty · weights.

    Shapes are those of `minimise`. → (e + 1, c, k)
    """
    gradient = penalty[:, None] * weights
    for rows in blocks(len(z)):
        _, cache = cross_entropies_forward(softmax_logits(z[rows], weights), targets[rows],
                                           share[rows])
        dlogits = cross_entropies_backward(np.ones_like(share[0]), cache)  # (rows, c, k)
        gradient += (z[rows].T @ dlogits.reshape(len(dlogits), -1)).reshape(gradient.shape)
    return gradient


def softmax_logits(z, weights):
    """One matrix product for all classifiers: z: (n, e + 1); weights: (e + 1, c, k) → (n, c, k)."""
    return (z @ weights.reshape(len(weights), -1)).reshape(len(z), *weights.shape[1:])


def cross_entropies_forward(logits, targets, share):
    """k losses at once: loss_k = −Σ_b share_bk Σ_c target_bc log p_bck, p a softmax over classes.

    logits: (B, c, k); targets: (B, c), rows of sum 1; share: (B, k) → losses: (k,), cache
    """
    logits = logits - logits.max(axis=1, keepdims=True)       # keeps exp from overflowing
    meant = np.einsum("bck,bc->bk", logits, targets)
    p = np.exp(logits, out=logits)
    total = p.sum(axis=1, keepdims=True)                      # (B, 1, k)
    p /= total
    return (share * (np.log(total[:, 0]) - meant)).sum(axis=0), (p, targets, share)


def cross_entropies_backward(dlosses, cache):
    """Forward: loss_k = Σ_b share_bk (log Σ_c e^{z_bck} − Σ_c target_bc z_bck).

    So dz = dloss_k share_bk (p − target), as for one classifier. dlosses: (k,) → (B, c, k)
    """
    p, targets, share = cache
    dlogits = p - targets[:, :, None]
    dlogits *= (share * dlosses)[:, None]
    return dlogits


def blocks(n):
    """Slices that cover n rows."""
    return [slice(first, first + ROWS_AT_ONCE) for first in range(0, n, ROWS_AT_ONCE)]
