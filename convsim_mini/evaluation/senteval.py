"""Are vectors good features? The classification tasks of SentEval (Conneau and Kiela 2018).

The encoder stays as it is; a logistic regression learns each task from its vectors. The features
of a sentence are its vector u; those of a pair are |u − v| and the elementwise product of u and v.
The baseline is the most frequent class. SentEval's SNLI is in nli.py, its similarity tasks are in
sts.py.

Only this needs scikit-learn: pip install scikit-learn.
SentEval's own engine takes `lambda params, batch: encoder.encode([*map(" ".join, batch)])`.
"""

import re
import warnings
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from threadpoolctl import threadpool_limits

from ..common.cli import UserError, progress, python_m, user_errors
from ..data.labelled import DataSet, find_files, lines_of
from .metrics import difference, per_cent, without_interval

FOLDERS = "downstream", "senteval/downstream"    # as SentEval's own script fills them
STRENGTHS = 1e-5, 1e-4, 1e-3, 1e-2               # SentEval's grid of λ


class Files(msgspec.Struct):
    """A task's files, as senteval.json lists them, and how their lines are read."""

    counts: dict[str, int]    # file → its official number of rows
    parts: list               # of the files: train, dev, test; all test without an official split
    labels: list              # their names
    row: str = "(?P<sentence>.*)"    # the pattern of a line; without a label each file has one
    encoding: str = "utf-8-sig"      # some copies of MRPC begin with a BOM
    header: bool = False


FILES = msgspec.json.decode(Path(__file__).with_suffix(".json").read_bytes(), type=dict[str, Files])


class TransferTask(NamedTuple):
    """A labelled set of n sentences, or of n pairs of sentences."""

    texts: list            # n sentences; or n first sentences, then n second ones
    labels: np.ndarray     # (n,): a label's number
    parts: np.ndarray      # (n,): "train", "dev" or "test"; all "test" without a split

    @property
    def tested(self):
        """The labels of the part "test": (tested,)."""
        return self.labels[self.parts == "test"]


def find(data, run=None):
    """DIR → task name → file name → path, for each task that can be measured. Raises UserError."""
    found = find_files([DataSet(name, files.counts, FOLDERS, files.counts)
                        for name, files in FILES.items()], data)
    with user_errors("scikit-learn is missing", python_m("pip install scikit-learn"), ImportError):
        import_module("sklearn")
    return {str(data): found}


def read(source):
    """Task name → TransferTask. Raises UserError with file and line, or with the number of rows."""
    tasks = {}
    for name, paths in source.items():
        files, rows = FILES[name], []
        for label, (part, (file, path)) in enumerate(zip(files.parts, paths.items())):
            rows += [(part, *row) for row in _rows(files, files.counts[file], path, label)]
        parts, labels, *sides = zip(*rows)
        texts = [text for side in sides for text in side]
        tasks[name] = TransferTask(texts, np.array(labels), np.array(parts))
    return tasks


def _rows(files, count, path, label):
    """Yield each line's label (its number) and sentences.

    label: that of all lines of a file that holds only sentences, even of its empty lines
    """
    lines = lines_of(path, "SentEval", files.encoding)[files.header:]
    if len(lines) != count:
        raise UserError(f"{path}: {len(lines):,} rows, expected the official {count:,}; fetch it "
                        "again with SentEval's own script")
    for number, line in enumerate(lines, start=1 + files.header):
        found = re.fullmatch(files.row, line.rstrip("\r"))
        if not found:
            raise UserError(f"{path}, line {number}: {line[:60]!r}, expected the official columns "
                            f"and a label in {files.labels}")
        columns = found.groupdict()
        if "label" in columns:
            label = files.labels.index(columns.pop("label"))
        yield label, *map(str.strip, columns.values())


def scores(run, tasks, encode):
    """What is predicted from vectors: row → task → (tested,)."""
    return {"trained": learned(encode, tasks)}


def baselines(run, tasks):
    """The most frequent class, in the form of `scores`."""
    return {"most frequent class": {name: most_frequent(task) for name, task in tasks.items()}}


def title(name, tasks):
    """The heading, with the number of tested rows of each task."""
    counts = ", ".join(f"{of_task} {len(task.tested):,}" for of_task, task in tasks.items())
    return f"SentEval, tested: {counts}; right, %; F1 × 100"


def figures(tasks, predicted):
    """The mean over the tasks, each task's accuracy, and F1 of MRPC.

    predicted: task → (tested,) → metric → (value, low, high)
    """
    found = {name: per_cent(predicted[name] == task.tested) for name, task in tasks.items()}
    found = {"mean": without_interval(np.mean([value for value, *_ in found.values()])), **found}
    if "MRPC" in tasks:
        said, true = predicted["MRPC"], tasks["MRPC"].tested
        found["MRPC F1"] = without_interval(200 * (said * true).sum() / max((said + true).sum(), 1))
    return found


def lead(tasks, one, other):
    """How much higher the mean over tasks is for `one`: value, low, high. Tasks are resampled."""
    return difference(np.mean, *([100 * np.mean(predicted[name] == task.tested)
                                  for name, task in tasks.items()] for predicted in (one, other)))


def note(name, tasks, scores):
    """Which tasks were not measured."""
    return "\n".join(f"{of_task}: not measured. {name} lacks {' or '.join(files.counts)}"
                     for of_task, files in FILES.items() if of_task not in tasks)


def most_frequent(task):
    """For each tested row: the most frequent class of train, or of all."""
    train = task.labels[task.parts == "train"]
    return np.full(len(task.tested), np.bincount(train if len(train) else task.labels).argmax())


def learned(encode, tasks):
    """What is predicted from the vectors of texts: task name → (tested,)."""
    bar = progress(tasks.items(), "SentEval", unit=" tasks", delay=3)
    return {name: learn(encode(task.texts), task) for name, task in bar}


def learn(x, task):
    """Learn a TransferTask from the vectors of its texts; predict its tested rows: (tested,).

    The loss is the mean cross-entropy, plus λ/2 times the sum of squared weights. λ is chosen on
    dev, or by 10-fold cross-validation on train. Without an official split, each of ten folds is
    predicted by a classifier that never saw it. There is one process per core.
    """
    from sklearn.linear_model import LogisticRegression    # here, because it takes a second
    from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_predict
    y, folds = task.labels, StratifiedKFold(10, shuffle=True, random_state=2018)
    train, dev, tested = (np.flatnonzero(task.parts == part) for part in ("train", "dev", "test"))
    if len(x) > len(y):                                       # sentences in pairs
        u, v = np.split(x, 2)
        x = np.hstack([np.abs(u - v), u * v])
    learned_from = len(train) or 0.9 * len(y)
    grid = {"C": [1 / (strength * learned_from) for strength in STRENGTHS]}
    search = GridSearchCV(LogisticRegression(max_iter=1_000), grid, cv=folds)
    with threadpool_limits(1), warnings.catch_warnings(
            action="ignore", category=UserWarning):           # rare classes, many steps
        if not len(train):
            return cross_val_predict(search, x, y, cv=folds, n_jobs=-1)
        search.n_jobs = -1
        if len(dev):
            search.set_params(cv=[(train, dev)], refit=False).fit(x, y)
            best = search.estimator.set_params(**search.best_params_).fit(x[train], y[train])
        else:
            best = search.fit(x[train], y[train])
        return best.predict(x[tested])
