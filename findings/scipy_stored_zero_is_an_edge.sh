#!/usr/bin/env bash
# Guess: connected_components ignores an edge of weight 0, so edges counted in int8 vanish
# when 256 copies wrap around to 0, or when +1 and -1 cancel out.
# Truth: in a sparse graph a stored 0 is an edge, in a dense array it is none. So are a
# stored NaN (sparse) and no edge (dense).
# scipy 1.17.1 with numpy 2.4.6, November 2026.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet numpy==2.4.6 scipy==1.17.1
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

def parts(weights, dense=False):
    places = np.zeros(len(weights), int), np.ones(len(weights), int)     # all from 0 to 1
    graph = coo_array((weights, places), shape=(2, 2)).tocsr()
    return connected_components(graph.toarray() if dense else graph, directed=False)[0]

cases = {"one stored 0": np.zeros(1), "+1 and -1": np.array([1., -1]),
         "256 ones in int8": np.ones(256, np.int8), "NaN": np.array([np.nan])}
for name, weights in cases.items():
    print(f"{name}: {parts(weights)} component sparse, {parts(weights, dense=True)} dense")
    assert parts(weights) == 1 and parts(weights, dense=True) == 2
PYTHON
