"""Natural language inference: does one sentence follow from another? (the paper's Table 2)"""

import numpy as np

from ..common.cli import UserError, python_m
from ..data.labelled import encode_snli, find_snli, read_snli as read    # noqa: F401
from ..training.measures import classify
from .metrics import difference, per_cent


def find(data, run):
    """SNLI's dev and test in DIR, or in the run's NLI folder: split → path. Raises UserError."""
    if not run:
        raise UserError("it needs a run")
    if not run.config.classifies:
        command = python_m("convsim_mini.train --task multitask --nli DIR --init", run.folder)
        raise UserError(f"{run.folder}: was trained without NLI; continue from it with: {command}")
    return find_snli(data or run.config.nli, ("dev", "test"))


def scores(run, pairs, encode=None):
    """The class that the run's model gives each pair: row name → int (n,)."""
    return {"trained": classify(run.model, encode_snli(pairs, run.vocabulary))}


def baselines(run, pairs):
    """The most frequent class: row name → int (n,)."""
    most = np.bincount(pairs.labels).argmax()
    return {"always the most frequent class": np.full(len(pairs.labels), most)}


def title(name, pairs):
    """The heading, with the number of pairs that were left out."""
    return (f"SNLI {name}, {len(pairs.labels):,} pairs ({pairs.dropped:,} left out: no label or no "
            "text); right, %")


def figures(pairs, classes):
    """Accuracy in per cent: predicted classes (n,) → metric → (value, low, high)."""
    return {"accuracy": per_cent(classes == pairs.labels)}


def lead(pairs, one, other):
    """How much higher accuracy is for classes `one` than for `other`, (n,); see `difference`."""
    return difference(np.mean, 100.0 * (one == pairs.labels), 100.0 * (other == pairs.labels))
