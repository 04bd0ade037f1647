#!/usr/bin/env bash
# Guess: group_by(...).agg(sum) of a Float32 column adds as Series.sum does: 17 million ones are
# 17,000,000, whatever else is in the same agg.
# Truth: on one thread it stops at 2**24 = 16,777,216, while the mean beside it is right; 8.5
# million rows of 0.1 are 6% too much. With std or median in the same agg the sum is right
# (not so in the streaming engine); Series.sum and over() are right. With more threads each stops
# by itself: the ones are right again, the 0.1s are 4% too little on two. Cast to Float64 first.
# polars 2.1.0, November 2026.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet polars==2.1.0 numpy==2.4.6
cd "$folder"
for threads in 1 2; do
    POLARS_MAX_THREADS=$threads "$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
import polars as pl

def grouped(value, rows, *beside):
    table = pl.DataFrame({"key": np.zeros(rows, np.int8), "x": np.full(rows, value, np.float32)})
    x = pl.col("x")
    found = table.group_by("key").agg(x.sum().alias("sum"), x.mean().alias("mean"),
                                      *(getattr(x, name)().alias(name) for name in beside))
    print(f"{pl.thread_pool_size()} threads, {rows:,} rows of {value}, sum and mean {' '.join(beside)}: "
          f"{found['sum'][0]:,.0f}, {found['mean'][0]:.4f}; Series.sum {table['x'].sum():,.0f}")
    return found["sum"][0], found["mean"][0], table["x"].sum()

n = 17_000_000
assert grouped(1, n) == (2**24 if pl.thread_pool_size() == 1 else n, 1, n)
assert grouped(1, n, "std") == (n, 1, n)
total, mean, series = grouped(0.1, n // 2)
assert abs(total / 850_000 - 1) > 0.002 and abs(mean / 0.1 - 1) < 1e-5 and abs(series / 850_000 - 1) < 1e-5
PYTHON
done
