#!/usr/bin/env bash
# Guess: np.unique of StringDType texts with NaN for missing ones gives the same texts
# whether or not counts are asked for: a, b and one NaN, counted 1, 1 and 2.
# Truth: with return_counts (or return_inverse) NaN is not among the texts any more, and the
# missing ones are counted as copies of the last text: a 1, b 3. Nothing is said.
# numpy 2.4.6, November 2026.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np

texts = np.array(["b", np.nan, "a", np.nan], np.dtypes.StringDType(na_object=np.nan))
alone = np.unique(texts)
found, inverse, counts = np.unique(texts, return_inverse=True, return_counts=True)
print("alone:", [*alone], " with counts:", dict(zip([*found], counts.tolist())),
      " inverse:", inverse.tolist())
assert len(alone) == 3
assert [*found] == ["a", "b"] and counts.tolist() == [1, 3] and inverse.tolist() == [1, 1, 0, 1]
PYTHON
