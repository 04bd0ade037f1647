"""Classifiers on fixed sentence vectors, by scikit-learn, and who learns from which rows.

Each minimises the mean cross-entropy over its rows, plus λ/2 times the sum of its squared weights.
A score of 3.6 is learned as two rows: grade 3 with the weight 0.4 and grade 4 with the weight 0.6
(Tai et al. 2015). The answer is the mean grade.
"""

import os
import warnings
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from ..common.cli import progress, user_errors
from .metrics import pearson

STRENGTHS = (1e-5, 1e-4, 1e-3, 1e-2)    # λ: SentEval's grid
UNPENALISED = 1e-9                      # SentEval's λ for SNLI
FOLDS = 10
SEED = 2018
BATCH, PASSES, STEPS = 64, 5, 2_000     # of a large task: passes over the rows and steps, at least
ROWS_AT_ONCE = 10_000                   # features of a large task that are made at once
PROCESSES = min(os.cpu_count() or 1, 61)    # Windows cannot wait for more

_given = None    # in a process of fit_all: the features and the Task of all its jobs


def learn(x, task):
    """Learn a Task from its features x (n, d), and predict its tested rows: (tested,).

    λ is chosen on dev, or by 10-fold cross-validation of train. Without an official split each of
    ten folds is tested by a classifier that never saw it.
    """
    rows, parts = np.arange(len(task.labels)), task.parts
    if parts is None:
        plans = [(*split, folds(split[0], task.labels)) for split in folds(rows, task.labels)]
    else:
        train, dev = rows[parts == "train"], rows[(parts == "dev") & ~task.tested]
        splits = [(train, dev)] if len(dev) else folds(train, task.labels)
        plans = [(train, rows[task.tested], splits)]
    best = [UNPENALISED] * len(plans)
    if not task.large:
        jobs = [(*split, strength) for *_, splits in plans for strength in STRENGTHS
                for split in splits]
        found = [agreement(said, task, held_out)
                 for said, (_, held_out, _) in zip(fit_all(x, task, jobs), jobs)]
        means = np.mean(np.reshape(found, (len(plans), len(STRENGTHS), -1)), axis=2)
        best = [STRENGTHS[k] for k in means.argmax(axis=1)]
    jobs = [(train, tested, strength) for (train, tested, _), strength in zip(plans, best)]
    answers = np.empty_like(task.labels)
    for said, (_, tested, _) in zip(fit_all(x, task, jobs), jobs):
        answers[tested] = said
    return answers[task.tested]


def folds(rows, labels):
    """Ten pairs: nine tenths of the rows, and the other tenth. A fold has its share of a class."""
    splits = StratifiedKFold(FOLDS, shuffle=True, random_state=SEED)
    with warnings.catch_warnings(action="ignore", category=UserWarning):    # of rare classes
        return [(rows[seen], rows[held_out])
                for seen, held_out in splits.split(rows, np.rint(labels[rows]))]


def fit_all(x, task, jobs):
    """What `fit` gives for each job (train, rows, λ), in order; on every core works a process."""
    with (user_errors("a process of this command was killed, perhaps for want of memory",
                      "measure fewer tasks at once", BrokenProcessPool),
          ProcessPoolExecutor(min(PROCESSES, len(jobs)), initializer=_begin,
                              initargs=(x, task)) as pool):
        return list(progress(pool.map(_fit, jobs), "classifiers", len(jobs), delay=3))


def _begin(*given):
    global _given
    _given = given
    warnings.simplefilter("ignore", UserWarning)    # of too few steps
    threadpool_limits(1)    # BLAS threads; the other cores have processes of their own


def _fit(job):
    return fit(*_given, *job)


def agreement(said, task, rows):
    """The accuracy, or Pearson's r, of what was said of some rows."""
    true = task.labels[rows]
    return np.mean(said == true) if task.grades is None else pearson(said, true)


def fit(x, task, train, rows, strength):
    """Learn from the rows `train`, with λ. → a class or a mean grade for each of `rows`."""
    grades = np.floor(task.labels[train]).astype(int)
    above = task.labels[train] - grades
    shares = np.concatenate([1 - above, above])
    seen, classes = np.tile(train, 2)[shares > 0], np.concatenate([grades, grades + 1])[shares > 0]
    if task.large:
        model = fit_by_blocks(x, seen, classes, strength)
    else:
        model = LogisticRegression(C=1 / (strength * len(train)), max_iter=1_000)
        model.fit(x[seen], classes, shares[shares > 0])
    return (model.predict(x[rows]) if task.grades is None else
            model.predict_proba(x[rows]) @ model.classes_)


def fit_by_blocks(x, rows, classes, strength):
    """The same by steps on batches, a network without a hidden layer; x is made block by block."""
    rng = np.random.default_rng(SEED)
    scale = StandardScaler().fit(x[rng.permutation(rows)[:ROWS_AT_ONCE]])
    variance = max(scale.var_.mean(), 1e-9)                   # the vectors may all be one
    penalty = BATCH * strength / variance                     # of the weights on x as it was
    model = MLPClassifier([], alpha=penalty, batch_size=BATCH, random_state=SEED)
    for _ in range(max(PASSES, STEPS * BATCH // len(rows))):
        for block in np.array_split(rng.permutation(len(rows)), -(-len(rows) // ROWS_AT_ONCE)):
            model.partial_fit(scale.transform(x[rows[block]]), classes[block],
                              classes=np.unique(classes))
    return make_pipeline(scale, model)
