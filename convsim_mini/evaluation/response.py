"""Response prediction: how often is the true reply among the best N of 100? (the paper's Table 1)

    python -m convsim_mini.evaluation.response RUN
"""

from pathlib import Path
from typing import Literal

import numpy as np

from ..cli import UserError, run_command
from ..data.corpus import open_corpus
from ..model.initial import initial_model
from ..model.input_response import embed, respond
from ..run import check_corpus, load_run
from ..tables import table
from .baselines import bm25_documents, fitted_on_train, term_counts, tfidf
from .metrics import proportion_interval, true_ranks

CANDIDATES, QUERIES, SEED = 100, 10_000, 2018
N = (1, 3, 10)


def draw_candidates(split, queries=QUERIES):
    """The test: which pairs, and for each the responses to choose from, by a fixed seed.

    The queries are drawn from the split (all of it, if it is no larger), and for each the 99
    others from their responses, without repetition and never a text equal to the true one.
    → pairs (n,), candidates (n, 100), numbers into pairs, the true one in column 0.
    Raises UserError where there are not 99 others.
    """
    rng = np.random.Generator(np.random.Philox(SEED))
    pairs = np.sort(rng.choice(split.pairs, min(queries, split.pairs), replace=False))
    texts = split.keys[pairs, 1]
    most_repeated = np.unique(texts, return_counts=True)[1].max(initial=0)
    if len(pairs) - most_repeated < CANDIDATES - 1:
        raise UserError(f"P@N needs 99 wrong responses beside each true one, but of {len(pairs)} responses "
                        f"{most_repeated} are one and the same text: give --pairs more conversations")
    candidates = np.empty((len(pairs), CANDIDATES), np.int64)
    for rows in np.array_split(np.arange(len(pairs)), -(-len(pairs) // 500)):
        draw = rng.random((len(rows), len(pairs)), np.float32)
        draw[texts[rows, None] == texts] = 2                  # the true one and its equals come last
        candidates[rows, 0] = rows
        candidates[rows, 1:] = np.argpartition(draw, CANDIDATES - 1)[:, :CANDIDATES - 1]
    return pairs, candidates


def ranks_of_truth(queries, responses, candidates):
    """Rank from 1 of each true response among its candidates, by dot product; ties count against it.

    queries, responses: (n, d), both dense or both sparse; candidates: (n, 100) → (n,)
    """
    ranks = []
    for start in range(0, len(candidates), 500):
        some = candidates[start:start + 500]
        scores = queries[start:start + 500] @ responses.T                 # (500, n)
        scores = scores if isinstance(scores, np.ndarray) else scores.toarray()
        ranks.append(true_ranks(np.take_along_axis(scores, some, axis=1)))
    return np.concatenate(ranks)


def vectors(model, split, pairs):
    """What a model makes of pairs (n,) of a split: u of the inputs, v′ of the responses: (n, e)."""
    u = embed(model, split.sentences(2 * pairs))
    return u, respond(model, embed(model, split.sentences(2 * pairs + 1)))


def model_ranks(model, split, pairs, candidates):
    """ranks_of_truth of a model for pairs (n,) of a split."""
    return ranks_of_truth(*vectors(model, split, pairs), candidates)


def precision(ranks, n):
    """P@n in per cent with its 95% interval: value, low, high."""
    hits = int((ranks <= n).sum())
    return tuple(100 * p for p in (hits / len(ranks), *proportion_interval(hits, len(ranks))))


def compare(models, corpus):
    """Ranks of the truth on test for each Model (name → Model), TF-IDF and BM25: name → (n,)."""
    test = corpus.test
    pairs, candidates = draw_candidates(test)
    ranks = {name: model_ranks(model, test, pairs, candidates) for name, model in models.items()}
    inputs, responses = test.sentences(2 * pairs), test.sentences(2 * pairs + 1)
    fitted = fitted_on_train(corpus.train, corpus.vocabulary.size)
    ranks["TF-IDF cosine"] = ranks_of_truth(tfidf(inputs, *fitted), tfidf(responses, *fitted), candidates)
    ranks["BM25"] = ranks_of_truth(term_counts(inputs, corpus.vocabulary.size),
                                   bm25_documents(responses, *fitted), candidates)
    return ranks


def report(ranks):
    """The table of P@1, P@3 and P@10 with 95% intervals."""
    rows = []
    for name, rank in ranks.items():
        figures = [precision(rank, n) for n in N]
        rows.append([name, *(f"{p:.1f} [{low:.1f}, {high:.1f}]" for p, low, high in figures)])
    queries = len(next(iter(ranks.values())))
    title = f"Picking the true reply among 100, {queries:,} test inputs; per cent, 95% interval; ties count against"
    return f"{title}\n\n{table(['', *(f'P@{n}' for n in N)], rows)}"


def main(run: Path, device: Literal["cpu", "gpu"] = "cpu"):
    """P@1/3/10 of a run on its corpus's test split, beside the untrained model, TF-IDF and BM25.

    Args:
        run: the run's folder
        device: "cpu" or "gpu"
    """
    loaded = load_run(run, device)
    corpus = open_corpus(loaded.config)
    check_corpus(loaded, corpus)
    models = {"trained": loaded.model, "the same, untrained": initial_model(loaded.config, corpus)}
    print(report(compare(models, corpus)))


if __name__ == "__main__":
    run_command(main)
