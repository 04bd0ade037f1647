#!/usr/bin/env bash
# Guess: with distance_type("cosine") a stored row of zeros is listed with distance 1, between
# what is alike and what is opposite; a query of zeros finds every row at distance 1.
# Truth: the row of zeros is never among the hits, however large the limit, and a query of
# zeros finds nothing at all, without an error. With "l2" the row is listed.
# (An encoder gives zeros for a text without known words.) lancedb 0.40.0, November 2026.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet lancedb==0.40.0 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import lancedb

rows = [{"id": "alike", "vector": [3., 4.]}, {"id": "zeros", "vector": [0., 0.]},
        {"id": "opposite", "vector": [-3., -4.]}]
table = lancedb.connect("store").create_table("t", data=rows)

def hits(query, distance):
    return [row["id"] for row in table.search(query).distance_type(distance).limit(10).to_list()]

print("cosine:", hits([3., 4.], "cosine"), " l2:", hits([3., 4.], "l2"),
      " a query of zeros, cosine:", hits([0., 0.], "cosine"))
assert table.count_rows() == 3 and hits([3., 4.], "cosine") == ["alike", "opposite"]
assert hits([3., 4.], "l2") == ["alike", "zeros", "opposite"] and hits([0., 0.], "cosine") == []
PYTHON
