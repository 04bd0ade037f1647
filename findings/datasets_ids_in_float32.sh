#!/usr/bin/env bash
# Guess: in the numpy format a column of integers with one missing value becomes float64 with
# NaN, as in pandas; ids below 2**53 survive.
# Truth: it becomes float32, exact only to 2**24: the ids 16777217 and 16777216 are one. A
# single row, read by its number, still holds the exact int64; format "pandas" is exact.
# datasets 5.2.0, numpy 2.4.6, pandas 3.1.1, pyarrow 26.0.1, November 2026.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet datasets==5.2.0 numpy==2.4.6 pandas==3.1.1 pyarrow==26.0.1
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
from datasets import Dataset

ids = [16777216, 16777217, None]
rows = Dataset.from_dict({"id": ids})
column, one = rows.with_format("numpy")["id"][:], rows.with_format("numpy")[1]["id"]
exact = rows.with_format("pandas")["id"][:]
print(f"numpy: {column.dtype} {[int(x) for x in column[:2]]}; row 1 alone: {one!r}; "
      f"pandas: {exact.dtype} {exact[:2].astype(int).tolist()}")
assert column.dtype == np.float32 and column[0] == column[1]
assert one == 16777217 and exact[1] == 16777217
PYTHON
