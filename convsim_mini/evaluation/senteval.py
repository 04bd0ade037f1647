"""Are a run's vectors good features? The transfer tasks of SentEval (Conneau and Kiela 2018).

    python -m convsim_mini.evaluation.senteval RUN --data DIR [--vectors FILE] [--hidden N]

The encoder stays as it is; a logistic regression, or with --hidden a network, learns each task from
its vectors. A sentence is seen as its vector u, a pair as |u − v| and u · v element by element, and
also as u and v in SNLI, whose sides differ in kind. Beside the run stand the most frequent class
and means of word vectors. Where a task's test file is missing, dev is measured.

On one core that had other work, too, a DAN took 42 s for all tasks without SNLI. SNLI's 549,367
pairs took 51 s and 5.6 GB. Each kind of word vectors took about as long. With --hidden 50 CR took
66 s, most of it for the nested cross-validation, and a task with a split 3 to 11 s.
"""

from functools import partial
from pathlib import Path

import numpy as np

from ..cli import UserError, cut_report
from ..model.input_response import embed
from ..model.nli import nli_features_forward
from ..tables import table
from . import classifiers, stochastic
from .baselines import frequency_weight, term_counts
from .command import main
from .metrics import pearson, pearson_interval, per_cent, spearman
from .senteval_files import FILES, find_tasks, read_task
from .word_baselines import mean_vectors, run_vectors, vocabulary_of, words_of

# right, % (MRPC / F1), or Pearson's r of the two with scores, in the order of FILES
PUBLISHED = {
    "GloVe 840B mean ¹": "77.4 78.7 91.2 87.7 80.3 44.7 83.0 72.7/81.0 78.5 79.9 64.7 -",
    "InferSent ¹": "81.1 86.3 92.4 90.2 84.6 46.3 88.2 76.2/83.1 86.3 88.3 75.6 -",
    "SBERT-NLI-base ²": "83.64 89.43 94.39 89.86 88.96 - 89.6 76.00 - - - -",
}
SOURCES = ("published: ¹ Conneau and Kiela (2018), tables 3 and 4, logistic regression; "
           "² Reimers and Gurevych (2019), table 5")
TEXTS_AT_ONCE = 50_000
SNLI_PAIRS = FILES["SNLI"].counts["labels.train"]
UNPENALISED = 1e-9    # SentEval's strength for SNLI


def find(data, run):
    """The tasks in DIR, DIR/downstream or DIR/senteval/downstream. Raises UserError without one."""
    if data is None:
        raise UserError("--data is missing: give the folder that SentEval's own script fills")
    return {str(Path(data)): find_tasks(data)}


def read(source):
    """Task name → Task. Raises UserError with file and line."""
    return {name: read_task(name, folder) for name, folder in source.items()}


def scores(run, tasks, hidden=0):
    """What the run's vectors lead to: row name → task name → classes or scores (tested,).

    hidden: units of a hidden layer, or 0 for logistic regression
    """
    packed = {name: run.vocabulary.encode(task.texts) for name, task in tasks.items()}
    lengths = np.concatenate([of_task.lengths for of_task in packed.values()])
    if run.config.model.encoder == "transformer" and lengths.max() > run.config.model.max_tokens:
        print(cut_report(run.config.model, lengths))
    return {"trained": {name: learn(embed(run.model, packed[name]), task, hidden)
                        for name, task in tasks.items()}}


def baselines(run, tasks, vectors=None, hidden=0):
    """The most frequent class, and what means of word vectors lead to: as `scores`.

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
    """Accuracy, or Pearson's r, with its 95% interval, a line a task and a column a row.

    MRPC has its F1, too, and scores have Spearman's rho. Published figures stand to the right.
    """
    rows, lines = scores | baselines, []
    published = [dict(zip(FILES, figures.split())) for figures in PUBLISHED.values()]
    for of_task, task in tasks.items():
        true = task.labels[task.tested]
        cells = [cell(of_task, task, row[of_task]) for row in rows.values()]
        lines.append([f"{of_task}{' dev' * task.on_dev}, {len(true):,}", *cells,
                      *("-" if task.on_dev else row[of_task] for row in published)])
    notes = [f"{of_task}: not measured. {name} lacks {' or '.join(files.needed)}"
             for of_task, files in FILES.items() if of_task not in tasks]
    if any(task.on_dev for task in tasks.values()):
        notes.append("dev: measured where the test file is missing; train alone chose the strength")
    if "SNLI" in tasks and (seen := np.sum(tasks["SNLI"].parts == "train")) < SNLI_PAIRS:
        notes.append(f"SNLI: learned from {seen:,} pairs, all of it has {SNLI_PAIRS:,}")
    header = ["SentEval, tested; right, % (MRPC / F1; SICK-R, STS-B: r / rho × 100)", *rows,
              *PUBLISHED]
    return "\n".join([table(header, lines), SOURCES, *notes])


def cell(name, task, predicted):
    """The figures of a Task's tested rows, with their 95% interval."""
    true = task.labels[task.tested]
    if task.grades is None:
        figures = "{:.1f} [{:.1f}, {:.1f}]".format(*per_cent(predicted == true))
        return figures + (f" / {100 * f1(predicted, true):.1f}" if name == "MRPC" else "")
    if np.ptp(predicted) == 0:                                # such a row correlates with nothing
        return "-"
    r, rho = pearson(predicted, true), spearman(predicted, true)
    low, high = pearson_interval(predicted, true)
    return f"{100 * r:.1f} [{100 * low:.1f}, {100 * high:.1f}] / {100 * rho:.1f}"


def texts_of(tasks):
    """The sentences of all tasks."""
    return [text for task in tasks.values() for text in task.texts]


def means(texts, vectors, weight=None):
    """The mean of each text's word vectors, float32 (B, d).

    vectors: word → (d,); weight: word → float, or None for 1
    """
    vocabulary, packed = vocabulary_of(texts)
    none = np.zeros_like(next(iter(vectors.values())))
    by_id = np.array([none, *(vectors.get(word, none) for word in vocabulary.words), none])
    weights = np.array([0, *map(weight or (lambda word: 1), vocabulary.words), 0])
    counts = term_counts(packed, vocabulary.size)
    return np.concatenate([
        mean_vectors(counts[first:first + TEXTS_AT_ONCE], by_id, weights).astype(np.float32)
        for first in range(0, len(texts), TEXTS_AT_ONCE)])


def features(vectors, task):
    """What a classifier sees of a Task: its sentences' vectors, or |u − v| and u · v of its pairs.

    vectors: (n, d) → (n, d), or (2n, d), all first sentences before all second ones → (n, 2d), or
    where there are very many pairs rows of (u, v, |u − v|, u · v), made when they are asked for
    """
    u, *v = np.split(vectors, len(task.sides))
    if task.large:
        return Pairs(u, v[0])
    return np.hstack([abs(u - v[0]), u * v[0]]) if v else u


class Pairs:
    """Rows of (u, v, |u − v|, u · v) by x[rows]: all of SNLI's at once would be 4.5 GB."""

    def __init__(self, u, v):
        self.u, self.v = u, v

    def __getitem__(self, rows):
        return nli_features_forward(self.u[rows], self.v[rows])[0]


def learn(vectors, task, hidden=0):
    """What a Task's tested rows are taken for, learned from its sentences' vectors: (tested,).

    SNLI has no regularisation, as in SentEval. With a hidden layer, which takes much longer, one
    fold alone chooses the strength. vectors: as in `features`; hidden: as in `scores`
    """
    x, network = features(vectors, task), partial(stochastic.fit, hidden=hidden)
    if task.large:
        train = task.parts == "train"
        return network(x, task.labels, train[None], (UNPENALISED,))[0, 0, task.tested]
    return learn_by(network, x, task, 1) if hidden else learn_by(classifiers.fit, x, task)


def learn_by(fit, x, task, judging=classifiers.FOLDS):
    """What a Task's tested rows are taken for: (tested,).

    The strength of regularisation is chosen on dev, or by 10-fold cross-validation of train.
    Without an official split every row is tested, in a nested cross-validation.
    fit: `classifiers.fit` or one of its kind; x: (n, d); judging: as in `classifiers.by_folds`
    """
    if task.parts is None:
        return classifiers.nested_cross_validation(x, task.labels, fit, judging)
    train, dev = task.parts == "train", (task.parts == "dev") & ~task.tested
    plan = (classifiers.by_dev(train, dev) if dev.any() else
            classifiers.by_folds(task.labels, train[None], judging))
    return classifiers.predict(x, task.labels, plan, fit, task.grades)[0, task.tested]


def most_frequent(task):
    """The most frequent class, or the mean score, of the training rows, for each tested row."""
    seen = task.labels[slice(None) if task.parts is None else task.parts == "train"]
    return np.full(task.tested.sum(), np.bincount(seen).argmax() if task.grades is None else
                   seen.mean())


def f1(predicted, true):
    """2 · true positives / (all that were called 1 + all that are 1): int (n,), (n,) → float."""
    return 2 * float(np.sum(predicted * true) / max(np.sum(predicted) + np.sum(true), 1))


if __name__ == "__main__":
    main("senteval", "--vectors", "--hidden", data="folder that SentEval's own script fills, with "
         "MR/, CR/, …, or with downstream/ or senteval/downstream/; perhaps stsbenchmark/ and "
         "snli_1.0/ beside these")
