"""SemEval's forum questions as ROWS and QUERIES of convsim_mini.evaluation.search.

    python tests/benchmarks/search.py DIR OUT
    python -m convsim_mini.evaluation.search RUN OUT/rows.jsonl OUT/queries.jsonl --column right

The queries are the questions of task B, train and dev; the rows are all questions that its search
engine found for them. A row is right where people judged it relevant to the query. DIR is where
`data_scripts.download cqa` put the official files. desk.jsonl, beside this file, is rows and
queries at once: 500 tickets of a support desk, 100 with a query in other words.
"""

import json
import sys
from pathlib import Path

from contenders import ROOT    # noqa: F401  (and the repository's path)
from convsim_mini.evaluation import cqa

SPLITS = "train-part1", "train-part2", "dev"


def main(data, out):
    """Write rows.jsonl and queries.jsonl to the folder `out`."""
    questions = [one for split in SPLITS for one in cqa.read(
        Path(data, "cqa", f"SemEval2016-Task3-CQA-QL-{split}.xml"))]
    found = [(one.text, c.text, c.relevant) for one in questions for c in one.candidates]
    asked = {query for query, _, relevant in found if relevant}
    rows = {"rows": [{"right": text} for text in sorted({
                text for query, text, _ in found if query in asked})],
            "queries": [{"query": query, "right": text} for query, text, relevant in found
                        if relevant]}
    for name, some in rows.items():
        Path(out, f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in some))


if __name__ == "__main__":
    main(*sys.argv[1:])
