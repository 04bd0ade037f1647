"""Semantic similarity of SemEval's years 2012 to 2016, as SentEval counts it (ours).

    python -m convsim_mini.evaluation.sts_years RUN --data DIR [--vectors FILE]

A year has several sets. Its r is the mean over them: plain, and weighted by their pairs. A run's
score of a pair is the cosine. Beside it stand the `baselines` of sts.py, and published figures.
"""

from pathlib import Path

import numpy as np

from ..common.cli import UserError
from ..common.tables import table
from ..inference.sentence_encoder import encoder_of
from . import sts as benchmark
from .command import main
from .senteval.files import FOLDERS
from .task_files import lines_of, number_or_nan, published

baselines, texts_of = benchmark.baselines, benchmark.texts_of    # the same for this task

PUBLISHED = published("sts_years")
COUNTS = PUBLISHED["counts"]    # year → set → number of scored pairs


def find(data, run):
    """Year → its folder in DIR, DIR/STS, or below where SentEval's script puts it."""
    if data is None:
        raise UserError("--data is missing: give the folder that SentEval's own script fills")
    for folder in (Path(data), *(Path(data, below, "STS") for below in FOLDERS)):
        found = {year: folder / year for year in COUNTS if (folder / year).is_dir()}
        if found:
            return found
    raise UserError(f"{data}: holds no {' or '.join(COUNTS)}, nor do its STS, downstream/STS and "
                    "senteval/downstream/STS; give the folder that SentEval's own script fills")


def read(folder):
    """The Sts of a year's folder, its sets as genres.

    STS.input.SET.txt holds two sentences a line, in 2016 also where they are from; STS.gs.SET.txt
    their score from 0 to 5, or nothing where no one judged the pair. Raises UserError.
    """
    rows = []
    for name, count in COUNTS[folder.name].items():
        of_set = list(_pairs(folder, name))
        if len(of_set) != count:
            raise UserError(f"{folder / f'STS.gs.{name}.txt'}: {len(of_set):,} scores, expected "
                            f"the official {count:,}; fetch it again by SentEval's own script")
        rows += of_set
    names, labels, sentences1, sentences2 = zip(*rows)
    return benchmark.Sts(np.array(names), np.array(labels), list(sentences1), list(sentences2))


def _pairs(folder, name):
    """Yield (name of the set, score, sentence, sentence) of each pair with a score."""
    inputs, gold = (folder / f"STS.{kind}.{name}.txt" for kind in ("input", "gs"))
    texts, scores = (lines_of(path, "SemEval's STS") for path in (inputs, gold))
    if len(texts) != len(scores):
        raise UserError(f"{gold}: {len(scores):,} lines, expected one for each of the "
                        f"{len(texts):,} of {inputs.name}; fetch both again")
    for number, (text, score) in enumerate(zip(texts, scores), start=1):
        columns = text.split("\t")
        if not score.strip():
            continue
        label = number_or_nan(score)
        if not 0 <= label <= 5 or len(columns) < 2:
            raise UserError(f'{gold}, line {number}: score "{score}" of {len(columns)} columns, '
                            "expected a number from 0 to 5 of two sentences between tabs")
        yield name, label, columns[0].strip(), columns[1].strip()


def scores(run, sts):
    """The cosine of each pair: row name → (n,)."""
    return {"trained": np.cos(benchmark.similarity(run.model, run.vocabulary, sts)),
            "as encode gives it": benchmark.cosines(encoder_of(run).encode, sts)}


def summary(name, sts, scores, baselines):
    """r / rho × 100 of each row: the two means over the sets, then each set; published figures."""
    sets, counts = np.unique(sts.genres, return_counts=True)
    rows = []
    for row, values in (scores | baselines).items():
        figures = 100 * np.array([*benchmark.correlations(values, sts, sets).values()])
        means = np.mean(figures, axis=0), np.average(figures, axis=0, weights=counts)
        rows.append([row, *("{:.1f} / {:.1f}".format(*pair) for pair in (*means, *figures))])
    rows += [[f"{row}, published", r] for row, r in PUBLISHED["figures"][name].items()]
    titles = (f"{one} {count}" for one, count in zip(sets, counts))
    header = [f"{name}, r / rho × 100", "mean", "weighted", *titles]
    return f"{table(header, rows)}\n{PUBLISHED['source']}"


if __name__ == "__main__":
    main("sts_years", "--vectors", data="folder that SentEval's own script fills, or its STS/")
