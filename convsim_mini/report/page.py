"""Every table and figure of the paper from your own runs, beside the paper's numbers.

    python -m convsim_mini.report RUN… [--data DIR] [--out DIR]
"""

import sys
from pathlib import Path

import numpy as np
from tqdm import tqdm

from ..cli import TextParser, UserError
from ..data.snli import find_snli, read_snli
from ..evaluation.cqa import compare as compare_cqa
from ..evaluation.cqa import find_cqa, top_ten
from ..evaluation.cqa import texts_of as question_texts
from ..evaluation.metrics import pearson, ranking_scores, ranks
from ..evaluation.nli import accuracy, hypothesis_only, overlap_row
from ..evaluation.plots import plot_fractions, plot_sts
from ..evaluation.response import N, precision
from ..evaluation.semeval import read_questions
from ..evaluation.sts import (
    GENRES,
    Sts,
    baseline_similarities,
    correlations,
    find_sts,
    model_similarity,
    read_sts,
    score_0_to_5,
    texts_of,
)
from ..evaluation.word_baselines import vector_sources
from ..files import write_text
from ..run import load_run
from ..tables import markdown
from . import claims, published
from .results import Data, measure, pairs_seen, training_log

PROVENANCE = ["pairs seen", "seconds", "machine"]
DOWNLOAD = "not here; `python data_scripts/download.py {}` fetches it"


def read_data(folder):
    """The labelled sets in a folder, as far as they are there → Data. Raises UserError for damaged files."""
    def found(find, read):
        try:
            files = find(folder)
        except UserError:
            return {}
        return {name: read(path) for name, path in files.items()}

    return Data(found(find_sts, read_sts), found(find_snli, read_snli), found(find_cqa, read_questions))


# ---------------------------------------------------------------- cells

def figures(values):
    """Several figures in one cell: 56.1 / 70.2 / 83.6; nan and None as –."""
    return " / ".join("–" if value is None or np.isnan(value) else f"{value:.1f}" for value in values)


def beside(paper, ours):
    """Three cells: the paper's figures, ours, and the differences; either side may be None or a text."""
    known = not (paper is None or ours is None or isinstance(ours, str))
    return [figures(paper) if paper else "–", ours if isinstance(ours, str) else figures(ours) if ours else "–",
            " / ".join(f"{a - b:+.1f}" for a, b in zip(ours, paper)) if known else "–"]


def provenance(result):
    """Pairs seen, seconds and machine of a run."""
    seconds, machine = training_log(result.run)
    return [f"{pairs_seen(result.run):,}", "not recorded" if seconds is None else f"{seconds:,.0f}", machine or "not recorded"]


def title(result):
    """A run's first cells."""
    return [result.name, result.encoder, result.trained_on]


def paper_row(result, tuned=False):
    """The paper's name of what a run is: Reddit, Reddit+SNLI, tuned or not; SNLI alone has none there."""
    name = {"conversation": "Reddit", "multitask": "Reddit+SNLI"}.get(result.run.config.task)
    return name and name + (" tuned" if tuned else "")


# ---------------------------------------------------------------- tables

def table_1(results):
    """P@N of every run on its own corpus's test split."""
    rows = []
    for result in results:
        paper = published.RESPONSE[result.encoder] if result.run.config.task == "conversation" else None
        ours = "its pair files are not here" if result.ranks is None else [precision(result.ranks, n)[0] for n in N]
        rows.append([*title(result), *beside(paper, ours), *provenance(result)])
    return markdown(["run", "encoder", "trained on", "paper, P@1 / P@3 / P@10", "ours", "difference", *PROVENANCE], rows)


def table_2(results, data):
    """Accuracy on SNLI's test set."""
    rows, snli = [], data.snli.get("test")
    for result in results:
        if result.run.config.classifies:
            ours = [accuracy(result.snli["test"], snli.labels)[0]] if snli else DOWNLOAD.format("snli")
            paper = [published.SNLI["Reddit+SNLI"]] if result.run.config.task == "multitask" else None
            rows.append([*title(result), *beside(paper, ours), *provenance(result)])
    if snli and "train" in data.snli:
        control = hypothesis_only(data.snli["train"], {"test": snli})["test"]
        rows.append(["hypothesis alone, n-grams", "–", f"SNLI, {len(data.snli['train'].labels):,} pairs",
                     *beside(None, [accuracy(control, snli.labels)[0]]), *"–––"])
    rows += [[f"{name}, published", "–", f"SNLI, {published.SNLI_PAIRS:,} pairs", *beside([figure], None), *"–––"]
             for name, figure in published.SNLI.items() if name != "Reddit+SNLI"]
    return markdown(["run", "encoder", "trained on", "paper, accuracy on test", "ours", "difference", *PROVENANCE], rows)


def sts_figures(similarity, sts):
    """r × 100 on all pairs and each genre."""
    found = correlations(similarity, sts)
    return [100 * found[genre][0] for genre in GENRES]


def sts_rows(results, data, row):
    """row(result, tuned, split → figures) for every run, out of the box and tuned; figures are None where they cannot be."""
    rows = []
    for result in results:
        for tuned in (False, True):
            similarity = result.tuned if tuned else result.sts
            found = {split: sts_figures(similarity[split], data.sts[split]) if split in similarity else None
                     for split in ("dev", "test")}
            if similarity or not tuned:
                rows.append([*title(result), "tuned" if tuned else "out of the box", *row(result, tuned, found),
                             *provenance(result)])
            else:
                rows.append([*title(result), "tuned", f"`python -m convsim_mini.tune {result.run.folder}` makes it",
                             *"–" * (len(rows[-1]) - 8), *provenance(result)])
    return rows


def table_3(results, data):
    """r on all pairs of STS Benchmark dev and test."""
    missing = [None if split in data.sts else DOWNLOAD.format("stsbenchmark") for split in ("dev", "test")]

    def row(result, tuned, found):
        paper = published.STS.get(paper_row(result, tuned))
        return [cell for split, absent in zip(("dev", "test"), missing)
                for cell in beside(paper and paper[split][:1], absent or found[split][:1])]

    rows = sts_rows(results, data, row)
    dev = data.sts.get("dev")
    if dev:
        for name, similarity in baselines_on(dev, results).items():
            rows.append([name, "–", "–", "baseline", *beside(None, sts_figures(similarity, dev)[:1]), *"––––––"])
    rows += [[f"{name}, published", "–", "–", "–", *beside(figures[:1], None), *beside(figures[1:], None), *"–––"]
             for name, figures in published.STS_SYSTEMS.items()]
    return markdown(["run", "encoder", "trained on", "", "paper, dev", "ours", "difference", "paper, test", "ours", "difference",
                     *PROVENANCE], rows)


def baselines_on(sts, results):
    """Lexical and word-vector baselines from the first run's vocabulary and embeddings: name → (n,)."""
    first = results[0].run
    return baseline_similarities(first.vocabulary, sts, vector_sources(texts_of(sts), first))


def overlap(results, data):
    """How much of STS the NLI training set has shown already (the paper's footnote 9)."""
    if "train" not in data.snli or not data.sts:
        return f"SNLI train and STS: {DOWNLOAD.format('snli stsbenchmark')}"
    rows = [[result.name, f"STS {split}", *overlap_row(sts, result.sts[split], data.snli["train"])]
            for result in results if result.run.config.classifies for split, sts in data.sts.items()]
    return markdown(["run", "", "pairs that share a sentence with SNLI train", "r × 100", "without them"], rows)


def table_4(results, data):
    """r by genre: a table for each split."""
    parts = []
    for split in ("dev", "test"):
        if split not in data.sts:
            parts.append(f"STS {split}: {DOWNLOAD.format('stsbenchmark')}")
            continue

        def row(result, tuned, found):
            paper = published.STS.get(paper_row(result, tuned))
            return beside(paper and paper[split], found[split])

        parts.append(markdown(["run", "encoder", "trained on", "", f"paper, {split}: {' / '.join(GENRES)}", "ours", "difference",
                               *PROVENANCE], sts_rows(results, data, row)))
    return "\n\n".join(parts)


def table_5(result, sts):
    """Two pairs that a run scores as people do, and two that it does not."""
    similarity = result.sts["dev"]
    gap = (ranks(similarity) - ranks(sts.labels)) / len(sts.labels)
    near = lambda some: np.flatnonzero(some)[np.argmin(np.abs(gap[some]))]
    chosen = [("good", near(sts.labels >= 4)), ("good", near(sts.labels <= 1)), ("bad", np.argmax(gap)), ("bad", np.argmin(gap))]
    rows = [[kind, f"{similarity[k]:.2f}", f"{sts.labels[k]:.1f}", sts.sentences1[k], sts.sentences2[k]] for kind, k in chosen]
    return markdown(["", "−arccos", "people, 0–5", "sentence 1", "sentence 2"], rows)


def table_6(results, data):
    """MAP on every labelled file of question ranking."""
    if not data.cqa:
        return f"SemEval Task 3: {DOWNLOAD.format('cqa')}"
    rows = []
    for name, questions in data.cqa.items():
        is_papers = "2017" in name and "test" in name
        score = lambda scores: [100 * ranking_scores(top_ten(questions, scores))[0, 0]]
        for result in results:
            paper = [published.CQA[paper_row(result)]] if is_papers and paper_row(result) else None
            rows.append([name, *title(result), *beside(paper, score(result.cqa[name])), *provenance(result)])
        first = results[0].run
        for baseline, scores in compare_cqa(questions, first, vector_sources(question_texts(questions), first)).items():
            if baseline != "trained":
                rows.append([name, baseline, "–", "–", *beside(None, score(scores)), *"–––"])
    rows += [["test of 2017", f"{name}, published", "–", "–", *beside([figure], None), *"–––"]
             for name, figure in published.CQA.items() if not name.startswith("Reddit")]
    return markdown(["file", "run", "encoder", "trained on", "paper, MAP", "ours", "difference", *PROVENANCE], rows)


def difficult_pairs(results):
    """The six difficult pairs of the STS task paper as each run scores them."""
    kinds, labels, one, two = zip(*published.DIFFICULT)
    pairs = Sts(None, None, one, two)
    scores = [score_0_to_5(model_similarity(result.run.model, result.run.vocabulary, pairs)) for result in results]
    rows = [[kind, f"{label:.1f}", *(f"{some[k]:.1f}" for some in scores), one[k], two[k]]
            for k, (kind, label) in enumerate(zip(kinds, labels))]
    return markdown(["kind of error", "people", *(result.name for result in results), "sentence 1", "sentence 2"], rows)


def fraction_curves(results, data):
    """Figure 8: curve name → {per cent of the NLI data: r × 100}, from runs that differ in nothing else."""
    shares = sorted(claims.by_fraction(results).items())
    return {f"{genre}, {split}": {100 * share: sts_figures(result.sts[split], data.sts[split])[k] for share, result in shares}
            for split in ("dev", "test") if split in data.sts for k, genre in enumerate(GENRES[:2])}


# ---------------------------------------------------------------- the page

def page(results, data, out):
    """The report of some Results as Markdown; its figures are written into the folder `out`."""
    whole = [result for result in results if result.run.config.nli_fraction == 1]
    dev, parts = data.sts.get("dev"), [INTRODUCTION, "## Table 1: picking the true reply among 100", table_1(whole)]
    parts += ["## Table 2: natural language inference", table_2(whole, data)]
    parts += ["## Table 3: STS Benchmark, r × 100", table_3(whole, data)]
    parts += ["## Footnote 9: what NLI has shown of STS", overlap(whole, data)]
    parts += [f"## Table 4: STS Benchmark by genre, r × 100 on {' / '.join(GENRES)}", table_4(whole, data)]
    if dev:
        plot_sts(out / "figure_7.png", "dev", dev, score_0_to_5(whole[0].sts["dev"]), pearson(whole[0].sts["dev"], dev.labels))
        parts += [f"## Table 5: good and bad pairs of {whole[0].name} on STS dev", TABLE_5, table_5(whole[0], dev)]
        parts += [f"## Figure 7: score against label, {whole[0].name} on STS dev", "![figure 7](figure_7.png)"]
    parts += ["## Table 6: question ranking, MAP × 100", table_6(whole, data)]
    parts += ["## Figure 8: how much NLI data it takes", *figure_8(results, data, out)]
    parts += ["## Six difficult pairs", "From Cer et al. 2017, Table 12; scores are 5 (1 − arccos(cos)/π).", difficult_pairs(whole)]
    parts += ["## The paper's claims", markdown(["claim", "verdict", "numbers"], claims.verdicts(results, data))]
    return "\n\n".join(parts) + "\n"


INTRODUCTION = """# The paper's tables and figures, from our own runs

Figures are per cent, or × 100. The paper's are those of Yang et al. 2018; its rows of STS, SNLI and CQA are all by its
Transformer, also where a DAN of ours stands beside them, and it trained on 600 million pairs. "Published" rows are other
systems' figures as the paper quotes them. P@N is measured on each run's own corpus. A dash: no such figure."""
TABLE_5 = """Rule: with all pairs ranked by score and by label, the good ones are those whose two ranks differ least among labels
of 4 and more, and of 1 and less; the bad ones the pair scored most too high, and the one scored most too low."""


def figure_8(results, data, out):
    """The figure of r against the share of the NLI data, or what it takes to have one."""
    curves = fraction_curves(results, data)
    if not curves or len(next(iter(curves.values()))) < 3:
        return ["Needs runs with parts of the NLI data: `python -m convsim_mini.report.fractions RUN --nli DIR`."]
    plot_fractions(out / "figure_8.png", curves)
    shares = list(next(iter(curves.values())))
    rows = [[name, *(f"{curve[share]:.1f}" for share in shares)] for name, curve in curves.items()]
    return ["![figure 8](figure_8.png)", markdown(["r × 100", *(f"{share:.0f}%" for share in shares)], rows)]


def parse_options(argv):
    """The command's options."""
    parser = TextParser(prog="python -m convsim_mini.report", description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="folders of runs")
    parser.add_argument("--data", type=Path, help="folder with stsbenchmark/, snli_1.0/ and cqa/, as far as they are there")
    parser.add_argument("--out", type=Path, default=Path("report"), help="folder for report.md and its figures")
    return parser.parse_intermixed_args(argv)


def main(argv=None):
    """The command: measure every run on all data, write the page and its figures."""
    options = parse_options(sys.argv[1:] if argv is None else argv)
    runs = [load_run(folder) for folder in options.runs]
    if all(run.config.nli_fraction < 1 for run in runs):
        raise UserError(f"{options.runs[0]}: was trained on a part of the NLI data; name a run with all or none of it as well")
    data = read_data(options.data)
    try:
        options.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{options.out}: cannot be made ({error.strerror}); choose another folder with --out") from None
    results = [measure(run, data) for run in tqdm(runs, desc="measuring", unit=" runs", leave=False)]
    write_text(options.out / "report.md", page(results, data, options.out))
    print(f"{options.out / 'report.md'}: {len(results)} runs")
