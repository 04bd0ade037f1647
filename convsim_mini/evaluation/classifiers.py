"""Logistic regression on fixed sentence vectors: all folds and all strengths trained at once.

Classifier k has its own training rows and its own strength λ_k of L2. It has to minimise

    mean over its rows of −log softmax(x W_k + b_k)[label] + λ_k/2 ‖W_k‖²

which has one minimum. The weights of all classifiers stand side by side, so that one matrix
product serves them all. Rows that a classifier does not train on have the weight 0 in its loss.
On one core that took a sixth to a sixteenth of the time of a loop over scikit-learn's, for nested
cross-validation and vectors of 50 or 500 numbers.
"""

from typing import NamedTuple

import numpy as np

from ..cli import progress

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

    labels: int (n,) → int (n,)
    """
    order = np.random.Generator(np.random.Philox(SEED)).permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    numbers = np.empty(len(labels), int)
    numbers[order] = np.arange(len(labels)) % FOLDS
    return numbers


def by_folds(labels, train):
    """The Plan that chooses the strength by 10-fold cross-validation inside the rows `train`.

    labels: int (n,); train: bool (o, n), one choice for each of the o sets of rows
    """
    held_out = np.zeros((len(train), FOLDS, len(labels)), bool)
    for rows, of_rows in zip(train, held_out):
        of_rows[:, rows] = folds(labels[rows]) == np.arange(FOLDS)[:, None]
    return Plan(np.concatenate([train[:, None] & ~held_out, train[:, None]], axis=1), held_out)


def by_dev(train, dev):
    """The Plan that chooses the strength on the rows `dev`. train, dev: bool (n,)"""
    return Plan(train[None, None], dev[None, None])


def nested_cross_validation(x, labels):
    """The class of each row by a classifier that never saw its fold: x: (n, d) → int (n,).

    The strength is chosen by a second 10-fold cross-validation inside the other nine folds.
    """
    fold = folds(labels)
    predicted = predict(x, labels, by_folds(labels, fold != np.arange(FOLDS)[:, None]))
    return predicted[fold, np.arange(len(labels))]


def predict(x, labels, plan):
    """The classes by the strength that a Plan chooses: x: (n, d); labels: int (n,) → int (o, n).

    The strength is the one with the highest mean accuracy on held-out rows; the first of equals.
    """
    choices, trainings, n = plan.training.shape
    classes = fit(x, labels, plan.training.reshape(-1, n), STRENGTHS)
    classes = classes.reshape(choices, trainings, len(STRENGTHS), n)
    judged = plan.held_out.shape[1]
    right = classes[:, :judged] == labels                                 # (o, h, s, n)
    found = np.einsum("ohsn,ohn->ohs", right, plan.held_out, dtype=float)
    accuracy = (found / plan.held_out.sum(axis=2)[:, :, None]).mean(axis=1)
    return classes[np.arange(choices), -1, accuracy.argmax(axis=1)]


def fit(x, labels, training, strengths):
    """Train a classifier for each set of rows and each strength; → what each says of all rows.

    x: (n, d); labels: int (n,); training: bool (m, n); strengths: (s,) → int8 (m, s, n)
    """
    used, classes = training.any(axis=0), int(labels.max()) + 1
    z, variance = whiten(x, used)                                         # (n, e + 1), (e + 1,)
    share = np.repeat(training[:, used].T, len(strengths), axis=1).astype(z.dtype)   # (rows, k)
    share /= share.sum(axis=0)
    penalty = np.tile(strengths, len(training)) / variance[:, None]       # (e + 1, k)
    weights = minimise(z[used], labels[used], share, penalty.astype(z.dtype), classes)
    said = [softmax_logits(z[rows], weights).argmax(axis=1).astype(np.int8)
            for rows in _blocks(len(z))]
    return np.concatenate(said).T.reshape(len(training), len(strengths), len(x))


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


def minimise(z, labels, share, penalty, classes):
    """Weights of k classifiers by Nesterov's accelerated gradient: → (e + 1, classes, k).

    The Hessian of a softmax's loss in its logits is at most ½, and z has variance 1. So no
    direction curves more than ½ n max(share) + penalty, and one over that is a safe step (Böhning
    1992). The momentum of a classifier starts anew where it runs uphill (O'Donoghue, Candès 2015).
    z: (n, e + 1); share: (n, k), 1/(training rows) or 0; penalty: (e + 1, k)
    """
    step = 1 / (len(z) * share.max(axis=0) / 2 + penalty)[:, None]        # (e + 1, 1, k)
    weights = ahead = np.zeros((z.shape[1], classes, share.shape[1]), z.dtype)
    time = np.ones(share.shape[1], z.dtype)                               # (k,)
    for _ in progress(range(STEPS), desc="classifiers", delay=3):
        gradient = loss_gradient(z, labels, share, penalty, ahead)
        before, weights = weights, ahead - step * gradient
        change = weights - before
        time[np.einsum("eck,eck->k", gradient, change) > 0] = 1
        later = (1 + np.sqrt(1 + 4 * time * time)) / 2
        ahead, time = weights + (time - 1) / later * change, later
        if np.einsum("eck,eck->k", gradient, step * gradient).max() < 2 * ENOUGH:
            break
    return weights


def loss_gradient(z, labels, share, penalty, weights):
    """The gradient of all k losses: Σ over rows of zᵀ dlogits, and penalty · weights.

    Shapes are those of `minimise`. → (e + 1, classes, k)
    """
    gradient = penalty[:, None] * weights
    for rows in _blocks(len(z)):
        _, cache = cross_entropies_forward(softmax_logits(z[rows], weights), labels[rows],
                                           share[rows])
        dlogits = cross_entropies_backward(np.ones_like(share[0]), cache)  # (rows, classes, k)
        gradient += (z[rows].T @ dlogits.reshape(len(dlogits), -1)).reshape(gradient.shape)
    return gradient


def softmax_logits(z, weights):
    """One matrix product for all classifiers: z: (n, e + 1); weights: (e + 1, c, k) → (n, c, k)."""
    return (z @ weights.reshape(len(weights), -1)).reshape(len(z), *weights.shape[1:])


def cross_entropies_forward(logits, labels, share):
    """k losses at once: loss_k = −Σ_b share_bk log p_bk(label), p a softmax over the classes.

    logits: (B, c, k); labels: int (B,); share: (B, k) → losses: (k,), cache
    """
    rows = np.arange(len(labels))
    logits = logits - logits.max(axis=1, keepdims=True)       # keeps exp from overflowing
    true = logits[rows, labels]                               # (B, k)
    p = np.exp(logits, out=logits)
    total = p.sum(axis=1, keepdims=True)                      # (B, 1, k)
    p /= total
    return (share * (np.log(total[:, 0]) - true)).sum(axis=0), (p, rows, labels, share)


def cross_entropies_backward(dlosses, cache):
    """Forward: loss_k = Σ_b share_bk (log Σ_c e^{z_bck} − z_b,label,k).

    As for one classifier dz = dloss_k share_bk (p − one-hot). dlosses: (k,) → dlogits: (B, c, k)
    """
    p, rows, labels, share = cache
    step = share * dlosses                                    # (B, k)
    dlogits = p * step[:, None]
    dlogits[rows, labels] -= step
    return dlogits


def _blocks(n):
    return [slice(first, first + ROWS_AT_ONCE) for first in range(0, n, ROWS_AT_ONCE)]
