"""Are a run's vectors good features? The transfer tasks of SentEval (Conneau and Kiela 2018).

    python -m convsim_mini.evaluation.senteval RUN --data DIR [--vectors FILE]

The encoder stays as it is; a logistic regression learns each task from its vectors. A sentence is
seen as its vector u, a pair as |u − v| and u · v element by element. Beside the run stand the most
frequent class and means of word vectors. The tasks but SICK-E took a DAN 14 s on one core, 12 s of
it for the classifiers, and as long again for each kind of word vectors.
"""

from pathlib import Path

import numpy as np

from ..cli import UserError
from ..model.input_response import embed
from ..tables import table
from .baselines import term_counts
from .classifiers import by_dev, by_folds, nested_cross_validation, predict
from .command import main
from .metrics import per_cent
from .senteval_files import FILES, find_tasks, read_task
from .word_baselines import mean_vectors, run_vectors, vocabulary_of, words_of

# right, % (MRPC / F1), in the order of FILES, as printed there
PUBLISHED = {
    "GloVe 840B mean ¹": "77.4 78.7 91.2 87.7 80.3 44.7 83.0 72.7/81.0 78.5",
    "InferSent ¹": "81.1 86.3 92.4 90.2 84.6 46.3 88.2 76.2/83.1 86.3",
    "SBERT-NLI-base ²": "83.64 89.43 94.39 89.86 88.96 - 89.6 76.00 -",
}
SOURCES = ("published: ¹ Conneau and Kiela (2018), table 3, logistic regression; "
           "² Reimers and Gurevych (2019), table 5")


def find(data, run):
    """The tasks in DIR, DIR/downstream or DIR/senteval/downstream. Raises UserError without one."""
    if data is None:
        raise UserError("--data is missing: give the folder that SentEval's own script fills")
    return {str(Path(data)): find_tasks(data)}


def read(source):
    """Task name → Task. Raises UserError with file and line."""
    return {name: read_task(name, folder) for name, folder in source.items()}


def scores(run, tasks):
    """The classes that the run's vectors lead to: row name → task name → int (tested,)."""
    return {"trained": {name: learn(embed(run.model, run.vocabulary.encode(task.texts)), task)
                        for name, task in tasks.items()}}


def baselines(run, tasks, vectors=None):
    """The most frequent class, and the classes that means of word vectors lead to: as `scores`."""
    rows = {"most frequent class": {name: most_frequent(task) for name, task in tasks.items()}}
    sources = vectors or {}
    if run:
        sources = {"own vectors": run_vectors(run, words_of(texts_of(tasks)))} | sources
    for row, of_words in sources.items():
        rows[f"mean of {row}"] = {name: learn(means(task.texts, of_words), task)
                                  for name, task in tasks.items()}
    return rows


def summary(name, tasks, scores, baselines):
    """Accuracy with its 95% interval, a line a task and a column a row; MRPC has its F1, too.

    Published figures stand to the right.
    """
    rows, lines = scores | baselines, []
    published = [dict(zip(FILES, figures.split())) for figures in PUBLISHED.values()]
    for of_task, task in tasks.items():
        true = task.labels[task.tested]
        cells = ["{:.1f} [{:.1f}, {:.1f}]".format(*per_cent(row[of_task] == true))
                 + (f" / {100 * f1(row[of_task], true):.1f}" if of_task == "MRPC" else "")
                 for row in rows.values()]
        lines.append([f"{of_task}, {len(true):,}", *cells, *(row[of_task] for row in published)])
    absent = [f"{of_task}: not measured. {name} lacks {' or '.join(FILES[of_task].counts)}"
              for of_task in FILES if of_task not in tasks]
    header = ["SentEval, tested; right, % (MRPC / F1)", *rows, *PUBLISHED]
    return "\n".join([table(header, lines), SOURCES, *absent])


def texts_of(tasks):
    """The sentences of all tasks."""
    return [text for task in tasks.values() for text in task.texts]


def means(texts, vectors):
    """The mean of each text's word vectors, float32 (B, d); vectors: word → (d,)."""
    vocabulary, packed = vocabulary_of(texts)
    none = np.zeros_like(next(iter(vectors.values())))
    by_id = np.array([none, *(vectors.get(word, none) for word in vocabulary.words), none])
    counts, size = term_counts(packed, vocabulary.size), vocabulary.size
    return mean_vectors(counts, by_id, np.ones(size)).astype(np.float32)


def features(vectors, task):
    """What a classifier sees of a Task: its sentences' vectors, or |u − v| and u · v of its pairs.

    vectors: (n, d) → (n, d), or (2n, d), all first sentences before all second ones → (n, 2d)
    """
    u, *v = np.split(vectors, len(task.sides))
    return np.hstack([abs(u - v[0]), u * v[0]]) if v else u


def learn(vectors, task):
    """The classes of a Task's tested rows, learned from its sentences' vectors: int (tested,).

    The strength of regularisation is chosen on dev, or by 10-fold cross-validation of train.
    Without an official split every row is tested, in a nested cross-validation.
    vectors: as in `features`
    """
    x = features(vectors, task)
    if task.parts is None:
        return nested_cross_validation(x, task.labels)
    train, dev = task.parts == "train", task.parts == "dev"
    plan = by_dev(train, dev) if dev.any() else by_folds(task.labels, train[None])
    return predict(x, task.labels, plan)[0, task.tested]


def most_frequent(task):
    """The most frequent class of the training rows, for each tested row: int (tested,)."""
    seen = task.labels[slice(None) if task.parts is None else task.parts == "train"]
    return np.full(task.tested.sum(), np.bincount(seen).argmax())


def f1(predicted, true):
    """2 · true positives / (all that were called 1 + all that are 1): int (n,), (n,) → float."""
    return 2 * float(np.sum(predicted * true) / max(np.sum(predicted) + np.sum(true), 1))


if __name__ == "__main__":
    main("senteval", "--vectors", data="folder that SentEval's own script fills, with MR/, CR/, …, "
         "or with downstream/ or senteval/downstream/")
