"""The page: every table and figure of the paper from a list of Results, beside the paper's numbers.

Wherever a function takes `results`, that is a list of Results; `data` is a Data.
"""

import numpy as np
from scipy.stats import rankdata

from ..data.text import tokenize
from ..evaluation import cqa, sts
from ..evaluation.metrics import pearson, per_cent, ranking_scores
from ..evaluation.nli import hypothesis_only
from ..evaluation.response import N, precision
from ..figures import new_figure, save_figure
from ..run import log_of
from ..tables import markdown
from . import claims, published
from .results import pairs_seen

RUN, PROVENANCE = ["run", "encoder", "trained on"], ["pairs seen", "seconds", "machine"]
TRAINED_ON = {"conversation": "conversations", "multitask": "conversations + SNLI", "nli": "SNLI",
              "entailment": "conversations + entailments"}
PAPER_ROW = {"conversation": "Reddit", "multitask": "Reddit+SNLI", "nli": None,    # by task
             "entailment": None}
DOWNLOAD = ("not here; `python -m data_scripts.download {}` fetches it; then name its folder with "
            "--data")
NO_PAIRS = "its pair files are not here"
INTRODUCTION = """# The paper's tables and figures, from our own runs

Figures are per cent, or × 100. The paper's are those of Yang et al. 2018. Its rows of STS, SNLI and
CQA are all by its Transformer, also where a DAN of ours stands beside them, and it trained on 600
million pairs. "Published" rows are other systems' figures as the paper quotes them. P@N is measured
on each run's own corpus. A dash: no such figure."""
TABLE_5 = """All pairs are ranked twice: by the run's score and by people's. A good pair has almost
the same rank in both. We show the best one of those that people gave 4 or more, and of those that
they gave 1 or less. A bad pair has very different ranks. We show the one that the run ranks most
too high, and the one that it ranks most too low."""


def figures(values):
    """Several figures in one cell: 56.1 / 70.2 / 83.6; nan and None as –; a text as it is."""
    if isinstance(values, str):
        return values
    return " / ".join("–" if np.isnan(v) else f"{v:.1f}" for v in values or [np.nan])


def beside(paper, ours=None):
    """Three cells: the paper's figures or None, ours or None or a text, and the differences."""
    difference = "–"
    if paper and ours and not isinstance(ours, str):
        difference = " / ".join(f"{a - b:+.1f}" for a, b in zip(ours, paper))
    return [figures(paper), figures(ours), difference]


def compared(what):
    """The headings of `beside`."""
    return [f"paper, {what}", "ours", "difference"]


def row_of(result, *cells):
    """A row headed by RUN, the cells' own headings, and PROVENANCE."""
    return [result.name, result.encoder, TRAINED_ON[result.run.config.task], *cells,
            *provenance(result)]


def provenance(result):
    """PROVENANCE, as the run's log says.

    Its seconds are those of training, without measuring and saving.
    """
    log = log_of(result.run)
    seconds = [f"{record['seconds']:,.0f}" for record in log if "seconds" in record]
    machines = dict.fromkeys(record["machine"] for record in log if "machine" in record)
    return [f"{pairs_seen(result.run):,}", (seconds or ["not recorded"])[-1],
            " and ".join(machines) or "not recorded"]


def other_row(name, trained_on, *cells):
    """The like of what is no run: a baseline or a published figure."""
    return [name, "–", trained_on, *cells, *"–––"]


def table_1(results):
    """P@N of every run on its own corpus's test split."""
    rows = [row_of(result, *beside(
        published.RESPONSE[result.encoder] if result.run.config.task == "conversation" else None,
        NO_PAIRS if result.ranks is None
        else [precision(result.ranks, n)[0] for n in N])) for result in results]
    return markdown([*RUN, *compared("P@1 / P@3 / P@10"), *PROVENANCE], rows)


def table_2(results, data):
    """Accuracy on SNLI's test set."""
    snli, train = data.snli.get("test"), data.snli.get("train")
    accuracy = lambda classes: [per_cent(classes == snli.labels)[0]]
    rows = []
    for result in results:
        if result.run.config.classifies:
            ours = accuracy(result.snli["test"]) if snli else DOWNLOAD.format("snli")
            paper = published.SNLI.get(PAPER_ROW[result.run.config.task])
            rows.append(row_of(result, *beside(paper and [paper], ours)))
    if snli and train:
        rows.append(other_row("hypothesis alone, n-grams", f"SNLI, {len(train.labels):,} pairs",
                              *beside(None, accuracy(hypothesis_only(train)(snli)))))
    pairs = f"SNLI, {published.SNLI_PAIRS:,} pairs"
    rows += [other_row(f"{name}, published", pairs, *beside([figure]))
             for name, figure in published.SNLI.items() if name != "Reddit+SNLI"]
    return markdown([*RUN, *compared("accuracy on test"), *PROVENANCE], rows)


def sts_figures(similarity, pairs):
    """r × 100 on all pairs and each genre."""
    return [100 * r for r, *_ in sts.correlations(similarity, pairs).values()]


def sts_rows(results, data, splits, count):
    """Every reading of every run, tuned or not: the first `count` figures on each split."""
    rows = []
    for result in results:
        name = PAPER_ROW[result.run.config.task]
        paper = {"trained": name, "trained, tuned": f"{name} tuned"}
        for reading in result.readings | paper:
            similarity, cells = result.readings.get(reading, {}), []
            for split in splits:
                ours = (sts_figures(similarity[split], data.sts[split])[:count]
                        if split in similarity else DOWNLOAD.format("stsbenchmark"))
                cells += beside(published.STS.get(paper.get(reading), {}).get(split, [])[:count],
                                ours)
            if reading == "trained, tuned" and not similarity:
                hint = f"`python -m convsim_mini.tune {result.run.folder}` makes it"
                cells = [hint, *"–" * (len(cells) - 1)]
            state = reading.removeprefix("trained").removeprefix(", ") or "out of the box"
            rows.append(row_of(result, state, *cells))
    return rows


def table_3(results, data):
    """r on all pairs of STS Benchmark dev and test."""
    rows, dev = sts_rows(results, data, ("dev", "test"), count=1), data.sts.get("dev")
    if dev:
        rows += [other_row(name, "–", "baseline", *beside(None, sts_figures(x, dev)[:1]), *"–––")
                 for name, x in sts.baselines(results[0].run, dev).items()]
    rows += [other_row(f"{name}, published", *"––", *beside([dev]), *beside([test]))
             for name, (dev, test) in published.STS_SYSTEMS.items()]
    return markdown([*RUN, "", *compared("dev"), *compared("test"), *PROVENANCE], rows)


def footnote_9(results, data):
    """How much of STS the NLI training set has shown already."""
    if "train" not in data.snli or not data.sts:
        return f"SNLI train and STS: {DOWNLOAD.format('snli stsbenchmark')}"
    rows = []
    for split, pairs in data.sts.items():
        seen = seen_in_training(pairs, data.snli["train"])
        for result in results:
            if result.run.config.task != "conversation":
                r = [f"{100 * pearson(result.sts[split][kept], pairs.labels[kept]):.2f}"
                     for kept in (slice(None), ~seen)]
                rows.append([result.name, f"STS {split}", f"{seen.sum():,} of {len(seen):,}", *r])
    return markdown(["run", "", "pairs that share a sentence with SNLI train", "r × 100",
                     "without them"], rows)


def seen_in_training(sts, train):
    """Which pairs of an Sts share a sentence's tokens with the Snli `train`: bool (n,)."""
    seen = {tuple(tokenize(text)) for text in (*train.premises, *train.hypotheses)}
    return np.array([any(tuple(tokenize(text)) in seen for text in pair)
                     for pair in zip(sts.sentences1, sts.sentences2)])


def table_4(results, data):
    """r by genre: a table for each split."""
    return "\n\n".join(
        markdown([*RUN, "", *compared(f"{split}: {' / '.join(sts.GENRES)}"), *PROVENANCE],
                 sts_rows(results, data, (split,), count=len(sts.GENRES)))
        if split in data.sts else f"STS {split}: {DOWNLOAD.format('stsbenchmark')}"
        for split in ("dev", "test"))


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
        papers = published.CQA if "2017" in name and "test" in name else {}
        score = lambda scores: [100 * ranking_scores(cqa.top_ten(questions, scores))[0, 0]]
        for result in results:
            paper = papers.get(PAPER_ROW[result.run.config.task])
            rows.append([name, *row_of(result, *beside(paper and [paper],
                                                       score(result.cqa[name])))])
        rows += [[name, *other_row(baseline, "–", *beside(None, score(scores)))]
                 for baseline, scores in cqa.baselines(results[0].run, questions).items()]
    rows += [["test of 2017", *other_row(f"{name}, published", "–", *beside([figure]))]
             for name, figure in published.CQA.items() if not name.startswith("Reddit")]
    return markdown(["file", *RUN, *compared("MAP"), *PROVENANCE], rows)


def difficult_pairs(results):
    """The six difficult pairs of the STS task paper as each run scores them."""
    pairs = sts.Sts(None, None, *list(zip(*published.DIFFICULT))[2:])
    scores = zip(*(sts.score_0_to_5(sts.similarity(run.model, run.vocabulary, pairs))
                   for run, *_ in results))
    rows = [[kind, f"{label:.1f}", *(f"{score:.1f}" for score in of_pair), one, two]
            for (kind, label, one, two), of_pair in zip(published.DIFFICULT, scores)]
    return markdown(["kind of error", "people", *(result.name for result in results),
                     "sentence 1", "sentence 2"], rows)


def figure_8(results, data, out):
    """r against the share of the NLI data: figure and table, or what is missing for them."""
    shares, curves = claims.by_fraction(results), {}
    for split in sorted(data.sts.keys() - {"train"}):
        r = [sts_figures(shares[share].sts[split], data.sts[split]) for share in sorted(shares)]
        curves |= {f"{genre}, {split}": curve for genre, curve in zip(sts.GENRES[:2], zip(*r))}
    if not curves or len(shares) < 3:
        return ["Needs STS, and runs with parts of the NLI data: `python -m "
                "convsim_mini.report.fractions RUN --nli DIR`."]
    percentages = [100 * share for share in sorted(shares)]
    figure, axes = new_figure()
    for name, curve in curves.items():
        axes.plot(percentages, curve, "o-", label=name)
    axes.set(xlabel="NLI data used in multitask training (%; 0: conversations alone)",
             ylabel="Pearson's r × 100", title="STS Benchmark against the amount of NLI data")
    axes.legend()
    save_figure(figure, out / "figure_8.png")
    return ["![figure 8](figure_8.png)", markdown(
        ["r × 100", *(f"{percentage:.0f}%" for percentage in percentages)],
        [[name, *(f"{r:.1f}" for r in curve)] for name, curve in curves.items()])]


def on_dev(result, dev, out):
    """Table 5 and figure 7, of one run on STS dev."""
    sts.plot(out / "figure_7.png", "dev", dev, result.sts["dev"])
    return [f"## Table 5: good and bad pairs of {result.name} on STS dev", TABLE_5,
            table_5(result, dev), f"## Figure 7: score against label, {result.name} on STS dev",
            "![figure 7](figure_7.png)"]


def page(results, data, out):
    """The report as Markdown; its figures are written into the folder `out`."""
    whole = [result for result in results if result.run.config.nli_fraction == 1]
    dev = data.sts.get("dev")
    return "\n\n".join([
        INTRODUCTION,
        "## Table 1: picking the true reply among 100", table_1(whole),
        "## Table 2: natural language inference", table_2(whole, data),
        "## Table 3: STS Benchmark, r × 100", table_3(whole, data),
        "## Footnote 9: what NLI has shown of STS", footnote_9(whole, data),
        f"## Table 4: STS Benchmark by genre, r × 100 on {' / '.join(sts.GENRES)}",
        table_4(whole, data),
        *(on_dev(whole[0], dev, out) if dev else []),
        "## Table 6: question ranking, MAP × 100", table_6(whole, data),
        "## Figure 8: how much NLI data it takes", *figure_8(results, data, out),
        "## Six difficult pairs",
        "From Cer et al. 2017, Table 12; scores are 5 (1 − arccos(cos)/π).", difficult_pairs(whole),
        "## The paper's claims",
        markdown(["claim", "verdict", "numbers"], claims.verdicts(results, data))]) + "\n"
