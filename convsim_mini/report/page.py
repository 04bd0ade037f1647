"""The page: every table and figure of the paper from some Results, beside the paper's numbers."""

import numpy as np
from scipy.stats import rankdata

from ..evaluation import cqa, sts
from ..evaluation.metrics import pearson, per_cent, ranking_scores
from ..evaluation.nli import hypothesis_only
from ..evaluation.plots import plot_sts
from ..evaluation.response import N, precision
from ..evaluation.sts import GENRES, Sts, score_0_to_5
from ..figures import new_figure, save_figure
from ..tables import markdown
from . import claims, published
from .overlap import seen_in_training
from .results import pairs_seen, training_log

RUN, PROVENANCE = ["run", "encoder", "trained on"], ["pairs seen", "seconds", "machine"]
DOWNLOAD = ("not here; `python -m data_scripts.download {}` fetches it; then name its folder with "
            "--data")
INTRODUCTION = """# The paper's tables and figures, from our own runs

Figures are per cent, or × 100. The paper's are those of Yang et al. 2018. Its rows of STS, SNLI and
CQA are all by its Transformer, also where a DAN of ours stands beside them, and it trained on 600
million pairs. "Published" rows are other systems' figures as the paper quotes them. P@N is measured
on each run's own corpus. A dash: no such figure."""
TABLE_5 = """All pairs are ranked twice: by the run's score and by people's. A good pair has almost
the same rank in both. We show the best one of those that people gave 4 or more, and of those that
they gave 1 or less. A bad pair has very different ranks. We show the one that the run ranks most
too high, and the one that it ranks most too low."""


# ---------------------------------------------------------------- cells

def figures(values):
    """Several figures in one cell: 56.1 / 70.2 / 83.6; nan and None as –."""
    return " / ".join("–" if v is None or np.isnan(v) else f"{v:.1f}" for v in values)


def beside(paper, ours):
    """Three cells: the paper's figures, ours, and the differences.

    Either side may be None, and ours a text.
    """
    difference = "–"
    if paper and ours and not isinstance(ours, str):
        difference = " / ".join(f"{a - b:+.1f}" for a, b in zip(ours, paper))
    return [figures(paper) if paper else "–",
            ours if isinstance(ours, str) else figures(ours) if ours else "–", difference]


def provenance(result):
    """Pairs seen, seconds and machine of a run."""
    seconds, machine = training_log(result.run)
    return [f"{pairs_seen(result.run):,}", "not recorded" if seconds is None else f"{seconds:,.0f}",
            machine or "not recorded"]


def title(result):
    """A run's first cells."""
    return [result.name, result.encoder, result.trained_on]


def paper_row(result, tuned=False):
    """The paper's name of what a run is: Reddit, Reddit+SNLI, tuned or not; None for SNLI alone."""
    name = {"conversation": "Reddit", "multitask": "Reddit+SNLI"}.get(result.run.config.task)
    return name and name + (" tuned" if tuned else "")


# ---------------------------------------------------------------- tables

def table_1(results):
    """P@N of every run on its own corpus's test split."""
    rows = []
    for result in results:
        is_papers = result.run.config.task == "conversation"
        paper = published.RESPONSE[result.encoder] if is_papers else None
        ours = ("its pair files are not here" if result.ranks is None
                else [precision(result.ranks, n)[0] for n in N])
        rows.append([*title(result), *beside(paper, ours), *provenance(result)])
    header = [*RUN, "paper, P@1 / P@3 / P@10", "ours", "difference", *PROVENANCE]
    return markdown(header, rows)


def table_2(results, data):
    """Accuracy on SNLI's test set."""
    rows, snli = [], data.snli.get("test")
    accuracy = lambda classes: [per_cent(classes == snli.labels)[0]]
    for result in results:
        if result.run.config.classifies:
            ours = accuracy(result.snli["test"]) if snli else DOWNLOAD.format("snli")
            is_papers = result.run.config.task == "multitask"
            paper = [published.SNLI["Reddit+SNLI"]] if is_papers else None
            rows.append([*title(result), *beside(paper, ours), *provenance(result)])
    if snli and "train" in data.snli:
        control = hypothesis_only(data.snli["train"])(snli)
        pairs = f"SNLI, {len(data.snli['train'].labels):,} pairs"
        ours = beside(None, accuracy(control))
        rows.append(["hypothesis alone, n-grams", "–", pairs, *ours, *"–––"])
    pairs = f"SNLI, {published.SNLI_PAIRS:,} pairs"
    rows += [[f"{name}, published", "–", pairs, *beside([figure], None), *"–––"]
             for name, figure in published.SNLI.items() if name != "Reddit+SNLI"]
    return markdown([*RUN, "paper, accuracy on test", "ours", "difference", *PROVENANCE], rows)


def sts_figures(similarity, pairs):
    """r × 100 on all pairs and each genre."""
    return [100 * r for r, *_ in sts.correlations(similarity, pairs).values()]


def sts_rows(results, data, cells):
    """The rows of every run, out of the box and tuned.

    cells(result, tuned, split → figures): the cells in the middle; figures are None where they
    cannot be.
    """
    rows = []
    for result in results:
        for tuned in (False, True):
            similarity = result.tuned if tuned else result.sts
            of_split = {split: sts_figures(similarity[split], data.sts[split])
                        if split in similarity else None for split in ("dev", "test")}
            middle = cells(result, tuned, of_split)
            if tuned and not similarity:
                hint = f"`python -m convsim_mini.tune {result.run.folder}` makes it"
                middle = [hint, *"–" * (len(middle) - 1)]
            rows.append([*title(result), "tuned" if tuned else "out of the box", *middle,
                         *provenance(result)])
    return rows


def table_3(results, data):
    """r on all pairs of STS Benchmark dev and test."""
    def cells(result, tuned, of_split):
        paper, both = published.STS.get(paper_row(result, tuned)), []
        for split, values in of_split.items():
            ours = values and values[:1] if split in data.sts else DOWNLOAD.format("stsbenchmark")
            both += beside(paper and paper[split][:1], ours)
        return both

    rows = sts_rows(results, data, cells)
    dev = data.sts.get("dev")
    if dev:
        for name, similarity in sts.baselines(results[0].run, dev).items():
            ours = beside(None, sts_figures(similarity, dev)[:1])
            rows.append([name, "–", "–", "baseline", *ours, *"––––––"])
    rows += [[f"{name}, published", *"–––", *beside([dev], None), *beside([test], None), *"–––"]
             for name, (dev, test) in published.STS_SYSTEMS.items()]
    return markdown([*RUN, "", "paper, dev", "ours", "difference", "paper, test", "ours",
                     "difference", *PROVENANCE], rows)


def footnote_9(results, data):
    """How much of STS the NLI training set has shown already."""
    if "train" not in data.snli or not data.sts:
        return f"SNLI train and STS: {DOWNLOAD.format('snli stsbenchmark')}"
    rows, classifiers = [], [result for result in results if result.run.config.classifies]
    for split, pairs in data.sts.items():
        seen = seen_in_training(pairs, data.snli["train"])
        for result in classifiers:
            r = [f"{100 * pearson(result.sts[split][kept], pairs.labels[kept]):.2f}"
                 for kept in (slice(None), ~seen)]
            rows.append([result.name, f"STS {split}", f"{seen.sum():,} of {len(seen):,}", *r])
    return markdown(["run", "", "pairs that share a sentence with SNLI train", "r × 100",
                     "without them"], rows)


def table_4(results, data):
    """r by genre: a table for each split."""
    parts = []
    for split in ("dev", "test"):
        if split not in data.sts:
            parts.append(f"STS {split}: {DOWNLOAD.format('stsbenchmark')}")
            continue

        def cells(result, tuned, of_split):
            paper = published.STS.get(paper_row(result, tuned))
            return beside(paper and paper[split], of_split[split])

        header = [*RUN, "", f"paper, {split}: {' / '.join(GENRES)}", "ours", "difference"]
        parts.append(markdown([*header, *PROVENANCE], sts_rows(results, data, cells)))
    return "\n\n".join(parts)


def table_5(result, pairs):
    """Two pairs that a run scores as people do, and two that it does not, by the rule TABLE_5."""
    similarity, labels = result.sts["dev"], pairs.labels
    gap = (rankdata(similarity) - rankdata(labels)) / len(labels)
    nearest = lambda among: np.flatnonzero(among)[np.argmin(np.abs(gap[among]))]
    chosen = [("good", nearest(labels >= 4)), ("good", nearest(labels <= 1)),
              ("bad", np.argmax(gap)), ("bad", np.argmin(gap))]
    return markdown(["", "−arccos", "people, 0–5", "sentence 1", "sentence 2"], [
        [kind, f"{similarity[k]:.2f}", f"{labels[k]:.1f}", pairs.sentences1[k], pairs.sentences2[k]]
        for kind, k in chosen])


def table_6(results, data):
    """MAP on every labelled file of question ranking."""
    if not data.cqa:
        return f"SemEval Task 3: {DOWNLOAD.format('cqa')}"
    rows = []
    for name, questions in data.cqa.items():
        is_papers = "2017" in name and "test" in name
        score = lambda scores: [100 * ranking_scores(cqa.top_ten(questions, scores))[0, 0]]
        for result in results:
            paper = [published.CQA[paper_row(result)]] if is_papers and paper_row(result) else None
            ours = beside(paper, score(result.cqa[name]))
            rows.append([name, *title(result), *ours, *provenance(result)])
        rows += [[name, baseline, "–", "–", *beside(None, score(scores)), *"–––"]
                 for baseline, scores in cqa.baselines(results[0].run, questions).items()]
    rows += [["test of 2017", f"{name}, published", "–", "–", *beside([figure], None), *"–––"]
             for name, figure in published.CQA.items() if not name.startswith("Reddit")]
    return markdown(["file", *RUN, "paper, MAP", "ours", "difference", *PROVENANCE], rows)


def difficult_pairs(results):
    """The six difficult pairs of the STS task paper as each run scores them."""
    kinds, labels, one, two = zip(*published.DIFFICULT)
    scores = [score_0_to_5(sts.similarity(result.run, Sts(None, None, one, two)))
              for result in results]
    rows = [[kind, f"{label:.1f}", *(f"{of_run[k]:.1f}" for of_run in scores), one[k], two[k]]
            for k, (kind, label) in enumerate(zip(kinds, labels))]
    header = ["kind of error", "people", *(result.name for result in results)]
    return markdown([*header, "sentence 1", "sentence 2"], rows)


# ---------------------------------------------------------------- figures

def fraction_curves(results, data):
    """Figure 8: curve name → {per cent of the NLI data: r × 100}; the runs differ in no more."""
    shares = sorted(claims.by_fraction(results).items())
    return {f"{genre}, {split}": {100 * share: sts_figures(result.sts[split], data.sts[split])[k]
                                  for share, result in shares}
            for split in ("dev", "test") if split in data.sts for k, genre in enumerate(GENRES[:2])}


def plot_fractions(path, curves):
    """r against the share of the NLI data; curves: name → {per cent: r × 100}."""
    figure, axes = new_figure()
    for name, curve in curves.items():
        axes.plot(list(curve), list(curve.values()), "o-", label=name)
    axes.set(xlabel="NLI data used in multitask training (%; 0: conversations alone)",
             ylabel="Pearson's r × 100", title="STS Benchmark against the amount of NLI data")
    axes.legend()
    save_figure(figure, path)


def figure_8(results, data, out):
    """The figure of r against the share of the NLI data, or what it takes to have one."""
    curves = fraction_curves(results, data)
    if not curves or len(next(iter(curves.values()))) < 3:
        return ["Needs STS, and runs with parts of the NLI data: `python -m "
                "convsim_mini.report.fractions RUN --nli DIR`."]
    plot_fractions(out / "figure_8.png", curves)
    header = ["r × 100", *(f"{share:.0f}%" for share in next(iter(curves.values())))]
    rows = [[name, *(f"{r:.1f}" for r in curve.values())] for name, curve in curves.items()]
    return ["![figure 8](figure_8.png)", markdown(header, rows)]


def on_dev(result, dev, out):
    """Table 5 and figure 7, of one run on STS dev."""
    similarity, of_run = result.sts["dev"], f"{result.name} on STS dev"
    r = pearson(similarity, dev.labels)
    plot_sts(out / "figure_7.png", "dev", dev, score_0_to_5(similarity), r)
    return [f"## Table 5: good and bad pairs of {of_run}", TABLE_5, table_5(result, dev),
            f"## Figure 7: score against label, {of_run}", "![figure 7](figure_7.png)"]


def page(results, data, out):
    """The report of some Results as Markdown; its figures are written into the folder `out`."""
    whole = [result for result in results if result.run.config.nli_fraction == 1]
    dev = data.sts.get("dev")
    return "\n\n".join([
        INTRODUCTION,
        "## Table 1: picking the true reply among 100", table_1(whole),
        "## Table 2: natural language inference", table_2(whole, data),
        "## Table 3: STS Benchmark, r × 100", table_3(whole, data),
        "## Footnote 9: what NLI has shown of STS", footnote_9(whole, data),
        f"## Table 4: STS Benchmark by genre, r × 100 on {' / '.join(GENRES)}",
        table_4(whole, data),
        *(on_dev(whole[0], dev, out) if dev else []),
        "## Table 6: question ranking, MAP × 100", table_6(whole, data),
        "## Figure 8: how much NLI data it takes", *figure_8(results, data, out),
        "## Six difficult pairs",
        "From Cer et al. 2017, Table 12; scores are 5 (1 − arccos(cos)/π).", difficult_pairs(whole),
        "## The paper's claims",
        markdown(["claim", "verdict", "numbers"], claims.verdicts(results, data))]) + "\n"
