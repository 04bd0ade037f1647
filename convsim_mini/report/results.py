"""What a run predicts on the data of every task, measured once.

This file alone calls the tasks' functions, whose shape evaluation/__init__.py describes.
"""

from importlib import import_module
from typing import NamedTuple

from ..common.cli import UserError
from ..training.run import Run

# Rows of the tasks' `scores`: the run as the paper reads it, and that of STS after `tune`.
TRAINED, TUNED = "trained", "trained, tuned"


class Results(NamedTuple):
    """What was measured of one Run."""

    run: Run
    data: dict      # task → name → data set
    scores: dict    # task → name → row → predictions
    absent: dict    # task → why it was not measured

    def predicted(self, task, name, row=TRAINED):
        """The predictions of one row on one data set; None where they were not measured."""
        return self.scores.get(task, {}).get(name, {}).get(row)


def measure(run, folder, tasks, choosing=False):
    """The Results of a Run on tasks of EVALUATIONS, whose data are in a folder, or for None own.

    choosing: leave out the test sets of others. Raises UserError for damaged files.
    """
    data, scores, absent = {}, {}, {}
    for task in tasks:
        module = import_module(f"..evaluation.{task}", __package__)
        try:
            sources = module.find(folder, run)
        except UserError as error:
            absent[task] = str(error)
            continue
        data[task] = {name: module.read(source) for name, source in sources.items()
                      if not choosing or task == "response" or to_choose_by(name)}
        scores[task] = {name: module.scores(run, dataset) for name, dataset in data[task].items()}
    return Results(run, data, scores, absent)


def to_choose_by(name):
    """Whether one may choose by a data set of this name: it is no test set."""
    return "dev" in name or name == "own set"


def summaries(result, task):
    """What the command of a task prints: a text for each of its data sets."""
    module = import_module(f"..evaluation.{task}", __package__)
    return [module.summary(name, dataset, result.scores[task][name],
                           module.baselines(result.run, dataset))
            for name, dataset in result.data.get(task, {}).items()]
