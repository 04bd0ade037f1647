"""Classifiers on fixed sentence vectors, by scikit-learn, and who learns from which rows.

Each minimises the mean cross-entropy over its rows, plus λ/2 times the sum of its squared weights.
A score of 3.6 is learned as two rows: grade 3 with the weight 0.4 and grade 4 with the weight 0.6
(Tai et al. 2015). The answer is the mean grade.
"""

import warnings

import numpy as np
from joblib import Parallel, delayed
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ...common.cli import progress
from ..metrics import pearson

STRENGTHS = (1e-5, 1e-4, 1e-3, 1e-2)    # λ: SentEval's grid
UNPENALISED = 1e-9                      # SentEval's λ for SNLI
FOLDS = 10
SEED = 2018
BATCH = 64
PASSES, STEPS = 5, 2_000                # over the rows, and batches: at least
ROWS_AT_ONCE = 10_000                   # features of a network's rows that are made at once


def learn(x, task, hidden=0):
    """Learn a Task from its features, and predict its tested rows: (tested,).

    λ is chosen on dev, or by 10-fold cross-validation of train. Without an official split each of
    ten folds is tested by a classifier that never saw it. x: (n, d); hidden: units, or 0
    """
    rows = np.arange(len(task.labels))
    said = np.empty_like(task.labels)
    with warnings.catch_warnings(action="ignore", category=UserWarning):    # steps, rare classes
        if task.parts is None:
            for train, test in folds(rows, task.labels):
                said[test] = choose(x, task, train, folds(train, task.labels), test, hidden)
        else:
            train, dev = rows[task.parts == "train"], rows[(task.parts == "dev") & ~task.tested]
            splits = [(train, dev)] if len(dev) else folds(train, task.labels)
            said[task.tested] = choose(x, task, train, splits, rows[task.tested], hidden)
    return said[task.tested]


def folds(rows, labels):
    """Ten pairs: nine tenths of the rows, and the other tenth. A fold has its share of a class."""
    splits = StratifiedKFold(FOLDS, shuffle=True, random_state=SEED)
    return [(rows[seen], rows[held_out])
            for seen, held_out in splits.split(rows, np.rint(labels[rows]))]


def choose(x, task, train, splits, tested, hidden):
    """Learn from the rows `train` by the λ that is best on held-out rows; predict `tested`.

    Networks take long: one split alone chooses, and SNLI's λ is SentEval's. splits: as from `folds`
    """
    if task.large:
        return fit(x, task, train, tested, UNPENALISED, hidden)
    jobs = [delayed(judge)(x, task, *split, strength, hidden)
            for strength in STRENGTHS for split in (splits[:1] if hidden else splits)]
    found = Parallel(n_jobs=-1, prefer="threads")(progress(jobs, desc="classifiers", delay=3))
    best = np.mean(np.reshape(found, (len(STRENGTHS), -1)), axis=1).argmax()
    return fit(x, task, train, tested, STRENGTHS[best], hidden)


def judge(x, task, train, held_out, strength, hidden):
    """The accuracy, or Pearson's r, on held-out rows of a classifier of the rows `train`."""
    said = fit(x, task, train, held_out, strength, hidden)
    true = task.labels[held_out]
    return np.mean(said == true) if task.grades is None else pearson(said, true)


def fit(x, task, train, rows, strength, hidden):
    """Learn from the rows `train`, with λ. → a class or a mean grade for each of `rows`."""
    grades = np.floor(task.labels[train]).astype(int)
    above = task.labels[train] - grades
    shares = np.concatenate([1 - above, above])
    seen, classes = np.tile(train, 2)[shares > 0], np.concatenate([grades, grades + 1])[shares > 0]
    if hidden or task.large:
        model = network(x, seen, classes, shares[shares > 0], strength, hidden)
    else:
        model = LogisticRegression(C=1 / (strength * len(train)), max_iter=1_000)
        model.fit(x[seen], classes, shares[shares > 0])
    return (model.predict(x[rows]) if task.grades is None else
            model.predict_proba(x[rows]) @ model.classes_)


def network(x, rows, classes, shares, strength, hidden):
    """A network with one hidden layer, or none; rows of x are made block by block."""
    rng = np.random.default_rng(SEED)
    scale = StandardScaler().fit(x[rng.permutation(rows)[:ROWS_AT_ONCE]])
    variance = max(scale.var_.mean(), 1e-9)                   # the vectors may all be one
    penalty = BATCH * strength / variance                     # of the weights on x as it was
    model = MLPClassifier([hidden] if hidden else [], activation="tanh", alpha=penalty,
                          batch_size=BATCH, random_state=SEED)
    for _ in progress(range(max(PASSES, STEPS * BATCH // len(rows))), desc="passes", delay=3):
        for block in np.array_split(rng.permutation(len(rows)), -(-len(rows) // ROWS_AT_ONCE)):
            model.partial_fit(scale.transform(x[rows[block]]), classes[block], shares[block],
                              np.unique(classes))
    return make_pipeline(scale, model)
