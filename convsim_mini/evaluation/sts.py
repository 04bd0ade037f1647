"""Semantic textual similarity: do embeddings agree with people? (the paper's §4.3, Tables 3, 4)

    python -m convsim_mini.evaluation.sts RUN [--data DIR] [--vectors FILE]

The figure is Pearson's r of the angular similarity, −arccos of the cosine, with people's scores. A
second row reads the cosine itself, as all baselines do. Beside the run stand baselines from words
alone and from word vectors: the run's own embeddings and the vectors in FILE. Williams' test says
whether the run is better.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..common.cli import UserError
from ..common.figures import new_figure, save_figure
from ..common.tables import table
from ..core.counting import count_vectors
from ..inference.sentence_encoder import directions_of
from ..core.model import embed
from ..inference.projection import with_matrix
from ..training.run import load_matrix
from .command import main
from .metrics import pearson, r_with_interval, spearman, williams_test
from .task_files import find_files, lines_of, number_or_nan
from .baselines import pair_baselines

NAME = "the STS Benchmark"
COLUMNS = "genre, file, year, id, score, sentence, sentence"
GENRES = ("all", "captions", "forums", "news")
# The official train file says main-forum, dev and test main-forums.
OFFICIAL_GENRES = {f"main-{g}": g for g in GENRES[1:]} | {"main-forum": "forums"}
OWN = Path(__file__).with_name("own_sts.csv")
OWN_NOTE = ("The own set is 120 pairs made for this project, each scored once: good for seeing "
            "that learning works, too small to compare, and never to be read beside the paper's "
            "figures.")


class Sts(NamedTuple):
    """The n sentence pairs of one split."""

    genres: np.ndarray
    labels: np.ndarray                 # (n,): people's scores, 0 (unrelated) to 5 (the same)
    sentences1: list
    sentences2: list
    files: np.ndarray | None = None    # (n,): the benchmark's source of each pair, as MSRvid


def find(data, run):
    """Split → file: the official ones in DIR or DIR/stsbenchmark, or the own set without DIR."""
    names = [f"sts-{split}.csv" for split in ("train", "dev", "test")]
    found = find_files(data, "stsbenchmark", names, NAME, OWN)
    return {name.removeprefix("sts-"): path for name, path in found.items()}


def read_splits(folder, *names):
    """The Sts of each of these splits in DIR or DIR/stsbenchmark. Raises UserError without them."""
    if folder is None:
        raise UserError(f"--data is missing: the folder with {NAME}'s sts-*.csv")
    files = find(folder, None)
    if not files.keys() >= {*names}:
        raise UserError(f"{folder}: expected {' and '.join(f'sts-{name}.csv' for name in names)}, "
                        f"found {', '.join(files)}; get {NAME}")
    return [read(files[name]) for name in names]


def read(path):
    """Read a file of the STS Benchmark, tab-separated, without a header or quoting. → Sts

    Read as quoted CSV the official files lose 38 and 30 rows. Raises UserError with file and line.
    """
    rows = []
    for number, line in enumerate(lines_of(path, NAME), start=1):
        columns = line.rstrip("\r").split("\t")
        if not line.strip():
            continue
        if len(columns) < 7:                                  # there may be more: a licence
            raise UserError(f"{path}, line {number}: {len(columns)} columns, expected 7 or more "
                            f"between tabs: {COLUMNS}")
        genre = OFFICIAL_GENRES.get(columns[0])
        label = number_or_nan(columns[4])
        if genre is None or not 0 <= label <= 5:
            raise UserError(
                f'{path}, line {number}: genre "{columns[0]}" and score "{columns[4]}", expected '
                "main-captions, main-forums or main-news and a number from 0 to 5")
        rows.append((genre, label, columns[5], columns[6], columns[1]))
    if not rows:
        raise UserError(f"{path}: is empty; expected a file of {NAME}")
    genres, labels, sentences1, sentences2, files = zip(*rows)
    return Sts(np.array(genres), np.array(labels), list(sentences1), list(sentences2),
               np.array(files))


def scores(run, sts):
    """The similarity of each pair, plain and under each matrix of the run: row name → (n,).

    Each is read in two ways: as the paper does, −arccos, and as the cosine itself (ours). Pearson's
    r sees the difference, because −arccos spreads out cosines near 1. Rows with "+ words" are the
    cosines of `encode`, whose vectors also count words (ours).
    """
    models = {"trained": run.model}
    for name, row in (("all_but_the_top", "all but the top"), ("tuned", "tuned")):
        matrix = load_matrix(run, name)
        if matrix is not None:
            models[f"trained, {row}"] = with_matrix(run.model, matrix)
    rows, weight = {}, run.config.model.word_weight
    counts = count_cosines(run, sts)
    for row, model in models.items():
        rows[row] = similarity(model, run.vocabulary, sts)
        rows[f"{row}, as cosine"] = np.cos(rows[row])
        if row != "trained":
            rows[f"{row} + words"] = (np.cos(rows[row]) + weight * counts) / (1 + weight)
    return rows


def baselines(run, sts, vectors=None):
    """The baselines from words and word vectors: row name → (n,)."""
    return pair_baselines(texts_of(sts), *sides(sts), run, vectors)


def summary(name, sts, scores, baselines):
    """The table of one file, Williams' test of the first row, and what that row sees."""
    trained, *_ = scores.values()
    parts = [score_table(name, sts, scores | baselines),
             comparison(trained, baselines, sts.labels), closest_and_furthest(trained, sts)]
    if name == "own set":
        parts.append(OWN_NOTE)
    return "\n\n".join(parts)


def draw(run, name, sts, scores):
    """Draw predicted scores against people's scores; → the file, in the run's folder."""
    path = run.folder / f"sts_{name.replace(' ', '_')}.png"
    plot(path, name, sts, scores["trained"])
    return path


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


def count_cosines(run, sts):
    """The cosine of each pair by the halves that count words: (n,)."""
    directions = directions_of(run.model, run.vocabulary)
    return cosines(lambda texts: count_vectors(directions, run.vocabulary.encode(texts)), sts)


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
    return table([f"STS {name}, r / rho × 100", f"all {len(sts.labels)}", *counts], rows)


def comparison(similarity, baselines, labels):
    """Is the model, with its similarity (n,), better than each baseline? Differences of r × 100."""
    groups = {"better than": [], "not told apart from": [], "worse than": []}
    for name, other in baselines.items():
        t, p = williams_test(similarity, other, labels)
        verdict = "not told apart from"
        if p < 0.05:
            verdict = "better than" if t > 0 else "worse than"
        difference = 100 * (pearson(similarity, labels) - pearson(other, labels))
        groups[verdict].append(f"{name} ({difference:+.1f}, p = {p:.1g})")
    lines = [f"  {verdict:20}{', '.join(names)}" for verdict, names in groups.items() if names]
    return "\n".join(["Williams' test at p < 0.05: trained is", *lines])


def closest_and_furthest(similarity, sts):
    """The 3 closest and 3 furthest pairs as the model sees them, its score beside people's."""
    scores = score_0_to_5(similarity)
    order = np.argsort(similarity)
    lines = []
    for title, pairs in (("closest", order[:-4:-1]), ("furthest", order[:3])):
        lines += [f"{title:9}{scores[k]:4.1f} (people: {sts.labels[k]:.1f})  {sts.sentences1[k]}  |"
                  f"  {sts.sentences2[k]}" for k in pairs]
    return "\n".join(lines)


def plot(path, name, sts, similarity):
    """Predicted score against people's score, a point for each pair (the paper's figure 7)."""
    scores = score_0_to_5(similarity)
    r = pearson(similarity, sts.labels)
    figure, axes = new_figure()
    for genre, colour in zip(GENRES[1:], ("tab:blue", "tab:orange", "tab:green")):
        of_genre = sts.genres == genre
        axes.scatter(sts.labels[of_genre], scores[of_genre], s=12, alpha=0.5, color=colour,
                     label=genre, linewidths=0)
    axes.set(xlabel="people's score (0 unrelated … 5 the same)", ylabel="5 (1 − arccos(cos)/π)",
             title=f"STS {name}: Pearson's r = {r:.3f} over {len(scores):,} pairs")
    axes.legend(loc="lower right")
    save_figure(figure, path)


if __name__ == "__main__":
    main("sts", "--vectors", data="folder with the STS Benchmark's sts-*.csv, or with "
         "stsbenchmark/; without it the small set that was written for this project")
