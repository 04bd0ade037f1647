"""Runs side by side: scores, paired differences, means over seeds, settings that differ.

    python -m convsim_mini.report.compare RUN RUN… [--data DIR]
"""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..common.cli import UserError, errors_in_one_line, progress
from ..common.tables import table
from ..config import flat
from ..evaluation import cqa
from ..evaluation.command import parser_of
from ..evaluation.metrics import (
    map_difference, mean_interval, pearson, pearson_difference, pearson_interval, per_cent,
    ranking_scores, with_interval)
from ..training.run import load_run, settings_of
from .blocks import Table
from .results import BOTH, measure, read_dev, to_choose_by

NOTE = """P@1 is by the learned half, per cent, on the run's own test pairs. Runs on other pairs
have other inputs. STS is Pearson's r × 100, MAP is × 100, both by the vectors of `encode`. Brackets
hold 95% intervals, and those of differences are paired. A dash: the run was stopped before its end,
or its pair files are not here."""
PLACES = {"run", "data", "cache"}    # settings that change no result


class Measure(NamedTuple):
    """One measure of several runs. A sample holds what a run did on each input."""

    name: str
    samples: list           # of each run, or None
    value: Callable         # of a sample → value, low, high
    difference: Callable    # of two samples → difference, low, high; None where inputs differ


def replies(results):
    """P@1 in per cent. A sample: whether the true reply comes first, keys of the texts."""
    def difference(one, other):
        if np.array_equal(one[1], other[1]):
            return mean_interval(100 * (one[0].astype(float) - other[0]))
        return None

    samples = [None if result.test is None else (result.ranks == 1, result.test.keys)
               for result in results]
    return Measure("P@1", samples, lambda sample: per_cent(sample[0]), difference)


def similarity(name, pairs, results):
    """Pearson's r × 100 on an Sts. A sample: the cosines."""
    cosines, labels = [result.readings.get(BOTH, {}).get(name) for result in results], pairs.labels
    return Measure(
        f"STS {name}", cosines,
        lambda one: 100 * np.array([pearson(one, labels), *pearson_interval(one, labels)]),
        lambda one, other: 100 * np.array(pearson_difference(one, other, labels)))


def questions(name, asked, results):
    """MAP × 100 on Questions. A sample: which of the ten best are relevant."""
    relevant = [cqa.top_ten(asked, result.cqa[cqa.BOTH][name]) for result in results]
    return Measure(f"MAP {name}", relevant, lambda one: 100 * ranking_scores(one)[0],
                   lambda one, other: 100 * np.array(map_difference(one, other)))


def side_by_side(results, data):
    """Blocks: scores, differences from the first run, means over seeds, settings that differ."""
    found = [replies(results),
             *(similarity(name, data.sts[name], results) for name in to_choose_by(data.sts)),
             *(questions(name, data.cqa[name], results) for name in to_choose_by(data.cqa))]
    names = [result.name for result in results]
    header = [one.name for one in found]
    scores = [[name, *(score(one, k) for one in found)] for k, name in enumerate(names)]
    leads = [[f"{name} − {names[0]}", *(lead(one, k) for one in found)]
             for k, name in enumerate(names[1:], start=1)]
    means = [[", ".join(names[k] for k in group), *(mean(one, group) for one in found)]
             for group in of_seeds(results) if len(group) > 1]
    blocks = [NOTE, Table(["run", *header], scores), Table(["difference", *header], leads)]
    if means:
        blocks += ["Mean ± standard deviation of runs that differ in the seed alone:",
                   Table(["runs", *header], means)]
    return [*blocks, "Settings that differ:", Table(["setting", *names], settings(results))]


def score(measure, k):
    """The cell of run k's score."""
    sample = measure.samples[k]
    return "–" if sample is None else with_interval(measure.value(sample))


def lead(measure, k):
    """The cell of the difference between run k and the first run."""
    first, sample = measure.samples[0], measure.samples[k]
    if first is None or sample is None:
        return "–"
    difference = measure.difference(sample, first)
    return "other inputs" if difference is None else with_interval(difference, "+.1f")


def mean(measure, group):
    """The cell of the mean and the standard deviation over a group of runs."""
    samples = [measure.samples[k] for k in group]
    if any(sample is None for sample in samples):
        return "–"
    values = [measure.value(sample)[0] for sample in samples]
    return f"{np.mean(values):.1f} ± {np.std(values, ddof=1):.1f}"


def of_seeds(results):
    """Groups of runs that differ in the seed alone: lists of their places in `results`."""
    groups = {}
    for k, result in enumerate(results):
        run = result.run
        same = json.dumps({**settings_of(run.config), "seed": None})
        groups.setdefault((same, run.corpus, run.nli, run.config.init), []).append(k)
    return groups.values()


def settings(results):
    """A row for each setting in which the runs differ: its name, its value in each run."""
    configs = [flat(dataclasses.asdict(result.run.config)) for result in results]
    return [[name, *(shown(config[name]) for config in configs)] for name in configs[0]
            if name not in PLACES and any(config[name] != configs[0][name] for config in configs)]


def shown(value):
    """A setting's value as text. Of a path the name alone."""
    values = value if isinstance(value, list) else [value]
    return ", ".join(Path(str(one)).name for one in values) or "–"


@errors_in_one_line()
def main(argv=None):
    """The command: measure every run, print the tables."""
    parser = parser_of("report.compare", __doc__, nargs="+", help="folders of two runs or more",
                       data="folder with stsbenchmark/, and with cqa/ as far as it is there; "
                       "without it the small own sets")
    options = parser.parse_intermixed_args(argv)
    if len(options.run) < 2:
        raise UserError(f"{options.run[0]}: expected two runs or more; name another one")
    data = read_dev(options.data)
    results = [measure(load_run(run), data)
               for run in progress(options.run, "measuring", unit=" runs")]
    for block in side_by_side(results, data):
        print(table(*block) if isinstance(block, Table) else block, end="\n\n")


if __name__ == "__main__":
    main()
