"""Response prediction: how often is the true reply among the best N of 100? (the paper's Table 1)

P@N is also called recall@N, and P@1 is also called 1-of-100 ranking accuracy. The pairs are the
test split of the run's own corpus. The baselines are the same model before training, TF-IDF and
BM25. A second row is the run with words, as in search (ours): the run's score plus a weight times
the cosine of TF-IDF vectors. A learned vector has too few dimensions to keep every word, and words
in common say much about replies.
"""

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..common.cli import UserError
from ..core.arrays import array_module, to_device
from ..core.model import TABLE
from ..core.ranking import N, candidate_scores, true_ranks
from ..data.prepare import Corpus, open_corpus
from ..inference.tfidf import term_counts, tfidf
from ..training.measures import dot_products, drawn, model_ranks, ranks_of_truth, sides, vectors
from ..training.start import initial_model
from ..training.run import check_corpus, describe, load_run
from .baselines import bm25_documents, fitted_on_train
from .metrics import difference, per_cent

COMPARED = "trained"
WEIGHED_ON = 2_000    # inputs of dev
WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0)    # of words
RECURRING = 0.2    # of the replies: more are told
ROWS = {weight: f"trained + {weight} TF-IDF" for weight in WEIGHTS}


class TestSet(NamedTuple):
    """A Corpus, and the pairs (n,) of its test split with their candidates (n, 100)."""

    corpus: Corpus
    pairs: np.ndarray
    candidates: np.ndarray


def find(data, run):
    """The run's own corpus, whatever `data` is. Raises UserError if its pair files are gone."""
    if not run:
        raise UserError("it needs a run")
    corpus = open_corpus(run.config, run.vocabulary)
    check_corpus(run, corpus)
    return {"own pairs": corpus}


def read(corpus):
    """The TestSet of a Corpus, the same for every run on it."""
    return TestSet(corpus, *drawn(corpus.test))


def scores(run, test, encode=None):
    """The rank of each true reply under the run's model, without and with words: row → (n,)."""
    corpus, pairs, candidates = test
    meaning, words = meaning_and_words(run, corpus, corpus.test, pairs, candidates)
    weight = best_weight(run, corpus)
    return {"trained": true_ranks(meaning), ROWS[weight]: true_ranks(meaning + weight * words)}


def best_weight(run, corpus):
    """The weight of words, of WEIGHTS, that is best on 2,000 inputs of dev."""
    meaning, words = meaning_and_words(run, corpus, corpus.dev, *drawn(corpus.dev, WEIGHED_ON))
    return max(WEIGHTS, key=lambda weight: (true_ranks(meaning + weight * words) == 1).sum())


def meaning_and_words(run, corpus, split, pairs, candidates):
    """The scores of candidates by the run's vectors, and by TF-IDF: (n, 100) each."""
    return [candidate_scores(*both, candidates, dot_products) for both in (
        vectors(run.model, split, pairs), tfidf_vectors(corpus, split, pairs))]


def baselines(run, test):
    """Ranks by the model before training, TF-IDF and BM25: row name → (n,)."""
    corpus, pairs, candidates = test
    size = corpus.vocabulary.size
    inputs, replies = sides(corpus.test, pairs)
    documents = bm25_documents(replies, *fitted_on_train(corpus.train, size))
    rows = {"TF-IDF cosine": ranks_of_truth(*tfidf_vectors(corpus, corpus.test, pairs), candidates),
            "BM25": ranks_of_truth(term_counts(inputs, size), documents, candidates)}
    with suppress(UserError):                                 # the vectors it began from are gone
        name, model = before_training(run, corpus)
        rows = {name: model_ranks(model, corpus.test, pairs, candidates), **rows}
    return rows


def before_training(run, corpus):
    """What the training of a Run on a Corpus started from: a table's row, and the Model.

    It is the model of the run that --init names, if that is still there, or else initial values.
    """
    parent, name, model = run.config.init, "before training", run.initial
    if parent and Path(parent).exists() and describe(parent).vocabulary == corpus.vocabulary:
        name = f"before fine-tuning: {describe(parent).name}"
        model = model or load_run(parent).model
    model = model or initial_model(run.config, corpus)
    xp = array_module(run.model.params[TABLE])                # on the run's device
    return name, model._replace(params=to_device(model.params, xp))


def title(name, test):
    """The table's heading, with the number of inputs."""
    return (f"Picking the true reply among 100, {len(test.pairs):,} test inputs; per cent; "
            "ties count against the model")


def figures(test, ranks):
    """P@1, P@3 and P@10 in per cent: ranks (n,) → metric → (value, low, high)."""
    return {f"P@{n}": per_cent(ranks <= n) for n in N}


def lead(test, one, other):
    """How much higher P@1 is for ranks `one` than for `other`, (n,) each; see `difference`."""
    return difference(np.mean, 100.0 * (one == 1), 100.0 * (other == 1))


def same(test, other):
    """Whether two runs' TestSets hold the same pairs, by the hashes of their texts."""
    return np.array_equal(*(one.corpus.test.keys[one.pairs] for one in (test, other)))    # (n, 2)


def note(name, test, scores):
    """How much weight a search for replies should give to words; whether replies recur."""
    weight = next(weight for weight, row in ROWS.items() if row in scores)
    of_reply = np.unique(test.corpus.test.keys[test.pairs, 1], return_counts=True)[1]
    share = of_reply[of_reply > 1].sum() / len(test.pairs)
    recur = (f" {share:.0%} of these replies answer several of the inputs, so others among the 100 "
             "may be as right as the true one: P@10 says more here than P@1.")
    return (f"To search for replies, give `encode` --words {weight:g}: that weight is best on dev."
            + recur * int(share > RECURRING))


def tfidf_vectors(corpus, split, pairs):
    """TF-IDF vectors of the inputs and responses of pairs (n,) of a split: CSR (n, words) each."""
    frequencies = fitted_on_train(corpus.train, corpus.vocabulary.size)
    return [tfidf(packed, *frequencies) for packed in sides(split, pairs)]
