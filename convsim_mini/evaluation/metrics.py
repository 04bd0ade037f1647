"""The figures that are reported, written out: P@N, correlations, and their 95% intervals."""

import numpy as np
from scipy.special import stdtr

Z95 = 1.959964
RESAMPLES, AT_ONCE, SEED, TAILS = 10_000, 500, 2018, (0.025, 0.975)    # of every bootstrap


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

    x, z, y: (n,) → t, positive where x correlates more, and the two-sided p of Student's t with
    n − 3 degrees of freedom; nan for n < 4.
    """
    n, rx, rz, between = len(y), pearson(x, y), pearson(z, y), pearson(x, z)
    if n < 4:
        return float("nan"), float("nan")
    determinant = 1 - rx ** 2 - rz ** 2 - between ** 2 + 2 * rx * rz * between
    spread = 2 * (n - 1) / (n - 3) * determinant + ((rx + rz) / 2) ** 2 * (1 - between) ** 3
    # for x and z that are the same up to scale, spread is rounding alone; it must not make their t large
    t = (rx - rz) * np.sqrt((n - 1) * max(1 + between, 0) / max(spread, 1e-12))
    return float(t), float(2 * stdtr(n - 3, -abs(t)))


def pearson_difference(x, z, y):
    """How much more does x correlate with y than z does? The paired bootstrap (Efron 1979).

    The pairs are resampled, with a fixed seed, and both r taken of the same ones.

    x, z, y: (n,) → r(x, y) − r(z, y), and low and high of its 95% interval; all nan where an r is nan
    or n < 4.
    """
    difference = pearson(x, y) - pearson(z, y)
    if len(y) < 4 or np.isnan(difference):
        return (float("nan"),) * 3
    x, z, y = ((side - np.mean(side)) / np.std(side) for side in (x, z, y))
    sums = np.stack([x, z, y, x * x, z * z, y * y, x * y, z * y], axis=1)                  # (n, 8)
    mx, mz, my, xx, zz, yy, xy, zy = np.concatenate([times @ sums for times in resampled(len(y))]).T / len(y)
    # a resample of equal values, which only a handful of pairs can yield, has no r: 0 / 0
    with np.errstate(invalid="ignore", divide="ignore"):
        differences = (((xy - mx * my) / np.sqrt(xx - mx * mx) - (zy - mz * my) / np.sqrt(zz - mz * mz))
                       / np.sqrt(yy - my * my))
    low, high = np.quantile(differences[np.isfinite(differences)], TAILS)
    return difference, float(low), float(high)


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


def resampled(n):
    """How often each of n samples is drawn in 10,000 draws of n with replacement: yields int (500, n)."""
    rng = np.random.Generator(np.random.Philox(SEED))
    for _ in range(RESAMPLES // AT_ONCE):
        yield rng.multinomial(n, np.full(n, 1 / n), size=AT_ONCE)


# ---------------------------------------------------------------- rankings

DEPTH = 10


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
    precision = average_precision(relevant)                               # (q,)
    reciprocal_rank = (relevant / k).max(axis=1)                          # (q,)
    possible = np.minimum(k, found[:, -1:])                               # (q, 10)

    def scores(times):
        """The three figures with each question counted so often: times: (r, q) → (3, r)."""
        recall = (times @ found / np.maximum(times @ possible, 1)).mean(axis=1)
        questions = times.sum(axis=1)
        return np.stack([times @ precision / questions, recall, times @ reciprocal_rank / questions])

    value = scores(np.ones((1, len(relevant))))                           # (3, 1)
    others = np.concatenate([scores(times) for times in resampled(len(relevant))], axis=1)
    return np.concatenate([value, np.quantile(others, TAILS, axis=1).T], axis=1)


def average_precision(relevant):
    """The mean of the precisions at the relevant ones' ranks, 0 where none is: bool (q, 10), best first → (q,)."""
    found = np.cumsum(relevant, axis=1)                                   # (q, 10)
    return (relevant * found / np.arange(1, DEPTH + 1)).sum(axis=1) / np.maximum(found[:, -1], 1)


def map_difference(relevant, other):
    """How much higher is the MAP of one order than that of another? The paired bootstrap over questions.

    relevant, other: (q, 10) bool, best first, of the same questions → the difference, low and high of
    its 95% interval, −1 … 1; without an interval (nan) for q < 4.
    """
    difference = average_precision(relevant) - average_precision(other)   # (q,)
    if len(difference) < 4:
        return float(difference.mean()), float("nan"), float("nan")
    means = np.concatenate([times @ difference for times in resampled(len(difference))]) / len(difference)
    low, high = np.quantile(means, TAILS)
    return float(difference.mean()), float(low), float(high)
