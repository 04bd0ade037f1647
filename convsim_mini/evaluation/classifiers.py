"""Classifiers on fixed sentence vectors, with scikit-learn, and which rows each learns from."""

import warnings
from concurrent.futures.process import BrokenProcessPool

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_predict
from threadpoolctl import threadpool_limits

from ..common.cli import user_errors
from .metrics import pearson

STRENGTHS = (1e-5, 1e-4, 1e-3, 1e-2)    # SentEval's grid of λ
FOLDS = StratifiedKFold(10, shuffle=True, random_state=2018)


class Classifier(BaseEstimator):
    """Logistic regression: the mean cross-entropy, plus λ/2 times the sum of squared weights.

    A score of 3.6 is learned as two rows, grade 3 with weight 0.4 and grade 4 with weight 0.6 (Tai
    et al. 2015). The prediction is the mean grade. (Ridge regression is 4 points worse on SICK-R.)
    """

    def __init__(self, strength=1e-5):
        self.strength = strength

    def fit(self, x, labels):
        """Learn from features x (n, d) and labels (n,): classes of int, or scores of float."""
        self.scored, grades = labels.dtype.kind == "f", np.floor(labels).astype(int)
        shares = np.concatenate([1 - (labels - grades), labels - grades])    # of both grades
        rows, grades = np.flatnonzero(shares), np.concatenate([grades, grades + 1])
        self.model = LogisticRegression(C=1 / (self.strength * len(labels)), max_iter=1_000)
        self.model.fit(x[rows % len(labels)], grades[rows], shares[rows])
        return self

    def predict(self, x):
        """The class or the mean grade of each row: (n,)."""
        if self.scored:
            return self.model.predict_proba(x) @ self.model.classes_
        return self.model.predict(x)


def learn(x, task):
    """Learn a TransferTask from the vectors of its texts; predict its tested rows: (tested,).

    λ is chosen on dev, or by 10-fold cross-validation on train. Without an official split, each of
    ten folds is predicted by a classifier that never saw it. There is one process per core.
    """
    labels, scoring = task.labels, make_scorer(pearson) if task.scored else "accuracy"
    train, dev, tested = (np.flatnonzero(task.parts == part) for part in ("train", "dev", "test"))
    search = GridSearchCV(Classifier(), {"strength": STRENGTHS}, scoring=scoring, cv=FOLDS,
                          refit=not len(train), error_score="raise")
    with (warnings.catch_warnings(action="ignore", category=UserWarning),    # rare classes, steps
          user_errors("a worker process was killed, perhaps because memory ran out",
                      "measure fewer tasks at once", BrokenProcessPool), threadpool_limits(1)):
        if len(x) > len(labels):
            u, v = np.split(x, 2)
            x = np.hstack([np.abs(u - v), u * v])
        if not len(train):
            return cross_val_predict(search, x, labels, cv=FOLDS, n_jobs=-1)
        folds = [(train[fit], train[held_out])
                 for fit, held_out in FOLDS.split(train, np.rint(labels[train]))]
        search.set_params(n_jobs=-1, cv=[(train, dev)] if len(dev) else folds)
        best = search.fit(x, labels).best_params_
        return Classifier(**best).fit(x[train], labels[train]).predict(x[tested])
