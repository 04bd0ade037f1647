"""Runs side by side: scores, paired differences, means over seeds, settings that differ.

    python -m convsim_mini.report.compare RUN RUN… [--data DIR]
"""

import dataclasses
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
from .results import AS_ENCODED, measure, to_choose_by

TASKS = ("response", "sts", "cqa")
NOTE = """P@1 is by the learned half, per cent, on the run's own test pairs. Runs on other pairs
have other inputs. STS is Pearson's r × 100, MAP is × 100, both by the vectors of `encode`. Brackets
hold 95% intervals, and those of differences are paired. Below the runs stands the mean ± standard
deviation of those that differ in the seed alone. A dash: not measured."""
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

    ranks = [result.predicted("response", "test") for result in results]
    samples = [None if of_run is None else (of_run == 1, result.data["response"]["test"].keys)
               for of_run, result in zip(ranks, results)]
    return Measure("P@1", samples, lambda sample: per_cent(sample[0]), difference)


def similarity(name, pairs, results):
    """Pearson's r × 100 on an Sts. A sample: the cosines."""
    cosines = [result.predicted("sts", name, AS_ENCODED["sts"]) for result in results]
    labels = pairs.labels
    return Measure(
        f"STS {name}", cosines,
        lambda one: 100 * np.array([pearson(one, labels), *pearson_interval(one, labels)]),
        lambda one, other: 100 * np.array(pearson_difference(one, other, labels)))


def questions(name, asked, results):
    """MAP × 100 on Questions. A sample: which of the ten best are relevant."""
    scores = [result.predicted("cqa", name, AS_ENCODED["cqa"]) for result in results]
    relevant = [None if of_run is None else cqa.top_ten(asked, of_run) for of_run in scores]
    return Measure(f"MAP {name}", relevant, lambda one: 100 * ranking_scores(one)[0],
                   lambda one, other: 100 * np.array(map_difference(one, other)))


def side_by_side(results, table):
    """Texts: scores, differences from the first run, settings that differ.

    table: a function from a header and rows to a text
    """
    measures = [replies(results)]
    for task, of_task in (("sts", similarity), ("cqa", questions)):
        measures += [of_task(name, dataset, results)
                     for name, dataset in results[0].data.get(task, {}).items()
                     if to_choose_by(name)]
    names = [result.name for result in results]
    scores = [[name, *(score(one, k) for one in measures)] for k, name in enumerate(names)]
    scores += [["mean of " + ", ".join(names[k] for k in group),
                *(mean(one, group) for one in measures)]
               for group in alike(results, "seed") if len(group) > 1]
    leads = [[f"{name} − {names[0]}", *(lead(one, k) for one in measures)]
             for k, name in enumerate(names[1:], start=1)]
    header = [one.name for one in measures]
    return [NOTE, table(["run", *header], scores), table(["difference", *header], leads),
            "Settings that differ:", table(["setting", *names], differing(results))]


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


def alike(results, free):
    """The places in `results` of runs on the same pairs that agree in all settings but `free`."""
    groups = {}
    for k, result in enumerate(results):
        config = result.run.config
        same = result.run.corpus, config.init, config.nli, str(settings_of(config) | {free: None})
        groups.setdefault(same, []).append(k)
    return [*groups.values()]


def differing(results):
    """A row for each setting in which the runs differ: its name, its value in each run."""
    first, *others = (flat(dataclasses.asdict(result.run.config)) for result in results)
    return [[name, *(shown(of_run[name]) for of_run in (first, *others))] for name in first
            if name not in PLACES and any(of_run[name] != first[name] for of_run in others)]


def shown(value):
    """A setting's value as text. Of a path the name alone."""
    values = value if isinstance(value, list) else [value]
    return ", ".join(Path(str(one)).name for one in values) or "–"


@errors_in_one_line()
def main(argv=None):
    """The command: measure every run, print the tables."""
    parser = parser_of("report.compare", __doc__, nargs="+", help="folders of two runs or more",
                       data="folder with stsbenchmark/ and cqa/, as far as they are there; without "
                       "it the small own sets")
    options = parser.parse_intermixed_args(argv)
    if len(options.run) < 2:
        raise UserError(f"{options.run[0]}: expected two runs or more; name another one")
    results = [measure(load_run(run), options.data, TASKS, choosing=True)
               for run in progress(options.run, "measuring", unit=" runs")]
    absent = [f"{task}: not measured. {reason}" for result in results
              for task, reason in result.absent.items()]
    print("\n\n".join([*side_by_side(results, table), *dict.fromkeys(absent)]))


if __name__ == "__main__":
    main()
