"""The transfer tasks of SentEval (Conneau and Kiela 2018), in the layout its own script leaves."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..cli import UserError, user_errors

FOLDERS = "", "downstream", "senteval/downstream"


class Task(NamedTuple):
    """A labelled set of n sentences, or of n pairs of sentences.

    sides: one list of n sentences, or two; labels: int (n,), numbers into the task's names;
    parts: "train", "dev" or "test" for each of n, or None without an official split.
    """

    sides: tuple
    labels: np.ndarray
    parts: np.ndarray | None

    @property
    def texts(self):
        """All sentences: of pairs the first ones, then the second ones."""
        return [text for side in self.sides for text in side]

    @property
    def tested(self):
        """Which rows count: those of the test part, or all without a split. bool (n,)"""
        return np.ones(len(self.labels), bool) if self.parts is None else self.parts == "test"


class Files(NamedTuple):
    """Where a task stands: file → its official number of rows, and how a row is read.

    parts: of the files, or none; row: a line → label, sentence(s); without one, all of a file's
    lines have the label that stands at its place.
    """

    counts: dict
    labels: tuple
    parts: tuple = ()
    row: Callable | None = None
    encoding: str = "utf-8-sig"                               # some copies of MRPC begin with a BOM
    header: bool = False


def _sst_binary(line):
    text, label = line.split("\t")
    return label, text


def _trec(line):
    label, text = line.split(" ", 1)
    return label.partition(":")[0], text                      # the coarse classes are the task


def _mrpc(line):
    label, _, _, one, other = line.split("\t")
    return label, one, other


def _sick(line):
    _, one, other, _, label = line.split("\t")
    return label, one, other


SST = "train", "dev", "test"
FILES = {
    "MR": Files({"MR/rt-polarity.neg": 5_331, "MR/rt-polarity.pos": 5_331},
                ("negative", "positive"), encoding="latin-1"),
    "CR": Files({"CR/custrev.neg": 1_368, "CR/custrev.pos": 2_407},
                ("negative", "positive"), encoding="latin-1"),
    "SUBJ": Files({"SUBJ/subj.objective": 5_000, "SUBJ/subj.subjective": 5_000},
                  ("objective", "subjective"), encoding="latin-1"),
    "MPQA": Files({"MPQA/mpqa.neg": 7_294, "MPQA/mpqa.pos": 3_312},
                  ("negative", "positive"), encoding="latin-1"),
    "SST-2": Files({"SST/binary/sentiment-train": 67_349, "SST/binary/sentiment-dev": 872,
                    "SST/binary/sentiment-test": 1_821}, ("0", "1"), SST, _sst_binary),
    "SST-5": Files({"SST/fine/sentiment-train": 8_544, "SST/fine/sentiment-dev": 1_101,
                    "SST/fine/sentiment-test": 2_210}, ("0", "1", "2", "3", "4"), SST,
                   lambda line: line.split(" ", 1)),
    "TREC": Files({"TREC/train_5500.label": 5_452, "TREC/TREC_10.label": 500},
                  ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"), ("train", "test"), _trec,
                  encoding="latin-1"),
    "MRPC": Files({"MRPC/msr_paraphrase_train.txt": 4_076, "MRPC/msr_paraphrase_test.txt": 1_725},
                  ("0", "1"), ("train", "test"), _mrpc, header=True),
    "SICK-E": Files({"SICK/SICK_train.txt": 4_500, "SICK/SICK_trial.txt": 500,
                     "SICK/SICK_test_annotated.txt": 4_927},
                    ("CONTRADICTION", "NEUTRAL", "ENTAILMENT"), SST, _sick, header=True),
}


def find_tasks(data):
    """Task → the folder that holds its files: DIR, DIR/downstream or DIR/senteval/downstream.

    Tasks of which a file is missing are left out. Raises UserError if that leaves none.
    """
    for folder in (Path(data, below) for below in FOLDERS):
        found = {name: folder for name, files in FILES.items()
                 if all((folder / file).is_file() for file in files.counts)}
        if found:
            return found
    raise UserError(f"{data}: holds none of SentEval's tasks, such as MR/rt-polarity.pos, nor do "
                    f"{' and '.join(f'{data}/{below}' for below in FOLDERS[1:])}; give the folder "
                    "that SentEval's own script fills")


def read_task(name, folder):
    """The Task `name` (a key of FILES) in a folder.

    Empty lines are rows, too, where a file holds sentences alone (four of CR, three of MPQA).
    Raises UserError with file and line, or with the number of rows found and expected.
    """
    files = FILES[name]
    rows, parts = [], []
    for place, (file, count) in enumerate(files.counts.items()):
        path = Path(folder, file)
        lines = _lines(path, files)
        if len(lines) != count:
            raise UserError(f"{path}: {len(lines):,} rows, expected the official {count:,}; fetch "
                            f"{name} again by SentEval's own script")
        rows += [_row(path, number, line, files) if files.row else (place, line.strip())
                 for number, line in enumerate(lines, start=1 + files.header)]
        parts += [files.parts[place]] * count if files.parts else []
    labels, *sides = zip(*rows)
    return Task(tuple(map(list, sides)), np.array(labels), np.array(parts) if parts else None)


def _lines(path, files):
    """The lines after the header; at \\n alone, because MR holds other bytes that end lines."""
    with user_errors(f"{path}: cannot be read as {files.encoding} text",
                     "fetch it again by SentEval's own script", (OSError, UnicodeDecodeError)):
        text = path.read_bytes().decode(files.encoding)
    lines = text.removesuffix("\n").split("\n")
    return lines[files.header:]


def _row(path, number, line, files):
    """The number of a line's label, and its sentences."""
    try:
        label, *sentences = files.row(line.rstrip("\r"))
        return files.labels.index(label.strip()), *(text.strip() for text in sentences)
    except ValueError:
        raise UserError(f'{path}, line {number}: "{line[:60]}", expected a label of '
                        f'{", ".join(files.labels)} and the columns of the official file') from None
