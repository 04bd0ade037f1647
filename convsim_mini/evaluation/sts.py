"""Semantic textual similarity: do embeddings agree with people? (the paper's §4.3, Tables 3, 4)

The figure is Pearson's r between people's scores and −arccos of the cosine, or, in a second row,
the cosine itself. All baselines are cosines of words. The data are the STS Benchmark and, not in
the paper, SemEval's STS of 2012 to 2016, whose figure is the mean of r over a year's sets. "three
genres" are for choosing between recipes: all of train and dev but 1,000 pairs, with the same weight
for captions, forums and news.
"""

from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import numpy as np
import scipy

from ..common.cli import UserError
from ..data.labelled import DataSet, find_files, lines_of, rows_of
from ..core.layers import l2_normalize_forward
from ..core.ranking import settled
from ..inference.sentence_encoder import encoder_of
from . import BUILT_IN
from .baselines import pair_baselines, with_words
from .metrics import correlation, difference, pearson, spearman, without_interval

COMPARED = "trained, with words"
COLUMNS = "genre", "file", "year", "id", "score", "sentence1", "sentence2"
OWN = Path(__file__).with_name("own_sts.csv")
OWN_NOTE = ("The built-in set has 120 pairs made for this project, each scored once. It shows that "
            "learning works; it is too small to compare systems with each other or with the paper.")
BENCHMARK = DataSet("the STS Benchmark", ("sts-train.csv", "sts-dev.csv", "sts-test.csv"),
                    ("stsbenchmark",))
# year → set → its official number of scored pairs, without SMT of 2013, which is not free
COUNTS = msgspec.json.decode(Path(__file__).with_name("sts_years.json").read_bytes())
GENRES = "three genres"
HELD_BACK, SEED = 1_000, 2018    # pairs of train that no choice may look at: see `held_back`
SEMEVAL = DataSet("SemEval's STS", COUNTS, ("STS", "downstream/STS", "senteval/downstream/STS"))


class StsRow(msgspec.Struct):
    """a score from 0 to 5 and two sentences, separated by tabs (in the benchmark, columns 5 to 7,
    after genre, file, year and id)"""

    genre: str
    score: Annotated[float, msgspec.Meta(ge=0, le=5)]
    sentence1: str
    sentence2: str


class Sts(NamedTuple):
    """The n sentence pairs of one split, or of one year."""

    genres: np.ndarray    # (n,): for a year, the names of its sets
    labels: np.ndarray    # (n,): people's scores, 0 (unrelated) to 5 (the same)
    sentences1: list
    sentences2: list
    is_mean: bool = False    # whether the figure is a mean over genres, or over a year's sets


def find(data, run=None):
    """Split → file of the STS Benchmark, year → folder, in DIR; without DIR, the built-in set."""
    if data is None:
        return {BUILT_IN: OWN}
    found = {path.stem.removeprefix("sts-"): path
             for files in find_files([BENCHMARK, SEMEVAL], data).values()
             for path in files.values()}
    both = [found[split] for split in ("train", "dev") if split in found]
    return found | ({GENRES: both} if len(both) == 2 else {})


def held_back(train):
    """The numbers of 1,000 pairs of STS train, always the same, to be read once, at the end."""
    rng, pairs = np.random.Generator(np.random.Philox(SEED)), len(train.labels)
    return np.sort(rng.choice(pairs, min(HELD_BACK, pairs // 5), replace=False))


def read(path):
    """The Sts of a file of the STS Benchmark, of a year's folder, or of a list of train and dev.

    A file is tab-separated, without header or quoting: read as quoted CSV, the official ones would
    lose 38 and 30 rows. Raises UserError.
    """
    if isinstance(path, list):                                # GENRES: all but what is held back
        train, dev = map(read, path)
        both = [np.concatenate(fields) for fields in zip(train[:4], dev[:4])]
        genres, labels, *sides = (np.delete(field, held_back(train)) for field in both)
        return Sts(genres, labels, *map(np.ndarray.tolist, sides), is_mean=True)
    if path.is_dir():
        rows = [row for of_set in COUNTS[path.name] for row in _set(path, of_set)]
    else:
        lines = enumerate(lines_of(path, BENCHMARK.name), start=1)
        rows = [*rows_of(path, StsRow, (
            (number, dict(zip(COLUMNS, line.rstrip("\r").split("\t"))))
            for number, line in lines if line.strip()))]
    if not rows:
        raise UserError(f"{path}: is empty; expected a file of {BENCHMARK.name}")
    genres = [row.genre.removeprefix("main-") for row in rows]
    genres = ["forums" if genre == "forum" else genre for genre in genres]    # train's, once
    return Sts(np.array(genres), np.array([row.score for row in rows]),
               [row.sentence1 for row in rows], [row.sentence2 for row in rows], path.is_dir())


def _set(folder, name):
    """The StsRows of one set of a year.

    STS.input.SET.txt holds two sentences per line and, in 2016, their sources. STS.gs.SET.txt holds
    their score from 0 to 5, or an empty line if no one judged the pair.
    """
    inputs, gold = (folder / f"STS.{kind}.{name}.txt" for kind in ("input", "gs"))
    texts, scores = (lines_of(path, SEMEVAL.name) for path in (inputs, gold))
    sides = (dict(zip(COLUMNS[5:], map(str.strip, text.split("\t")))) for text in texts)
    if len(scores) != len(texts):
        raise UserError(f"{gold}: {len(scores):,} lines; expected {len(texts):,}, as in "
                        f"{inputs.name}; fetch both again with SentEval's own script")
    return rows_of(gold, StsRow, (
        (number, {"genre": name, "score": score, **both})
        for number, (both, score) in enumerate(zip(sides, scores), start=1) if score.strip()))


def scores(run, sts, encode):
    """The similarity of each pair, without and with a Run's tuned matrix: row → (n,).

    It is given as −arccos of the cosine, as in the paper, as the cosine itself (ours), and, for a
    Run, with its words in common (ours): meaning + words, as in a search. The first two differ in
    Pearson's r, because −arccos spreads out cosines near 1.
    """
    encoders = {"trained": encode}
    if run and run.tuned is not None and not sts.is_mean:    # it was learned on train
        encoders["trained, tuned"] = encoder_of(run, tuned=True).encode
    rows = {row: angular_similarity(*unit_vectors(one, sts)) for row, one in encoders.items()}
    cosines = {row: np.cos(angle) for row, angle in rows.items()}
    rows |= {f"{row}, as cosine": cosine for row, cosine in cosines.items()}
    return rows | with_words(run, cosines, texts_of(sts), *sides(sts))


def baselines(run, sts):
    """Words in common: row name → (n,)."""
    return pair_baselines(texts_of(sts), *sides(sts), run)


def title(name, sts):
    """The heading, with the number of pairs of each genre."""
    genres = zip(*np.unique(sts.genres, return_counts=True))
    counts = ", ".join(f"{genre} {count:,}" for genre, count in genres)
    return f"STS {name}, {len(sts.labels):,} pairs ({counts}); r and rho × 100"


def figures(sts, similarity):
    """Pearson's r of all pairs and of each genre, and Spearman's rho of all; × 100.

    For a mean: that of the r of its sets, and each of them. similarity: (n,) → metric → (value,
    low, high)
    """
    similarity = settled(similarity)
    r = {genre: correlation(*of_genre) for genre, of_genre in by_genre(sts, similarity).items()}
    if sts.is_mean:
        return {"mean r": without_interval(np.mean([value for value, *_ in r.values()])), **r}
    rho = without_interval(100 * spearman(similarity, sts.labels))
    return {"r": correlation(similarity, sts.labels), **r, "rho": rho}


def by_genre(sts, similarity):
    """Genre (or a year's set) → its pairs' similarities and people's scores: (m,), (m,)."""
    return {str(genre): (similarity[sts.genres == genre], sts.labels[sts.genres == genre])
            for genre in np.unique(sts.genres)}


def lead(sts, one, other):
    """How much higher r × 100 is for `one` than for `other`, (n,) each; see `difference`.

    If the figure is a mean, sets are resampled; fewer than four sets give no interval.
    """
    one, other = settled(one), settled(other)
    if sts.is_mean:
        r_of_sets = ([100 * pearson(*of_set) for of_set in by_genre(sts, x).values()]
                     for x in (one, other))
        return difference(np.mean, *r_of_sets)
    return difference(lambda x, y, axis: 100 * scipy.stats.pearsonr(x, y, axis=axis).statistic,
                      one, other, sts.labels)


def angular_similarity(u, v):
    """−arccos of the cosine of unit vectors, row by row (§4.3): u, v: (n, e) → (n,), −π … 0."""
    return -np.arccos(np.clip(settled((u * v).sum(axis=1, dtype=np.float64)), -1, 1))


def score_0_to_5(similarity):
    """The score in the paper's first version, equation (2): 5 (1 − arccos(cos)/π), from −arccos."""
    return 5 * (1 + similarity / np.pi)


def unit_vectors(encode, sts):
    """Unit vectors of the first sentences, and of the second ones: float64 (n, d) each."""
    vectors = np.asarray(encode(texts_of(sts)), np.float64)
    return np.split(l2_normalize_forward(vectors)[0], 2)


def texts_of(sts):
    """All first sentences of an Sts, then all second ones."""
    return [*sts.sentences1, *sts.sentences2]


def sides(sts):
    """The places of the two sentences of each pair in texts_of: int (n,), (n,)."""
    return np.arange(2 * len(sts.sentences1)).reshape(2, -1)
