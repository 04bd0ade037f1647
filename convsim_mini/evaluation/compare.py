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

    found: a list of what `across` returns; table: as in `show`
    """
    figures, gaps = side_by_side(runs, found)
    settings = table(["setting", *names_of(runs)], differing(runs))
    return "\n\n".join(filter(None, [
        NOTE, grid(figures, table, corner="run"), grid(gaps, table, "+.1f", corner="difference"),
        verdicts(gaps), "Settings that differ:", settings]))


def side_by_side(runs, found):
    """Two tables, row → column → cell: figures, and differences from the first run or group.

    A figure is (value, low, high), and that of a group (mean, standard deviation). A data set that
    some run lacks has no column.
    """
    names, groups = names_of(runs), groups_of_seeds(runs)
    means = ["mean of " + ", ".join(names[k] for k in group) for group in groups]
    figures = {name: {} for name in names + means}
    gaps = {f"{name} − {some[0]}": {} for some in (names, means) for name in some[1:]}
    data_sets = defaultdict(dict)                             # (task, name) → run → Measured
    for name, one in (item for ones in found for item in ones.items()):
        if not one.absent and one.of_task.COMPARED and not re.search(r"\b(train|test)\b", one.name):
            data_sets[one.task, one.name][name] = one
    for (task, name), ones in data_sets.items():
        if len(ones) < len(runs):
            continue
        first, *others = ones = [ones[run] for run in names]
        row = first.of_task.COMPARED
        metric, *_ = first.figures[row]
        cells = [one.figures[row][metric] for one in ones]
        values = np.array([value for value, *_ in cells])
        cells += [(float(values[group].mean()), float(values[group].std(ddof=1)))
                  for group in groups]
        leads = [over(first, one) for one in others]
        leads += [over_seeds(runs, ones, values, groups[0], group) for group in groups[1:]]
        for of_row, shown in zip([*figures.values(), *gaps.values()], cells + leads):
            of_row[f"{metric}, {task} {name}"] = shown
    return figures, gaps


def over(first, one):
    """How far a Measured is above the first run's: value, low, high; nan if the inputs differ."""
    if not one.of_task.same(one.data, first.data):
        return without_interval(np.nan)
    row = one.of_task.COMPARED
    return one.of_task.lead(one.data, one.scores[row], first.scores[row])


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
                    if name not in NOT_COMPARED | {"seed"}}
        groups[run.corpus, run.config.init, run.config.nli, str(settings)].append(k)
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
