"""Pairs of natural language inference (SNLI, Bowman et al. 2015) as ids."""

import numpy as np

from ..common.cli import progress
from ..core.pairs import Split
from .corpus import share_of
from ..core.nli import LABELS
from .snli_files import Snli


def encode_snli(snli, vocabulary, fraction=1.0, seed=0):
    """Pairs to ids: Snli → Split of the task "classes". fraction, seed: as in `share_of`."""
    kept = share_of(len(snli.labels), fraction, seed)
    texts = (text for i in kept for text in (snli.premises[i], snli.hypotheses[i]))
    bar = progress(texts, total=2 * len(kept), desc="encoding SNLI", unit=" sentences", delay=3)
    return Split(*vocabulary.encode(bar), labels=snli.labels[kept], task="classes")


def encode_entailments(snli, vocabulary, fraction=1.0, seed=0):
    """The entailments of an Snli → Split of the task "entailments"; see `share_of`."""
    kept = np.flatnonzero(snli.labels == LABELS.index("entailment"))
    entailed = Snli([snli.premises[i] for i in kept], [snli.hypotheses[i] for i in kept],
                    snli.labels[kept], dropped=0)
    split = encode_snli(entailed, vocabulary, fraction, seed)
    texts = [split.packed.part(k, k + 1).ids.tobytes() for k in range(2 * split.pairs)]
    _, keys = np.unique(texts, return_inverse=True)           # equal sentences, equal numbers
    keys = keys.astype(np.uint64).reshape(-1, 2)
    return split._replace(keys=keys, labels=None, task="entailments")
