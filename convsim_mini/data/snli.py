"""The files of natural language inference (SNLI, Bowman et al. 2015): pairs, batches of ids."""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..cli import UserError, progress
from ..files import read_lines
from .corpus import false_negatives, share_of
from .packed import Packed

LABELS = ("entailment", "neutral", "contradiction")
FIELDS = ("gold_label", "sentence1", "sentence2")
SPLITS = ("train", "dev", "test")


class Snli(NamedTuple):
    """The n labelled pairs of one file."""

    premises: list
    hypotheses: list
    labels: np.ndarray    # (n,) numbers into LABELS
    dropped: int          # pairs without a label


class NliBatch(NamedTuple):
    """B pairs."""

    sentences: Packed     # 2B: the B premises, then their B hypotheses
    labels: np.ndarray    # (B,)


class NliSplit(NamedTuple):
    """Pairs as ids: sentence 2i is the premise of pair i, 2i + 1 its hypothesis; labels: (n,)."""

    sentences: Packed
    labels: np.ndarray

    @property
    def pairs(self):
        """Number of pairs."""
        return len(self.labels)

    def batch(self, which):
        """The pairs `which` (B,) as an NliBatch."""
        sentences = self.sentences.take(np.concatenate([2 * which, 2 * which + 1]))
        return NliBatch(sentences, self.labels[which])


class EntailmentBatch(NamedTuple):
    """B pairs of a premise and a hypothesis that it entails."""

    sentences: Packed                 # 2B: the B premises, then their B hypotheses
    false_negatives: tuple | None     # of corpus.false_negatives: equal premises or hypotheses


class EntailmentSplit(NamedTuple):
    """Entailments as ids: sentence 2i is a premise, 2i + 1 its hypothesis; keys: uint64 (n, 2)."""

    sentences: Packed
    keys: np.ndarray

    @property
    def pairs(self):
        """Number of pairs."""
        return len(self.keys)

    def batch(self, which):
        """The pairs `which` (B,) as an EntailmentBatch."""
        sentences = self.sentences.take(np.concatenate([2 * which, 2 * which + 1]))
        return EntailmentBatch(sentences, false_negatives(*self.keys[which].T))


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
            values = line.decode("utf-8").split("\t") if text else json.loads(line)
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


def encode_snli(snli, vocabulary, fraction=1.0, seed=0):
    """Pairs to ids: Snli → NliSplit. fraction, seed: of the pairs to keep, see `share_of`."""
    kept = share_of(len(snli.labels), fraction, seed)
    texts = (text for i in kept for text in (snli.premises[i], snli.hypotheses[i]))
    bar = progress(texts, total=2 * len(kept), desc="encoding SNLI", unit=" sentences", delay=3)
    return NliSplit(vocabulary.encode(bar), snli.labels[kept])


def encode_entailments(snli, vocabulary, fraction=1.0, seed=0):
    """The entailments among an Snli's pairs, or a share of them as in `encode_snli`, to ids.

    → EntailmentSplit, in whose keys equal sentences have equal numbers
    """
    kept = np.flatnonzero(snli.labels == LABELS.index("entailment"))
    sides = ([side[i] for i in kept] for side in (snli.premises, snli.hypotheses))
    sentences, _ = encode_snli(Snli(*sides, snli.labels[kept], 0), vocabulary, fraction, seed)
    texts = [sentences.part(k, k + 1).ids.tobytes() for k in range(len(sentences.lengths))]
    _, keys = np.unique(texts, return_inverse=True)
    return EntailmentSplit(sentences, keys.astype(np.uint64).reshape(-1, 2))
