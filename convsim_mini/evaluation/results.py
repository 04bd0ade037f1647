"""Every figure in one shape, row → metric → (value, low, high), and every table made of them.

The commands, their pages, `--json` and the end of training show what is measured here. Only this
file and compare.py call the functions of an Evaluation. published.json holds what others measured:
task → pattern of data sets' names → row → metric → value; and the sources.
"""

from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cached_property
from math import inf, isnan, nan
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ..common.cli import UserError
from ..common.show import table
from ..inference.sentence_encoder import encoder_of
from ..training.run import Run
from . import BUILT_IN, evaluation_of

PUBLISHED = msgspec.json.decode(Path(__file__).with_name("published.json").read_bytes())
WIDEST = 6    # metrics that are shown as columns; if there are more, they are shown as lines


@dataclass(frozen=True, eq=False)
class Measured:
    """What was predicted on one data set of a task, or why the task could not be measured."""

    task: str                # a name in EVALUATIONS, or "search"
    name: str = ""           # of the data set
    data: Any = None         # what the task's `read` returned
    scores: dict = field(default_factory=dict)       # row → predictions, of what is evaluated
    baselines: dict = field(default_factory=dict)    # row → predictions
    absent: str = ""         # why there is no data set

    @property
    def of_task(self):
        """The task's Evaluation."""
        return evaluation_of(self.task)

    @cached_property    # the intervals take thousands of resamples
    def figures(self):
        """Row → metric → (value, low, high); low and high are nan if there is no interval."""
        return {row: self.of_task.figures(self.data, predictions)
                for row, predictions in (self.scores | self.baselines).items()}

    def published(self):
        """What others published for a data set of this name, in the form of `figures`."""
        return {row: {metric: (value, nan, nan) for metric, value in figures.items()}
                for pattern, rows in PUBLISHED.get(self.task, {}).items()
                if fnmatch(self.name, pattern) for row, figures in rows.items()}


def json_lines(rows):
    """Dicts as text, one object per line, with null for nan."""
    return "\n".join(msgspec.json.encode(row).decode() for row in rows)


def measured(encode, folder, tasks):
    """Yield a Measured for every data set of these tasks, and for every task that lacks data.

    encode: a Run, or a function from a list of n texts to vectors (n, d), such as every library of
    sentence embeddings has
    folder: of the data; None: the package's small sets. Raises UserError for damaged files.
    """
    for task in tasks:
        try:
            sources = evaluation_of(task).find(folder, encode if isinstance(encode, Run) else None)
        except UserError as error:
            yield Measured(task, absent=str(error))
        else:
            yield from (measure(encode, task, *source) for source in sources.items())


def measure(encode, task, name, source):
    """The Measured of one data set: its name and source are those that the task's `find` gives."""
    of_task, run = evaluation_of(task), encode if isinstance(encode, Run) else None
    dataset = of_task.read(source)
    scores = of_task.scores(run, dataset, encoder_of(run).encode if run else encode)
    return Measured(task, name, dataset, scores, of_task.baselines(run, dataset))


def across(runs, folder, tasks):
    """Yield the Measured of Runs as `show` takes them: one dict for each title of a data set.

    A single run has no name.
    """
    names = names_of(runs) if len(runs) > 1 else [""]
    for task in tasks:
        titles = {}
        for name, run in zip(names, runs):
            for one in measured(run, folder, [task]):
                title = name if one.absent else one.of_task.title(one.name, one.data)
                titles.setdefault((bool(one.absent), title), {})[name] = one
        yield from titles.values()


def names_of(runs):
    """The names of Runs, or their folders if two names are the same. Raises UserError."""
    for names in ([run.name for run in runs], [str(run.folder) for run in runs]):
        if len({*names}) == len(names):
            return names
    raise UserError(f"{runs[0].folder}: a run is named twice; name different runs to compare")


def rows_of(found):
    """Yield a dict for each row, also of published ones: metric → figure.

    found: a list of what `across` returns
    """
    for run, one in (item for ones in found for item in ones.items() if not item[1].absent):
        for row, figures in (one.figures | one.published()).items():
            yield {"run": run, "task": one.task, "data": one.name, "row": row, **figures}


def show(ones, table=table):
    """The text of one data set: title, table with published rows, who is ahead, notes.

    ones: a Measured; or name of a run → its Measured, for several runs on data of the same title,
    whose equal baselines make one row
    table: a function from a header and rows of cells to a text
    """
    ones = ones if isinstance(ones, dict) else {"": ones}
    (run, first), *_ = ones.items()
    if first.absent:
        return f"{run or first.task}: not measured. {first.absent}"
    rows, baselines, texts = {}, {}, {}                       # the last: text → runs with it
    for run, one in ones.items():
        for row, of_row in one.figures.items():
            named = f"{run}: {row}".removeprefix(": ")
            if row in one.scores:
                rows[named] = of_row
            elif str(baselines.setdefault(row, of_row)) != str(of_row):
                baselines[named] = of_row
        for text in (lead(one), one.of_task.note(one.name, one.data, one.scores),
                     one.of_task.OWN_NOTE * (one.name == BUILT_IN)):
            texts.setdefault(text, []).append(run)
    published = first.published()
    sources = "; ".join(f"{mark}: {source}" for mark, source in PUBLISHED["sources"].items()
                        if any(mark in row for row in published))
    parts = [first.of_task.title(first.name, first.data), grid(rows | baselines | published, table),
             sources and f"Published. {sources}",
             *(text if len(runs) == len(ones) else f"{', '.join(runs)}: {text}"
               for text, runs in texts.items() if text)]
    return "\n\n".join(filter(None, parts))


def lead(one):
    """A sentence: is a row of a Measured ahead of its best baseline? "" if either has no figure.

    The row is that by which runs are compared, or the last one: in STS a cosine, as baselines are.
    It is ahead if the paired 95% interval of the difference is above 0.
    """
    compared = one.of_task.COMPARED
    row = compared if compared in one.scores else [*one.scores][-1]
    metric, *_ = one.figures[row]
    values = {name: one.figures[name][metric][0] for name in (row, *one.baselines)}
    best = max(one.baselines, key=lambda name: np.nan_to_num(values[name], nan=-inf))
    gap = one.of_task.lead(one.data, one.scores[row], one.baselines[best])
    # ahead of nothing is not ahead, nor is what orders nothing
    if isnan(gap[0]) or not values[best] or isnan(values[row]):
        return ""
    return (f"{row} {verdict(gap)} the best baseline, {best}: {metric} {cell(gap, '+.1f')}, "
            "paired.")


def verdict(gap):
    """What the 95% interval of a difference (value, low, high) says."""
    _, low, high = gap
    return "is ahead of" if low > 0 else "is behind" if high < 0 else "cannot be told apart from"


def grid(rows, table=table, form=".1f", corner="[95% interval]"):
    """The table of row → metric → figure; the metrics are those of the first row."""
    metrics = [*next(iter(rows.values()))]
    cells = [[corner, *metrics]]
    cells += [[row, *(cell(figures.get(metric, (nan, nan, nan)), form) for metric in metrics)]
              for row, figures in rows.items()]
    header, *lines = zip(*cells) if len(metrics) > WIDEST else cells
    return table(header, lines)


def cell(figure, form=".1f"):
    """A figure as text: 51.0 [49.2, 52.8]; 51.0 if the interval is nan; "–" if the value is nan.

    A mean and its standard deviation: 51.0 ± 0.9
    """
    value, *spread = (format(number, form) for number in figure)
    if isnan(figure[0]):
        return "–"
    if len(spread) == 1:
        return f"{value} ± {spread[0]}"
    return value if isnan(figure[1]) else f"{value} [{', '.join(spread)}]"
