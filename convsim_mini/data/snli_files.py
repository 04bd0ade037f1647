"""The official files of natural language inference (SNLI, Bowman et al. 2015), .jsonl or .txt."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..common.cli import UserError
from .corpus import SPLITS
from .tables_and_logs import KINDS

LABELS = ("entailment", "neutral", "contradiction")
FIELDS = ("gold_label", "sentence1", "sentence2")
READ_AS = {".txt": KINDS[".tsv"], ".jsonl": KINDS[".jsonl"]}
ADVICE = "expected a file of SNLI"


class Snli(NamedTuple):
    """The n labelled pairs of one file."""

    premises: list
    hypotheses: list
    labels: np.ndarray    # (n,) numbers into LABELS
    dropped: int          # pairs without a label or with an empty side


def find_snli(folder):
    """The official files in DIR or DIR/snli_1.0: split → path, .jsonl first. Raises UserError."""
    for base in (Path(folder), Path(folder, "snli_1.0")):
        files = {}
        for suffix in READ_AS:
            paths = {split: base / f"snli_1.0_{split}{suffix}" for split in SPLITS}
            files |= {split: path for split, path in paths.items() if path.exists()}
        if files:
            return files
    raise UserError(f"{folder}: holds no snli_1.0_train, snli_1.0_dev or snli_1.0_test as .jsonl "
                    f"or .txt, nor does {folder}/snli_1.0; unpack snli_1.0.zip there")


def read_snli(path):
    """An official file, .jsonl or .txt, as an Snli. Raises UserError, with the mistake's line."""
    premises, hypotheses, labels = [], [], []
    dropped = 0
    kind = READ_AS[path.suffix]
    rows = kind.rows(path, progress=lambda position: None)
    for number, values in enumerate(rows, start=kind.first):
        missing = [field for field in FIELDS if not isinstance(values.get(field), str)]
        if missing:
            raise UserError(f'{path}, line {number}: no text in the field "{missing[0]}"; {ADVICE}')
        label = values["gold_label"]
        if label not in (*LABELS, "-"):
            raise UserError(f'{path}, line {number}: gold_label "{label}", expected '
                            f'{", ".join(LABELS)} or "-"')
        # "-": the annotators did not agree
        if label == "-" or not (values["sentence1"].strip() and values["sentence2"].strip()):
            dropped += 1
            continue
        premises.append(values["sentence1"])
        hypotheses.append(values["sentence2"])
        labels.append(LABELS.index(label))
    if not labels:
        raise UserError(f"{path}: holds no labelled pair; {ADVICE}")
    return Snli(premises, hypotheses, np.array(labels), dropped)
