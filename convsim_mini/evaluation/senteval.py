"""Are vectors good features? The transfer tasks of SentEval (Conneau and Kiela 2018).

    python -m convsim_mini.evaluation.senteval RUN --data DIR [--vectors FILE]

The encoder stays as it is; a logistic regression learns each task from its vectors. A sentence is
seen as its vector u, a pair as |u − v| and u · v element by element. In SNLI the two sides differ
in kind, so a pair is seen as u and v, too. Beside the run stand the most frequent class and means
of word vectors. Where a task's test file is missing, dev is measured.

The classifiers are scikit-learn's, which is needed for this alone: pip install scikit-learn.
SentEval's own engine takes `lambda params, batch: encoder.encode([*map(" ".join, batch)])`.
"""

from importlib import import_module
from itertools import product, zip_longest
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import msgspec
import numpy as np

from ..common.cli import UserError, python_m, user_errors
from ..common.tables import table
from ..core.nli import nli_features_forward
from ..data.labelled import DataSet, find as find_files, lines_of, rows_of
from ..data.snli import read_snli
from ..inference.sentence_encoder import encoder_of, tell_cut
from ..training.run import Run
from .baselines import frequency_weight, means_of_texts, run_vectors, words_of
from .command import PUBLISHED, main
from .metrics import per_cent, r_with_interval, spearman, with_interval

FOLDERS = "", "downstream", "senteval/downstream"    # where SentEval's script puts its data


class Files(msgspec.Struct):
    """A task's files, as senteval.json lists them, and how their rows are read."""

    counts: dict[str, int]         # file → its official number of rows
    labels: list = []              # their names, or none for scores
    parts: list = []               # "train", "dev" or "test" of each file, or none
    row: str = "sentence"          # the columns of a line; without "label" each file has one label
    separator: str = " "           # of columns; a space separates the first columns alone
    encoding: str = "utf-8-sig"    # some copies of MRPC begin with a BOM
    header: bool = False
    grades: list | None = None     # of scores, the lowest and the highest
    folders: tuple[str, ...] = ("",)    # where the files may be, below one of FOLDERS

    @property
    def needed(self):
        """The files without which the task cannot be measured. With dev it needs no test."""
        return [file for file, part in zip_longest(self.counts, self.parts)
                if part != "test" or "dev" not in self.parts]


FILES = msgspec.json.decode(Path(__file__).with_suffix(".json").read_bytes(), type=dict[str, Files])


class Task(NamedTuple):
    """A labelled set of n sentences, or of n pairs of sentences."""

    sides: tuple                   # one list of n sentences, or two
    labels: np.ndarray             # (n,): a label's number, or a score
    parts: np.ndarray | None       # (n,): "train", "dev" or "test"; None without an official split
    grades: list | None = None     # of scores, the lowest and the highest
    large: bool = False            # SNLI: the features of all rows would be 9 GB

    @property
    def texts(self):
        """All sentences; of pairs all first sentences, then all second ones."""
        return [text for side in self.sides for text in side]

    @property
    def on_dev(self):
        """Whether dev is measured, because there is no test part."""
        return self.parts is not None and "test" not in self.parts

    @property
    def tested(self):
        """Which rows count: bool (n,). The rows of test, or else of dev; all without a split."""
        if self.parts is None:
            return np.ones(len(self.labels), bool)
        return self.parts == ("dev" if self.on_dev else "test")


def find(data, run=None):
    """DIR → task name → file name → path, of each task that can be measured. Raises UserError.

    The files stand in DIR or one of FOLDERS, the STS Benchmark perhaps in DIR/stsbenchmark.
    """
    sets = [DataSet(name, tuple(files.counts),
                    tuple(str(Path(*both)) for both in product(FOLDERS, files.folders)),
                    tuple(files.needed)) for name, files in FILES.items()]
    found = find_files(sets, data)
    with user_errors("scikit-learn is missing", python_m("pip install scikit-learn"), ImportError):
        import_module("sklearn")
    return {str(data): found}


def read(source):
    """Task name → Task. Raises UserError with file and line, or with the number of rows."""
    tasks = {}
    for name, paths in source.items():
        files, rows, parts = FILES[name], [], []
        for place, (file, path) in enumerate(paths.items()):
            of_file = [*_rows(path, files, file, place)]
            rows += of_file
            parts += files.parts[place:place + 1] * len(of_file)
        labels, *sides = zip(*rows)
        tasks[name] = Task(tuple(map(list, sides)), np.array(labels),
                           np.array(parts) if parts else None, files.grades, name == "SNLI")
    return tasks


def _rows(path, files, file, place):
    """Yield the label, its number or a score, and the sentences of each line.

    An empty line is a row, too, where a file holds sentences alone (four of CR, three of MPQA).
    """
    if path.suffix == ".jsonl":                               # pairs without a label are left out
        snli = read_snli(path)
        yield from zip(snli.labels, snli.premises, snli.hypotheses)
        return
    lines = lines_of(path, "SentEval", files.encoding)[files.header:]
    if len(lines) != files.counts[file]:
        raise UserError(f"{path}: {len(lines):,} rows, expected the official "
                        f"{files.counts[file]:,}; fetch it again by SentEval's own script")
    columns = files.row.split()
    splits = len(columns) - 1 if files.separator == " " else -1
    kind, expected = Literal[*files.labels], f"a label of {', '.join(files.labels)}"
    if files.grades:
        low, high = files.grades
        kind, expected = Annotated[float, msgspec.Meta(ge=low, le=high)], f"{low} to {high}"
    row = msgspec.defstruct(
        "Row", [(name, kind if name == "label" else str) for name in dict.fromkeys(columns)],
        namespace={"__doc__": f"label: {expected}; and the columns of the official file"})

    def record(line):
        values = dict(zip(columns, map(str.strip, line.split(files.separator, splits))))
        if values.get("label") and not files.grades:          # TREC's coarse classes are the task
            values["label"] = values["label"].partition(":")[0]
        return values

    for one in rows_of(path, row, enumerate(map(record, lines), start=1 + files.header)):
        label = getattr(one, "label", place)
        yield (files.labels.index(label) if isinstance(label, str) else label,
               *(getattr(one, name) for name in columns if name.startswith("sentence")))


def scores(encode, tasks):
    """What is predicted from vectors: row name → task name → classes or scores (tested,).

    Of a Run the vectors are those of `encode`, which also count words (ours).
    """
    if isinstance(encode, Run):
        tell_cut(encode.config.model, encode.vocabulary.encode(texts_of(tasks)).lengths)
        encode = encoder_of(encode).encode
    return {"trained": {name: learn(encode(task.texts), task) for name, task in tasks.items()}}


def baselines(run, tasks, vectors=None):
    """The most frequent class, and what is predicted from means of word vectors: as `scores`.

    The run's own vectors also make means weighted by a/(a + p(word)).
    """
    rows = {"most frequent class": {name: most_frequent(task) for name, task in tasks.items()}}
    kinds = [(f"mean of {name}", of_words, None) for name, of_words in (vectors or {}).items()]
    if run:
        own = run_vectors(run, words_of(texts_of(tasks)))
        kinds = [("mean of own vectors", own, None),
                 ("weighted mean of own vectors", own, frequency_weight(run.vocabulary)), *kinds]
    for row, of_words, weight in kinds:
        rows[row] = {name: learn(means_of_texts(task.texts, of_words, weight), task)
                     for name, task in tasks.items()}
    return rows


def summary(name, tasks, scores, baselines):
    """A table with a line for each task; to the right of our rows' columns published figures."""
    rows = scores | baselines
    lines = []
    for of_task, task in tasks.items():
        ours = [cell(of_task, task, row[of_task]) for row in rows.values()]
        theirs = ["-" if task.on_dev else figures[of_task]
                  for figures in PUBLISHED["senteval"]["figures"].values()]
        part = " dev" if task.on_dev else ""
        lines.append([f"{of_task}{part}, {task.tested.sum():,}", *ours, *theirs])
    notes = [f"{of_task}: not measured. {name} lacks {' or '.join(files.needed)}"
             for of_task, files in FILES.items() if of_task not in tasks]
    if any(task.on_dev for task in tasks.values()):
        notes.append("dev: measured where the test file is missing; train alone chose the strength")
    if "SNLI" in tasks:
        seen = (tasks["SNLI"].parts == "train").sum()
        notes.append(f"SNLI: learned from {seen:,} pairs, all of it has 549,367")
    header = ["SentEval, tested; right, % (MRPC / F1; SICK-R, STS-B: r / rho × 100)", *rows,
              *PUBLISHED["senteval"]["figures"]]
    return "\n".join([table(header, lines), PUBLISHED["senteval"]["source"], *notes])


def cell(name, task, predicted):
    """The figures of a Task's tested rows, with their 95% interval."""
    true = task.labels[task.tested]
    if task.grades is None:
        right = with_interval(per_cent(predicted == true))
        return f"{right} / {100 * f1(predicted, true):.1f}" if name == "MRPC" else right
    if np.ptp(predicted) == 0:                                # such a row correlates with nothing
        return "-"
    return f"{r_with_interval(predicted, true)} / {100 * spearman(predicted, true):.1f}"


def texts_of(tasks):
    """The sentences of all tasks."""
    return [text for task in tasks.values() for text in task.texts]


def features(vectors, task):
    """What a classifier sees of a Task, by rows: Of sentences their vectors, of pairs Pairs.

    vectors: (n, d), or of pairs (2n, d), all first sentences before all second ones
    """
    return vectors if len(task.sides) == 1 else Pairs(*np.split(vectors, 2), task.large)


class Pairs(NamedTuple):
    """x[rows] makes rows of |u − v| and u · v, of a large task of u, v, |u − v| and u · v."""

    u: np.ndarray
    v: np.ndarray
    large: bool

    def __getitem__(self, rows):
        made, _ = nli_features_forward(self.u[rows], self.v[rows])
        return made if self.large else made[:, 2 * self.u.shape[1]:]


def learn(vectors, task):
    """Predict a Task's tested rows: as `classifiers.learn`, from the vectors of its sentences."""
    from . import classifiers    # scikit-learn takes a second, and other commands do without it

    return classifiers.learn(features(vectors, task), task)


def most_frequent(task):
    """For each tested row the most frequent class, or the mean score, of the training rows."""
    seen = task.labels if task.parts is None else task.labels[task.parts == "train"]
    answer = np.bincount(seen).argmax() if task.grades is None else seen.mean()
    return np.full(task.tested.sum(), answer)


def f1(predicted, true):
    """2 · true positives / (predicted positives + positives): 0 or 1 (n,), (n,) → float."""
    return 2 * float(np.sum(predicted * true) / max(np.sum(predicted) + np.sum(true), 1))


if __name__ == "__main__":
    main("senteval", "--vectors", data="folder that SentEval's own script fills, with "
         "MR/, CR/, …, or with downstream/ or senteval/downstream/; perhaps stsbenchmark/ and "
         "snli_1.0/ beside these")
