"""Metrics: correlations, shares of right answers and rankings, each with its 95% interval."""

import warnings

import numpy as np
import scipy    # its stats are loaded where they are used: half a second

from ..core.ranking import settled

DEPTH = 10        # candidates that count in a ranking
NO_INTERVAL = np.nan, np.nan    # an interval


def pearson(x, y):
    """Pearson's r: x, y: (n,) → float; nan if one of them is constant or n < 2."""
    return float(_quietly(scipy.stats.pearsonr, x, y).statistic) if len(x) > 1 else np.nan


def spearman(x, y):
    """Spearman's rank correlation: x, y: (n,) → float; nan if `pearson` gives nan."""
    return float(_quietly(scipy.stats.spearmanr, x, y).statistic) if len(x) > 1 else np.nan


def pearson_interval(x, y):
    """The 95% interval of Pearson's r, by Fisher's z: x, y: (n,) → low, high; nan for n < 4."""
    if len(x) < 4:
        return NO_INTERVAL
    return tuple(map(float, _quietly(scipy.stats.pearsonr, x, y).confidence_interval()))


def _quietly(function, *samples):
    """Call a SciPy function, suppressing its warning about constant samples."""
    with warnings.catch_warnings(action="ignore", category=scipy.stats.DegenerateDataWarning):
        return function(*samples)


def per_cent(right):
    """The share of True, in per cent, and Wilson's interval (1927): bool (n,) → 3 floats."""
    test = scipy.stats.binomtest(int(np.sum(right)), len(right))
    return tuple(100 * float(p) for p in (test.statistic, *test.proportion_ci(method="wilson")))


def correlation(x, y):
    """Pearson's r × 100 and its 95% interval: x, y: (n,) → 3 floats, nan if `pearson` gives nan."""
    return tuple(100 * r for r in (pearson(x, y), *pearson_interval(x, y)))


def without_interval(value):
    """The figure of a value whose interval is not known: value, nan, nan."""
    return float(value), *NO_INTERVAL


def bootstrap_interval(statistic, *samples):
    """The 95% interval of a statistic: percentiles over resamples (Efron 1979), with a fixed seed.

    samples: one or more (n,), resampled together → low, high; nan for n < 4. Resamples that give
    nan are left out.
    """
    if len(samples[0]) < 4:
        return NO_INTERVAL
    resamples = _quietly(lambda: scipy.stats.bootstrap(
        samples, statistic, paired=True, vectorized=True, method="percentile", batch=100,
        n_resamples=10_000, rng=np.random.Generator(np.random.Philox(2018))))
    found = resamples.bootstrap_distribution
    return NO_INTERVAL if np.isnan(found).all() else np.nanquantile(found, (0.025, 0.975), axis=-1)


def mean_figure(values):
    """The figure of a mean: values (n,) → mean, low, high."""
    return float(np.mean(values)), *map(float, bootstrap_interval(np.mean, values))


def difference(statistic, one, other, *shared):
    """How much higher a statistic is for one system than for another, by the paired bootstrap.

    Both systems judged the same n items, so each resample of the items gives one difference.
    one, other and shared: (n,) each; statistic(one, *shared, axis) → float
    → difference, low, high of its 95% interval; nan if a statistic is nan or n < 2
    """
    def gap(one, other, *shared, axis=-1):
        return statistic(one, *shared, axis=axis) - statistic(other, *shared, axis=axis)

    value = float(_quietly(gap, one, other, *shared)) if len(one) > 1 else np.nan
    interval = NO_INTERVAL if np.isnan(value) else bootstrap_interval(gap, one, other, *shared)
    return value, *map(float, interval)


def top_of_ranking(relevant, scores):
    """Which of the 10 best are relevant, and how many of the others: (n,), (n,) → int (11,).

    Candidates with equal scores keep their order.
    """
    order = np.argsort(-settled(np.asarray(scores, np.float64)), kind="stable")
    ranked = np.asarray(relevant, bool)[order]
    top = np.pad(ranked[:DEPTH], (0, max(0, DEPTH - len(ranked))))
    return np.append(top, ranked[DEPTH:].sum())


def average_precision(relevant):
    """The mean precision at the ranks of the relevant candidates, 0 if there are none.

    Its mean over questions is MAP. relevant: (q, 11), each question's `top_of_ranking` → (q,)
    """
    relevant = relevant[:, :DEPTH]
    at_each = relevant * np.cumsum(relevant, axis=1) / np.arange(1, DEPTH + 1)      # (q, 10)
    return at_each.sum(axis=1) / np.maximum(np.sum(relevant, axis=1), 1)


def reciprocal_rank(relevant):
    """1/rank of the first relevant candidate, 0 if there is none: as average_precision → (q,)."""
    return (relevant[:, :DEPTH] / np.arange(1, DEPTH + 1)).max(axis=1)


def average_recall(relevant):
    """SemEval's AvgRec, the mean recall over k = 1 … 10 of all questions: as above → float.

    Recall is the number of relevant candidates up to rank k, divided by the number in a perfect
    order: Σ min(k, relevant in a question).
    """
    possible = np.minimum(np.arange(1, DEPTH + 1), relevant.sum(axis=1, keepdims=True))    # (q, 10)
    hits = np.cumsum(relevant[:, :DEPTH], axis=1)                                   # (q, 10)
    return (hits.sum(axis=0) / np.maximum(possible.sum(axis=0), 1)).mean()
