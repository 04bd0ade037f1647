"""The official files of natural language inference (SNLI, Bowman et al. 2015), .jsonl or .txt."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from .cli import UserError
from .files import parse_json, read_lines

LABELS = ("entailment", "neutral", "contradiction")
FIELDS = ("gold_label", "sentence1", "sentence2")
SPLITS = ("train", "dev", "test")


class Snli(NamedTuple):
    """The n labelled pairs of one file."""

    premises: list
    hypotheses: list
    labels: np.ndarray    # (n,) numbers into LABELS
    dropped: int          # pairs without a label


def find_snli(folder):
    """Split name → official .jsonl, or else .txt, in DIR or DIR/snli_1.0. Raises UserError."""
    for base in (Path(folder), Path(folder, "snli_1.0")):
        # where both stand, .jsonl comes later and counts
        if files := {split: path for split in SPLITS for suffix in (".txt", ".jsonl")
                     if (path := base / f"snli_1.0_{split}{suffix}").exists()}:
            return files
    raise UserError(f"{folder}: holds no snli_1.0_train, snli_1.0_dev or snli_1.0_test as .jsonl "
                    f"or .txt, nor does {folder}/snli_1.0; unpack snli_1.0.zip there")


def read_snli(path):
    """An official file, .jsonl or .txt, as an Snli. Raises UserError, with the mistake's line."""
    pairs, labels, dropped = [], [], 0
    for number, values in _rows(path):
        missing = [field for field in FIELDS if not isinstance(values.get(field), str)]
        if missing:
            raise UserError(f'{path}, line {number}: no text in the field "{missing[0]}"; expected '
                            "a file of SNLI")
        label, *sentences = (values[field] for field in FIELDS)
        if label == "-":                                      # the annotators did not agree
            dropped += 1
        elif label not in LABELS:
            raise UserError(f'{path}, line {number}: gold_label "{label}", expected '
                            f'{", ".join(LABELS)} or "-"')
        else:
            pairs.append(sentences)
            labels.append(LABELS.index(label))
    if not pairs:
        raise UserError(f"{path}: holds no labelled pair; expected a file of SNLI")
    return Snli(*map(list, zip(*pairs)), np.array(labels), dropped)


def _rows(path):
    """Yield (line number, field → text) of every line with a pair; a short line lacks fields."""
    text, heading = path.suffix == ".txt", None
    for number, line in enumerate(read_lines(path), start=1):
        if not (text or line.strip()):
            continue
        try:
            values = line.decode("utf-8").split("\t") if text else parse_json(line)
        except ValueError as error:                           # a UnicodeDecodeError is one
            kind = "UTF-8 text" if text else "JSON"
            raise UserError(f"{path}, line {number}: is no {kind} ({error}); expected a file of "
                            "SNLI") from None
        if not text:
            yield number, values if isinstance(values, dict) else {}
        elif heading is None:
            heading = values
        elif values != [""]:
            yield number, dict(zip(heading, values))
