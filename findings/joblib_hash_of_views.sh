#!/usr/bin/env bash
# Guess: joblib.hash, and so joblib.Memory, knows an array by shape, dtype and values: every
# second column as a view, or a copy of it, is the same argument.
# Truth: the strides count too: Memory computes again for the copy, and keeps the result twice.
# A pandas Series of texts cut out of a longer one likewise differs from the same texts
# by themselves, though equals() says they are equal.
# joblib 1.6.0, numpy 2.4.6, pandas 3.1.1, November 2026.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet numpy==2.4.6 joblib==1.6.0 pandas==3.1.1 pyarrow==26.0.1
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import joblib
import numpy as np
import pandas as pd

table = np.arange(12.).reshape(2, 6)
view, copy = table[:, ::2], table[:, ::2].copy()
calls = []
memory = joblib.Memory("cache", verbose=0)
measure = memory.cache(lambda x: calls.append(1) or x.sum())
print("equal:", np.array_equal(view, copy), " sums:", measure(view), measure(copy), " calls:", len(calls))
texts, alone = pd.Series(["x", "a", "b"])[1:].reset_index(drop=True), pd.Series(["a", "b"])
print("Series equal:", texts.equals(alone), " same hash:", joblib.hash(texts) == joblib.hash(alone))
assert np.array_equal(view, copy) and joblib.hash(view) != joblib.hash(copy) and len(calls) == 2
assert texts.equals(alone) and joblib.hash(texts) != joblib.hash(alone)
PYTHON
