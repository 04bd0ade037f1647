"""Where a run beats words alone, and where it loses: similarity, replies and questions.

    python -m convsim_mini.report.against_words RUN --data DIR [--out FILE]

WORDS.md, beside this file, says what one run showed.
"""

from pathlib import Path

import numpy as np
from scipy.stats import rankdata

from ..common.cli import UserError, errors_in_one_line
from ..common.files import write_text
from ..evaluation import cqa, response, sts
from ..evaluation.baselines import WEIGHTED as WORDS, bag_cosines
from ..evaluation.command import parser_of
from ..core.ranking import true_ranks
from ..evaluation.metrics import (
    map_difference, pearson, pearson_difference, per_cent, ranking_scores, with_interval)
from ..inference.sentence_encoder import directions_of
from ..training.run import load_run
from .blocks import Table, to_markdown
from .results import BOTH, LEARNED, encoder_cosines

EDGES = (0, 0.05, 0.1, 0.2)    # between the bins of TF-IDF cosines
BINS = ("0: no word in common", "up to 0.05", "up to 0.1", "up to 0.2", "above that")
EXAMPLES = 6
INTRODUCTION = f"""The learned half is the row "{LEARNED}" of `evaluation.sts`.
Both halves, which `encode` gives, are its row "{BOTH}".
Words are its row "{WORDS}".
Brackets hold 95% intervals. A difference above 0 is in favour of both halves."""


def similarity(run, folder):
    """STS Benchmark dev: r of the cosines with people's scores by genre and source; examples."""
    (pairs,) = sts.read_splits(folder, "dev")
    words = bag_cosines(sts.texts_of(pairs), *sts.sides(pairs), run.vocabulary)[WORDS]
    learned, both = encoder_cosines(run, pairs)
    groups = {genre: (pairs.genres == genre) | (genre == "all") for genre in sts.GENRES}
    sources = np.array([f"{genre}, {file}" for genre, file in zip(pairs.genres, pairs.files)])
    groups |= {source: sources == source for source in np.unique(sources)}
    rows = []
    for name, group in groups.items():
        labels = pairs.labels[group]
        lead = pearson_difference(both[group], words[group], labels)
        rows.append([name, f"{group.sum():,}",
                     *(f"{100 * pearson(x[group], labels):.1f}" for x in (words, learned, both)),
                     with_interval([100 * figure for figure in lead], "+.1f")])
    return ["## Judging similarity: STS dev",
            Table(["r × 100", "pairs", "words", "learned", "both", "both − words"], rows),
            f"## Examples: the {EXAMPLES} pairs where each is nearer to people by most",
            "A number is a rank among all pairs, in per cent. 100 is the most similar pair.",
            examples(words, learned, pairs)]


def examples(words, learned, pairs):
    """The pairs of an Sts where the rank by one cosine is nearer to people's rank by most."""
    people, words, learned = (100 * rankdata(x) / len(x) for x in (pairs.labels, words, learned))
    order = np.argsort(np.abs(learned - people) - np.abs(words - people), kind="stable")
    rows = [[nearer, pairs.files[k], f"{people[k]:.0f}", f"{words[k]:.0f}", f"{learned[k]:.0f}",
             pairs.sentences1[k], pairs.sentences2[k]]
            for nearer, best in (("learned", order), ("words", order[::-1]))
            for k in best[:EXAMPLES]]
    return Table(["nearer", "source", "people", "words", "learned", "sentence 1", "sentence 2"],
                 rows)


def replies(run, folder):
    """P@1 among 100 on the run's own test pairs, beside TF-IDF, by the TF-IDF cosine."""
    heading = "## Picking the true reply among 100: the run's own test pairs"
    try:
        test = response.read(response.find(None, run)["test"])
    except UserError as error:
        return [heading, f"Not measured: {error}"]
    split = test.corpus.test
    learned = response.candidate_scores(*response.vectors(run.model, split, test.pairs),
                                        test.candidates)
    words = response.word_scores(directions_of(run.model, run.vocabulary), split, test.pairs,
                                 test.candidates)
    inputs, answers = response.tfidf_vectors(test.corpus, split, test.pairs)
    tfidf = response.ranks_of_truth(inputs, answers, test.candidates)
    cosines = np.asarray(inputs.multiply(answers).sum(axis=1)).ravel()
    bins = np.searchsorted(EDGES, cosines)
    groups = {"all": bins >= 0} | {name: bins == k for k, name in enumerate(BINS)}
    ranks = (tfidf, true_ranks(learned), true_ranks(learned + run.config.model.word_weight * words))
    rows = [[name, f"{group.sum():,}",
             *(with_interval(per_cent(of_truth[group] == 1)) for of_truth in ranks)]
            for name, group in groups.items() if group.any()]
    return [heading, Table(["P@1, by the TF-IDF cosine of the true pair", "pairs", "TF-IDF",
                            "learned", "both"], rows)]


def questions(run, folder):
    """MAP on the dev files of question ranking, beside TF-IDF and weighted words."""
    blocks = ["## Ranking questions"]
    try:
        files = {name: path for name, path in cqa.find(folder, run).items() if "dev" in name}
    except UserError as error:
        return [*blocks, f"Not measured: {error}"]
    for name, path in files.items():
        asked = cqa.read(path)
        scores = cqa.scores(run, asked) | cqa.baselines(run, asked)
        top = {row: cqa.top_ten(asked, scores[row])
               for row in (cqa.BOTH, "trained", cqa.TFIDF, WORDS)}
        rows = []
        for row, relevant in top.items():
            lead = [100 * figure for figure in map_difference(top[cqa.BOTH], relevant)]
            rows.append([row, with_interval(100 * ranking_scores(relevant)[0]),
                         with_interval(lead, "+.1f")])
        blocks.append(Table([f"{name}: {len(asked)} questions", "MAP", f"{cqa.BOTH} − it"], rows))
    return blocks


@errors_in_one_line()
def main(argv=None):
    """The command: measure one run on all three tasks, write the page."""
    parser = parser_of("report.against_words", __doc__, data="folder with stsbenchmark/, and with "
                       "cqa/ as far as it is there; no file of a test set is read")
    parser.add_argument("--out", type=Path, default=Path("against_words.md"), help="the page")
    options = parser.parse_intermixed_args(argv)
    run = load_run(options.run)
    blocks = [INTRODUCTION]
    for measure in (similarity, replies, questions):
        blocks += measure(run, options.data)
    title = f"{run.folder.resolve().name}: where the encoder beats words alone, and where it loses"
    write_text(options.out, to_markdown(title, blocks, options.out.parent))
    print(options.out)


if __name__ == "__main__":
    main()
