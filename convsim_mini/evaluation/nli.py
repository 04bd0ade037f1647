"""Natural language inference: does one sentence follow from another? (the paper's §4.2, Table 2)

    python -m convsim_mini.evaluation.nli RUN [--data DIR]

Beside the run stands a control that sees the hypothesis alone.
"""

from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse
from scipy.optimize import minimize

from ..common.cli import UserError, python_m
from ..common.tables import table
from ..core.arrays import array_module, to_host
from ..core.model import embed
from ..core.nli import (
    LABELS, classifier_forward, cross_entropy_backward, cross_entropy_forward)
from ..core.text import tokenize
from ..data.snli import Snli, encode_snli, find_snli, read_snli
from .command import main
from .metrics import per_cent, with_interval

STRENGTH = 1e-4    # of the control's regularisation, found on dev
RARE = 2           # n-grams seen less often in training are left out


class Inference(NamedTuple):
    """One split, and what the run and the control learn from."""

    pairs: Snli | Path    # their file, until it is read
    train: Path
    fraction: float       # the share of `train` that the run learned from


def find(data, run):
    """dev and test in DIR or where the run trained: split → Inference. Raises UserError."""
    if not run.config.classifies:
        command = python_m(f"convsim_mini.train --task multitask --init {run.folder} --nli DIR")
        raise UserError(f"{run.folder}: was trained without NLI; train on from it with: {command}")
    folder = data or run.config.nli
    paths = find_snli(folder)
    train = paths.pop("train", None)
    if not train or not paths:
        raise UserError(f"{folder}: needs snli_1.0_train and snli_1.0_dev or snli_1.0_test")
    return {split: Inference(path, train, run.config.nli_fraction) for split, path in paths.items()}


def read(source):
    """The Inference with its pairs read. Raises UserError with file and line."""
    return source._replace(pairs=read_snli(source.pairs))


def scores(run, inference):
    """The class that the run's model gives each pair: row name → int (n,)."""
    return {"trained": classify(run.model, encode_snli(inference.pairs, run.vocabulary))}


def baselines(run, inference, vectors=None):
    """The classes by the hypothesis alone, and the most frequent class: row name → int (n,)."""
    most = np.bincount(inference.pairs.labels).argmax()
    return {"hypothesis alone, n-grams": hypothesis_only(inference.train)[1](inference.pairs),
            "always the most frequent class": np.full(len(inference.pairs.labels), most)}


def summary(name, inference, scores, baselines):
    """Accuracy of each row on one file, and the first one's confusion matrix."""
    pairs, predicted = inference.pairs, scores | baselines
    rows = [[row, with_interval(per_cent(classes == pairs.labels))]
            for row, classes in predicted.items()]
    first, *_ = predicted.values()
    counts = np.bincount(3 * pairs.labels + first, minlength=9).reshape(3, 3)
    matrix = [[f"is {label}", *(f"{n:,}" for n in row)] for label, row in zip(LABELS, counts)]
    left_out = f"{pairs.dropped:,} without a label or a text left out"
    return "\n\n".join([
        table([f"SNLI {name}, {len(pairs.labels):,} pairs ({left_out})", "right, %"], rows),
        table(["", *(f"taken for {label}" for label in LABELS)], matrix),
        f"trained on {inference.fraction:.0%} of {hypothesis_only(inference.train)[0]:,} pairs; "
        "all of SNLI has 550,152"])


def classify(model, split):
    """The class of every pair of a Split of NLI: int (n,) on the host, numbers into snli.LABELS."""
    xp = array_module(model.params["encoder.embedding.weight"])
    u = xp.asarray(embed(model, split.packed))                                  # (2n, e)
    logits, _ = classifier_forward(model.params, u[0::2], u[1::2])              # (n, 3)
    return np.argmax(to_host(logits), axis=1)


def ngrams(text):
    """The distinct words and bigrams of a sentence, and (), which stands in every sentence."""
    tokens = tokenize(text)
    return {*tokens, *zip(tokens, tokens[1:]), ()}


@lru_cache(maxsize=1)    # dev and test share one training
def hypothesis_only(path):
    """Logistic regression on n-grams of the hypothesis alone (Gururangan et al. 2018).

    path: the file to learn from → how many pairs it holds; a function from Snli to classes, (n,)
    """
    train = read_snli(path)
    counts = Counter(gram for text in train.hypotheses for gram in ngrams(text))
    frequent = [gram for gram, count in counts.items() if count >= RARE]
    columns = dict(zip(frequent, range(len(frequent))))
    x = _indicators(train.hypotheses, columns)                                  # (n, columns)
    shape = len(columns), len(LABELS)

    def loss_and_gradient(flat):
        weight = flat.reshape(shape)
        loss, cache = cross_entropy_forward(x @ weight, train.labels)
        gradient = x.T @ cross_entropy_backward(1.0, cache) + STRENGTH * weight
        return loss + STRENGTH / 2 * (flat @ flat), gradient.ravel()

    weight = minimize(loss_and_gradient, np.zeros(np.prod(shape)), jac=True, method="L-BFGS-B",
                      options={"maxiter": 100}).x.reshape(shape)
    return len(train.labels), lambda snli: np.argmax(
        _indicators(snli.hypotheses, columns) @ weight, axis=1)


def _indicators(texts, columns):
    """Which n-grams each of n texts holds: CSR (n, columns) of 0 and 1."""
    rows = [[columns[gram] for gram in ngrams(text) if gram in columns] for text in texts]
    indices, indptr = np.concatenate(rows), np.cumsum([0, *map(len, rows)])
    parts = np.ones(len(indices)), indices, indptr
    return scipy.sparse.csr_matrix(parts, shape=(len(rows), len(columns)))


if __name__ == "__main__":
    main("nli", "--data")
