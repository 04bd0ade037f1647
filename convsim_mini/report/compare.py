"""Runs side by side: figures, paired differences, means over seeds, settings that differ.

    python -m convsim_mini.report.compare RUN RUN… [--data DIR]
"""

import dataclasses
import sys
from collections import defaultdict

import numpy as np

from ..common.cli import UserError, errors_in_one_line, progress
from ..common.tables import table
from ..evaluation import EVALUATIONS, evaluation_of
from ..evaluation.command import parser_of
from ..evaluation.results import cell, json_lines, measured, show
from ..training.run import PLACES, load_run
from ..training.settings import flat

NOTE = """P@1 is in per cent, on each run's own test pairs; differences are shown only for runs on
the same pairs. r (of cosines) and MAP are × 100. Brackets hold 95% intervals, which are paired for
differences. A row "mean of …" has mean ± standard deviation of runs that differ only in seed."""


def measure(runs, *settings, **more):
    """A list of (Run, (task, data set) → Measured). settings, more: as in `measured`"""
    return [(run, {(one.task, one.name): one for one in measured(run, *settings, **more)})
            for run in progress(runs, "measuring", unit=" runs")]


def side_by_side(results):
    """Three tables, (header, rows): figures, differences from the first run, settings that differ.

    A figure is (value, low, high), and a mean over seeds is (mean, standard deviation).
    results: from `measure`. A data set that some run lacks has no column.
    """
    runs, of_runs = zip(*results)
    names, figures, gaps = [run.name for run in runs], {}, {}
    for key, first in of_runs[0].items():
        if first.compared and all(key in found for found in of_runs):
            ones = [found[key] for found in of_runs]
            tables = [one.of_task.figures(one.data, one.scores[one.compared]) for one in ones]
            metric, *_ = tables[0]
            column = f"{metric}, {first.task} {first.name}"
            figures[column] = [of_run[metric] for of_run in tables]
            gaps[column] = [over(first, one) for one in ones[1:]]
    rows = [*zip(names, *figures.values())]
    for group in alike(runs):
        values = [[of_runs[k][0] for k in group] for of_runs in figures.values()]
        rows.append(["mean of " + ", ".join(names[k] for k in group),
                     *((float(np.mean(x)), float(np.std(x, ddof=1))) for x in values)])
    gaps = zip([f"{name} − {names[0]}" for name in names[1:]], *gaps.values())
    return ((["run", *figures], rows), (["difference", *figures], [*gaps]),
            (["setting", *names], differing(runs)))


def over(first, one):
    """How far a Measured is above the first run's: value, low, high; nan if the inputs differ."""
    if not one.of_task.same(one.data, first.data):
        return np.nan, np.nan, np.nan
    return one.of_task.lead(one.data, one.scores[one.compared], first.scores[one.compared])


def texts_of(tables, table):
    """What `side_by_side` returns, as texts. table: a function from a header and rows to a text."""
    (header, rows), (of_gaps, gaps), settings = tables

    def of_seeds(mean, deviation):                            # 2 values; a figure has 3
        return "–" if np.isnan(mean) else f"{mean:.1f} ± {deviation:.1f}"

    rows = [[name, *(cell(x) if len(x) == 3 else of_seeds(*x) for x in of_run)]
            for name, *of_run in rows]
    gaps = [[name, *(cell(gap, "+.1f") for gap in of_run)] for name, *of_run in gaps]
    return [NOTE, table(header, rows), table(of_gaps, gaps), "Settings that differ:",
            table(*settings)]


def alike(runs):
    """The places of runs on the same pairs whose settings differ only in the seed, by group."""
    groups = defaultdict(list)
    for k, run in enumerate(runs):
        settings = {name: value for name, value in flat(dataclasses.asdict(run.config)).items()
                    if name not in PLACES | {"seed"}}
        groups[run.corpus, run.config.init, run.config.nli, str(settings)].append(k)
    return [group for group in groups.values() if len(group) > 1]


def differing(runs):
    """A row for each setting in which the runs differ: its name, then its value in each run."""
    settings = [flat(dataclasses.asdict(run.config)) for run in runs]
    rows = [[name, *(str(of_run[name]) for of_run in settings)]
            for name in settings[0] if name not in ("run", "data", "cache")]
    return [row for row in rows if len({*row[1:]}) > 1]


@errors_in_one_line()
def main(argv=None):
    """The command: measure every run and print the tables."""
    parser = parser_of("report.compare", __doc__, "--data", "--json", nargs="+",
                       help="the folders of two or more runs")
    options = parser.parse_intermixed_args(argv)
    if len(options.run) < 2:
        raise UserError(f"{options.run[0]}: expected two or more runs; name another one")
    tasks = [task for task in EVALUATIONS if evaluation_of(task).COMPARED]
    results = measure([*map(load_run, options.run)], options.data, tasks, choosing=True)
    tables, absent = side_by_side(results), dict.fromkeys(
        show(one) for _, found in results for one in found.values() if one.absent)
    if options.json:
        print(json_lines(dict(zip(header, row)) for header, rows in tables for row in rows))
        print(*absent, sep="\n", end="", file=sys.stderr)
    else:
        print("\n\n".join([*texts_of(tables, table), *absent]))


if __name__ == "__main__":
    main()
