"""The learning curve: P@1 and STS on dev against pairs, as a straight line to the paper's number.

    python -m convsim_mini.report.learning_curve RUN… --data DIR [--out FILE]

The runs are of one corpus, with several values of --pairs_fraction and of --seed.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.stats
from matplotlib import colormaps
from matplotlib.figure import Figure

from ..cli import UserError, errors_in_one_line, progress, user_errors
from ..data.prepare import open_corpus
from ..evaluation import sts
from ..evaluation.command import parser_of
from ..evaluation.metrics import pearson
from ..figures import save_figure
from ..run import load_config, load_run, log_of
from ..tables import table
from ..training.schedule import pairs_before
from .results import ENCODER

PAPER = 600_000_000
MEASURES = ("P@1 of 100, dev (%)", "STS dev, r × 100, all but the top, as cosine")


class Curve(NamedTuple):
    """One run: the pairs it could learn from, its measures at its best step, P@1 on its way."""

    pairs: int
    measures: tuple
    visited: list      # pairs that training had seen when dev was measured, repetitions counted
    precision: list    # P@1 on dev then


def measure(run, pairs):
    """The Curve of a Run; pairs: the Sts of dev. Raises UserError where the run is not whole."""
    log = [record for record in log_of(run) if "dev" in record]
    precision = {record["step"]: record["dev"]["1"] for record in log}
    with user_errors(f"{run.folder}: was stopped, or is older than all_but_the_top.safetensors",
                     f"go on: python -m convsim_mini.train --resume {run.folder}", KeyError):
        similarity = sts.scores(run, pairs)[ENCODER]
        measures = precision[run.step], 100 * pearson(similarity, pairs.labels)
    visited = [pairs_before(run.config, step) for step in precision]
    pairs = open_corpus(run.config, run.vocabulary).train.pairs
    return Curve(pairs, measures, visited, [*precision.values()])


def extended(pairs, values, to):
    """A straight line over log₂ of the number of pairs, and where it leads.

    pairs, values: (n,) of the runs; to: (m,) numbers of pairs → slope a doubling, values there
    (m,), half of their 95% prediction intervals (m,). These trust the line: they cannot know
    whether it bends. They are too narrow, for runs are not independent: a smaller share of the
    pairs is part of a larger one of the same seed, and all runs share one dev.
    """
    x, n = np.log2(pairs), len(pairs)
    line = scipy.stats.linregress(x, values)
    rest = np.sqrt(((values - line.intercept - line.slope * x) ** 2).sum() / (n - 2))
    away = (np.log2(to) - x.mean()) ** 2 / ((x - x.mean()) ** 2).sum()
    half = scipy.stats.t.ppf(0.975, n - 2) * rest * np.sqrt(1 + 1 / n + away)
    return line.slope, line.intercept + line.slope * np.log2(to), half


def draw(curves, path):
    """The figure: both measures against unique pairs, P@1 against visited pairs; → table rows."""
    figure = Figure(figsize=(12, 4.2), layout="constrained")
    *both, visited = figure.subplots(1, 3)
    pairs, rows = np.array([curve.pairs for curve in curves]), []
    for axes, name, values in zip(both, MEASURES, zip(*(curve.measures for curve in curves))):
        grid = np.geomspace(pairs.min(), PAPER, 50)
        slope, line, half = extended(pairs, np.array(values), grid)
        axes.plot(pairs, values, "o", alpha=0.6, label="runs")
        axes.plot(grid, line, color="tab:orange", label=f"line: {slope:+.2f} a doubling")
        axes.fill_between(grid, line - half, line + half, color="tab:orange", alpha=0.2,
                          label="95%, if the line goes on")
        axes.axvline(PAPER, color="grey", linestyle=":", label="the paper's 600 million")
        axes.set(xscale="log", xlabel="unique pairs to train on", title=name)
        rows += [[name, f"{slope:+.2f}", f"{line[-1]:.1f} [{line[-1] - half[-1]:.1f}, "
                                         f"{line[-1] + half[-1]:.1f}]"]]
    numbers = np.unique(pairs)
    colours = dict(zip(numbers, colormaps["viridis"](np.linspace(0, 0.9, len(numbers)))))
    for curve in sorted(curves):
        label = f"{curve.pairs:,} unique pairs" if curve.pairs in numbers else None
        visited.plot(curve.visited[1:], curve.precision[1:], "o-", color=colours[curve.pairs],
                     markersize=3, linewidth=1, label=label)
        numbers = numbers[numbers != curve.pairs]             # one label a colour
    visited.set(xscale="log", xlabel="pairs visited, repetitions counted", title=MEASURES[0])
    for axes in (*both, visited):
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
    save_figure(figure, path)
    return rows


@errors_in_one_line()
def main(argv=None):
    """The command: measure every run, draw the figure, print where the lines lead."""
    parser = parser_of("report.learning_curve", __doc__, nargs="+", help="folders of runs",
                       data="folder with the STS Benchmark's sts-dev.csv, or with stsbenchmark/")
    parser.add_argument("--out", type=Path, default=Path("learning_curve.png"))
    options = parser.parse_intermixed_args(argv)
    (pairs,) = sts.read_splits(options.data, "dev")
    runs = [load_config(folder) for folder in options.run]
    if len(runs) < 3 or len({config.pairs_fraction for config in runs}) < 2 or len(
            {(*config.pairs, config.model.encoder) for config in runs}) > 1:
        raise UserError(f"{options.run[0]} and {len(runs) - 1} more: expected three runs or more "
                        "of one corpus and encoder, with two values of --pairs_fraction or more")
    curves = [measure(load_run(folder), pairs)                # one run in memory at a time
              for folder in progress(options.run, "measuring", unit=" runs")]
    rows = draw(curves, options.out)
    print(table(["measure", "a doubling of the pairs", f"at {PAPER:,} pairs, 95% interval"], rows))
    print(f"\n{options.out}: {len(curves)} runs")


if __name__ == "__main__":
    main()
