"""Response prediction: how often is the true reply among the best N of 100? (the paper's Table 1)

    python -m convsim_mini.evaluation.response RUN

The pairs are the test split of the run's own corpus. Beside the run stand the same model before
training, TF-IDF and BM25, and the sum of the run's score and TF-IDF's: a sentence vector is too
short to keep every word, and words in common tell much about replies (ours).
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..cli import UserError
from ..data.corpus import Corpus
from ..data.prepare import open_corpus
from ..model.initial import initial_model
from ..model.input_response import embed, respond
from ..run import check_corpus, load_run, load_vocabulary
from ..tables import table
from .baselines import bm25_documents, fitted_on_train, term_counts, tfidf
from .command import main
from .metrics import per_cent, true_ranks

CANDIDATES, QUERIES, SEED, AT_ONCE = 100, 10_000, 2018, 500
DEV_QUERIES, WEIGHTS = 2_000, (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0)    # of TF-IDF
N = (1, 3, 10)


class Choices(NamedTuple):
    """A Corpus, and the pairs (n,) of its test split with their candidates (n, 100)."""

    corpus: Corpus
    pairs: np.ndarray
    candidates: np.ndarray


def find(data, run):
    """The run's own corpus, whatever `data` is. Raises UserError where its pair files are gone."""
    corpus = open_corpus(run.config, run.vocabulary)
    check_corpus(run, corpus)
    return {"test": corpus}


def read(corpus):
    """The Choices that every run on a Corpus is asked to make."""
    return Choices(corpus, *draw_candidates(corpus.test))


def scores(run, choices):
    """The rank of each true reply under the run's model, alone and with TF-IDF: row name → (n,).

    TF-IDF has the weight of WEIGHTS that is best on 2,000 inputs of dev.
    """
    def both(split, pairs, candidates):
        return [candidate_scores(*sides, candidates) for sides in (
            vectors(run.model, split, pairs), tfidf_vectors(choices.corpus, split, pairs))]

    dev, words_of_dev = both(choices.corpus.dev, *draw_candidates(choices.corpus.dev, DEV_QUERIES))
    right = [(true_ranks(dev + weight * words_of_dev) == 1).sum() for weight in WEIGHTS]
    weight = WEIGHTS[np.argmax(right)]
    encoder, words = both(choices.corpus.test, *choices[1:])
    return {"trained": true_ranks(encoder),
            f"trained + {weight} TF-IDF cosine": true_ranks(encoder + weight * words)}


def baselines(run, choices, vectors=None):
    """The same for the model before training, TF-IDF and BM25."""
    corpus, test, vocabulary = choices.corpus, choices.corpus.test, choices.corpus.vocabulary
    inputs, replies = (test.sentences(2 * choices.pairs + side) for side in (0, 1))
    frequencies = fitted_on_train(corpus.train, vocabulary.size)
    sides = {"TF-IDF cosine": tfidf_vectors(corpus, test, choices.pairs),
             "BM25": (term_counts(inputs, vocabulary.size), bm25_documents(replies, *frequencies))}
    name, model = before_training(run, corpus)
    return {name: model_ranks(model, test, *choices[1:]),
            **{row: ranks_of_truth(*both, choices.candidates) for row, both in sides.items()}}


def before_training(run, corpus):
    """A row's name and what a Run began as: its first values, or a run on other pairs."""
    parent = run.config.init
    if parent and Path(parent).is_dir():
        vocabulary, pairs, _ = load_vocabulary(parent)
        if vocabulary == run.vocabulary and pairs != run.corpus:
            return "before fine-tuning", load_run(parent).model
    return "the same, untrained", initial_model(run.config, corpus)


def summary(name, choices, scores, baselines):
    """The table of P@1, P@3 and P@10 with 95% intervals."""
    rows = [[row, *("{:.1f} [{:.1f}, {:.1f}]".format(*precision(ranks, n)) for n in N)]
            for row, ranks in (scores | baselines).items()]
    return (f"Picking the true reply among 100, {len(choices.pairs):,} {name} inputs; per cent, "
            f"95% interval; ties count against\n\n{table(['', *(f'P@{n}' for n in N)], rows)}")


def draw_candidates(split, queries=QUERIES):
    """The test: which pairs, and for each the responses to choose from, by a fixed seed.

    For each pair, 99 wrong responses are drawn from those of the others, without repetition and
    never a text equal to the true one. → pairs (n,), candidates (n, 100), numbers into pairs, the
    true one in column 0. Raises UserError where there are not 99 wrong ones.
    """
    rng = np.random.Generator(np.random.Philox(SEED))
    pairs = np.sort(rng.choice(split.pairs, min(queries, split.pairs), replace=False))
    texts = split.keys[pairs, 1]
    repeated = np.unique(texts, return_counts=True)[1].max(initial=0)
    if len(pairs) - repeated < CANDIDATES - 1:
        raise UserError(f"P@N needs 99 wrong responses beside each true one, but {repeated} of "
                        f"{len(pairs)} are the same text: give --pairs more conversations")
    candidates = np.empty((len(pairs), CANDIDATES), np.int64)
    for rows in np.array_split(np.arange(len(pairs)), -(-len(pairs) // AT_ONCE)):
        draw = rng.random((len(rows), len(pairs)), np.float32)
        draw[texts[rows, None] == texts] = 2                  # the true one and its like come last
        candidates[rows, 0] = rows
        candidates[rows, 1:] = np.argpartition(draw, CANDIDATES - 1)[:, :CANDIDATES - 1]
    return pairs, candidates


def ranks_of_truth(queries, responses, candidates):
    """`true_ranks` by dot products: queries, responses: (n, d); candidates: (n, 100) → (n,)."""
    return true_ranks(candidate_scores(queries, responses, candidates))


def candidate_scores(queries, responses, candidates):
    """Dot products of (n, d) queries with their candidates among (n, d) responses: (n, 100)."""
    scores = []
    for start in range(0, len(candidates), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        products = queries[part] @ responses.T                            # (500, n)
        products = products if isinstance(products, np.ndarray) else products.toarray()
        scores.append(np.take_along_axis(products, candidates[part], axis=1))
    return np.concatenate(scores)


def model_ranks(model, split, pairs, candidates):
    """ranks_of_truth of a model for pairs (n,) of a split."""
    return ranks_of_truth(*vectors(model, split, pairs), candidates)


def vectors(model, split, pairs):
    """u of the inputs and v′ of the responses of pairs (n,) of a split: (n, e) each."""
    u = embed(model, split.sentences(2 * pairs))
    return u, respond(model, embed(model, split.sentences(2 * pairs + 1)))


def tfidf_vectors(corpus, split, pairs):
    """TF-IDF vectors of the inputs and responses of pairs (n,) of a split: CSR (n, words) each."""
    frequencies = fitted_on_train(corpus.train, corpus.vocabulary.size)
    return [tfidf(split.sentences(2 * pairs + side), *frequencies) for side in (0, 1)]


def precision(ranks, n):
    """P@n in per cent with its 95% interval: value, low, high."""
    return per_cent(ranks <= n)


if __name__ == "__main__":
    main("response")
