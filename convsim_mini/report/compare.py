"""Runs side by side: scores, paired differences, means over seeds, settings that differ.

    python -m convsim_mini.report.compare RUN RUN… [--data DIR]
"""

import dataclasses
from typing import NamedTuple

import numpy as np

from ..common.cli import UserError, errors_in_one_line, progress
from ..common.tables import table
from ..evaluation import cqa, sts
from ..evaluation.command import parser_of
from ..evaluation.metrics import (
    map_difference, mean_interval, pearson, pearson_difference, pearson_interval, per_cent,
    ranking_scores, with_interval)
from ..inference.sentence_encoder import encoder_of
from ..training.run import PLACES, load_run
from ..training.settings import flat
from .results import measure, to_choose_by

TASKS = ("response", "sts", "cqa")
NOTE = """P@1 is per cent, on the run's own test pairs. Runs on other pairs
have other inputs. STS is Pearson's r × 100 of the cosine, MAP is × 100. Brackets
hold 95% intervals, and those of differences are paired. Below the runs stands the mean ± standard
deviation of those that differ in the seed alone."""


class Measure(NamedTuple):
    """What one measure says of several runs: values, each with the low and high of its interval."""

    name: str
    scores: list    # of each run
    leads: list     # of each run but the first, over the first; None where their inputs differ


def replies(results):
    """P@1 in per cent."""
    tests = [result.data["response"]["test"] for result in results]
    texts = [test.corpus.test.keys[test.pairs] for test in tests]         # their hashes: (n, 2)
    right = [result.predicted("response", "test") == 1 for result in results]
    leads = [mean_interval(100 * (of_run.astype(float) - right[0]))
             if np.array_equal(some, texts[0]) else None for of_run, some in zip(right, texts)]
    return Measure("P@1", [*map(per_cent, right)], leads[1:])


def similarity(name, pairs, results):
    """Pearson's r × 100 on an Sts, by the vectors of `encode`."""
    labels = pairs.labels
    cosines = [sts.cosines(encoder_of(result.run).encode, pairs) for result in results]
    return Measure(
        f"STS {name}",
        [100 * np.array([pearson(x, labels), *pearson_interval(x, labels)]) for x in cosines],
        [100 * np.array(pearson_difference(x, cosines[0], labels)) for x in cosines[1:]])


def questions(name, asked, results):
    """MAP × 100 on Questions, by the vectors of `encode`."""
    best = [cqa.top_ten(asked, result.predicted("cqa", name)) for result in results]
    return Measure(f"MAP {name}", [100 * ranking_scores(of_run)[0] for of_run in best],
                   [100 * np.array(map_difference(of_run, best[0])) for of_run in best[1:]])


def side_by_side(results, table):
    """Texts: scores, differences from the first run, settings that differ.

    table: a function from a header and rows to a text. A measure that a run lacks has no column.
    """
    measures, names = [], [result.run.name for result in results]
    if all("response" in result.data for result in results):
        measures.append(replies(results))
    for task, of_task in (("sts", similarity), ("cqa", questions)):
        measures += [of_task(name, dataset, results)
                     for name, dataset in results[0].data.get(task, {}).items()
                     if to_choose_by(name)]
    scores = [[name, *(with_interval(one.scores[k]) for one in measures)]
              for k, name in enumerate(names)]
    for group in alike(results):
        if len(group) > 1:
            values = [[one.scores[k][0] for k in group] for one in measures]
            scores.append(["mean of " + ", ".join(names[k] for k in group),
                           *(f"{np.mean(x):.1f} ± {np.std(x, ddof=1):.1f}" for x in values)])
    leads = [[f"{name} − {names[0]}",
              *("other inputs" if one.leads[k] is None else with_interval(one.leads[k], "+.1f")
                for one in measures)] for k, name in enumerate(names[1:])]
    header = [one.name for one in measures]
    return [NOTE, table(["run", *header], scores), table(["difference", *header], leads),
            "Settings that differ:", table(["setting", *names], differing(results))]


def alike(results):
    """The places in `results` of runs on the same pairs that agree in all settings but the seed."""
    groups = {}
    for k, result in enumerate(results):
        config = result.run.config
        settings = {name: value for name, value in flat(dataclasses.asdict(config)).items()
                    if name not in PLACES | {"seed"}}
        same = result.run.corpus, config.init, config.nli, str(settings)
        groups.setdefault(same, []).append(k)
    return [*groups.values()]


def differing(results):
    """A row for each setting in which the runs differ: its name, its value in each run."""
    settings = [flat(dataclasses.asdict(result.run.config)) for result in results]
    rows = [[name, *(str(of_run[name]) for of_run in settings)]
            for name in settings[0] if name not in ("run", "data", "cache")]
    return [row for row in rows if len({*row[1:]}) > 1]


@errors_in_one_line()
def main(argv=None):
    """The command: measure every run, print the tables."""
    parser = parser_of("report.compare", __doc__, "--data", nargs="+", help="two runs or more")
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
