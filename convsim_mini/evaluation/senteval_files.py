"""The transfer tasks of SentEval (Conneau and Kiela 2018), in the layout its own script leaves."""

from collections.abc import Callable
from contextlib import suppress
from itertools import product, zip_longest
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..cli import UserError, user_errors
from ..snli_files import LABELS, find_snli, read_snli

FOLDERS = "", "downstream", "senteval/downstream"


class Task(NamedTuple):
    """A labelled set of n sentences, or of n pairs of sentences.

    sides: one list of n sentences, or two; labels: int (n,), numbers into the task's names, or
    scores; parts: "train", "dev" or "test" for each of n, or None without an official split;
    grades: of scores, the whole numbers from the lowest to the highest; large: whether the rows
    are too many for `classifiers.fit`.
    """

    sides: tuple
    labels: np.ndarray
    parts: np.ndarray | None
    grades: tuple | None = None
    large: bool = False

    @property
    def texts(self):
        """All sentences: of pairs the first ones, then the second ones."""
        return [text for side in self.sides for text in side]

    @property
    def on_dev(self):
        """Whether dev is measured, because there is no test part."""
        return self.parts is not None and "test" not in self.parts

    @property
    def tested(self):
        """Which rows count: those of test, or else of dev; all without a split. bool (n,)"""
        if self.parts is None:
            return np.ones(len(self.labels), bool)
        return self.parts == ("dev" if self.on_dev else "test")


class Files(NamedTuple):
    """Where a task stands: file → its official number of rows, and how a row is read.

    labels: their names, or () for scores; parts: of the files, or none; row: a line → label,
    sentence(s); without one, all of a file's lines have the label that stands at its place;
    beside: what stands in the place of a file's stem in the names of those that hold its further
    columns; grades, large: as in Task; folders: where the files may be, below one of FOLDERS.
    """

    counts: dict
    labels: tuple
    parts: tuple = ()
    row: Callable | None = None
    encoding: str = "utf-8-sig"                               # some copies of MRPC begin with a BOM
    header: bool = False
    beside: tuple = ()
    grades: tuple | None = None
    folders: tuple = ("",)
    large: bool = False

    @property
    def needed(self):
        """The files without which the task cannot be measured: where there is dev, not test."""
        return [file for file, part in zip_longest(self.counts, self.parts)
                if part != "test" or "dev" not in self.parts]


def _sst_binary(line):
    text, label = line.split("\t")
    return label, text


def _sst_fine(line):
    label, text = line.split(" ", 1)
    return label, text


def _snli(line):
    label, one, other = line.split("\t")
    return label, one, other


def _trec(line):
    label, text = line.split(" ", 1)
    return label.partition(":")[0], text                      # the coarse classes are the task


def _mrpc(line):
    label, _, _, one, other = line.split("\t")
    return label, one, other


def _sick(line):
    _, one, other, _, label = line.split("\t")
    return label, one, other


def _sick_score(line):
    _, one, other, score, _ = line.split("\t")
    return score, one, other


def _sts(line):
    _, _, _, _, score, one, other, *_ = line.split("\t")      # some rows end in a licence
    return score, one, other


SPLIT = "train", "dev", "test"
SICK = {"SICK/SICK_train.txt": 4_500, "SICK/SICK_trial.txt": 500,
        "SICK/SICK_test_annotated.txt": 4_927}
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
                    "SST/binary/sentiment-test": 1_821}, ("0", "1"), SPLIT, _sst_binary),
    "SST-5": Files({"SST/fine/sentiment-train": 8_544, "SST/fine/sentiment-dev": 1_101,
                    "SST/fine/sentiment-test": 2_210}, ("0", "1", "2", "3", "4"), SPLIT,
                   _sst_fine),
    "TREC": Files({"TREC/train_5500.label": 5_452, "TREC/TREC_10.label": 500},
                  ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"), ("train", "test"), _trec,
                  encoding="latin-1"),
    "MRPC": Files({"MRPC/msr_paraphrase_train.txt": 4_076, "MRPC/msr_paraphrase_test.txt": 1_725},
                  ("0", "1"), ("train", "test"), _mrpc, header=True),
    "SICK-E": Files(SICK, ("CONTRADICTION", "NEUTRAL", "ENTAILMENT"), SPLIT, _sick, header=True),
    "SICK-R": Files(SICK, (), SPLIT, _sick_score, header=True, grades=(1, 2, 3, 4, 5)),
    "STS-B": Files({"sts-train.csv": 5_749, "sts-dev.csv": 1_500, "sts-test.csv": 1_379}, (), SPLIT,
                   _sts, grades=(0, 1, 2, 3, 4, 5),
                   folders=("STS/STSBenchmark", "stsbenchmark", "")),
    "SNLI": Files({"labels.train": 549_367, "labels.dev": 9_842, "labels.test": 9_824}, LABELS,
                  SPLIT, _snli, beside=("s1", "s2"), folders=("SNLI",),
                  large=True),
}


def find_tasks(data):
    """Task → the folder that holds its files: DIR, DIR/downstream or DIR/senteval/downstream.

    The STS Benchmark may also stand in DIR/stsbenchmark, and SNLI as official files, a dict as of
    `find_snli`, in DIR/snli_1.0. A task without the files that it needs is left out. Raises
    UserError if that leaves none.
    """
    found = {}
    for name, files in FILES.items():
        for folder in (Path(data, *both) for both in product(FOLDERS, files.folders)):
            if all((folder / file).is_file() for file in files.needed):
                found.setdefault(name, folder)
    with suppress(UserError):
        official = find_snli(data)
        if len(official) > 1 and "train" in official:
            found.setdefault("SNLI", official)
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
    if isinstance(source, dict):
        return _official_snli(source)
    files = FILES[name]
    rows, parts = [], []
    for place, (file, count) in enumerate(files.counts.items()):
        path = Path(source, file)
        if file not in files.needed and not path.is_file():
            continue
        columns = [_lines(one, files, count) for one in
                   (path, *(path.with_name(stem + path.suffix) for stem in files.beside))]
        lines = map("\t".join, zip(*columns))
        rows += [_row(path, number, line, files) if files.row else (place, line.strip())
                 for number, line in enumerate(lines, start=1 + files.header)]
        parts += [files.parts[place]] * count if files.parts else []
    labels, *sides = zip(*rows)
    return Task(tuple(map(list, sides)), np.array(labels), np.array(parts) if parts else None,
                files.grades, files.large)


def _official_snli(paths):
    """SNLI from its official files: split → path. Pairs without a label are left out."""
    splits = {part: read_snli(path) for part, path in paths.items()}
    sides = ([text for split in splits.values() for text in split[side]] for side in (0, 1))
    labels = [split.labels for split in splits.values()]
    return Task(tuple(sides), np.concatenate(labels),
                np.repeat([*splits], [len(of_part) for of_part in labels]), large=True)


def _lines(path, files, count):
    """The lines after the header; at \\n alone, because MR holds other bytes that end lines."""
    again = "fetch it again by SentEval's own script"
    with user_errors(f"{path}: cannot be read as {files.encoding} text", again,
                     (OSError, UnicodeDecodeError)):
        text = path.read_bytes().decode(files.encoding)
    lines = text.removesuffix("\n").split("\n")[files.header:]
    if len(lines) != count:
        raise UserError(f"{path}: {len(lines):,} rows, expected the official {count:,}; {again}")
    return lines


def _row(path, number, line, files):
    """A line's label, a number into their names or a score, and its sentences."""
    try:
        label, *sentences = files.row(line.rstrip("\r"))
        return _label(label.strip(), files), *(text.strip() for text in sentences)
    except ValueError:
        expected = (f"a score from {files.grades[0]} to {files.grades[-1]}" if files.grades else
                    f"a label of {', '.join(files.labels)}")
        raise UserError(f'{path}, line {number}: "{line[:60]}", expected {expected} and the '
                        "columns of the official file") from None


def _label(text, files):
    if files.grades is None:
        return files.labels.index(text)
    if not files.grades[0] <= float(text) <= files.grades[-1]:            # nan is refused, too
        raise ValueError
    return float(text)
