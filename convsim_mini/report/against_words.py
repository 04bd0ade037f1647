"""Where a run beats words alone, and where it loses: similarity, replies and questions.

    python -m convsim_mini.report.against_words RUN --data DIR [--out FILE]

WORDS.md, beside this file, says what one run showed.
"""

import re
from contextlib import suppress
from pathlib import Path

import numpy as np

from ..cli import UserError, errors_in_one_line, progress, user_errors
from ..data.text import tokenize
from ..evaluation import cqa, response, sts
from ..evaluation.command import parser_of
from ..evaluation.metrics import (
    bootstrap_interval, map_difference, pearson, pearson_difference, per_cent, ranking_scores)
from ..evaluation.word_baselines import bag_cosines
from ..files import write_text
from ..run import load_run
from ..tables import markdown
from .results import ENCODER

WORDS = "word cosine weighted a/(a+p)"
EDGES = (0, 0.05, 0.1, 0.2)    # of bins of TF-IDF cosines
EXAMPLES, BOTH = 6, ("pairs", "words", "encoder")
PEOPLE = set("man men woman women boy boys girl girls person people child children".split())
NEGATION = re.compile(r"n['’]t\b|\b(not|no|never|nobody|nothing|none|neither|nor|without|cannot)\b",
                      re.IGNORECASE)
NUMBER, NAME = re.compile(r"\d+(?:[.,]\d+)*"), re.compile(r"(?<=\s)\W*([A-Z]\w+)")
INTRODUCTION = """# {}: where the encoder beats words alone, and where it loses

The encoder's cosine is the row "{}" of `evaluation.sts`.
The words' cosine is its row "{}".
Brackets hold 95% intervals. A difference above 0 is in favour of the encoder."""


def cosines(run, pairs):
    """Cosine of each pair of an Sts, by weighted words and by the run: (2, n)."""
    words = bag_cosines(sts.texts_of(pairs), *sts.sides(pairs), run.vocabulary)[WORDS]
    with user_errors(f"{run.folder}: holds no all_but_the_top.safetensors",
                     f"make it: python -m convsim_mini.train --resume {run.folder}", KeyError):
        return np.stack([words, sts.scores(run, pairs)[ENCODER]])


def calibrated(cosine, labels, other):
    """The straight line that is nearest to people's scores by least squares, read at `other`.

    cosine, labels: (n,), where the line is fitted; other: (m,) → (m,), on people's scale
    """
    return np.polyval(np.polyfit(cosine, labels, 1), other)


def sources(pairs):
    """Genres, then their files: name → which pairs of an Sts, bool (n,)."""
    of_file = np.array([f"{genre}, {file}" for genre, file in zip(pairs.genres, pairs.files)])
    return ({genre: (pairs.genres == genre) | (genre == "all") for genre in sts.GENRES}
            | {name: of_file == name for name in np.unique(of_file)})


def kinds(pairs, words):
    """Groups by what the sentences of an Sts share: name → bool (n,); words: cosines (n,)."""
    quarter = np.searchsorted(np.quantile(words, (0.25, 0.5, 0.75)), words)       # 0 … 3
    of_both = lambda find: [[*map(find, side)] for side in (pairs.sentences1, pairs.sentences2)]
    differ = lambda find: np.array([a != b for a, b in zip(*of_both(find))])
    name = np.array([bool(a & b) for a, b in zip(*of_both(lambda text: {*NAME.findall(text)}))])
    return {f"words in common: quarter {k + 1} of 4": quarter == k for k in range(4)} | {
        "quarters 1 and 2, but people say 3 or more": (quarter < 2) & (pairs.labels >= 3),
        "quarters 3 and 4, but people say 2 or less": (quarter > 1) & (pairs.labels <= 2),
        "the people named differ (man, woman, boy, …)": differ(lambda t: PEOPLE & {*tokenize(t)}),
        "a negation in one alone": differ(lambda text: bool(NEGATION.search(text))),
        "the numbers differ": differ(lambda text: {*NUMBER.findall(text)}),
        "a name in common": name, "no name in common": ~name}


def group_table(heading, groups, cells, *samples):
    """A row for each group, name → bool (n,), that is not empty: its size, and cells of it.

    cells: a function of what each sample, (n,), has in the group → list of texts
    """
    return markdown(heading, [
        [name, f"{chosen.sum():,}", *cells(*(sample[chosen] for sample in samples))]
        for name, chosen in groups.items() if chosen.any()])


def r_cells(words, encoder, labels):
    """Pearson's r × 100 of both cosines with people's labels, and the encoder's lead."""
    lead = pearson_difference(encoder, words, labels)
    return [*(f"{100 * pearson(x, labels):.1f}" for x in (words, encoder)), cell(lead, 100, "+.1f")]


def error_cells(words, encoder, labels):
    """The mean squared error of both predictions, and how much smaller the encoder's is."""
    errors = [(x - labels) ** 2 for x in (words, encoder)]
    gain = errors[0] - errors[1]
    lead = gain.mean(), *bootstrap_interval(np.mean, gain)
    return [*(f"{error.mean():.2f}" for error in errors), cell(lead, 1, "+.2f")]


def first_cells(*ranks):
    """How often each rank is 1, per cent, with Wilson's interval."""
    return [cell(per_cent(rank == 1), 1, ".1f") for rank in ranks]


def cell(figures, scale, form):
    """A value and its 95% interval in one cell."""
    value, low, high = (format(scale * figure, form) for figure in figures)
    return f"{value} [{low}, {high}]"


def example_table(predictions, pairs):
    """The pairs where the encoder is nearer to people than words by most, then the contrary."""
    distance = np.abs(predictions - pairs.labels)             # (2, n)
    order = np.argsort(distance[1] - distance[0], kind="stable")
    return markdown(["nearer", "source", "people", *BOTH[1:], "sentence 1", "sentence 2"], [
        [nearer, pairs.files[k], f"{pairs.labels[k]:.1f}", *(f"{x:.1f}" for x in predictions[:, k]),
         pairs.sentences1[k], pairs.sentences2[k]]
        for nearer, best in (("encoder", order[:EXAMPLES]), ("words", order[:-EXAMPLES - 1:-1]))
        for k in best])


def similarity(run, folder):
    """STS Benchmark: the encoder and weighted words beside people, on dev; lines from train."""
    train, dev = sts.read_splits(folder, "train", "dev")
    fitted, seen = cosines(run, train), cosines(run, dev)
    predictions = np.stack([calibrated(x, train.labels, y) for x, y in zip(fitted, seen)])
    groups = sources(dev)
    return "\n\n".join([
        "## Judging similarity: STS dev",
        group_table(["r × 100", *BOTH, "encoder − words"], groups, r_cells, *seen, dev.labels),
        "## Distance from people's scores",
        "A straight line fitted on STS train brought both cosines to people's scale, 0 to 5.",
        group_table(["mean squared error", *BOTH, "words − encoder"],
                    groups | kinds(dev, seen[0]), error_cells, *predictions, dev.labels),
        f"## Examples: the {EXAMPLES} pairs where each is nearer to people by most",
        example_table(predictions, dev)])


def bins(cosine):
    """Bins of TF-IDF cosines (n,), each with its upper edge: name → which pairs, bool (n,)."""
    names = ["0: no word in common", *(f"up to {edge}" for edge in EDGES[1:]), "above that"]
    of_bin = np.searchsorted(EDGES, cosine)
    return {"all": of_bin >= 0} | {name: of_bin == k for k, name in enumerate(names)}


def replies(run, folder):
    """P@1 among 100 on the run's own test pairs, beside TF-IDF."""
    try:
        corpus = response.find(None, run)["test"]
    except UserError as error:
        return f"## Picking the true reply\n\nNot measured: {error}"
    choices = response.read(corpus)
    inputs, answers = response.tfidf_vectors(corpus, corpus.test, choices.pairs)
    cosine = np.asarray(inputs.multiply(answers).sum(axis=1)).ravel()
    return "## Picking the true reply among 100: the run's own test pairs\n\n" + group_table(
        ["TF-IDF cosine of the true pair", "pairs", "encoder, P@1", "TF-IDF, P@1"], bins(cosine),
        first_cells, response.model_ranks(run.model, corpus.test, *choices[1:]),
        response.ranks_of_truth(inputs, answers, choices.candidates))


def questions(run, folder):
    """MAP on the dev files of question ranking, beside TF-IDF and weighted words."""
    files = {}
    with suppress(UserError):
        files = {name: path for name, path in cqa.find(folder, run).items() if "dev" in name}
    parts = ["## Ranking questions" + "\n\nNot measured: no dev file is there." * (not files)]
    for name, path in files.items():
        asked, rows = cqa.read(path), []
        scores = cqa.scores(run, asked) | cqa.baselines(run, asked)
        top = {row: cqa.top_ten(asked, scores[row]) for row in ("trained", cqa.TFIDF, WORDS)}
        for row, relevant in top.items():
            difference = map_difference(top["trained"], relevant)
            rows.append([row, cell(ranking_scores(relevant)[0], 100, ".1f"),
                         "–" if row == "trained" else cell(difference, 100, "+.1f")])
        parts.append(markdown([f"{name}: {len(asked)} questions", "MAP", "trained − it"], rows))
    return "\n\n".join(parts)


@errors_in_one_line()
def main(argv=None):
    """The command: measure one run on all three tasks, write the page."""
    parser = parser_of("report.against_words", __doc__, data="folder with stsbenchmark/, and with "
                       "cqa/ as far as it is there; no file of a test set is read")
    parser.add_argument("--out", type=Path, default=Path("against_words.md"), help="the page")
    options = parser.parse_intermixed_args(argv)
    run = load_run(options.run)
    parts = [measure(run, options.data) for measure in progress(
        (similarity, replies, questions), "measuring", unit=" tasks")]
    name = run.folder.resolve().name
    write_text(options.out, "\n\n".join([INTRODUCTION.format(name, ENCODER, WORDS), *parts]) + "\n")
    print(f"{options.out}: {name}")


if __name__ == "__main__":
    main()
