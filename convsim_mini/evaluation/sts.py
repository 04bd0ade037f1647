"""Semantic textual similarity: do the embeddings agree with people? (the paper's §4.3, Tables 3, 4)

    python -m convsim_mini.evaluation.sts RUN [--data DIR] [--vectors FILE]

Beside the run stand baselines that no one trained for this: cosines of bags of words (Cer et al.
2017, §6), and means of word vectors, SIF and soft cosine by the run's own embeddings and by FILE's.
"""

from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from ..cli import UserError, run_command
from ..model.input_response import embed
from ..model.layers import l2_normalize_forward
from ..run import load_matrix, load_run
from ..tables import table
from .baselines import bag_cosine, frequency_weight
from .metrics import pearson, pearson_interval, spearman, williams_test
from .plots import plot_sts
from .word_baselines import pair_similarities, vector_sources

GENRES = ("all", "captions", "forums", "news")
# The official train file says main-forum, dev and test main-forums.
OFFICIAL_GENRES = {f"main-{genre}": genre for genre in GENRES[1:]} | {"main-forum": "forums"}
OWN = Path(__file__).with_name("own_sts.csv")


class Sts(NamedTuple):
    """The sentence pairs of one file; labels are people's scores, 0 (unrelated) to 5 (the same)."""

    genres: np.ndarray
    labels: np.ndarray
    sentences1: list
    sentences2: list


def read_sts(path):
    """Read a file of the STS Benchmark: tab-separated genre, file, year, id, score, two sentences.

    There is no header, two columns may follow, and a quotation mark is only that: read as quoted
    CSV the official files lose 38 and 30 rows. Raises UserError with file and line.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read as UTF-8 text ({error}); expected a file of the STS Benchmark") from None
    rows = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        columns = line.rstrip("\r").split("\t")
        if len(columns) < 7:
            raise UserError(f"{path}, line {number}: {len(columns)} columns, expected 7 or more separated by tabs: "
                            "genre, file, year, id, score, sentence, sentence")
        genre, label = OFFICIAL_GENRES.get(columns[0]), _label(columns[4])
        if genre is None or label is None:
            raise UserError(f'{path}, line {number}: genre "{columns[0]}" and score "{columns[4]}", expected '
                            "main-captions, main-forums or main-news and a number from 0 to 5")
        rows.append((genre, label, columns[5], columns[6]))
    if not rows:
        raise UserError(f"{path}: is empty; expected a file of the STS Benchmark")
    genres, labels, sentences1, sentences2 = zip(*rows)
    return Sts(np.array(genres), np.array(labels), list(sentences1), list(sentences2))


def _label(text):
    """A score from 0 to 5, or None."""
    try:
        label = float(text)
    except ValueError:
        return None
    return label if 0 <= label <= 5 else None


def find_sts(data):
    """Split name → file: the official files in DIR or DIR/stsbenchmark, or the own set without DIR."""
    if data is None:
        return {"own set": OWN}
    for folder in (Path(data), Path(data, "stsbenchmark")):
        found = {split: folder / f"sts-{split}.csv" for split in ("train", "dev", "test")}
        found = {split: path for split, path in found.items() if path.exists()}
        if found:
            return found
    raise UserError(f"{data}: holds no sts-train.csv, sts-dev.csv or sts-test.csv, nor does {data}/stsbenchmark; "
                    "unpack the STS Benchmark there, or leave out --data for the small own set")


def angular_similarity(u, v):
    """−arccos of the cosine of unit vectors, row by row (§4.3): u, v: (n, e) → (n,), −π … 0."""
    return -np.arccos(np.clip((u.astype(np.float64) * v).sum(axis=1), -1, 1))


def score_0_to_5(similarity):
    """The paper's first version, equation (2): 5 (1 − arccos(cos)/π), from the −arccos."""
    return 5 * (1 + similarity / np.pi)


def model_similarity(model, vocabulary, sts, matrix=None):
    """angular_similarity of each pair of an Sts under a Model, its embeddings times a tuned matrix: (n,)."""
    sides = [embed(model, vocabulary.encode(side)) for side in (sts.sentences1, sts.sentences2)]
    if matrix is not None:
        sides = [l2_normalize_forward(side @ matrix)[0] for side in sides]
    return angular_similarity(*sides)


def texts_of(sts):
    """All first sentences of an Sts, then all second ones."""
    return [*sts.sentences1, *sts.sentences2]


def baseline_similarities(vocabulary, sts, sources=None):
    """The lexical baselines on an Sts: name → (n,).

    sources: what vector_sources returned for its texts, for the baselines from word vectors.
    """
    weights = {"binary word cosine": lambda token: 1.0,
               "word cosine weighted a/(a+p)": frequency_weight(vocabulary)}
    pairs, n = list(zip(sts.sentences1, sts.sentences2)), len(sts.labels)
    found = {name: np.array([bag_cosine(*pair, weight) for pair in pairs]) for name, weight in weights.items()}
    if sources:
        found |= pair_similarities(texts_of(sts), np.arange(n), n + np.arange(n), sources, vocabulary)
    return found


def correlations(similarity, sts):
    """Genre → (r, low, high, Spearman's rho, number of pairs), for all and each genre."""
    found = {}
    for genre in GENRES:
        some = np.ones(len(sts.labels), bool) if genre == "all" else sts.genres == genre
        n, r = int(some.sum()), pearson(similarity[some], sts.labels[some])
        found[genre] = (r, *pearson_interval(r, n), spearman(similarity[some], sts.labels[some]), n)
    return found


def report(split, sts, similarities):
    """The table of one split: Pearson's r and Spearman's rho, × 100, over all pairs and by genre.

    similarities: name → (n,)
    """
    rows = []
    for name, similarity in similarities.items():
        found = correlations(similarity, sts)
        r, low, high, rho, _ = found["all"]
        rows.append([name, f"{100 * r:.1f} [{100 * low:.1f}, {100 * high:.1f}] / {100 * rho:.1f}",
                     *(f"{100 * found[genre][0]:.1f} / {100 * found[genre][3]:.1f}" for genre in GENRES[1:])])
    counts = {genre: int((sts.genres == genre).sum()) for genre in GENRES[1:]}
    header = [f"STS {split}, r / rho × 100", f"all {len(sts.labels)}", *(f"{g} {n}" for g, n in counts.items())]
    return table(header, rows)


def comparison(similarity, baselines, labels, level=0.05):
    """Than which baselines is a model better? Lines of names and differences of r × 100, by Williams' test.

    similarity: (n,), of the model; baselines: name → (n,); labels: (n,). "Better" and "worse" are only
    said where p < level.
    """
    groups = {"better than": [], "not told apart from": [], "worse than": []}
    for name, other in baselines.items():
        t, p = williams_test(similarity, other, labels)
        verdict = "not told apart from" if not p < level else "better than" if t > 0 else "worse than"
        difference = 100 * (pearson(similarity, labels) - pearson(other, labels))
        groups[verdict].append(f"{name} ({difference:+.1f}, p = {p:.1g})")
    lines = [f"  {verdict:20}{', '.join(names)}" for verdict, names in groups.items() if names]
    return "\n".join([f"Williams' test at p < {level:g}: trained is", *lines])


def extremes(similarity, sts, count=3):
    """The `count` closest and furthest pairs as the model sees them, its score beside people's."""
    scores = score_0_to_5(similarity)
    order = np.argsort(similarity)
    lines = []
    for title, some in (("closest", order[::-1][:count]), ("furthest", order[:count])):
        for k in some:
            lines.append(f"{title:9}{scores[k]:4.1f} (people: {sts.labels[k]:.1f})  "
                         f"{sts.sentences1[k]}  |  {sts.sentences2[k]}")
    return "\n".join(lines)


def main(run: Path, data: Path | None = None, vectors: Path | None = None, device: Literal["cpu", "gpu"] = "cpu"):
    """Pearson's r between −arccos of the embeddings' cosine and people's scores, and a scatter plot.

    Beside the run stand baselines from words alone and from word vectors: the run's own embeddings,
    and a file's. Williams' test says whether the run is better.

    Args:
        run: the run's folder
        data: folder with the STS Benchmark's sts-*.csv, or with stsbenchmark/; without it the
            small set that was written for this project
        vectors: word vectors to compare with: word2vec or GloVe text, perhaps .gz or .zst, or a
            .npy matrix with its words in NAME.txt or in the folder's only .parquet file
        device: "cpu" or "gpu"
    """
    loaded = load_run(run, device)
    matrix = load_matrix(loaded)
    splits = {split: read_sts(path) for split, path in find_sts(data).items()}
    sources = vector_sources([text for sts in splits.values() for text in texts_of(sts)], loaded, vectors)
    for split, sts in splits.items():
        similarity = model_similarity(loaded.model, loaded.vocabulary, sts)
        rows = {"trained": similarity}
        if matrix is not None:
            rows["trained, tuned"] = model_similarity(loaded.model, loaded.vocabulary, sts, matrix)
        baselines = baseline_similarities(loaded.vocabulary, sts, sources)
        print(report(split, sts, {**rows, **baselines}))
        print(f"\n{comparison(similarity, baselines, sts.labels)}")
        print(f"\n{extremes(similarity, sts)}\n")
        picture = loaded.folder / f"sts_{split.replace(' ', '_')}.png"
        plot_sts(picture, split, sts, score_0_to_5(similarity), pearson(similarity, sts.labels))
        print(f"{picture}\n")
    if data is None:
        print(OWN_NOTE)


OWN_NOTE = ("The own set is 120 pairs written and scored for this project by one person: good for seeing that "
            "learning works, too small to compare, and never to be read beside the paper's figures.")


if __name__ == "__main__":
    run_command(main)
