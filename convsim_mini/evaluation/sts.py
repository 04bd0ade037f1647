"""Semantic textual similarity: do embeddings agree with people? (the paper's §4.3, Tables 3, 4)

    python -m convsim_mini.evaluation.sts RUN [--data DIR] [--vectors FILE]

The figure is Pearson's r of the angular similarity, −arccos of the cosine, with people's scores. A
second row reads the cosine itself, as all baselines do. Beside the run stand baselines from words
alone and from word vectors: the run's own embeddings and the vectors in FILE. Williams' test says
whether the run is better. The data are the STS Benchmark, and SemEval's years 2012 to 2016 (ours),
each with the mean over its sets, plain and weighted by their pairs, as SentEval counts it.
"""

from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import numpy as np

from ..common.cli import UserError
from ..common.figures import new_figure, save_figure
from ..common.tables import table
from ..core.model import embed
from ..data.labelled import DataSet, find as find_files, lines_of, rows_of
from ..inference.projection import with_matrix
from ..training.run import Run
from .baselines import bag_cosines, pair_baselines
from .command import main, unit_vectors
from .metrics import pearson, r_with_interval, spearman, verdict, williams_test

GENRES = ("all", "captions", "forums", "news")
COLUMNS = "genre", "file", "year", "id", "score", "sentence1", "sentence2"
OWN = Path(__file__).with_name("own_sts.csv")
OWN_NOTE = ("The own set is 120 pairs made for this project, each scored once: good for seeing "
            "that learning works, too small to compare, and never to be read beside the paper's "
            "figures.")
NOTES = {"own set": OWN_NOTE, "dev": (
    "Published (Yang et al. 2018, Table 3), r × 100 on all: the paper's Transformer, from 600 "
    "million pairs, 76.2; SIF, which is weighted means of word vectors, 80.1.")}
BENCHMARK = DataSet("the STS Benchmark", ("sts-train.csv", "sts-dev.csv", "sts-test.csv"),
                    ("stsbenchmark",))
YEARS = msgspec.json.decode(Path(__file__).with_name("sts_years.json").read_bytes())
COUNTS = YEARS["counts"]    # year → set → number of scored pairs
SEMEVAL = DataSet("SemEval's STS", COUNTS, ("STS", "downstream/STS", "senteval/downstream/STS"))


class Row(msgspec.Struct):
    """a score from 0 to 5 and two sentences between tabs; in the benchmark columns 5 to 7, after
    genre, file, year and id"""

    genre: str
    score: Annotated[float, msgspec.Meta(ge=0, le=5)]
    sentence1: str
    sentence2: str


class Sts(NamedTuple):
    """The n sentence pairs of one split, or of one year."""

    genres: np.ndarray    # (n,): of a year, the names of its sets
    labels: np.ndarray    # (n,): people's scores, 0 (unrelated) to 5 (the same)
    sentences1: list
    sentences2: list


def find(data, run=None):
    """Split → file of the STS Benchmark, year → folder, of what DIR holds; the own set without."""
    if data is None:
        return {"own set": OWN}
    found = find_files([BENCHMARK, SEMEVAL], data)
    return {path.stem.removeprefix("sts-"): path
            for files in found.values() for path in files.values()}


def read_splits(folder, *names):
    """The Sts of each of these splits in DIR or DIR/stsbenchmark. Raises UserError without them."""
    wanted = [f"sts-{name}.csv" for name in names]
    files = find_files([BENCHMARK._replace(files=wanted, needed=wanted)], folder)[BENCHMARK.name]
    return [read(files[name]) for name in wanted]


def read(path):
    """The Sts of a file of the STS Benchmark, or of a year's folder. Raises UserError.

    The file is tab-separated, without a header or quoting. Read as quoted CSV the official files
    lose 38 and 30 rows.
    """
    if path.is_dir():
        rows = [row for name, count in COUNTS[path.name].items() for row in _set(path, name, count)]
    else:
        lines = enumerate(lines_of(path, BENCHMARK.name), start=1)
        records = ((number, dict(zip(COLUMNS, line.rstrip("\r").split("\t"))))
                   for number, line in lines if line.strip())
        rows = [*rows_of(path, Row, records)]
    if not rows:
        raise UserError(f"{path}: is empty; expected a file of {BENCHMARK.name}")
    genres = [row.genre.removeprefix("main-") for row in rows]
    genres = ["forums" if genre == "forum" else genre for genre in genres]    # train's, once
    return Sts(np.array(genres), np.array([row.score for row in rows]),
               [row.sentence1 for row in rows], [row.sentence2 for row in rows])


def _set(folder, name, count):
    """The Rows of one set of a year.

    STS.input.SET.txt holds two sentences a line, in 2016 also where they are from; STS.gs.SET.txt
    their score from 0 to 5, or nothing where no one judged the pair.
    """
    inputs, gold = (folder / f"STS.{kind}.{name}.txt" for kind in ("input", "gs"))
    texts, scores = (lines_of(path, SEMEVAL.name) for path in (inputs, gold))
    lines = enumerate(zip(texts, scores), start=1)
    records = ((number, {"genre": name, "score": score,
                         **dict(zip(COLUMNS[5:], map(str.strip, text.split("\t"))))})
               for number, (text, score) in lines if score.strip())
    rows = [*rows_of(gold, Row, records)]
    if len(rows) != count or len(scores) != len(texts):
        raise UserError(f"{gold}: {len(rows):,} scores in {len(scores):,} lines, expected the "
                        f"official {count:,} in the {len(texts):,} of {inputs.name}; fetch both "
                        "again by SentEval's own script")
    return rows


def scores(encode, sts):
    """The similarity of each pair, plain and under a Run's tuned matrix: row name → (n,).

    Each is read in two ways: as the paper does, −arccos, and as the cosine itself (ours). Pearson's
    r sees the difference, because −arccos spreads out cosines near 1.
    """
    if not isinstance(encode, Run):
        u, v = (unit_vectors(encode, side) for side in (sts.sentences1, sts.sentences2))
        angle = angular_similarity(u, v)
        return {"trained": angle, "trained, as cosine": np.cos(angle)}
    rows = {"trained": similarity(encode.model, encode.vocabulary, sts)}
    if encode.tuned is not None:
        tuned = with_matrix(encode.model, encode.tuned)
        rows["trained, tuned"] = similarity(tuned, encode.vocabulary, sts)
    return rows | {f"{row}, as cosine": np.cos(angle) for row, angle in rows.items()}


def baselines(run, sts, vectors=None):
    """The baselines from words and word vectors: row name → (n,)."""
    return pair_baselines(texts_of(sts), *sides(sts), run, vectors)


def summary(name, sts, scores, baselines):
    """The table of one file, and Williams' test of its first row; of a year its table."""
    if name in COUNTS:
        return year_table(name, sts, scores | baselines)
    trained, *_ = scores.values()
    return (score_table(name, sts, scores | baselines) + "\n\n"
            + comparison(trained, baselines, sts.labels))


def short_summary(name, sts, run, before):
    """What a training ends with: the table of before and after it, and of words alone.

    before: row name → similarity (n,) under the model before training
    """
    after = scores(run, sts)
    words = bag_cosines(texts_of(sts), *sides(sts), run.vocabulary)
    return ("Agreement with people's scores of similarity: Pearson's r, its 95% interval, "
            f"Spearman's rho\n\n{score_table(name, sts, before | after | words)}")


def angular_similarity(u, v):
    """−arccos of the cosine of unit vectors, row by row (§4.3): u, v: (n, e) → (n,), −π … 0."""
    return -np.arccos(np.clip((u.astype(np.float64) * v).sum(axis=1), -1, 1))


def score_0_to_5(similarity):
    """The paper's first version, equation (2): 5 (1 − arccos(cos)/π), from the −arccos."""
    return 5 * (1 + similarity / np.pi)


def cosines(encode, sts):
    """The cosine of each pair: (n,); encode: a list of n texts → unit vectors (n, e)."""
    u, v = (encode(side).astype(np.float64) for side in (sts.sentences1, sts.sentences2))
    return (u * v).sum(axis=1)


def similarity(model, vocabulary, sts):
    """angular_similarity of each pair under a Model: (n,)."""
    sides = sts.sentences1, sts.sentences2
    return angular_similarity(*(embed(model, vocabulary.encode(side)) for side in sides))


def texts_of(sts):
    """All first sentences of an Sts, then all second ones."""
    return [*sts.sentences1, *sts.sentences2]


def sides(sts):
    """Where the two sentences of each pair stand in texts_of: int (n,), (n,)."""
    return np.arange(2 * len(sts.sentences1)).reshape(2, -1)


def correlations(similarity, sts, genres=GENRES):
    """Genre → Pearson's r and Spearman's rho of its pairs; the genre "all" is all pairs."""
    figures = {}
    for genre in genres:
        of_genre = (sts.genres == genre) | (genre == "all")
        x, y = similarity[of_genre], sts.labels[of_genre]
        figures[genre] = pearson(x, y), spearman(x, y)
    return figures


def score_table(name, sts, similarities):
    """The table of one file: r and rho × 100, on all and by genre; similarities: name → (n,)."""
    rows = []
    for row, similarity in similarities.items():
        (_, rho), *by_genre = correlations(similarity, sts).values()
        rows.append([row, f"{r_with_interval(similarity, sts.labels)} / {100 * rho:.1f}",
                     *(f"{100 * r:.1f} / {100 * rho:.1f}" for r, rho in by_genre)])
    counts = (f"{genre} {(sts.genres == genre).sum()}" for genre in GENRES[1:])
    shown = table([f"STS {name}, r / rho × 100", f"all {len(sts.labels)}", *counts], rows)
    return f"{shown}\n\n{NOTES[name]}" if name in NOTES else shown


def year_table(name, sts, similarities):
    """r / rho × 100 of each row: the two means over the sets, then each set; published figures."""
    sets, counts = np.unique(sts.genres, return_counts=True)
    rows = []
    for row, values in similarities.items():
        figures = 100 * np.array([*correlations(values, sts, sets).values()])
        means = np.mean(figures, axis=0), np.average(figures, axis=0, weights=counts)
        rows.append([row, *(f"{r:.1f} / {rho:.1f}" for r, rho in (*means, *figures))])
    rows += [[f"{row}, published", r] for row, r in YEARS["figures"][name].items()]
    titles = (f"{one} {count}" for one, count in zip(sets, counts))
    header = [f"{name}, r / rho × 100", "mean", "weighted", *titles]
    return f"{table(header, rows)}\n{YEARS['source']}"


def comparison(similarity, baselines, labels):
    """Is the model, with its similarity (n,), better than each baseline? Differences of r × 100."""
    groups = {"better than": [], "not told apart from": [], "worse than": []}
    for name, other in baselines.items():
        t, p = williams_test(similarity, other, labels)
        sure = t if p < 0.05 else 0
        difference = 100 * (pearson(similarity, labels) - pearson(other, labels))
        groups[verdict(sure, sure)].append(f"{name} ({difference:+.1f}, p = {p:.1g})")
    lines = [f"  {said:20}{', '.join(names)}" for said, names in groups.items() if names]
    return "\n".join(["Williams' test at p < 0.05: trained is", *lines])


def plot(path, name, sts, similarity):
    """Predicted score against people's score, a point for each pair (the paper's figure 7)."""
    scores = score_0_to_5(similarity)
    r = pearson(similarity, sts.labels)
    figure, axes = new_figure()
    for genre in np.unique(sts.genres):
        of_genre = sts.genres == genre
        axes.scatter(sts.labels[of_genre], scores[of_genre], s=12, alpha=0.5, label=genre,
                     linewidths=0)
    axes.set(xlabel="people's score (0 unrelated … 5 the same)", ylabel="5 (1 − arccos(cos)/π)",
             title=f"STS {name}: Pearson's r = {r:.3f} over {len(scores):,} pairs")
    axes.legend(loc="lower right")
    save_figure(figure, path)


if __name__ == "__main__":
    main("sts", "--data", "--vectors")
