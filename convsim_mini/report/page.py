"""The report as Markdown: the paper's tables and figures with our numbers, task by task.

Wherever a function takes `results`, that is a list of Results. It returns a list of paragraphs.
"""

from pathlib import Path
from textwrap import indent

import msgspec
import numpy as np
from scipy.stats import rankdata

from ..common.cli import progress
from ..common.figures import new_figure, save_figure
from ..common.tables import markdown
from ..core.model import ENCODERS
from ..core.ranking import N, precision
from ..evaluation import EVALUATIONS, cqa, sts
from ..evaluation.metrics import per_cent, ranking_scores
from ..training.run import LOG, read_log
from ..training.tasks import pairs_before
from .compare import side_by_side
from .results import TRAINED, TUNED, summaries

# Figures from the literature, × 100, as printed there; published.json names the source of each.
PUBLISHED = {name: table["figures"] for name, table in msgspec.json.decode(
    Path(__file__).with_name("published.json").read_bytes()).items()}
INTRODUCTION = """Figures are per cent, or × 100. The paper is Yang et al. 2018. It trained on 600
million pairs. Its rows of STS, SNLI and CQA are all by its Transformer, also where a DAN of ours
stands beside them. "Published" rows are figures of other systems, as the paper quotes them. P@N is
measured on each run's own corpus. A dash: there is no such figure. Below the paper's tables stands
what the command of each task prints of each run, with intervals and baselines."""
TRAINED_ON = {"conversation": "conversations", "multitask": "conversations + SNLI", "nli": "SNLI",
              "entailment": "conversations + entailments"}
PAPER_ROW = {"conversation": "Reddit", "multitask": "Reddit+SNLI"}    # by task
TABLE_1 = """The paper: the Transformer picks replies better than the DAN (§4.1), by 9.6 points of
P@1. Of runs on the same pairs, "Side by side" has the difference with its interval."""
TABLES_3_AND_4 = """`python -m convsim_mini.tune RUN --data DIR` makes the tuned rows of a run. The
paper: NLI helps captions most (§5), by 7.0 on dev. Tuning helps news most (§5), by 8.9 on dev after
conversations alone."""
TABLE_5 = """All pairs are ranked twice: by the run's score and by people's. A good pair has almost
the same rank in both. We show the best one among the pairs that people gave 4 or more, and the best
one among the pairs that they gave 1 or less. A bad pair has very different ranks. We show the one
that the run ranks most too high, and the one that it ranks most too low."""
FIGURE_8 = "The paper: a tenth of the NLI data already gives most of the gain (§5.1)."


def page(results, tasks, folder):
    """The page: str. Its figures are written into the folder, as PNG files.

    tasks: those of EVALUATIONS that were measured
    """
    parts = ["# The paper's tables and figures, from our own runs", INTRODUCTION,
             "## The runs", runs_table(results)]
    if results[1:]:
        parts += ["## Side by side", *side_by_side(results, markdown)]
    for task in progress(tasks, "writing", unit=" tasks"):
        parts.append(f"## {task}: {EVALUATIONS[task]}")
        if task in PAPER:
            parts += PAPER[task](results)
        if task == "sts":
            parts += [*on_dev(results[0], folder), *figure_8(results, folder)]
        for result in results:
            absent = f" not measured. {result.absent[task]}" if task in result.absent else ""
            parts.append(f"{result.run.name}:{absent}")
            parts += [indent(text, "    ") for text in summaries(result, task)]
    return "\n\n".join(parts) + "\n"


def runs_table(results):
    """What each run is. Its seconds were spent in training, not in measuring and saving."""
    rows = []
    for result in results:
        config = result.run.config
        log = read_log(result.run.path.with_name(LOG))
        files = [Path(path).name for path in config.pairs] or ["chitchat-dataset"]
        seconds = [f"{record['seconds']:,.0f}" for record in log if "seconds" in record]
        machines = {record["machine"] for record in log if "machine" in record}
        rows.append([result.run.name, Path(config.init or "–").name,
                     ENCODERS[config.model.encoder].short, TRAINED_ON[config.task],
                     ", ".join(files), config.preset, config.seed,
                     f"{result.run.step:,}", f"{pairs_before(config, result.run.step):,}",
                     seconds[-1] if seconds else "–", " and ".join(sorted(machines)) or "–"])
    return markdown(["run", "goes on from", "encoder", "trained on", "pairs of", "preset", "seed",
                     "step kept", "pairs seen", "seconds", "machine"], rows)


def beside(what, rows):
    """A table of (name, the paper's figures, ours), and the differences of the two."""
    cells = [[name, figures(paper), figures(ours),
              figures([a - b for a, b in zip(ours, paper)], "+.1f")] for name, paper, ours in rows]
    return markdown(["", f"paper, {what}", "ours", "difference"], cells)


def figures(values, form=".1f"):
    """Figures in one cell: 56.1 / 70.2 / 83.6. A dash stands for nan and for an empty list."""
    return " / ".join("–" if np.isnan(value) else format(value, form) for value in values) or "–"


def table_1(results):
    """P@N of every run on its own corpus's test split."""
    rows = []
    for result in results:
        config, paper = result.run.config, []
        if config.task == "conversation":
            paper = PUBLISHED["RESPONSE"].get(ENCODERS[config.model.encoder].short, [])
        ranks = result.predicted("response", "test")
        rows.append([result.run.name, paper,
                     [] if ranks is None else [precision(ranks, n) for n in N]])
    return ["### Table 1: picking the true reply among 100",
            beside("P@1 / P@3 / P@10", rows), TABLE_1]


def table_2(results):
    """Accuracy on SNLI's test set."""
    rows = []
    for result in results:
        classes = result.predicted("nli", "test")
        if classes is not None:
            right = classes == result.data["nli"]["test"].labels
            paper = PUBLISHED["SNLI"].get(PAPER_ROW.get(result.run.config.task), [])
            rows.append([result.run.name, paper, [per_cent(right)[0]]])
    rows += [[f"{name}, published; {PUBLISHED['SNLI_PAIRS']:,} pairs", figure, []]
             for name, figure in PUBLISHED["SNLI"].items() if name != "Reddit+SNLI"]
    return ["### Table 2: natural language inference", beside("accuracy on test", rows)]


def tables_3_and_4(results):
    """r on STS Benchmark dev and test as the paper reads it, out of the box and tuned."""
    rows = []
    for result in results:
        name = PAPER_ROW.get(result.run.config.task)
        for row, state, paper in ((TRAINED, "out of the box", name),
                                  (TUNED, "tuned", f"{name} tuned")):
            rows += [[f"{result.run.name}, {state}, {split}",
                      PUBLISHED["STS"].get(paper, {}).get(split, []), by_genre(result, split, row)]
                     for split in ("dev", "test")]
    rows += [[f"{name}, published, {split}", [figure], []]
             for name, both in PUBLISHED["STS_SYSTEMS"].items()
             for split, figure in zip(("dev", "test"), both)]
    return ["### Tables 3 and 4: STS Benchmark, r × 100",
            beside(" / ".join(sts.GENRES), rows), TABLES_3_AND_4]


def by_genre(result, split, row=TRAINED):
    """r × 100 on all pairs of a split and on each genre; an empty list if it was not measured."""
    similarity = result.predicted("sts", split, row)
    if similarity is None:
        return []
    return [100 * r for r, *_ in sts.correlations(similarity, result.data["sts"][split]).values()]


def on_dev(result, folder):
    """Table 5 and figure 7, of one run on STS dev."""
    similarity = result.predicted("sts", "dev")
    if similarity is None:
        return []
    pairs = result.data["sts"]["dev"]
    sts.plot(folder / "figure_7.png", "dev", pairs, similarity)
    return [f"### Table 5: good and bad pairs of {result.run.name} on STS dev", TABLE_5,
            table_5(similarity, pairs),
            f"### Figure 7: score against label, {result.run.name} on STS dev",
            "![figure 7](figure_7.png)"]


def table_5(similarity, pairs):
    """Good and bad pairs of an Sts, as TABLE_5 says."""
    gap = (rankdata(similarity) - rankdata(pairs.labels)) / len(pairs.labels)
    nearest, highest = np.argsort(np.abs(gap), kind="stable"), np.argsort(-gap, kind="stable")
    kinds = [("good", nearest[pairs.labels[nearest] >= 4]),
             ("good", nearest[pairs.labels[nearest] <= 1]),
             ("too high", highest), ("too low", highest[::-1])]
    rows = [[kind, f"{similarity[k]:.2f}", f"{pairs.labels[k]:.1f}", pairs.sentences1[k],
             pairs.sentences2[k]] for kind, order in kinds for k in order[:1]]
    return markdown(["", "−arccos", "people, 0–5", "sentence 1", "sentence 2"], rows)


def table_6(results):
    """MAP on every labelled file of question ranking."""
    rows = []
    for result in results:
        for name, questions in result.data.get("cqa", {}).items():
            of_task = PUBLISHED["CQA"] if "2017" in name and "test" in name else {}
            (map_, *_), *_ = ranking_scores(cqa.top_ten(questions, result.predicted("cqa", name)))
            rows.append([f"{result.run.name}, {name}",
                         of_task.get(PAPER_ROW.get(result.run.config.task), []), [100 * map_]])
    rows += [[f"{name}, published, test of 2017", figure, []]
             for name, figure in PUBLISHED["CQA"].items() if not name.startswith("Reddit")]
    return ["### Table 6: question ranking, MAP × 100", beside("MAP", rows)]


def figure_8(results, folder):
    """r against the share of the NLI data, where three runs or more show it.

    Runs on conversations alone stand at 0; of several runs at one share the last one counts.
    """
    configs = [result.run.config for result in results]
    shares = {config.nli_fraction if config.task == "multitask" else 0.0: result
              for config, result in zip(configs, results) if config.task in PAPER_ROW}
    shares, curves = dict(sorted(shares.items())), {}
    for split in ("dev", "test"):
        r = [by_genre(result, split) for result in shares.values()]
        for genre, curve in zip(sts.GENRES[:2], zip(*r)):
            curves[f"{genre}, {split}"] = curve
    if not curves or len(shares) < 3:
        return []
    percentages = [100 * share for share in shares]
    figure, axes = new_figure()
    for name, curve in curves.items():
        axes.plot(percentages, curve, "o-", label=name)
    axes.set(xlabel="NLI data used in multitask training (%; 0: conversations alone)",
             ylabel="Pearson's r × 100", title="STS Benchmark against the amount of NLI data")
    axes.legend()
    save_figure(figure, folder / "figure_8.png")
    header = ["r × 100", *(f"{percentage:.0f}%" for percentage in percentages)]
    rows = [[name, *(f"{r:.1f}" for r in curve)] for name, curve in curves.items()]
    return ["### Figure 8: how much NLI data it takes", "![figure 8](figure_8.png)",
            markdown(header, rows), FIGURE_8]


PAPER = {"response": table_1, "sts": tables_3_and_4, "nli": table_2, "cqa": table_6}
