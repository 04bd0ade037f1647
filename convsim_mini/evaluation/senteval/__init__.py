"""Are a run's vectors good features? The transfer tasks of SentEval (Conneau and Kiela 2018).

    python -m convsim_mini.evaluation.senteval RUN --data DIR [--vectors FILE] [--hidden N]

The encoder stays as it is; a logistic regression, or with --hidden a network, learns each task from
its vectors. A sentence is seen as its vector u, a pair as |u − v| and u · v element by element. In
SNLI the two sides differ in kind, so a pair is seen as u and v, too. Beside the run stand the most
frequent class and means of word vectors. Where a task's test file is missing, dev is measured.

The classifiers are scikit-learn's, which is needed for this alone: pip install scikit-learn.
"""

from importlib import import_module
from pathlib import Path

import numpy as np

from ...common.cli import UserError, python_m, user_errors
from ...common.tables import table
from ...inference.sentence_encoder import encoder_of, tell_cut
from ...core.nli import nli_features_forward
from ..baselines import (
    frequency_weight, mean_vectors, run_vectors, term_counts, vectors_by_id, vocabulary_of,
    words_of)
from ..metrics import per_cent, r_with_interval, spearman, with_interval
from ..task_files import published
from .files import FILES, find_tasks, read_task

PUBLISHED = published("senteval")
TEXTS_AT_ONCE = 50_000
SNLI_PAIRS = FILES["SNLI"].counts["snli_1.0_train.jsonl"]


def find(data, run):
    """DIR → what `find_tasks` finds there. Raises UserError also where scikit-learn is missing."""
    if data is None:
        raise UserError("--data is missing: give the folder that SentEval's own script fills")
    found = {str(Path(data)): find_tasks(data)}
    with user_errors("scikit-learn is missing", python_m("pip install scikit-learn"), ImportError):
        import_module("sklearn")
    return found


def read(source):
    """Task name → Task. Raises UserError with file and line."""
    return {name: read_task(name, folder) for name, folder in source.items()}


def scores(run, tasks, hidden=0):
    """What is predicted from the run's vectors: row name → task name → classes or scores (tested,).

    hidden: units of a hidden layer, or 0 for logistic regression
    """
    packed = {name: run.vocabulary.encode(task.texts) for name, task in tasks.items()}
    tell_cut(run.config.model, np.concatenate([of_task.lengths for of_task in packed.values()]))
    encoder = encoder_of(run)
    return {"trained": {name: learn(encoder.embed(packed[name]), task, hidden)
                        for name, task in tasks.items()}}


def baselines(run, tasks, vectors=None, hidden=0):
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
        rows[row] = {name: learn(means(task.texts, of_words, weight), task, hidden)
                     for name, task in tasks.items()}
    return rows


def summary(name, tasks, scores, baselines):
    """A table with a line for each task; to the right of our rows' columns published figures."""
    rows = scores | baselines
    lines = []
    for of_task, task in tasks.items():
        ours = [cell(of_task, task, row[of_task]) for row in rows.values()]
        theirs = ["-" if task.on_dev else figures[of_task]
                  for figures in PUBLISHED["figures"].values()]
        part = " dev" if task.on_dev else ""
        lines.append([f"{of_task}{part}, {task.tested.sum():,}", *ours, *theirs])
    notes = [f"{of_task}: not measured. {name} lacks {' or '.join(files.needed)}"
             for of_task, files in FILES.items() if of_task not in tasks]
    if any(task.on_dev for task in tasks.values()):
        notes.append("dev: measured where the test file is missing; train alone chose the strength")
    seen = (tasks["SNLI"].parts == "train").sum() if "SNLI" in tasks else SNLI_PAIRS
    if seen < SNLI_PAIRS:
        notes.append(f"SNLI: learned from {seen:,} pairs, all of it has {SNLI_PAIRS:,}")
    header = ["SentEval, tested; right, % (MRPC / F1; SICK-R, STS-B: r / rho × 100)", *rows,
              *PUBLISHED["figures"]]
    return "\n".join([table(header, lines), PUBLISHED["source"], *notes])


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


def means(texts, vectors, weight=None):
    """The mean of each text's word vectors, float32 (B, d).

    vectors: word → (d,); weight: word → float, or None for 1
    """
    vocabulary, packed = vocabulary_of(texts)
    by_id = vectors_by_id(vocabulary, vectors)
    weights = np.ones(vocabulary.size)
    if weight:
        weights[1:-1] = [weight(word) for word in vocabulary.words]
    counts = term_counts(packed, vocabulary.size)
    return np.concatenate([
        mean_vectors(counts[first:first + TEXTS_AT_ONCE], by_id, weights).astype(np.float32)
        for first in range(0, len(texts), TEXTS_AT_ONCE)])


def features(vectors, task):
    """What a classifier sees of a Task.

    Of sentences their vectors: (n, d) → (n, d). Of pairs |u − v| and u · v: (2n, d), all first
    sentences before all second ones → (n, 2d). Of a large task Pairs.
    """
    if len(task.sides) == 1:
        return vectors
    u, v = np.split(vectors, 2)
    return Pairs(u, v) if task.large else np.hstack([abs(u - v), u * v])


class Pairs:
    """x[rows] makes rows of (u, v, |u − v|, u · v). All rows of SNLI at once would be 9 GB."""

    def __init__(self, u, v):
        self.u, self.v = u, v

    def __getitem__(self, rows):
        return nli_features_forward(self.u[rows], self.v[rows])[0]


def learn(vectors, task, hidden=0):
    """Predict a Task's tested rows: as `fitting.learn`, from the vectors of its sentences."""
    from . import fitting    # scikit-learn takes a second, and other commands do without it

    return fitting.learn(features(vectors, task), task, hidden)


def most_frequent(task):
    """For each tested row the most frequent class, or the mean score, of the training rows."""
    seen = task.labels if task.parts is None else task.labels[task.parts == "train"]
    answer = np.bincount(seen).argmax() if task.grades is None else seen.mean()
    return np.full(task.tested.sum(), answer)


def f1(predicted, true):
    """2 · true positives / (predicted positives + positives): 0 or 1 (n,), (n,) → float."""
    return 2 * float(np.sum(predicted * true) / max(np.sum(predicted) + np.sum(true), 1))
