"""Are vectors good features? The transfer tasks of SentEval (Conneau and Kiela 2018).

The encoder stays as it is; a logistic regression learns each task from its vectors. The features
of a sentence are its vector u; those of a pair are |u − v| and the elementwise product of u and v.
The baselines are the most frequent class and means of the run's word vectors, plain and with
weights a/(a + p(word)). If a task's test file is missing, dev is measured, and λ is chosen on train
only. SentEval's SNLI is in nli.py.

Only the classifiers need scikit-learn: pip install scikit-learn.
SentEval's own engine takes `lambda params, batch: encoder.encode([*map(" ".join, batch)])`.
"""

import re
from importlib import import_module
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import msgspec
import numpy as np

from ..common.cli import UserError, progress, python_m, user_errors
from ..data.labelled import DataSet, find as find_files, lines_of, rows_of
from .baselines import frequency_weight, means_of_words
from .metrics import correlation, difference, per_cent, spearman, without_interval


class Files(msgspec.Struct):
    """A task's files, as senteval.json lists them, and how their rows are read."""

    counts: dict[str, int]    # file → its official number of rows
    parts: list               # of the files: train, dev, test; all test without an official split
    labels: list = []         # their names; scores have none
    grades: list = []         # the lowest and the highest score
    row: str = "sentence"     # the columns of a line; without "label" each file has one label
    separator: str = "\n"     # of columns, a pattern
    splits: int = 0           # how many separators count; 0: all
    encoding: str = "utf-8-sig"    # some copies of MRPC begin with a BOM
    header: bool = False
    folders: tuple[str, ...] = ("downstream", "senteval/downstream")    # as its own script has them

    @property
    def needed(self):
        """The files without which a task cannot be measured; with dev, it needs no test file."""
        return [file for file, part in zip(self.counts, self.parts)
                if part != "test" or "dev" not in self.parts]

    @property
    def row_type(self):
        """The Struct of a line: each column is a text, except the label."""
        label = (Annotated[float, msgspec.Meta(ge=self.grades[0], le=self.grades[1])] if self.grades
                 else Literal[*self.labels])
        return msgspec.defstruct(
            "SentEvalRow", [(name, label if name == "label" else str) for name in self.row.split()],
            namespace={"__doc__": f"a label in {self.labels or self.grades} and the official "
                                  "columns"})


FILES = msgspec.json.decode(Path(__file__).with_suffix(".json").read_bytes(), type=dict[str, Files])


class TransferTask(NamedTuple):
    """A labelled set of n sentences, or of n pairs of sentences."""

    texts: list            # n sentences; or n first sentences, then n second ones
    labels: np.ndarray     # (n,): a label's number, an int; or a score, a float
    parts: np.ndarray      # (n,): "train", "dev" or "test"; all "test" without a split
    on_dev: bool = False   # "test" is dev, because test's file is missing

    @property
    def scored(self):
        """Whether its labels are scores."""
        return self.labels.dtype.kind == "f"

    @property
    def tested(self):
        """The labels of the part "test": (tested,)."""
        return self.labels[self.parts == "test"]

    def figure(self, said):
        """Accuracy, or Pearson's r of scores: predictions (tested,) → value, low, high."""
        return correlation(said, self.tested) if self.scored else per_cent(said == self.tested)


def find(data, run=None):
    """DIR → task name → file name → path, for each task that can be measured. Raises UserError."""
    found = find_files([DataSet(name, files.counts, files.folders, files.needed)
                        for name, files in FILES.items()], data)
    with user_errors("scikit-learn is missing", python_m("pip install scikit-learn"), ImportError):
        import_module("sklearn")
    return {str(data): found}


def read(source):
    """Task name → TransferTask. Raises UserError with file and line, or with the number of rows."""
    return {name: _task(name, FILES[name], paths) for name, paths in source.items()}


def _task(name, files, paths):
    *parts, last = files.parts[:len(paths)]                   # without test's file, dev is tested
    of_parts = enumerate(zip([*parts, "test"], paths.items()))
    rows = [(part, *row) for label, (part, (file, path)) in of_parts
            for row in _rows(files, file, path, label)]
    of_rows, labels, *sides = zip(*rows)
    return TransferTask([text for side in sides for text in side], np.array(labels),
                        np.array(of_rows), last == "dev")


def _rows(files, file, path, label):
    """Yield each line's label (its number, or a score) and sentences.

    label: the label of all lines of a file that holds only sentences, even of its empty lines
    """
    lines = lines_of(path, "SentEval", files.encoding)[files.header:]
    if len(lines) != files.counts[file]:
        raise UserError(f"{path}: {len(lines):,} rows, expected the official "
                        f"{files.counts[file]:,}; fetch it again with SentEval's own script")
    columns = files.row.split()
    cells = (re.split(files.separator, line, maxsplit=files.splits) for line in lines)
    records = (dict(zip(columns, map(str.strip, of_line))) for of_line in cells)
    for row in rows_of(path, files.row_type, enumerate(records, start=1 + files.header)):
        if "label" in columns:
            label = files.labels.index(row.label) if files.labels else row.label
        yield label, *(getattr(row, name) for name in columns if name.startswith("sentence"))


def scores(run, tasks, encode):
    """What is predicted from vectors: row → task → (tested,)."""
    return {"trained": learned(encode, tasks)}


def baselines(run, tasks):
    """The most frequent class, and predictions from mean word vectors, in the form of `scores`."""
    rows = {"most frequent class": {name: most_frequent(task) for name, task in tasks.items()}}
    if run:
        weights = {"mean": None, "weighted mean": frequency_weight(run.vocabulary)}
        for kind, weight in weights.items():
            rows[f"{kind} of own vectors"] = learned(
                lambda texts: means_of_words(run, texts, weight).astype(np.float32), tasks)
    return rows


def title(name, tasks):
    """The heading, with the number of tested rows of each task."""
    counts = ", ".join(f"{of_task} {len(task.tested):,}" for of_task, task in tasks.items())
    return f"SentEval, tested: {counts}; right, %; F1, r and rho × 100"


def figures(tasks, predicted):
    """The mean over the tasks, each task's accuracy or Pearson's r, then F1 and Spearman's rho.

    In the mean, an r of nan counts as 0. predicted: task → (tested,) → metric → (value, low, high)
    """
    found, more = {}, {}
    for name, task in tasks.items():
        metric, true, said = name + " dev" * task.on_dev, task.tested, predicted[name]
        found[metric] = task.figure(said)
        if task.scored:
            more[f"{metric} rho"] = without_interval(100 * spearman(said, true))
        if name == "MRPC":
            f1 = 200 * (said * true).sum() / max((said + true).sum(), 1)
            more[f"{metric} F1"] = without_interval(f1)
    return {"mean": without_interval(in_mean(tasks, predicted).mean()), **found, **more}


def in_mean(tasks, predicted):
    """Each task's main figure, 0 if it is nan: (tasks,)."""
    return np.nan_to_num([task.figure(predicted[name])[0] for name, task in tasks.items()])


def lead(tasks, one, other):
    """How much higher the mean over tasks is for `one`: value, low, high. Tasks are resampled."""
    return difference(np.mean, in_mean(tasks, one), in_mean(tasks, other))


def note(name, tasks, scores):
    """Which tasks were not measured."""
    return "\n".join(f"{of_task}: not measured. {name} lacks {' or '.join(files.needed)}"
                     for of_task, files in FILES.items() if of_task not in tasks)


def learned(encode, tasks):
    """What is predicted from the vectors of texts: task name → (tested,)."""
    from .classifiers import learn    # takes a second, and other commands need no scikit-learn
    bar = progress(tasks.items(), "SentEval", unit=" tasks", delay=3)
    return {name: learn(encode(task.texts), task) for name, task in bar}


def most_frequent(task):
    """For each tested row: the most frequent class, or the mean score, of train (or of all)."""
    train = task.parts == "train"
    seen = task.labels[train] if train.any() else task.labels
    return np.full(len(task.tested), seen.mean() if task.scored else np.bincount(seen).argmax())
