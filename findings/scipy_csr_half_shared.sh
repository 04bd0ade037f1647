#!/usr/bin/env bash
# Guess: csr_matrix((data, indices, indptr)) shares the caller's three arrays, or copies all
# three; and a question such as count_nonzero() changes nothing.
# Truth: int64 indices are copied as int32 while data is shared, so sum_duplicates reorders
# data beneath the caller's own indices: his three arrays now mean another matrix. And
# count_nonzero(), argmax(), max() and abs() sum duplicates in place: with int32 indices
# they rewrite the caller's arrays.
# scipy 1.17.1 with numpy 2.4.6, November 2026.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet numpy==2.4.6 scipy==1.17.1
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
from scipy.sparse import csr_matrix

def parts(kind):
    return np.array([1., 2, 3, 4]), np.array([2, 0, 1, 2], kind), np.array([0, 2, 4], kind)

mine = parts(np.int64)
before = csr_matrix(mine, shape=(2, 3)).toarray()
csr_matrix(mine, shape=(2, 3)).sum_duplicates()
after = csr_matrix(mine, shape=(2, 3)).toarray()
print("int64, before and after somebody's sum_duplicates:", before.tolist(), after.tolist())
assert (before != after).any()

for question in "count_nonzero", "argmax", "max", "__abs__":
    data, ids, ends = parts(np.int32)
    ids[:] = 2, 0, 2, 2                                  # one place twice
    matrix = csr_matrix((data, ids, ends), shape=(2, 3))
    getattr(matrix, question)(*([1] if question in ("argmax", "max") else []))
    print(f"{question}: ids [2 0 2 2] are now {ids}, data [1 2 3 4] {data}")
    assert ids.tolist() == [0, 2, 2, 2] and data.tolist() == [2, 1, 7, 4]
PYTHON
