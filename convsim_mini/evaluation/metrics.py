"""The figures that are reported, written out: P@N, correlations, and their 95% intervals."""

import numpy as np
from scipy.special import stdtr

Z95 = 1.959964


def pearson(x, y):
    """Pearson's r of two samples: x, y: (n,) → float; nan where one of them is constant or empty."""
    if len(x) == 0:
        return float("nan")
    x, y = x - np.mean(x), y - np.mean(y)
    norms = np.sqrt((x @ x) * (y @ y))
    return float(x @ y / norms) if norms > 0 else float("nan")


def ranks(x):
    """Ranks from 1; equal values share the mean of their ranks: (n,) → float64 (n,)."""
    _, group, count = np.unique(x, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return (last - (count - 1) / 2)[group]


def spearman(x, y):
    """Spearman's rank correlation: Pearson's r of the ranks."""
    return pearson(ranks(x), ranks(y))


def pearson_interval(r, n):
    """95% interval of a correlation of n pairs, by Fisher's z: artanh r ± 1.96/√(n − 3); nan for n < 4."""
    if n < 4:
        return float("nan"), float("nan")
    z, half = np.arctanh(np.clip(r, -1 + 1e-12, 1 - 1e-12)), Z95 / np.sqrt(n - 3)
    return float(np.tanh(z - half)), float(np.tanh(z + half))


def williams_test(x, z, y):
    """Do x and z correlate differently with y? Williams' test of two dependent correlations (Steiger 1980).

    x, z, y: (n,), n > 3 → t, positive where x correlates more, and the two-sided p of Student's t with
    n − 3 degrees of freedom.
    """
    n, rx, rz, between = len(y), pearson(x, y), pearson(z, y), pearson(x, z)
    determinant = 1 - rx ** 2 - rz ** 2 - between ** 2 + 2 * rx * rz * between
    spread = 2 * (n - 1) / (n - 3) * determinant + ((rx + rz) / 2) ** 2 * (1 - between) ** 3
    t = (rx - rz) * np.sqrt((n - 1) * (1 + between) / max(spread, 1e-300))
    return float(t), float(2 * stdtr(n - 3, -abs(t)))


def true_ranks(scores):
    """Rank of the true candidate, column 0, from 1; ties count against it.

    scores: (n, candidates) → int (n,)
    """
    return 1 + (scores[:, 1:] >= scores[:, :1]).sum(axis=1)


def proportion_interval(hits, n):
    """95% interval of a proportion (Wilson 1927), which stays inside 0 … 1 at the ends."""
    p, z2 = hits / n, Z95 ** 2
    centre = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = Z95 / (1 + z2 / n) * np.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    return float(centre - half), float(centre + half)


# ---------------------------------------------------------------- rankings

DEPTH, RESAMPLES, SEED = 10, 10_000, 2018


def top_of_ranking(relevant, scores):
    """Which of the 10 best candidates are relevant: relevant, scores: (n,) → bool (10,).

    Equal scores stay in the order in which they are given; a shorter list is filled with False.
    """
    order = np.argsort(-np.asarray(scores, np.float64), kind="stable")[:DEPTH]
    top = np.zeros(DEPTH, bool)
    top[:len(order)] = np.asarray(relevant, bool)[order]
    return top


def ranking_scores(relevant):
    """MAP, AvgRec and MRR of ranked lists as SemEval Task 3 scores them, each with its 95% interval.

    Over the 10 best: MAP is the mean over questions of the average of the precisions at the
    relevant ones' ranks, 0 where none is relevant; MRR the mean of 1/rank of the first of them.
    AvgRec is the mean over k = 1 … 10 of the relevant ones found up to rank k in all questions,
    divided by what a perfect order finds, Σ min(k, all of a question's). The intervals come
    from resampling the questions (Efron 1979), with a fixed seed.

    relevant: (q, 10) bool, best first → (3, 3): value, low, high of each, 0 … 1
    """
    k = np.arange(1, DEPTH + 1)
    found = np.cumsum(relevant, axis=1)                                   # (q, 10)
    total = found[:, -1:]                                                 # (q, 1)
    average_precision = (relevant * found / k).sum(axis=1) / np.maximum(total[:, 0], 1)
    reciprocal_rank = (relevant / k).max(axis=1)                          # (q,)
    possible = np.minimum(k, total)                                       # (q, 10)

    def scores(times):
        """The three figures with each question counted so often: times: (r, q) → (3, r)."""
        recall = (times @ found / np.maximum(times @ possible, 1)).mean(axis=1)
        questions = times.sum(axis=1)
        return np.stack([times @ average_precision / questions, recall, times @ reciprocal_rank / questions])

    questions = len(relevant)
    rng = np.random.Generator(np.random.Philox(SEED))
    resampled = scores(rng.multinomial(questions, np.full(questions, 1 / questions), size=RESAMPLES))
    return np.concatenate([scores(np.ones((1, questions))), np.quantile(resampled, (0.025, 0.975), axis=1).T], axis=1)
