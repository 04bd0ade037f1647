"""Natural language inference (SNLI, Bowman et al. 2015): the official files, and pairs as ids."""

from typing import Literal, NamedTuple

import msgspec
import numpy as np

from ..common.cli import UserError, progress
from ..core.multitask import LABELS
from ..core.batches import Split
from .corpus import share_of
from .split import SPLITS
from .labelled import DataSet, find, rows_of
from .formats import read_jsonl


class Row(msgspec.Struct):
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


def find_snli(folder, splits=SPLITS, all_needed=False):
    """The official files of splits, in `folder` or its folder snli_1.0: split → path.

    Raises UserError if none exists or, with all_needed, if any is missing.
    """
    files = {f"snli_1.0_{split}.jsonl": split for split in splits}
    data_set = DataSet("SNLI", files, ("snli_1.0",), files if all_needed else ())
    return {files[name]: path for name, path in find([data_set], folder)["SNLI"].items()}


def read_snli(path):
    """An official file as an Snli. Raises a UserError that names the line of a mistake."""
    rows = [*rows_of(path, Row, read_jsonl(path))]
    kept = [(row.sentence1, row.sentence2, LABELS.index(row.gold_label)) for row in rows
            if row.gold_label != "-" and row.sentence1.strip() and row.sentence2.strip()]
    if not kept:
        raise UserError(f"{path}: holds no labelled pair; expected an SNLI file")
    premises, hypotheses, labels = zip(*kept)
    return Snli(list(premises), list(hypotheses), np.array(labels), len(rows) - len(kept))


def encode_snli(snli, vocabulary, fraction=1.0, seed=0, task="classes"):
    """The pairs of an Snli → Split of a task; of the task "entailments", only the entailed ones.

    fraction, seed: as in `share_of`
    """
    classifies = task == "classes"
    pairs = np.flatnonzero(classifies | (snli.labels == LABELS.index("entailment")))
    kept = pairs[share_of(len(pairs), fraction, seed)]
    texts = (text for i in kept for text in (snli.premises[i], snli.hypotheses[i]))
    bar = progress(texts, total=2 * len(kept), desc="encoding SNLI", unit=" sentences", delay=3)
    labels = snli.labels[kept] if classifies else None
    return Split(*vocabulary.encode(bar), labels=labels, task=task)
