#!/usr/bin/env bash
# Guess: the norm of a float16 vector is taken in a wider type (as np.mean's sum is), and
# scikit-learn's normalize turns float16 into float64, as cosine_similarity does.
# Truth: np.linalg.norm squares in float16: eight values of 300 have the norm inf. normalize
# keeps float16 and makes zeros of that row, silently; cosine_similarity of it is 1.
# numpy 2.4.6, scikit-learn 1.9.1, November 2026.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet numpy==2.4.6 scipy==1.17.1 scikit-learn==1.9.1
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import warnings

import numpy as np
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.preprocessing import normalize

warnings.simplefilter("error", UserWarning)
vectors = np.full((1, 8), 300, np.float16)               # its norm, 849, is well within float16
with np.errstate(over="ignore"):
    norm = np.linalg.norm(vectors, axis=1)
    unit = normalize(vectors)
alike = cosine_similarity(vectors)
print("norm:", norm, " normalize:", unit, " cosine_similarity:", alike, alike.dtype)
assert np.isinf(norm).all() and not unit.any() and unit.dtype == np.float16
assert alike.dtype == np.float64 and abs(alike[0, 0] - 1) < 1e-6
PYTHON
