"""Runs side by side: figures, paired differences, and whether a group of seeds is ahead of another.

    python -m convsim_mini.evaluation.compare RUN RUN… [--data DIR]
"""

import dataclasses
import sys
from collections import defaultdict

import numpy as np
import scipy

from ..common.cli import UserError, errors_in_one_line, progress
from ..common.show import table
from ..training.run import PLACES, load_run
from ..config import flat
from . import EVALUATIONS, evaluation_of
from .__main__ import parser_of
from .metrics import without_interval
from .results import cell, json_lines, measured, show, verdict

NOTE = """P@1 is in per cent, on each run's own test pairs; differences are shown only for runs on
the same pairs. r (of cosines) and MAP are × 100. Brackets hold 95% intervals: those of a run's
difference are paired over the inputs, those of a group's over the seeds that both groups have
(Student's t). A group, "mean of …", are runs that differ only in seed: mean ± deviation."""


def side_by_side(results):
    """Three tables, (header, rows): figures, differences from the first, settings that differ.

    A figure is (value, low, high), and that of a group (mean, standard deviation). A group differs
    from the first group. A data set that some run lacks has no column.
    results: a list of (Run, (task, data set) → Measured)
    """
    runs, of_runs = zip(*results)
    groups, figures, gaps = alike(runs), {}, {}               # the last two: column → of each row
    for key, first in of_runs[0].items():
        if first.compared and all(key in found for found in of_runs):
            ones = [found[key] for found in of_runs]
            tables = [one.of_task.figures(one.data, one.scores[one.compared]) for one in ones]
            metric, *_ = tables[0]
            values = np.array([of_run[metric][0] for of_run in tables])
            column = f"{metric}, {first.task} {first.name}"
            figures[column] = [of_run[metric] for of_run in tables]
            figures[column] += [(float(some.mean()), float(some.std(ddof=1)))
                                for some in (values[group] for group in groups)]
            gaps[column] = [over(first, one) for one in ones[1:]]
            gaps[column] += [over_seeds(runs, ones, values, groups[0], group)
                             for group in groups[1:]]
    names = [run.name for run in runs]
    means = ["mean of " + ", ".join(names[k] for k in group) for group in groups]
    pairs = [f"{name} − {some[0]}" for some in (names, means) for name in some[1:]]
    return ((["run", *figures], [*zip(names + means, *figures.values())]),
            (["difference", *figures], [*zip(pairs, *gaps.values())]),
            (["setting", *names], differing(runs)))


def over(first, one):
    """How far a Measured is above the first run's: value, low, high; nan if the inputs differ."""
    if not one.of_task.same(one.data, first.data):
        return without_interval(np.nan)
    return one.of_task.lead(one.data, one.scores[one.compared], first.scores[one.compared])


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


def texts_of(tables):
    """What `side_by_side` returns, as texts; also whether each group is ahead of the first."""
    (header, rows), (of_gaps, gaps), settings = tables

    def of_seeds(mean, deviation):                            # 2 values; a figure has 3
        return "–" if np.isnan(mean) else f"{mean:.1f} ± {deviation:.1f}"

    verdicts = [f"{name.replace(' − ', f' {verdict(gap)} ')}: {column} {cell(gap, '+.1f')}."
                for name, *of_group in gaps if name.startswith("mean of ")
                for column, gap in zip(header[1:], of_group) if not np.isnan(gap[0])]
    groups = {name for name, *_ in gaps if name.startswith("mean of ")}
    if len(groups) > 1:
        verdicts.append(f"{1 + len(groups)} groups were compared: even if none differed, one in 20 "
                        "such intervals would leave out 0.")
    rows = [[name, *(cell(x) if len(x) == 3 else of_seeds(*x) for x in of_run)]
            for name, *of_run in rows]
    gaps = [[name, *(cell(gap, "+.1f") for gap in of_run)] for name, *of_run in gaps]
    return [NOTE, table(header, rows), table(of_gaps, gaps), *filter(None, ["\n".join(verdicts)]),
            "Settings that differ:", table(*settings)]


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
    parser = parser_of("evaluation.compare", __doc__, "--data", "--json", nargs="+",
                       help="the folders of two or more runs")
    options = parser.parse_intermixed_args(argv)
    if len(options.run) < 2:
        raise UserError(f"{options.run[0]}: expected two or more runs; name another one")
    tasks = [task for task in EVALUATIONS if evaluation_of(task).COMPARED]
    runs = progress([*map(load_run, options.run)], "measuring", unit=" runs")
    results = [(run, {(one.task, one.name): one
                      for one in measured(run, options.data, tasks, choosing=True)})
               for run in runs]
    tables, absent = side_by_side(results), dict.fromkeys(
        show(one) for _, found in results for one in found.values() if one.absent)
    if options.json:
        print(json_lines(dict(zip(header, row)) for header, rows in tables for row in rows))
        print(*absent, sep="\n", end="", file=sys.stderr)
    else:
        print("\n\n".join([*texts_of(tables), *absent]))


if __name__ == "__main__":
    main()
