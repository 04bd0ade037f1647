"""Runs side by side: figures, paired differences, and whether a group of seeds is ahead of another.

`evaluation RUN RUN…` shows this below its tables.
"""

import dataclasses
import re
from collections import defaultdict

import numpy as np
import scipy

from ..common.show import table
from ..config import flat
from ..training.run import NOT_COMPARED
from .metrics import without_interval
from .results import cell, grid, names_of, verdict

NOTE = """The runs side by side. Their differences are paired over the inputs: P@1 has none between
runs with other test pairs. A group, "mean of …", are runs that differ only in seed: mean ±
deviation; the interval of a group's difference is over its differences by seed (Student's t).
Data sets named train or test are left out, because nothing should be chosen by them."""


def comparison(runs, found, table=table):
    """The text that compares two or more Runs.

    found: their Measured, in any order; table: as in `show`
    """
    figures, gaps = side_by_side(runs, data_sets(runs, found))
    settings = table(["setting", *names_of(runs)], differing(runs))
    return "\n\n".join(filter(None, [
        NOTE, grid(figures, table, corner="run"), grid(gaps, table, "+.1f", corner="difference"),
        verdicts(gaps), "Settings that differ:", settings]))


def data_sets(runs, found):
    """The columns to compare: heading → each Run's Measured, for data sets that no run lacks."""
    by_data_set, columns = defaultdict(dict), {}              # the first: → run → Measured
    for one in found:
        if not one.absent and one.of_task.COMPARED and not re.search(r"\b(train|test)\b", one.name):
            by_data_set[one.task, one.name][one.run] = one
    for (task, name), ones in by_data_set.items():
        if len(ones) == len(runs):
            ones = [ones[run] for run in names_of(runs)]
            _, metric = ones[0].compared
            columns[f"{metric}, {task} {name}"] = ones
    return columns


def side_by_side(runs, columns):
    """Two tables, row → column → cell: figures, and differences from the first run or group.

    columns: heading → each run's Measured. A figure is (value, low, high), and that of a group
    (mean, standard deviation).
    """
    names, figures, gaps = names_of(runs), {}, {}
    for k, name in enumerate(names):
        figures[name] = {column: figure_of(ones[k]) for column, ones in columns.items()}
        if k:
            gaps[f"{name} − {names[0]}"] = {
                column: over(ones[0], ones[k]) for column, ones in columns.items()}
    groups = {"mean of " + ", ".join(names[k] for k in group): group
              for group in groups_of_seeds(runs)}
    for name, group in groups.items():
        first, *_ = groups
        values = {column: [figure_of(ones[k])[0] for k in group]
                  for column, ones in columns.items()}
        figures[name] = {column: (float(np.mean(some)), float(np.std(some, ddof=1)))
                         for column, some in values.items()}
        if name != first:
            gaps[f"{name} − {first}"] = {column: over_seeds(runs, ones, groups[first], group)
                                         for column, ones in columns.items()}
    return figures, gaps


def figure_of(one):
    """The figure by which a Measured is compared: value, low, high."""
    row, metric = one.compared
    return one.figures[row][metric]


def over(first, one):
    """How far a Measured is above the first run's: value, low, high; nan if the inputs differ."""
    if not one.of_task.same(one.data, first.data):
        return without_interval(np.nan)
    row, _ = one.compared
    return one.of_task.lead(one.data, one.scores[row], first.scores[row])


def over_seeds(runs, ones, first, group):
    """How far a group is above the first one: the mean difference, low, high; nan as in `over`.

    The difference is that of runs with the same seed. ones: each run's Measured
    """
    seeds = {runs[k].config.seed: k for k in first}
    pairs = [(k, seeds[runs[k].config.seed]) for k in group if runs[k].config.seed in seeds]
    if len(pairs) < 2 or not all(ones[k].of_task.same(ones[k].data, ones[before].data)
                                 for k, before in pairs):
        return without_interval(np.nan)
    gaps = [figure_of(ones[k])[0] - figure_of(ones[before])[0] for k, before in pairs]
    mean, error = float(np.mean(gaps)), np.std(gaps, ddof=1) / np.sqrt(len(gaps))
    half = float(scipy.stats.t.ppf(0.975, len(gaps) - 1) * error)
    return mean, mean - half, mean + half


def groups_of_seeds(runs):
    """The places of runs on the same pairs whose settings differ only in the seed, by group."""
    groups = defaultdict(list)
    for k, run in enumerate(runs):
        settings = {name: value for name, value in flat(dataclasses.asdict(run.config)).items()
                    if name not in NOT_COMPARED | {"seed"}}
        groups[run.corpus_checksum, run.config.init, run.config.nli, str(settings)].append(k)
    return [group for group in groups.values() if len({runs[k].config.seed for k in group}) > 1]


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
    """A row for each setting in which the runs differ: its name, then its value in each run."""
    settings = [flat(dataclasses.asdict(run.config)) for run in runs]
    rows = [[name, *(str(of_run[name]) for of_run in settings)]
            for name in settings[0] if name not in ("run", "data", "cache")]
    return [row for row in rows if len({*row[1:]}) > 1]
