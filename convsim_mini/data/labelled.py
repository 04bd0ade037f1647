"""Published labelled data: where its files are, how mistakes in rows are reported; and SNLI."""

import re
from collections.abc import Collection
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from ..common.cli import UserError, progress, user_errors
from ..core.multitask import LABELS
from ..core.batches import Split, places_of_share
from .formats import read_jsonl


class DataSet(NamedTuple):
    """A data set as its publishers pack it."""

    name: str
    files: Collection            # patterns of their names
    below: Collection = ()       # folders of DIR that may hold them instead
    needed: Collection = ()      # the names without which the others are useless


def find_files(sets, data):
    """The files of some DataSets in the folder `data`: set's name → file's name → path.

    A set's files come from the first folder, `data` or one `below` it, with any of them and all
    `needed`. Those without labels (*-input.*) or for another task (*subtaskA*) are skipped. Raises
    UserError if nothing is found.
    """
    names = " and ".join(one.name for one in sets)
    if data is None:
        raise UserError(f"--data is missing: name the folder that holds {names}")
    found = {}
    for one in sets:
        for folder in (Path(data, below) for below in ("", *one.below)):
            files = {path.relative_to(folder).as_posix(): path for pattern in one.files
                     for path in sorted(folder.glob(pattern))
                     if not re.search(r"-input\Z|subtaskA", path.stem)}
            if files and files.keys() >= {*one.needed}:
                found.setdefault(one.name, files)
    if not found:
        one = sets[0]
        lacking = " or ".join(one.needed) or ", ".join(one.files)
        folders = f", and so do its folders {', '.join(one.below)}" if one.below else ""
        raise UserError(f"{data}: lacks {lacking}{folders}; put the files published as {names} "
                        "there")
    return found


def lines_of(path, name, encoding="UTF-8"):
    """The lines of a text file, split only at \\n. name: of the data set. Raises UserError."""
    with user_errors(f"{path}: cannot be read as {encoding} text", f"expected a file of {name}",
                     (OSError, UnicodeDecodeError)):
        return Path(path).read_bytes().decode(encoding).removesuffix("\n").split("\n")


def rows_of(path, row, records):
    """Yield each record as an object of the class `row`, a msgspec Struct.

    records: as in formats.py. The docstring of `row` says what is expected in a row. Raises a
    UserError that names the file, the line and the field.
    """
    for number, record in records:
        if isinstance(record, ValueError):
            raise UserError(f"{path}, line {number}: {record}")
        try:
            yield msgspec.convert(record, row, strict=False)
        except msgspec.ValidationError as error:
            field = re.search(r"(\w+)`$", str(error))[1]
            found = f'{field} "{str(record[field])[:60]}"' if field in record else f"no {field}"
            expected = " ".join((row.__doc__ or "").split())
            raise UserError(f"{path}, line {number}: {found}, expected {expected}") from None


# ---------------------------------------------------------------- SNLI (Bowman et al. 2015)

class SnliRow(msgspec.Struct):
    """gold_label (entailment, neutral, contradiction or -), sentence1 and sentence2, as texts"""

    gold_label: Literal[*LABELS, "-"]    # "-": the annotators did not agree
    sentence1: str
    sentence2: str


class Snli(NamedTuple):
    """The n labelled pairs of one file, and how many others had no label or an empty side."""

    premises: list
    hypotheses: list
    labels: np.ndarray    # (n,) indices into LABELS
    dropped: int


def find_snli(folder, splits, all_needed=False):
    """The official files of splits, in `folder` or its folder snli_1.0: split → path.

    Raises UserError if none exists or, with all_needed, if any is missing.
    """
    files = {f"snli_1.0_{split}.jsonl": split for split in splits}
    data_set = DataSet("SNLI", files, ("snli_1.0",), files if all_needed else ())
    return {files[name]: path for name, path in find_files([data_set], folder)["SNLI"].items()}


def read_snli(path):
    """An official file as an Snli. Raises a UserError that names the line of a mistake."""
    rows = [*rows_of(path, SnliRow, read_jsonl(path))]
    kept = [row for row in rows
            if row.gold_label != "-" and row.sentence1.strip() and row.sentence2.strip()]
    if not kept:
        raise UserError(f"{path}: holds no labelled pair; expected an SNLI file")
    labels = np.array([LABELS.index(row.gold_label) for row in kept])
    return Snli([row.sentence1 for row in kept], [row.sentence2 for row in kept], labels,
                len(rows) - len(kept))


def encode_snli(snli, vocabulary, fraction=1.0, seed=0, task="classes"):
    """The pairs of an Snli → Split of a task; of the task "entailments", only the entailed ones.

    fraction, seed: as in `places_of_share`
    """
    classifies = task == "classes"
    pairs = np.flatnonzero(classifies | (snli.labels == LABELS.index("entailment")))
    kept = pairs[places_of_share(len(pairs), fraction, seed)]
    texts = (text for i in kept for text in (snli.premises[i], snli.hypotheses[i]))
    bar = progress(texts, total=2 * len(kept), desc="encoding SNLI", unit=" sentences", delay=3)
    labels = snli.labels[kept] if classifies else None
    return Split(*vocabulary.encode(bar), labels=labels, task=task)
