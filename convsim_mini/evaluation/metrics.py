"""The figures that are reported, written out: P@N, correlations, and their 95% intervals."""

import numpy as np

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
