"""What `evaluation --out` writes: the tables as a page, figures 7 and 8, curves, and a CSV."""

import csv
import io

import numpy as np

from ..common.files import write_text
from ..common.show import markdown, new_figure, save_figure
from ..training.run import LOG, read_log
from . import sts
from .results import rows_of, show


def write_page(folder, runs, found):
    """Write evaluation.md, its figures and figures.csv into a folder.

    found: a list of what `across` returns, in the order of the page
    """
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(["run", "task", "data", "row", "metric", "value", "low", "high"])
    for row in rows_of(found):
        about = [row.pop(name, "") for name in ("run", "task", "data", "row")]
        writer.writerows([*about, metric, *figure] for metric, figure in row.items())
    write_text(folder / "figures.csv", lines.getvalue())
    parts = [show(ones, markdown) for ones in found]
    parts += [f"![{name}]({name})" for name in draw(folder, [*filter(None, runs)], found)]
    write_text(folder / "evaluation.md", "\n\n".join(parts) + "\n")


def draw(folder, runs, found):
    """Write those figures for which there are measurements; yield their names."""
    logs = {run.name: read_log(run.path.with_name(LOG)) for run in runs}
    if any(logs.values()):
        figure_of_curves(folder / "curves.png", logs)
        yield "curves.png"
    of_sts = {one.name: ones for ones in found for one in ones.values()
              if one.task == "sts" and one.name in ("dev", "test") and one.scores}
    for name, ones in of_sts.items():
        run, one = next(iter(ones.items()))
        figure_7(folder / f"figure_7_{name}.png", f"{run} STS {name}".strip(), one)
        yield f"figure_7_{name}.png"
    shares = {run.name: 100 * run.config.nli_fraction if run.config.task == "multitask" else 0.0
              for run in runs if run.config.task in ("conversation", "multitask")}
    if len({*shares.values()}) > 2 and of_sts:
        figure_8(folder / "figure_8.png", shares, of_sts)
        yield "figure_8.png"


def figure_of_curves(path, logs):
    """P@1 on dev against steps, a line for each run. logs: name → records of its log.jsonl"""
    figure, axes = new_figure()
    for name, log in logs.items():
        measured = [record for record in log if "dev_p1" in record]
        axes.plot([record["step"] for record in measured],
                  [record["dev_p1"] for record in measured], "o-", label=name)
    axes.set(xlabel="step", ylabel="P@1 on dev (%)", title="Training, each run on its own pairs")
    axes.legend()
    save_figure(figure, path)


def figure_7(path, name, one):
    """Predicted score against people's score, one point for each pair of a Measured of STS."""
    pairs, similarity = one.data, one.scores["trained"]
    scores, (r, *_) = sts.score_0_to_5(similarity), sts.figures(pairs, similarity)["r"]
    figure, axes = new_figure()
    for genre in np.unique(pairs.genres):
        of_genre = pairs.genres == genre
        axes.scatter(pairs.labels[of_genre], scores[of_genre], s=12, alpha=0.5, label=genre,
                     linewidths=0)
    axes.set(xlabel="people's score (0 unrelated … 5 the same)", ylabel="5 (1 − arccos(cos)/π)",
             title=f"{name}: Pearson's r × 100 = {r:.1f} over {len(scores):,} pairs")
    axes.legend(loc="lower right")
    save_figure(figure, path)


def figure_8(path, shares, of_sts):
    """r × 100 on STS against the percentage of the NLI data; shares: run's name → percentage."""
    figure, axes = new_figure()
    for name, ones in of_sts.items():
        points = sorted((shares[run], one.figures()["trained"]["r"][0])
                        for run, one in ones.items() if run in shares)
        axes.plot(*zip(*points), "o-", label=f"STS {name}")
    axes.set(xlabel="NLI data used in multitask training (%; 0: only conversations)",
             ylabel="Pearson's r × 100", title="STS Benchmark against the amount of NLI data")
    axes.legend()
    save_figure(figure, path)
