"""Files of pairs: a test writes them and reads them."""

import csv
import json

from convsim_mini.data.layouts import Reading
from convsim_mini.data.pairs import Pair, read_rows


def read(source, *reading):
    """All Pairs of a file or a table, without their conversations. reading: a Reading's fields."""
    return [Pair(*pair[:4]) for part in read_rows(source, reading=Reading(*reading))
            for pair in part.pairs]


def written(path, content, delimiter=","):
    """Write a file: bytes, a str, or a list of dicts for a .jsonl, of rows of cells for others."""
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, str):
        path.write_bytes(content.encode())
    elif path.suffix in (".jsonl", ".ndjson"):
        path.write_text("".join(json.dumps(row) + "\n" for row in content))
    else:
        with open(path, "w", encoding="utf-8", newline="") as file:
            csv.writer(file, delimiter=delimiter).writerows(content)
    return path
