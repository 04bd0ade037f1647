#!/usr/bin/env bash
# Guess: with 500 scored pairs a 95% interval of Pearson's r holds the true r in 93 to 96% of data
# sets, whether by Fisher's z (pearsonr's default) or by SciPy's bootstrap (BCa, 9,999 resamples).
# Truth: with ratings spread over 0 to 5 Fisher's does, in 97%. Where a tenth of the pairs are
# related, as in a mined set, Fisher's holds it in 76%, for 100 pairs as for 1,500, and BCa in 95%.
# Where one in a hundred is related, Fisher's holds it in 50% and BCa in about 90%.
# scipy 1.17.1, numpy 2.4.6, November 2026. Two minutes of one core.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet numpy==2.4.6 scipy==1.17.1
cd "$folder"
OPENBLAS_NUM_THREADS=1 "$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
from scipy import stats

def pairs(rng, n, related):
    """Gold scores 0 to 5 and cosines; related: the share of scores above 1, None: all equally often."""
    noise = rng.standard_normal(n)
    if related is None:
        gold = rng.integers(0, 6, n)
        return gold, 0.12 * gold + 0.2 * noise
    is_related = rng.random(n) < related
    gold = np.where(is_related, rng.integers(2, 6, n), rng.random(n) < 0.2)
    return gold, np.where(is_related, np.clip(0.12 * gold + 0.2 * noise, -1, 1), 0.03 + 0.08 * noise)

def coverage(related, n, sets, method=None):
    r = stats.pearsonr(*pairs(np.random.default_rng(2018), 4_000_000, related)).statistic
    held = 0
    for k in range(sets):
        bootstrap = method and stats.BootstrapMethod(method=method, batch=500, rng=np.random.default_rng(k))
        found = stats.pearsonr(*pairs(np.random.default_rng([k, n]), n, related))
        low, high = found.confidence_interval(method=bootstrap)
        held += low <= r <= high
    print(f"related {related or 'evenly'}, {n:,} pairs, r {r:.2f}, {method or 'Fisher'}: {held / sets:.1%} "
          f"of {sets:,} data sets", flush=True)
    return held / sets

assert all(0.93 < coverage(None, n, 4000) < 0.98 for n in (100, 500, 1500))
assert all(0.70 < coverage(0.1, n, 4000) < 0.78 for n in (100, 500, 1500))
assert 0.40 < coverage(0.01, 500, 4000) < 0.60
assert 0.91 < coverage(0.1, 500, 400, "BCa") < 0.98
assert 0.85 < coverage(0.01, 500, 400, "BCa") < 0.95
PYTHON
