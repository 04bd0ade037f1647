"""What `evaluation --out` writes: a page with tables and figures, and all figures as CSV."""

import csv
from contextlib import contextmanager

import numpy as np

from ..common.files import write_text
from ..common.show import markdown, new_figure, save_figure
from ..training.monitor import draw_curve
from . import sts
from .compare import comparison
from .results import names_of, records, show

ABOUT = "run", "task", "data", "row"    # of a figure


def write_page(folder, runs, logs, tables):
    """Write evaluation.md, its figures and figures.csv into a folder.

    logs: the runs' records; tables: lists of Measured, as `results.tables` gives them, in the order
    of the page
    """
    found = [one for ones in tables for one in ones]
    with open(folder / "figures.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*ABOUT, "metric", "value", "low", "high"])
        for row in records(found):
            about = [row.pop(name) for name in ABOUT]
            writer.writerows([*about, metric, *figure] for metric, figure in row.items())
    parts = [show(*ones, table=markdown) for ones in tables]
    if len(runs) > 1:
        parts.append(comparison(runs, found, markdown))
    draw(folder, runs, logs, [one for one in found
                              if one.task == "sts" and one.name in ("dev", "test")])
    parts += [f"![{path.name}]({path.name})" for path in sorted(folder.glob("*.png"))]
    write_text(folder / "evaluation.md", "\n\n".join(parts) + "\n")


def draw(folder, runs, logs, of_sts):
    """Draw into a folder those figures for which there are measurements.

    of_sts: the runs' Measured of dev and test of the STS Benchmark
    """
    names = names_of(runs)
    with picture(folder / "curves.png", xlabel="step", ylabel="P@1 on dev (%)",
                 title="Training, each run on its own pairs") as axes:
        for name, log in zip(names, logs):
            draw_curve(axes, log, "dev_p1", name)
    for one in of_sts:
        if one.run in ("", names[0]):
            figure_7(folder / f"figure_7_{one.name}.png", one)
    shares = {name: 100 * run.config.nli_fraction if run.config.task == "multitask" else 0.0
              for name, run in zip(names, runs)
              if run.config.task in ("conversation", "multitask")}
    if len({*shares.values()}) > 2:
        figure_8(folder / "figure_8.png", shares, of_sts)


def figure_7(path, one):
    """Predicted score against people's score, one point for each pair of a Measured of STS."""
    pairs, similarity = one.data, one.scores["trained"]
    scores, (r, *_) = sts.score_0_to_5(similarity), sts.figures(pairs, similarity)["r"]
    name = f"{one.run} STS {one.name}".strip()
    with picture(path, xlabel="people's score (0 unrelated … 5 the same)",
                 ylabel="5 (1 − arccos(cos)/π)",
                 title=f"{name}: Pearson's r × 100 = {r:.1f} over {len(scores):,} pairs") as axes:
        for genre in np.unique(pairs.genres):
            of_genre = pairs.genres == genre
            axes.scatter(pairs.labels[of_genre], scores[of_genre], s=12, alpha=0.5, label=genre,
                         linewidths=0)


def figure_8(path, shares, of_sts):
    """r × 100 on STS against the percentage of the NLI data; shares: run's name → percentage."""
    with picture(path, xlabel="NLI data used in multitask training (%; 0: only conversations)",
                 ylabel="Pearson's r × 100",
                 title="STS Benchmark against the amount of NLI data") as axes:
        for name in dict.fromkeys(one.name for one in of_sts):
            points = sorted((shares[one.run], one.figures["trained"]["r"][0]) for one in of_sts
                            if one.name == name and one.run in shares)
            axes.plot(*zip(*points), "o-", label=f"STS {name}")


@contextmanager
def picture(path, **labels):
    """The axes of a figure with a legend; if anything is drawn, it is written to the path."""
    figure, axes = new_figure()
    yield axes
    if axes.has_data():
        axes.set(**labels)
        axes.legend(loc="lower right")
        save_figure(figure, path)
