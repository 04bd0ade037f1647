"""Pairs of natural language inference (SNLI, Bowman et al. 2015) as ids, and their batches."""

import zlib
from typing import NamedTuple

import numpy as np

from ..cli import progress
from ..snli_files import LABELS, Snli
from .corpus import false_negatives, share_of
from .packed import Packed


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

    def batch(self, which, own=slice(None)):
        """The pairs `which` (B,), or a worker's part of them, as an NliBatch."""
        which = which[own]
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

    def batch(self, which, own=slice(None)):
        """The pairs `which` (B,), or a worker's part of them, as an EntailmentBatch."""
        sentences = self.sentences.take(np.concatenate([2 * which[own], 2 * which[own] + 1]))
        return EntailmentBatch(sentences, false_negatives(*self.keys[which].T, own))


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


def checksum(splits):
    """The CRC-32 of all numbers of NliSplits and EntailmentSplits."""
    crc = 0
    for (ids, offsets), of_pairs in splits:
        for array in (ids, offsets, of_pairs):
            crc = zlib.crc32(np.ascontiguousarray(array), crc)
    return crc
