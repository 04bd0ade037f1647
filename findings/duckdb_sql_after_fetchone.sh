#!/usr/bin/env bash
# Guess: con.execute(...).fetchone() of a query with one row ends it, and whatever is asked
# next with con.sql discards what was left of it.
# Truth: in DuckDB 2, sql() raises ResourceInUseException "unfinished result" until fetch
# has returned no rows, although the one row there is has been taken. execute() on the
# same connection still discards it, and after fetchall() sql() works.
# duckdb 2.0.1, November 2026.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet duckdb==2.0.1
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import duckdb

def then(fetch, ask):
    con = duckdb.connect()
    fetch(con.execute("select count(*) from range(3)"))
    try:
        return getattr(con, ask)("select 5").fetchall()
    except duckdb.Error as error:
        return type(error).__name__

found = {(taken, ask): then(lambda result: getattr(result, taken)(), ask)
         for taken in ("fetchone", "fetchall") for ask in ("sql", "execute")}
print(*(f"execute().{taken}(), then {ask}(): {what}" for (taken, ask), what in found.items()), sep="\n")
assert found["fetchone", "sql"] == "ResourceInUseException"
assert found["fetchone", "execute"] == found["fetchall", "sql"] == [(5,)]
PYTHON
