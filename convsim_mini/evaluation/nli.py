"""Natural language inference: does one sentence follow from another? (the paper's §4.2, Table 2)

    python -m convsim_mini.evaluation.nli RUN [--data DIR]
"""

from collections import Counter
from pathlib import Path
from typing import Literal

import numpy as np
import scipy.sparse
from scipy.optimize import minimize

from ..backend import array_module, to_host
from ..cli import UserError, run_command
from ..data.snli import LABELS, encode_snli, find_snli, read_snli
from ..data.text import tokenize
from ..model.input_response import embed
from ..model.losses import cross_entropy_backward, cross_entropy_forward
from ..model.nli import classifier_forward
from ..run import load_run
from ..tables import table
from .metrics import pearson, proportion_interval
from .sts import find_sts, model_similarity, read_sts

STRENGTH = 1e-4    # of the control's regularisation, found on dev
RARE = 2    # n-grams seen less often in training are left out


def classify(model, split):
    """The class of every pair of an NliSplit: int (n,) on the host, numbers into data.snli.LABELS."""
    xp = array_module(model.params["encoder.embedding.weight"])
    u = xp.asarray(embed(model, split.sentences))                               # (2n, e)
    return np.argmax(to_host(classifier_forward(model.params, u[0::2], u[1::2])[0]), axis=1)


def accuracy(predicted, labels):
    """Right answers in per cent with the 95% interval: value, low, high."""
    hits = int((predicted == labels).sum())
    return tuple(100 * p for p in (hits / len(labels), *proportion_interval(hits, len(labels))))


def confusion(predicted, labels):
    """How often each class was taken for each: int (3, 3), rows are the true classes."""
    return np.bincount(len(LABELS) * labels + predicted, minlength=len(LABELS) ** 2).reshape(len(LABELS), -1)


# ---------------------------------------------------------------- what the hypothesis alone gives away

def ngrams(text):
    """The distinct words and bigrams of a sentence."""
    tokens = tokenize(text)
    return set(tokens) | set(zip(tokens, tokens[1:]))


def hypothesis_only(train, others):
    """Predictions of a classifier that never sees a premise, the control of Gururangan et al. (2018).

    A logistic regression on the words and bigrams of the hypothesis, trained on the Snli `train`;
    what it knows of inference is what annotators betray by their choice of words.
    others: name → Snli → name → int (n,)
    """
    grams = [ngrams(text) for text in train.hypotheses]
    counts = Counter(gram for some in grams for gram in some)
    columns = {gram: k for k, gram in enumerate(gram for gram, count in counts.items() if count >= RARE)}
    x = _indicators(grams, columns)
    shape = (len(columns) + 1, len(LABELS))

    def loss_and_gradient(flat):
        weight = flat.reshape(shape)
        loss, cache = cross_entropy_forward(x @ weight, train.labels)
        gradient = x.T @ cross_entropy_backward(cache) + STRENGTH * weight
        return loss + STRENGTH / 2 * (flat @ flat), gradient.ravel()

    weight = minimize(loss_and_gradient, np.zeros(np.prod(shape)), jac=True, method="L-BFGS-B",
                      options={"maxiter": 100}).x.reshape(shape)
    return {name: np.argmax(_indicators(map(ngrams, snli.hypotheses), columns) @ weight, axis=1)
            for name, snli in others.items()}


def _indicators(grams, columns):
    """Sets of n-grams as a matrix of zeros and ones, with a last column of ones: CSR (n, columns + 1)."""
    indices, indptr = [], [0]
    for some in grams:
        indices += [columns[gram] for gram in some if gram in columns] + [len(columns)]
        indptr.append(len(indices))
    return scipy.sparse.csr_matrix((np.ones(len(indices)), indices, indptr), shape=(len(indptr) - 1, len(columns) + 1))


# ---------------------------------------------------------------- footnote 9

def seen_in_training(sts, train):
    """Which pairs of an Sts share a sentence with NLI's training set: bool (n,). Case, marks and quotes may differ."""
    seen = {tuple(tokenize(text)) for text in (*train.premises, *train.hypotheses)}
    return np.array([any(tuple(tokenize(text)) in seen for text in pair) for pair in zip(sts.sentences1, sts.sentences2)])


def overlap_row(sts, similarity, train):
    """How many pairs of an Sts share a sentence with NLI's training set, r × 100 of all pairs, and without them: cells."""
    seen = seen_in_training(sts, train)
    return [f"{seen.sum():,} of {len(seen):,}", f"{100 * pearson(similarity, sts.labels):.2f}",
            f"{100 * pearson(similarity[~seen], sts.labels[~seen]):.2f}"]


# ---------------------------------------------------------------- the command

def report(split, snli, predicted):
    """Accuracy of each (name → int (n,)) on one file, and the first one's confusion matrix."""
    rows = [[name, "{:.1f} [{:.1f}, {:.1f}]".format(*accuracy(labels, snli.labels))] for name, labels in predicted.items()]
    majority = np.bincount(snli.labels).max() / len(snli.labels)
    rows.append(["always the most frequent class", f"{100 * majority:.1f}"])
    counts = confusion(next(iter(predicted.values())), snli.labels)
    matrix = [[f"is {label}", *(f"{count:,}" for count in row)] for label, row in zip(LABELS, counts)]
    return (table([f"SNLI {split}, {len(snli.labels):,} pairs ({snli.dropped:,} without a label left out)", "right, %"], rows)
            + "\n\n" + table(["", *(f"taken for {label}" for label in LABELS)], matrix))


def trained_nli(run, device="cpu"):
    """A Run whose model classifies. Raises UserError for others."""
    loaded = load_run(run, device)
    if not loaded.config.classifies:
        raise UserError(f"{run}: was trained without NLI; train on from it with: python -m convsim_mini.train "
                        f"--task multitask --init {run} --nli DIR")
    return loaded


def main(run: Path, data: Path | None = None, device: Literal["cpu", "gpu"] = "cpu"):
    """Accuracy on SNLI's dev and test, confusion matrices, and a control that sees the hypothesis alone.

    Args:
        run: the run's folder, of --task multitask or nli
        data: folder with snli_1.0/, and stsbenchmark/ for the overlap of the two; by default the one that the
            run was trained on
        device: "cpu" or "gpu"
    """
    loaded = trained_nli(run, device)
    data = data or Path(loaded.config.nli)
    sets = {split: read_snli(path) for split, path in find_snli(data).items()}
    others = {split: sets[split] for split in ("dev", "test") if split in sets}
    if "train" not in sets or not others:
        raise UserError(f"{data}: needs snli_1.0_train and snli_1.0_dev or snli_1.0_test, found {', '.join(sets)}")
    control = hypothesis_only(sets["train"], others)
    for split, snli in others.items():
        predicted = classify(loaded.model, encode_snli(snli, loaded.vocabulary))
        print(report(split, snli, {"trained": predicted, "hypothesis alone, n-grams": control[split]}) + "\n")
    print(f"trained on {loaded.config.nli_fraction:.0%} of {len(sets['train'].labels):,} pairs; all of SNLI has 550,152")
    try:
        files = find_sts(data)
    except UserError:
        return
    rows = []
    for split, path in files.items():
        sts = read_sts(path)
        rows.append([f"STS {split}", *overlap_row(sts, model_similarity(loaded.model, loaded.vocabulary, sts), sets["train"])])
    print("\n" + table(["pairs that share a sentence with SNLI train", "", "r × 100", "without them"], rows))


if __name__ == "__main__":
    run_command(main)
