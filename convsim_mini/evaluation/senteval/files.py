"""The transfer tasks of SentEval (Conneau and Kiela 2018), in the layout its own script leaves."""

import json
from contextlib import suppress
from itertools import product, zip_longest
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...common.cli import UserError
from ...data.snli_files import find_snli, read_snli
from ..task_files import lines_of

FOLDERS = "", "downstream", "senteval/downstream"    # where SentEval's script puts its data


class Task(NamedTuple):
    """A labelled set of n sentences, or of n pairs of sentences."""

    sides: tuple                   # one list of n sentences, or two
    labels: np.ndarray             # (n,): a label's number, or a score
    parts: np.ndarray | None       # (n,): "train", "dev" or "test"; None without an official split
    grades: list | None = None     # of scores, the lowest and the highest
    large: bool = False            # whether the features of all rows are too many to hold

    @property
    def texts(self):
        """All sentences; of pairs all first sentences, then all second ones."""
        return [text for side in self.sides for text in side]

    @property
    def on_dev(self):
        """Whether dev is measured, because there is no test part."""
        return self.parts is not None and "test" not in self.parts

    @property
    def tested(self):
        """Which rows count: bool (n,). The rows of test, or else of dev; all without a split."""
        if self.parts is None:
            return np.ones(len(self.labels), bool)
        return self.parts == ("dev" if self.on_dev else "test")


class Files(NamedTuple):
    """A task's files, as tasks.json lists them, and how their rows are read."""

    counts: dict                   # file → its official number of rows
    labels: list                   # their names, or none for scores
    parts: list = ()               # "train", "dev" or "test" of each file, or none
    row: str = "sentence"          # the columns of a line; without "label" each file has one label
    separator: str = " "           # of columns; a space separates the first columns alone
    encoding: str = "utf-8-sig"    # some copies of MRPC begin with a BOM
    header: bool = False
    grades: list | None = None     # of scores, the lowest and the highest
    folders: list = ("",)          # where the files may be, below one of FOLDERS

    @property
    def needed(self):
        """The files without which the task cannot be measured. With dev it needs no test."""
        return [file for file, part in zip_longest(self.counts, self.parts)
                if part != "test" or "dev" not in self.parts]


FILES = {name: Files(**fields) for name, fields in json.loads(
    Path(__file__).with_name("tasks.json").read_text(encoding="utf-8")).items()}


def find_tasks(data):
    """Task → the folder that holds its files: DIR, DIR/downstream or DIR/senteval/downstream.

    The STS Benchmark may also stand in DIR/stsbenchmark. SNLI → what `find_snli` finds in DIR or
    DIR/snli_1.0. A task without the files that it needs is left out. Raises UserError if that
    leaves none.
    """
    found = {}
    for name, files in FILES.items():
        for folder in (Path(data, *both) for both in product(FOLDERS, files.folders)):
            if name != "SNLI" and all((folder / file).is_file() for file in files.needed):
                found.setdefault(name, folder)
    with suppress(UserError):
        official = find_snli(data)
        if len(official) > 1 and "train" in official:
            found["SNLI"] = official
    if found:
        return found
    raise UserError(f"{data}: holds none of SentEval's tasks, such as MR/rt-polarity.pos, nor do "
                    f"{' and '.join(f'{data}/{below}' for below in FOLDERS[1:])}; give the folder "
                    "that SentEval's own script fills")


def read_task(name, source):
    """The Task `name` (a key of FILES) from what `find_tasks` found.

    Empty lines are rows, too, where a file holds sentences alone (four of CR, three of MPQA).
    Raises UserError with file and line, or with the number of rows found and expected.
    """
    files = FILES[name]
    rows, parts = [], []
    if name == "SNLI":                                        # pairs without a label are left out
        for part, path in source.items():
            split = read_snli(path)
            rows += zip(split.labels, split.premises, split.hypotheses)
            parts += [part] * len(split.labels)
    else:
        for place, (file, count) in enumerate(files.counts.items()):
            path = Path(source, file)
            if file in files.needed or path.is_file():
                rows += _rows(path, files, place, count)
                parts += files.parts[place:place + 1] * count
    labels, *sides = zip(*rows)
    return Task(tuple(map(list, sides)), np.array(labels), np.array(parts) if parts else None,
                files.grades, large=name == "SNLI")


def _rows(path, files, place, count):
    """Yield the label, its number or a score, and the sentences of each line."""
    names = files.row.split()
    lines = lines_of(path, "SentEval", files.encoding)
    if files.header:
        lines = lines[1:]
    if len(lines) != count:
        raise UserError(f"{path}: {len(lines):,} rows, expected the official {count:,}; "
                        "fetch it again by SentEval's own script")
    splits = len(names) - 1 if files.separator == " " else -1
    for number, line in enumerate(lines, start=2 if files.header else 1):
        columns = line.split(files.separator, splits)
        label = place
        try:
            if len(columns) < len(names):                     # a row of STS-B may end in a licence
                raise ValueError
            if "label" in names:
                label = _label(columns[names.index("label")].strip(), files)
        except ValueError:
            expected = f"a label of {', '.join(files.labels)}"
            if files.grades:
                expected = f"a score from {files.grades[0]} to {files.grades[-1]}"
            raise UserError(f'{path}, line {number}: "{line[:60]}", expected {expected} and the '
                            "columns of the official file") from None
        yield label, *(text.strip() for name, text in zip(names, columns) if name == "sentence")


def _label(text, files):
    if files.grades is None:
        return files.labels.index(text.partition(":")[0])     # TREC's coarse classes are the task
    if not files.grades[0] <= float(text) <= files.grades[-1]:            # nan is refused, too
        raise ValueError
    return float(text)
