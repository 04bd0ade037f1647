"""The report as Markdown: the paper's tables and figures with our numbers, task by task.

`results` is what `measure` of compare.py returns. Functions return paragraphs.
"""

from pathlib import Path

import numpy as np
from scipy.stats import rankdata

from ..common.cli import progress
from ..common.figures import new_figure, save_figure
from ..common.tables import markdown
from ..core.model import ENCODERS
from ..evaluation import EVALUATIONS, sts
from ..evaluation.results import cell, show
from ..training.run import LOG, read_log
from .compare import side_by_side, texts_of

INTRODUCTION = """Each table has all runs' results on one data set, the baselines, and what others
published; "the paper" is Yang et al. 2018. P@N is measured on each run's own corpus. Brackets
hold 95% intervals. A dash means that there is no such figure."""
TRAINED_ON = {"conversation": "conversations", "multitask": "conversations + SNLI", "nli": "SNLI",
              "entailment": "conversations + entailments"}
PAPER = {    # task → the paper's table, and what it says about it
    "response": """### Table 1

In the paper, the Transformer picks replies better than the DAN (§4.1), by 9.6 points of P@1. For
runs on the same pairs, "Side by side" gives the difference with its interval.""",
    "sts": """### Tables 3 and 4

`python -m convsim_mini.tune RUN --data DIR` adds a run's tuned rows. In the paper, NLI helps
captions most (§5), by 7.0 on dev; tuning helps news most (§5), by 8.9 on dev if only conversations
were learned.""", "nli": "### Table 2", "cqa": "### Table 6"}
TABLE_5 = """All pairs are ranked by the run's score, and by people's. The good pairs are those
whose two ranks are nearest: one pair among those that people gave 4 or more, and one among those
with 1 or less. The bad pairs are those that the run ranks too high and too low by the most."""
FIGURE_8 = "In the paper, a tenth of the NLI data already gives most of the gain (§5.1)."


def page(results, tasks, folder):
    """The page: str. Its figures are written into the folder, as PNG files.

    tasks: those of EVALUATIONS that were measured
    """
    parts = ["# The paper's tables and figures, from our own runs", INTRODUCTION,
             "## The runs", runs_table([run for run, _ in results])]
    if results[1:]:
        parts += ["## Side by side", *texts_of(side_by_side(results), markdown)]
    for task in progress(tasks, "writing", unit=" tasks"):
        parts += [f"## {task}: {EVALUATIONS[task]}", PAPER.get(task, ""), *tables(results, task)]
        if task == "sts":
            parts += [*on_dev(results[0], folder), *more_nli(results, folder)]
    return "\n\n".join(filter(None, parts)) + "\n"


def tables(results, task):
    """The task's tables, one per title of a data set, and what was not measured."""
    titles = {}
    for run, found in results:
        for one in (one for one in found.values() if one.task == task):
            title = f"{run.name}: " if one.absent else one.of_task.title(one.name, one.data)
            titles.setdefault(title, {})[run.name] = one
    return [show(of_runs, markdown) for of_runs in titles.values()]


def runs_table(runs):
    """What each run is. Its seconds are those of training, without measuring and saving."""
    rows = []
    for run in runs:
        config, log = run.config, read_log(run.path.with_name(LOG))
        files = [Path(path).name for path in config.pairs] or ["chitchat-dataset"]
        seconds = [f"{record['seconds']:,.0f}" for record in log if "seconds" in record] or ["–"]
        machines = {record["machine"] for record in log if "machine" in record} or {"–"}
        rows.append([run.name, Path(config.init or "–").name,
                     ENCODERS[config.model.encoder].short, TRAINED_ON[config.task],
                     ", ".join(files), config.preset, config.seed, f"{run.step:,}",
                     f"{config.optim.batch_size:,}", seconds[-1], " and ".join(sorted(machines))])
    return markdown(["run", "started from", "encoder", "trained on", "pairs of", "preset", "seed",
                     "step kept", "batch", "seconds", "machine"], rows)


def on_dev(result, folder):
    """Table 5 and figure 7, for one run on STS dev."""
    run, found = result
    if ("sts", "dev") not in found:
        return []
    pairs, similarity = found["sts", "dev"].data, found["sts", "dev"].scores["trained"]
    figure_7(folder / "figure_7.png", "dev", pairs, similarity)
    on = f"{run.name} on STS dev"
    return [f"### Table 5: good and bad pairs of {on}", TABLE_5, table_5(similarity, pairs),
            f"### Figure 7: score against label, {on}", "![figure 7](figure_7.png)"]


def table_5(similarity, pairs):
    """Good and bad pairs of an Sts, as TABLE_5 explains them."""
    gap = (rankdata(similarity) - rankdata(pairs.labels)) / len(pairs.labels)
    nearest, highest = np.argsort(np.abs(gap), kind="stable"), np.argsort(-gap, kind="stable")
    kinds = [("good", nearest[pairs.labels[nearest] >= 4]),
             ("good", nearest[pairs.labels[nearest] <= 1]),
             ("too high", highest), ("too low", highest[::-1])]
    rows = [[kind, f"{similarity[k]:.2f}", f"{pairs.labels[k]:.1f}", pairs.sentences1[k],
             pairs.sentences2[k]] for kind, order in kinds for k in order[:1]]
    return markdown(["", "−arccos", "people, 0–5", "sentence 1", "sentence 2"], rows)


def more_nli(results, folder):
    """Figure 8: r against the share of the NLI data, if runs have three or more shares."""
    percentages, curves = curves_over_nli(results)
    if not curves or len(percentages) < 3:
        return []
    figure_8(folder / "figure_8.png", percentages, curves)
    header = ["r × 100", *(f"{percentage:.0f}%" for percentage in percentages)]
    return ["### Figure 8: how much NLI data it takes", "![figure 8](figure_8.png)",
            markdown(header, [[name, *map(cell, curve)] for name, curve in curves.items()]),
            FIGURE_8]


def curves_over_nli(results):
    """Percentages of the NLI data, ascending; and STS metric → its figure at each of them.

    Runs on conversations have 0%. If several runs have the same percentage, the last one counts.
    """
    shares = {100 * run.config.nli_fraction if run.config.task == "multitask" else 0.0: found
              for run, found in results if run.config.task in ("conversation", "multitask")}
    curves, shares = {}, dict(sorted(shares.items()))
    for split in ("dev", "test"):
        ones = [found.get(("sts", split)) for found in shares.values()]
        for metric in ("r", "captions") if all(ones) else ():
            curves[f"{metric}, {split}"] = [one.figures()["trained"][metric] for one in ones]
    return [*shares], curves


def figure_7(path, name, pairs, similarity):
    """Predicted score against people's score, one point for each pair of an Sts."""
    scores, (r, *_) = sts.score_0_to_5(similarity), sts.figures(pairs, similarity)["r"]
    figure, axes = new_figure()
    for genre in np.unique(pairs.genres):
        of_genre = pairs.genres == genre
        axes.scatter(pairs.labels[of_genre], scores[of_genre], s=12, alpha=0.5, label=genre,
                     linewidths=0)
    axes.set(xlabel="people's score (0 unrelated … 5 the same)", ylabel="5 (1 − arccos(cos)/π)",
             title=f"STS {name}: Pearson's r × 100 = {r:.1f} over {len(scores):,} pairs")
    axes.legend(loc="lower right")
    save_figure(figure, path)


def figure_8(path, percentages, curves):
    """r × 100 against the percentage of the NLI data; curves: name → a figure per percentage."""
    figure, axes = new_figure()
    for name, curve in curves.items():
        axes.plot(percentages, [value for value, *_ in curve], "o-", label=name)
    axes.set(xlabel="NLI data used in multitask training (%; 0: only conversations)",
             ylabel="Pearson's r × 100", title="STS Benchmark against the amount of NLI data")
    axes.legend()
    save_figure(figure, path)
