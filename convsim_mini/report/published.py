"""Figures from the literature that the report sets beside ours: × 100, as printed there.

They stand in published.json, each table with its source. Rows of STS, SNLI and CQA called "Reddit"
and "Reddit+SNLI" are the paper's own, all by its Transformer.
"""

import json
from pathlib import Path

_tables = json.loads(Path(__file__).with_name("published.json").read_text(encoding="utf-8"))
RESPONSE, SNLI, SNLI_PAIRS, STS, STS_SYSTEMS, CQA, DIFFICULT = (
    _tables[name]["figures"]
    for name in ("RESPONSE", "SNLI", "SNLI_PAIRS", "STS", "STS_SYSTEMS", "CQA", "DIFFICULT"))
