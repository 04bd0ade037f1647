"""Every figure in one shape, row → metric → (value, low, high), and every table made of them.

The commands, their pages, `--json` and the end of training show what is measured here. Only this
file, compare.py and figure 7 of page.py know the functions of an Evaluation. published.json holds
what others measured: task → pattern of data sets' names → row → metric → value; and the sources.
"""

from collections import defaultdict
from dataclasses import dataclass, field, replace
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
    """What an encoder predicts on one data set of a task, or why the task could not be measured."""

    task: str                # a name in EVALUATIONS
    name: str = ""           # of the data set
    data: Any = None         # what the task's `read` returned
    scores: dict = field(default_factory=dict)       # row → predictions, of what is evaluated
    baselines: dict = field(default_factory=dict)    # row → predictions
    absent: str = ""         # why there is no data set
    run: str = ""            # the name of the run that predicts, if there are several

    @property
    def of_task(self):
        """The task's Evaluation."""
        return evaluation_of(self.task)

    @property
    def title(self):
        """The heading of its table."""
        return self.of_task.title(self.name, self.data)

    @property
    def compared(self):
        """The row by which the encoder is compared with others, and that row's first metric.

        It is the row COMPARED, or else the last one: in STS a cosine, as baselines are.
        """
        row = self.of_task.COMPARED
        row = row if row in self.scores else [*self.scores][-1]
        return row, next(iter(self.figures[row]))

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


# ---------------------------------------------------------------- measuring

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


def tables(runs, folder, tasks):
    """Yield what stands in each table: the Measured of those Runs whose data have its title."""
    names = names_of(runs) if len(runs) > 1 else [""]
    for task in tasks:
        by_title = defaultdict(list)
        for name, run in zip(names, runs):
            for one in measured(run, folder, [task]):
                title = (name, one.absent) if one.absent else one.title
                by_title[title].append(replace(one, run=name))
        yield from by_title.values()


def names_of(runs):
    """The names of Runs, or their folders if two names are the same. Raises UserError."""
    for names in ([run.name for run in runs], [str(run.folder) for run in runs]):
        if len({*names}) == len(names):
            return names
    raise UserError(f"{runs[0].folder}: a run is named twice; name different runs to compare")


# ---------------------------------------------------------------- showing

def show(*ones, table=table):
    """The text of one or more Measured on data of the same title.

    It is the title, a table with published rows, who is ahead, and notes. table: a function from a
    header and rows of cells to a text
    """
    first = ones[0]
    if first.absent:
        return f"{first.run or first.task}: not measured. {first.absent}"
    published = first.published()
    sources = "; ".join(f"{mark}: {source}" for mark, source in PUBLISHED["sources"].items()
                        if any(mark in row for row in published))
    parts = [first.title, grid(rows_of(ones) | published, table),
             sources and f"Published. {sources}", *remarks(ones)]
    return "\n\n".join(filter(None, parts))


def rows_of(ones):
    """Row → metric → figure: each run's own rows, then the baselines, equal ones once."""
    rows, baselines = {}, {}
    for one in ones:
        for row, figures in one.figures.items():
            named = f"{one.run}: {row}".removeprefix(": ")
            if row in one.scores:
                rows[named] = figures
            elif str(baselines.setdefault(row, figures)) != str(figures):
                baselines[named] = figures
    return rows | baselines


def remarks(ones):
    """What to know along with the figures: a list of texts, which name runs if others differ."""
    runs_with = defaultdict(list)
    for one in ones:
        for text in (standing(one), one.of_task.note(one.name, one.data, one.scores),
                     one.of_task.OWN_NOTE * (one.name == BUILT_IN)):
            runs_with[text].append(one.run)
    return [text if len(runs) == len(ones) else f"{', '.join(runs)}: {text}"
            for text, runs in runs_with.items() if text]


def standing(one):
    """A sentence: is a Measured ahead of its best baseline? "" if either has no figure.

    It is ahead if the paired 95% interval of the difference is above 0.
    """
    row, metric = one.compared
    values = {name: one.figures[name][metric][0] for name in (row, *one.baselines)}
    best = max(one.baselines, key=lambda name: np.nan_to_num(values[name], nan=-inf))
    gap = one.of_task.lead(one.data, one.scores[row], one.baselines[best])
    # ahead of nothing is not ahead, nor is what orders nothing
    if isnan(gap[0]) or not values[best] or isnan(values[row]):
        return ""
    return (f"{row} {verdict(gap)} the best baseline, {best}: {metric} {cell(gap, '+.1f')}, "
            "paired.")


def records(ones):
    """Yield a dict for each row of each Measured, also of published ones: metric → figure."""
    for one in ones:
        for row, figures in ({} if one.absent else one.figures | one.published()).items():
            yield {"run": one.run, "task": one.task, "data": one.name, "row": row, **figures}


def json_lines(ones):
    """The `records` of some Measured as text, one object per line, with null for nan."""
    return "\n".join(msgspec.json.encode(record).decode() for record in records(ones))


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
