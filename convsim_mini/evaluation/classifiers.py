"""Classifiers on fixed sentence vectors, with scikit-learn, and which rows each learns from."""

import warnings
from concurrent.futures.process import BrokenProcessPool

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_predict
from threadpoolctl import threadpool_limits

from ..common.cli import user_errors
from .metrics import pearson

STRENGTHS = (1e-5, 1e-4, 1e-3, 1e-2)    # SentEval's grid of λ
FOLDS = StratifiedKFold(10, shuffle=True, random_state=2018)


class Classifier(BaseEstimator):
    """Logistic regression; for scores (float), ridge regression.

    The mean cross-entropy (or squared error) plus λ/2 (or λ) times the sum of squared weights.
    """

    def __init__(self, strength=1e-5):
        self.strength = strength

    def fit(self, x, labels):
        """Learn from features x (n, d) and labels (n,): classes of int, or scores of float."""
        penalty = self.strength * len(labels)
        self.model = (Ridge(penalty) if labels.dtype.kind == "f" else
                      LogisticRegression(C=1 / penalty, max_iter=1_000)).fit(x, labels)
        return self

    def predict(self, x):
        """The class or the score of each row: (n,)."""
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
