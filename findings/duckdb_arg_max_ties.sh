#!/usr/bin/env bash
# Guess: of equal scores arg_max(text, score) gives the first row's text, the same at each
# call; first(text) is the first row's, and list(text) is in the table's order, which
# DuckDB keeps (preserve_insertion_order is on).
# Truth: with several threads all three may begin with any block of 122,880 rows, not the
# same one at each call. Only a plain select keeps the order (select text limit 1).
# To be exact: order by score desc, id limit 1. duckdb 2.0.1, November 2026.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet duckdb==2.0.1
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import collections

import duckdb

con = duckdb.connect(config={"threads": 4})
con.execute("create table r as select i, 1.0 as score from range(1000000) t(i)")
found = {}
for query in "arg_max(i, score)", "first(i)", "list(i)[1]", "i":
    calls = [con.execute(f"select {query} from r limit 1").fetchall()[0][0] for _ in range(100)]
    found[query] = collections.Counter(calls)
    print(f"{query}, and how often in 100 calls:", dict(found[query]))
assert len(found["arg_max(i, score)"]) > 1 and len(found["list(i)[1]"]) > 1
assert set(found["i"]) == {0} and not any(i % 122880 for i in found["arg_max(i, score)"])
PYTHON
