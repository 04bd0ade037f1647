"""Natural language inference: does one sentence follow from another? (the paper's §4.2, Table 2)

    python -m convsim_mini.evaluation.nli RUN [--data DIR]
"""

import numpy as np

from ..common.cli import UserError, python_m
from ..common.tables import table
from ..core.arrays import array_module, to_host
from ..core.model import TABLE, embed
from ..core.nli import LABELS, classifier_forward
from ..data.snli import encode_snli, find_snli, read_snli as read    # noqa: F401
from .command import main
from .metrics import per_cent, with_interval


def find(data, run):
    """dev and test in DIR or where the run trained: split → path. Raises UserError."""
    if not run.config.classifies:
        command = python_m(f"convsim_mini.train --task multitask --init {run.folder} --nli DIR")
        raise UserError(f"{run.folder}: was trained without NLI; train on from it with: {command}")
    return find_snli(data or run.config.nli, ("dev", "test"))


def scores(run, pairs):
    """The class that the run's model gives each pair: row name → int (n,)."""
    return {"trained": classify(run.model, encode_snli(pairs, run.vocabulary))}


def baselines(run, pairs, vectors=None):
    """The most frequent class: row name → int (n,)."""
    most = np.bincount(pairs.labels).argmax()
    return {"always the most frequent class": np.full(len(pairs.labels), most)}


def summary(name, pairs, scores, baselines):
    """Accuracy of each row on one file, and the first one's confusion matrix."""
    predicted = scores | baselines
    rows = [[row, with_interval(per_cent(classes == pairs.labels))]
            for row, classes in predicted.items()]
    first, *_ = predicted.values()
    counts = np.bincount(3 * pairs.labels + first, minlength=9).reshape(3, 3)
    matrix = [[f"is {label}", *(f"{n:,}" for n in row)] for label, row in zip(LABELS, counts)]
    left_out = f"{pairs.dropped:,} without a label or a text left out"
    return "\n\n".join([
        table([f"SNLI {name}, {len(pairs.labels):,} pairs ({left_out})", "right, %"], rows),
        table(["", *(f"taken for {label}" for label in LABELS)], matrix)])


def classify(model, split):
    """The class of every pair of a Split of NLI: int (n,) on the host, numbers into LABELS."""
    xp = array_module(model.params[TABLE])
    u = xp.asarray(embed(model, split.packed))                                  # (2n, e)
    logits, _ = classifier_forward(model.params, u[0::2], u[1::2])              # (n, 3)
    return np.argmax(to_host(logits), axis=1)


if __name__ == "__main__":
    main("nli", "--data")
