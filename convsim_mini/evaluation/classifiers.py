"""Classifiers on fixed sentence vectors, with scikit-learn, and which rows each learns from."""

import warnings
from concurrent.futures.process import BrokenProcessPool

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_predict
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from ..common.cli import user_errors
from ..core.multitask import nli_features_forward
from .metrics import pearson

STRENGTHS = (1e-5, 1e-4, 1e-3, 1e-2)    # SentEval's grid of λ
FOLDS = StratifiedKFold(10, shuffle=True, random_state=2018)
BATCH, PASSES, STEPS = 64, 5, 2_000     # for a large task; the last two are minimums
ROWS_AT_ONCE = 10_000                   # features of a large task that are made at once


class Classifier(BaseEstimator):
    """Logistic regression: the mean cross-entropy, plus λ/2 times the sum of squared weights.

    A score of 3.6 is learned as two rows, grade 3 with weight 0.4 and grade 4 with weight 0.6 (Tai
    et al. 2015). The prediction is the mean grade.
    """

    def __init__(self, strength=1e-5):
        self.strength = strength

    def fit(self, x, labels):
        """Learn from features x (n, d) and labels (n,): classes of int, or scores of float."""
        grades = np.floor(labels).astype(int)
        shares = np.concatenate([1 - (labels - grades), labels - grades])    # of both grades
        rows = np.flatnonzero(shares)
        classes = np.concatenate([grades, grades + 1])[rows]
        self.scored = labels.dtype.kind == "f"
        self.model = LogisticRegression(C=1 / (self.strength * len(labels)), max_iter=1_000)
        self.model.fit(x[rows % len(labels)], classes, shares[rows])
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
        if task.large:
            return learn_by_blocks(*np.split(x, 2), labels, train, tested)
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


def learn_by_blocks(u, v, labels, train, tested):
    """`learn` with λ = 0, for pairs u, v (n, d) whose features would not fit in memory.

    A network without a hidden layer is trained, batch by batch.
    """
    def features(rows):
        return nli_features_forward(u[rows], v[rows])[0]                  # (rows, 4d)

    rng = np.random.default_rng(2018)
    scale = StandardScaler().fit(features(rng.permutation(train)[:ROWS_AT_ONCE]))
    model = MLPClassifier([], alpha=0, batch_size=BATCH, random_state=2018)
    for _ in range(max(PASSES, STEPS * BATCH // len(train))):
        for rows in np.array_split(rng.permutation(train), -(-len(train) // ROWS_AT_ONCE)):
            model.partial_fit(scale.transform(features(rows)), labels[rows],
                              classes=np.unique(labels))
    return model.predict(scale.transform(features(tested)))
