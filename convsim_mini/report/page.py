"""Every table and figure of the paper as blocks, our numbers beside the paper's.

Wherever a function takes `results`, that is a list of Results; `data` is a Data.
"""

import json
from itertools import chain
from pathlib import Path

import numpy as np
from scipy.stats import rankdata

from ..common.cli import progress
from ..common.figures import new_figure, save_figure
from ..core.text import tokenize
from ..evaluation import cqa, response, sts
from ..evaluation.metrics import pearson, per_cent, ranking_scores
from ..evaluation.nli import hypothesis_only
from ..evaluation.response import N, precision
from ..training.run import log_of
from . import claims, compare
from .blocks import Figure, Table
from .results import pairs_seen

# Figures from the literature, × 100, as printed there; published.json names the source of each.
PUBLISHED = {name: table["figures"] for name, table in json.loads(
    Path(__file__).with_name("published.json").read_text(encoding="utf-8")).items()}
TITLE = "The paper's tables and figures, from our own runs"
INTRODUCTION = """Figures are per cent, or × 100. The paper is Yang et al. 2018. It trained on 600
million pairs. Its rows of STS, SNLI and CQA are all by its Transformer, also where a DAN of ours
stands beside them. "Published" rows are figures of other systems, as the paper quotes them. P@N is
measured on each run's own corpus. A dash: there is no such figure."""
MISSING = "{} is not here. `python -m data_scripts.download {}` fetches it. Name it with --data."
TRAINED_ON = {"conversation": "conversations", "multitask": "conversations + SNLI", "nli": "SNLI",
              "entailment": "conversations + entailments"}
PAPER_ROW = {"conversation": "Reddit", "multitask": "Reddit+SNLI"}    # by task
TABLE_5 = """All pairs are ranked twice: by the run's score and by people's. A good pair has almost
the same rank in both. We show the best one among the pairs that people gave 4 or more, and the best
one among the pairs that they gave 1 or less. A bad pair has very different ranks. We show the one
that the run ranks most too high, and the one that it ranks most too low."""


def page(results, data):
    """The list of blocks that both pages begin with."""
    whole = [result for result in results if result.run.config.nli_fraction == 1]
    together = ["## Side by side", *compare.side_by_side(whole, data)] if whole[1:] else []
    return [INTRODUCTION, "## The runs", runs_table(results), *together,
            "## Table 1: picking the true reply among 100", table_1(whole), *bars(whole),
            "## Table 2: natural language inference", *table_2(whole, data),
            "## Table 3: STS Benchmark, r × 100", *table_3(whole, data),
            "## Footnote 9: what NLI has shown of STS", footnote_9(whole, data),
            "## Table 4: STS Benchmark by genre, r × 100", *table_4(whole, data),
            *on_dev(whole[0], data),
            "## Table 6: question ranking, MAP × 100", table_6(whole, data),
            "## Figure 8: how much NLI data it takes", *figure_8(results, data),
            "## Six difficult pairs",
            "From Cer et al. 2017, Table 12; scores are 5 (1 − arccos(cos)/π).",
            difficult_pairs(whole),
            "## The paper's claims",
            Table(["claim", "verdict", "numbers"], claims.verdicts(results, data))]


def runs_table(results):
    """What each run is. Its seconds were spent in training, not in measuring and saving."""
    rows = []
    for result in results:
        config = result.run.config
        log = log_of(result.run)
        files = [Path(path).name for path in config.pairs] or ["chitchat-dataset"]
        seconds = [f"{record['seconds']:,.0f}" for record in log if "seconds" in record]
        machines = {record["machine"] for record in log if "machine" in record}
        rows.append([result.name, result.encoder, TRAINED_ON[config.task], ", ".join(files),
                     config.preset, config.seed, f"{result.run.step:,}",
                     f"{pairs_seen(result.run):,}", seconds[-1] if seconds else "not recorded",
                     " and ".join(sorted(machines)) or "not recorded"])
    return Table(["run", "encoder", "trained on", "pairs of", "preset", "seed", "step kept",
                  "pairs seen", "seconds", "machine"], rows)


def figures(values):
    """Figures in one cell: 56.1 / 70.2 / 83.6. A dash stands for nan and for an empty list."""
    return " / ".join("–" if np.isnan(value) else f"{value:.1f}" for value in values) or "–"


def beside(paper, ours):
    """Three cells: the paper's figures, ours, the differences. Without figures: an empty list."""
    differences = [a - b for a, b in zip(ours, paper)]
    return [figures(paper), figures(ours), " / ".join(f"{d:+.1f}" for d in differences) or "–"]


def compared(what):
    """The headings of `beside`."""
    return [f"paper, {what}", "ours", "difference"]


def table_1(results):
    """P@N of every run on its own corpus's test split, with 95% intervals."""
    rows = []
    for result in results:
        paper = []
        if result.run.config.task == "conversation":
            paper = PUBLISHED["RESPONSE"].get(result.encoder, [])
        measured = [] if result.ranks is None else [precision(result.ranks, n) for n in N]
        intervals = " / ".join(f"{low:.1f}–{high:.1f}" for _, low, high in measured)
        rows.append([result.name, *beside(paper, [value for value, _, _ in measured]),
                     intervals or "its pair files are not here"])
    return Table(["run", *compared("P@1 / P@3 / P@10"), "95% intervals"], rows)


def bars(results):
    """P@N as a figure for each corpus: its runs, the first before training, words alone."""
    corpora = {}
    for result in results:
        if result.test:
            corpora.setdefault(result.run.corpus, []).append(result)
    figures = []
    for first, *others in progress(corpora.values(), "words alone", unit=" corpora"):
        ranks = response.baselines(first.run, first.test)
        ranks = {name.replace("the same", first.name): of_truth for name, of_truth in ranks.items()}
        ranks |= {result.name: result.ranks for result in (first, *others)}
        figures.append(Figure(f"p_at_n_{len(figures) + 1}", plot_bars, (ranks,)))
    return figures


def plot_bars(path, ranks):
    """Draw P@N with 95% intervals, a group of bars for each N; ranks: name → (n,)."""
    figure, axes = new_figure(7.5)
    width = 0.85 / len(ranks)
    for k, (name, of_truth) in enumerate(ranks.items()):
        value, low, high = np.transpose([precision(of_truth, n) for n in N])
        drawn = axes.bar(np.arange(len(N)) + k * width, value, width, label=name,
                         yerr=[value - low, high - value])
        axes.bar_label(drawn, fmt="%.1f", fontsize=7)
    axes.set_xticks(np.arange(len(N)) + (len(ranks) - 1) / 2 * width, [f"P@{n}" for n in N])
    axes.set(ylabel="true reply among the best N of 100 (%)")
    figure.legend(loc="outside upper center", ncols=4)
    save_figure(figure, path)


def table_2(results, data):
    """Accuracy on SNLI's test set."""
    snli = data.snli.get("test")
    rows = []
    for result in results:
        if result.run.config.classifies:
            paper = PUBLISHED["SNLI"].get(PAPER_ROW.get(result.run.config.task), [])
            ours = [per_cent(result.snli == snli.labels)[0]] if snli else []
            rows.append([result.name, *beside(paper, ours)])
    if snli and "train" in data.snli:
        train = data.snli["train"]
        right = hypothesis_only(train)(snli) == snli.labels
        rows.append([f"hypothesis alone, n-grams of {len(train.labels):,} pairs",
                     *beside([], [per_cent(right)[0]])])
    pairs = PUBLISHED["SNLI_PAIRS"]
    rows += [[f"{name}, published; {pairs:,} pairs", *beside(figure, [])]
             for name, figure in PUBLISHED["SNLI"].items() if name != "Reddit+SNLI"]
    absent = [] if snli else [MISSING.format("SNLI", "snli")]
    return [Table(["run", *compared("accuracy on test")], rows), *absent]


def sts_figures(similarity, pairs):
    """r × 100 on all pairs and each genre."""
    return [100 * r for r, *_ in sts.correlations(similarity, pairs).values()]


def sts_rows(results, data, splits, count):
    """A row for each reading of each run: its first `count` figures on each of the splits.

    The paper reads −arccos, out of the box and tuned. These rows are there for every run.
    """
    rows = []
    for result in results:
        name = PAPER_ROW.get(result.run.config.task)
        paper = {"trained": name, "trained, tuned": f"{name} tuned"}
        for reading in {**result.readings, **paper}:
            theirs = PUBLISHED["STS"].get(paper.get(reading), {})
            ours = {split: sts_figures(similarity, data.sts[split])
                    for split, similarity in result.readings.get(reading, {}).items()}
            state = reading.removeprefix("trained").removeprefix(", ") or "out of the box"
            cells = [beside(theirs.get(split, [])[:count], ours.get(split, [])[:count])
                     for split in splits]
            rows.append([result.name, state, *chain.from_iterable(cells)])
    return rows


def table_3(results, data):
    """r on all pairs of STS Benchmark dev and test."""
    rows = sts_rows(results, data, ("dev", "test"), count=1)
    if "dev" in data.sts:
        for name, similarity in sts.baselines(results[0].run, data.sts["dev"]).items():
            ours = sts_figures(similarity, data.sts["dev"])[:1]
            rows.append([name, "baseline", *beside([], ours), *beside([], [])])
    rows += [[f"{name}, published", "–", *beside([dev], []), *beside([test], [])]
             for name, (dev, test) in PUBLISHED["STS_SYSTEMS"].items()]
    absent = [MISSING.format(f"STS {split}", "stsbenchmark")
              for split in ("dev", "test") if split not in data.sts]
    untuned = [result.name for result in results if "trained, tuned" not in result.readings]
    if untuned and data.sts:
        absent.append(f"Not tuned: {', '.join(untuned)}. `python -m convsim_mini.tune RUN --data "
                      "DIR` tunes a run.")
    return [Table(["run", "reading", *compared("dev"), *compared("test")], rows), *absent]


def footnote_9(results, data):
    """How much of STS the NLI training set has shown already."""
    if "train" not in data.snli or not data.sts:
        return MISSING.format("SNLI train or STS", "snli stsbenchmark")
    learned = [result for result in results if result.run.config.task != "conversation"]
    rows = []
    for split, pairs in data.sts.items():
        seen = seen_in_training(pairs, data.snli["train"])
        for result in learned:
            x, y = result.sts[split], pairs.labels
            rows.append([result.name, f"STS {split}", f"{seen.sum():,} of {len(seen):,}",
                         f"{100 * pearson(x, y):.2f}", f"{100 * pearson(x[~seen], y[~seen]):.2f}"])
    return Table(["run", "split", "pairs that share a sentence with SNLI train", "r × 100",
                  "without these pairs"], rows)


def seen_in_training(sts, train):
    """Which pairs of an Sts share a sentence's tokens with the Snli `train`: bool (n,)."""
    seen = {tuple(tokenize(text)) for text in (*train.premises, *train.hypotheses)}
    return np.array([any(tuple(tokenize(text)) in seen for text in pair)
                     for pair in zip(sts.sentences1, sts.sentences2)])


def table_4(results, data):
    """r by genre: a table for each split."""
    genres = " / ".join(sts.GENRES)
    tables = [Table(["run", "reading", *compared(f"{split}: {genres}")],
                    sts_rows(results, data, (split,), count=len(sts.GENRES)))
              for split in ("dev", "test") if split in data.sts]
    return tables or [MISSING.format("STS", "stsbenchmark")]


def on_dev(result, data):
    """Table 5 and figure 7, of one run on STS dev."""
    if "dev" not in data.sts:
        return []
    dev = data.sts["dev"]
    return [f"## Table 5: good and bad pairs of {result.name} on STS dev", TABLE_5,
            table_5(result, dev), f"## Figure 7: score against label, {result.name} on STS dev",
            Figure("figure_7", sts.plot, ("dev", dev, result.sts["dev"]))]


def table_5(result, pairs, each=1):
    """Good and bad pairs, as TABLE_5 says; each: how many of each of the four kinds."""
    similarity, labels = result.sts["dev"], pairs.labels
    gap = (rankdata(similarity) - rankdata(labels)) / len(labels)
    nearest, highest = np.argsort(np.abs(gap), kind="stable"), np.argsort(-gap, kind="stable")
    kinds = [("good", nearest[labels[nearest] >= 4]), ("good", nearest[labels[nearest] <= 1]),
             ("too high", highest), ("too low", highest[::-1])]
    rows = [[kind, f"{similarity[k]:.2f}", f"{labels[k]:.1f}", pairs.sentences1[k],
             pairs.sentences2[k]] for kind, order in kinds for k in order[:each]]
    return Table(["", "−arccos", "people, 0–5", "sentence 1", "sentence 2"], rows)


def table_6(results, data):
    """MAP on every labelled file of question ranking."""
    if not data.cqa:
        return MISSING.format("SemEval Task 3", "cqa")
    rows = []
    for name, questions in data.cqa.items():
        of_task = PUBLISHED["CQA"] if "2017" in name and "test" in name else {}
        papers = {result.name: of_task.get(PAPER_ROW.get(result.run.config.task), [])
                  for result in results}
        ours = {result.name: result.cqa["trained"][name] for result in results}
        for row, scores in (ours | cqa.baselines(results[0].run, questions)).items():
            map_, *_ = ranking_scores(cqa.top_ten(questions, scores))
            rows.append([name, row, *beside(papers.get(row, []), [100 * map_[0]])])
    rows += [["test of 2017", f"{name}, published", *beside(figure, [])]
             for name, figure in PUBLISHED["CQA"].items() if not name.startswith("Reddit")]
    return Table(["file", "run", *compared("MAP")], rows)


def difficult_pairs(results):
    """The six difficult pairs of the STS task paper as each run scores them."""
    rows = []
    for kind, label, one, two in PUBLISHED["DIFFICULT"]:
        pair = sts.Sts(None, None, [one], [two])
        scores = [sts.similarity(result.run.model, result.run.vocabulary, pair)[0]
                  for result in results]
        cells = [f"{sts.score_0_to_5(score):.1f}" for score in scores]
        rows.append([kind, f"{label:.1f}", *cells, one, two])
    names = [result.name for result in results]
    return Table(["kind of error", "people", *names, "sentence 1", "sentence 2"], rows)


def figure_8(results, data):
    """r against the share of the NLI data: figure and table, or what is missing for them."""
    shares = claims.by_fraction(results)
    curves = {}
    for split in sorted(data.sts.keys() - {"train"}):
        r = [sts_figures(result.sts[split], data.sts[split]) for result in shares.values()]
        for genre, curve in zip(sts.GENRES[:2], zip(*r)):
            curves[f"{genre}, {split}"] = curve
    if not curves or len(shares) < 3:
        return ["This needs STS, and runs with parts of the NLI data: `python -m "
                "convsim_mini.report.fractions RUN --nli DIR`."]
    percentages = [100 * share for share in shares]
    return [Figure("figure_8", plot_shares, (percentages, curves)),
            Table(["r × 100", *(f"{percentage:.0f}%" for percentage in percentages)],
                  [[name, *(f"{r:.1f}" for r in curve)] for name, curve in curves.items()])]


def plot_shares(path, percentages, curves):
    """Draw a curve over percentages of the NLI data for each name: curves: name → r × 100."""
    figure, axes = new_figure()
    for name, curve in curves.items():
        axes.plot(percentages, curve, "o-", label=name)
    axes.set(xlabel="NLI data used in multitask training (%; 0: conversations alone)",
             ylabel="Pearson's r × 100", title="STS Benchmark against the amount of NLI data")
    axes.legend()
    save_figure(figure, path)
