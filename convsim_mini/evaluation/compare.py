"""Runs side by side: figures, paired differences, and whether a group of seeds is ahead of another.

    python -m convsim_mini.evaluation.compare RUN RUN… [--data DIR]
"""

import dataclasses
from collections import defaultdict

import numpy as np
import scipy

from ..common.cli import UserError, errors_in_one_line, progress
from ..common.show import table
from ..config import flat
from ..training.run import PLACES, load_run
from . import EVALUATIONS, evaluation_of
from .__main__ import parser_of
from .metrics import without_interval
from .results import cell, grid, measured, names_of, show, verdict

NOTE = """P@1 is in per cent, on each run's own test pairs; differences are shown only for runs on
the same pairs. r (of cosines) and MAP are × 100. Brackets hold 95% intervals: those of a run's
difference are paired over the inputs, those of a group's over the seeds that both groups have
(Student's t). A group, "mean of …", are runs that differ only in seed: mean ± deviation."""


def side_by_side(results):
    """Two tables, row → column → cell: figures, and differences from the first run or group.

    A figure is (value, low, high), and that of a group (mean, standard deviation). A data set that
    some run lacks has no column. results: a list of (Run, (task, data set) → Measured)
    """
    runs, of_runs = zip(*results)
    names, groups = names_of(runs), groups_of_seeds(runs)
    means = ["mean of " + ", ".join(names[k] for k in group) for group in groups]
    figures = {name: {} for name in names + means}
    gaps = {f"{name} − {some[0]}": {} for some in (names, means) for name in some[1:]}
    for key, first in of_runs[0].items():
        if first.absent or not all(key in found for found in of_runs):
            continue
        ones = [found[key] for found in of_runs]
        tables = [first.of_task.figures(one.data, compared(one)) for one in ones]
        metric, *_ = tables[0]
        column, cells = f"{metric}, {first.task} {first.name}", [table[metric] for table in tables]
        values = np.array([value for value, *_ in cells])
        cells += [(float(values[group].mean()), float(values[group].std(ddof=1)))
                  for group in groups]
        leads = [over(first, one) for one in ones[1:]]
        leads += [over_seeds(runs, ones, values, groups[0], group) for group in groups[1:]]
        for row, found in zip([*figures.values(), *gaps.values()], cells + leads):
            row[column] = found
    return figures, gaps


def over(first, one):
    """How far a Measured is above the first run's: value, low, high; nan if the inputs differ."""
    if not one.of_task.same(one.data, first.data):
        return without_interval(np.nan)
    return one.of_task.lead(one.data, compared(one), compared(first))


def compared(one):
    """The predictions by which a Measured is compared."""
    return one.scores[one.of_task.COMPARED]


def over_seeds(runs, ones, values, first, group):
    """How far a group is above the first one: the mean difference, low, high; nan as in `over`.

    The difference is that of runs with the same seed. ones, values: each run's Measured and figure
    """
    seeds = {runs[k].config.seed: k for k in first}
    pairs = [(k, seeds[runs[k].config.seed]) for k in group if runs[k].config.seed in seeds]
    if len(pairs) < 2 or not all(ones[k].of_task.same(ones[k].data, ones[before].data)
                                 for k, before in pairs):
        return without_interval(np.nan)
    gaps = [values[k] - values[before] for k, before in pairs]
    mean, error = float(np.mean(gaps)), np.std(gaps, ddof=1) / np.sqrt(len(gaps))
    half = float(scipy.stats.t.ppf(0.975, len(gaps) - 1) * error)
    return mean, mean - half, mean + half


def groups_of_seeds(runs):
    """The places of runs on the same pairs whose settings differ only in the seed, by group."""
    groups = defaultdict(list)
    for k, run in enumerate(runs):
        settings = {name: value for name, value in flat(dataclasses.asdict(run.config)).items()
                    if name not in PLACES | {"seed"}}
        groups[run.corpus, run.config.init, run.config.nli, str(settings)].append(k)
    return [group for group in groups.values() if len(group) > 1]


def verdicts(gaps):
    """For each group and column a sentence: is the group ahead of the first one?"""
    of_groups = {name: leads for name, leads in gaps.items() if name.startswith("mean of ")}
    lines = [f"{name.replace(' − ', f' {verdict(gap)} ')}: {column} {cell(gap, '+.1f')}."
             for name, leads in of_groups.items() for column, gap in leads.items()
             if not np.isnan(gap[0])]
    if len(of_groups) > 1:
        lines.append(f"{1 + len(of_groups)} groups were compared: even if none differed, one in 20 "
                     "such intervals would leave out 0.")
    return "\n".join(lines)


def differing(runs):
    """The table of settings in which the runs differ, with their values in each run."""
    settings = [flat(dataclasses.asdict(run.config)) for run in runs]
    rows = [[name, *(str(of_run[name]) for of_run in settings)]
            for name in settings[0] if name not in ("run", "data", "cache")]
    return table(["setting", *names_of(runs)], [row for row in rows if len({*row[1:]}) > 1])


@errors_in_one_line()
def main(argv=None):
    """The command: measure every run and print the tables."""
    parser = parser_of("evaluation.compare", __doc__, "--data", nargs="+",
                       help="the folders of two or more runs")
    options = parser.parse_intermixed_args(argv)
    if len(options.run) < 2:
        raise UserError(f"{options.run[0]}: expected two or more runs; name another one")
    tasks = [task for task in EVALUATIONS if evaluation_of(task).COMPARED]
    runs = [*map(load_run, options.run)]
    results = [(run, {(one.task, one.name): one
                      for one in measured(run, options.data, tasks, choosing=True)})
               for run in progress(runs, "measuring", unit=" runs")]
    figures, gaps = side_by_side(results)
    absent = [show(one) for _, found in results for one in found.values() if one.absent]
    parts = [NOTE, grid(figures, corner="run"), grid(gaps, form="+.1f", corner="difference"),
             verdicts(gaps), "Settings that differ:", differing(runs), *dict.fromkeys(absent)]
    print("\n\n".join(filter(None, parts)))


if __name__ == "__main__":
    main()
