"""P@N: how often is the true response among the best N of 100? (Yang et al. 2018, table 1)

It is also known as recall@N, or 1-of-100 ranking accuracy.
"""

import numpy as np

CANDIDATES = 100
N = (1, 3, 10)    # of P@N, as in the paper's Table 1
SEED = 2018
AT_ONCE = 500    # queries, so that memory stays small


def draw_candidates(split, queries):
    """The pairs to test, and the responses to choose from for each, drawn with a fixed seed.

    For each pair, 99 wrong responses are drawn from the other pairs, without repetition. None of
    them has the text of the true one. Raises ValueError if there are not 99 wrong ones.
    split: a Split with keys; queries: the largest number of pairs to draw
    → pairs (n,), candidates (n, 100): positions in pairs, the true one in column 0
    """
    rng = np.random.Generator(np.random.Philox(SEED))
    pairs = np.sort(rng.choice(split.pairs, min(queries, split.pairs), replace=False))
    texts = split.keys[pairs, 1]
    repeated = np.unique(texts, return_counts=True)[1].max(initial=0)
    if len(pairs) - repeated < CANDIDATES - 1:
        raise ValueError(f"P@N needs 99 wrong responses to each input, but {repeated} of "
                         f"{len(pairs)} are the same text")
    candidates = np.empty((len(pairs), CANDIDATES), np.int64)
    for rows in np.array_split(np.arange(len(pairs)), -(-len(pairs) // AT_ONCE)):
        draw = rng.random((len(rows), len(pairs)), np.float32)
        draw[texts[rows, None] == texts] = 2                  # above every draw: not chosen
        candidates[rows, 0] = rows
        candidates[rows, 1:] = np.argpartition(draw, CANDIDATES - 1)[:, :CANDIDATES - 1]
    return pairs, candidates


def candidate_scores(queries, responses, candidates, dot_products=lambda a, b: a @ b.T):
    """Dot products of queries u: (n, e) with their candidates among v′: (n, e) → (n, 100)."""
    scores = []
    for start in range(0, len(candidates), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        every = dot_products(queries[part], responses)                    # (500, n)
        scores.append(np.take_along_axis(every, candidates[part], axis=1))
    return np.concatenate(scores)


def settled(scores):
    """Scores without what rounding errors made of them: float32 carries about 7 digits.

    So what should be equal is equal, and texts whose vectors do not differ have constant scores.
    """
    return scores.round(6)


def true_ranks(scores):
    """Rank of the true candidate (column 0), from 1; ties count against it: (n, 100) → int (n,)."""
    scores = settled(scores)
    return 1 + (scores[:, 1:] >= scores[:, :1]).sum(axis=1)


def precision(ranks, n):
    """P@n in per cent. ranks: (queries,), the ranks of the true responses"""
    return 100 * float((ranks <= n).mean())
