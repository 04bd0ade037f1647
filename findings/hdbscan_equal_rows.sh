#!/usr/bin/env bash
# Guess: 4,000 rows in five blobs, a tenth of them one and the same within a blob (the "lol" of a
# corpus): equal rows get equal labels; scikit-learn's HDBSCAN does as hdbscan does; the figures of
# the other rows hardly change.
# Truth: by cluster_selection_method="leaf" hdbscan gives the 396 equal rows five labels, 258 of them
# noise; scikit-learn gives them one. By "eom" they share a label, but the persistence of every
# cluster is 1, and 722 outlier scores are NaN (all of the blob's but the equal rows').
# hdbscan 0.8.44, scikit-learn 1.9.1, November 2026. Half a minute.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet numpy==2.4.6 scipy==1.17.1 scikit-learn==1.9.1 hdbscan==0.8.44
cd "$folder"
OMP_NUM_THREADS=1 "$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from hdbscan import HDBSCAN
from sklearn.cluster import HDBSCAN as Sklearn

rng = np.random.default_rng(0)
centres = 6 * rng.normal(size=(5, 5))
blob = rng.integers(0, 5, 4000)
rows = centres[blob] + rng.normal(size=(4000, 5))
equal = rng.random(4000) < 0.1
rows[equal] = centres[0] + 0.3

def labels(model):
    return dict(zip(*map(np.ndarray.tolist, np.unique(model.fit_predict(rows.copy())[equal], return_counts=True))))

leaf = {"min_cluster_size": 10, "cluster_selection_method": "leaf"}
found = {"hdbscan, leaf": labels(HDBSCAN(**leaf)), "scikit-learn, leaf": labels(Sklearn(**leaf)),
         "hdbscan, eom": labels(HDBSCAN(min_cluster_size=10))}
print(*(f"labels of {equal.sum()} equal rows by {name}: {counts}" for name, counts in found.items()), sep="\n")
model, without = HDBSCAN(min_cluster_size=50).fit(rows), HDBSCAN(min_cluster_size=50).fit(rows[~equal])
lost = np.isnan(model.outlier_scores_)
print("persistence", model.cluster_persistence_.round(2), "without them", without.cluster_persistence_.round(2))
print(f"outlier scores that are NaN: {lost.sum()}, all of blob 0: {set(blob[lost]) == {0}}; "
      f"without them {np.isnan(without.outlier_scores_).sum()}")
assert len(found["hdbscan, leaf"]) > 2 and found["hdbscan, leaf"][-1] > 100
assert len(found["scikit-learn, leaf"]) == len(found["hdbscan, eom"]) == 1
assert (model.cluster_persistence_ == 1).all() and (without.cluster_persistence_ < 0.9).all()
assert lost.sum() > 500 and not np.isnan(without.outlier_scores_).any()
PYTHON
