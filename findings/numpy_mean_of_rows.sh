#!/usr/bin/env bash
# Guess: the mean of 4 million float32 rows that all hold 0.1 is 0.1 to about 1e-3 or better,
# since NumPy sums in pairs.
# Truth: along axis 0 it adds row after row in float32: 0.0961, 4% off. The same numbers along
# axis 1 give 0.1. np.average, var, einsum and scikit-learn's PCA.mean_ share the error;
# StandardScaler, pandas and dtype=np.float64 do not. In float16 such a sum stops at 2048.
# numpy 2.4.6, scikit-learn 1.9.1, November 2026.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet numpy==2.4.6 scipy==1.17.1 scikit-learn==1.9.1
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

rows = np.full((4_000_000, 2), 0.1, np.float32)
rows[::2, 1] = 0.3                                       # so that there is something to fit
found = {"mean(axis=0)": rows.mean(axis=0)[0], "mean(axis=1) of the same": rows.T.copy().mean(axis=1)[0],
         "mean(axis=0, float64)": rows.mean(axis=0, dtype=np.float64)[0],
         "PCA.mean_": PCA(1, svd_solver="covariance_eigh").fit(rows).mean_[0],
         "StandardScaler.mean_": StandardScaler().fit(rows).mean_[0]}
half = np.ones((5000, 3), np.float16)
print(*(f"{name}: {value:.5f}" for name, value in found.items()), sep="\n")
print("5,000 ones in float16:", half.sum(axis=0)[0], "along axis 0,", half.T.copy().sum(axis=1)[0], "along axis 1")
off = [abs(value / 0.1 - 1) for value in found.values()]
assert off[0] > 0.03 and off[3] > 0.03 and max(off[1], off[2], off[4]) < 1e-4
assert half.sum(axis=0)[0] == 2048 and half.T.copy().sum(axis=1)[0] == 5000
PYTHON
