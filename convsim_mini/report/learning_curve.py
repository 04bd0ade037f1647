"""The learning curve: P@1 and STS on dev against pairs, as a straight line to the paper's number.

    python -m convsim_mini.report.learning_curve RUN… --data DIR [--out FILE]

The runs are of one corpus, with several values of --pairs_fraction and of --seed.
"""

from pathlib import Path

import numpy as np
import scipy.stats
from matplotlib.figure import Figure

from ..common.cli import UserError, errors_in_one_line, progress
from ..common.figures import save_figure
from ..common.tables import table
from ..data.prepare import open_corpus
from ..evaluation import sts
from ..evaluation.command import parser_of
from ..evaluation.metrics import pearson, with_interval
from ..training.run import load_run, log_of
from ..training.tasks import pairs_before
from .results import encoder_cosines

PAPER = 600_000_000
MEASURES = ("P@1 of 100, dev (%)", "STS dev, r × 100, all but the top, as cosine")


def extended(pairs, values, to):
    """A straight line over log₂ of the number of pairs, and where it leads.

    pairs, values: (n,) of the runs; to: (m,) numbers of pairs → slope a doubling, values there
    (m,), half of their 95% prediction intervals (m,). The intervals trust the line: it may bend.
    They are too narrow, because runs are not independent. A smaller share of the pairs is part of a
    larger one of the same seed, and all runs share one dev.
    """
    x, to, n = np.log2(pairs), np.log2(to), len(pairs)
    line = scipy.stats.linregress(x, values)
    spread = ((x - x.mean()) ** 2).sum() * (1 + 1 / n) + (to - x.mean()) ** 2
    half = scipy.stats.t.ppf(0.975, n - 2) * line.stderr * np.sqrt(spread)
    return line.slope, line.intercept + line.slope * to, half


@errors_in_one_line()
def main(argv=None):
    """The command: measure every run, draw the figure, print where the lines lead."""
    parser = parser_of("report.learning_curve", __doc__, nargs="+", help="folders of runs",
                       data="folder with the STS Benchmark's sts-dev.csv, or with stsbenchmark/")
    parser.add_argument("--out", type=Path, default=Path("learning_curve.png"))
    options = parser.parse_intermixed_args(argv)
    (dev,) = sts.read_splits(options.data, "dev")
    figure = Figure(figsize=(12, 4.2), layout="constrained")
    *both, visited = figure.subplots(1, 3)
    pairs, measured, rows, colours = [], [], [], {}
    for folder in progress(options.run, "measuring", unit=" runs"):
        run = load_run(folder)
        precision = {record["step"]: record["dev_p1"] for record in log_of(run)
                     if "dev_p1" in record}
        pairs.append(open_corpus(run.config, run.vocabulary).train.pairs)
        measured.append([precision[run.step],
                         100 * pearson(encoder_cosines(run, dev)[0], dev.labels)])
        seen = [pairs_before(run.config, step) for step in precision]
        label = None if pairs[-1] in colours else f"{pairs[-1]:,} unique pairs"
        visited.plot(seen[1:], list(precision.values())[1:], "o-", markersize=3, label=label,
                     color=colours.setdefault(pairs[-1], f"C{len(colours)}"))
    if len(pairs) < 3 or len(set(pairs)) < 2:
        raise UserError(f"{options.run[0]} and {len(pairs) - 1} more: expected three runs or more "
                        "of one corpus, with two values of --pairs_fraction or more")
    for axes, name, values in zip(both, MEASURES, np.transpose(measured)):
        grid = np.geomspace(min(pairs), PAPER, 50)
        slope, line, half = extended(pairs, values, grid)
        axes.plot(pairs, values, "o", alpha=0.6, label="runs")
        axes.plot(grid, line, label=f"line: {slope:+.2f} a doubling")
        axes.fill_between(grid, line - half, line + half, alpha=0.2, label="95%, if it goes on")
        axes.axvline(PAPER, color="grey", linestyle=":", label="the paper's 600 million")
        axes.set(xscale="log", xlabel="unique pairs to train on", title=name)
        at_paper = with_interval([line[-1], line[-1] - half[-1], line[-1] + half[-1]])
        rows.append([name, f"{slope:+.2f}", at_paper])
    visited.set(xscale="log", xlabel="pairs visited, repetitions counted", title=MEASURES[0])
    for axes in (*both, visited):
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
    save_figure(figure, options.out)
    print(table(["measure", "a doubling of the pairs", f"at {PAPER:,} pairs, 95% interval"], rows))
    print(f"\n{options.out}: {len(pairs)} runs")


if __name__ == "__main__":
    main()
