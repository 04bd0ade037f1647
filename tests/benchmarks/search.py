"""SemEval's forum questions as ROWS and QUERIES of convsim_mini.evaluation.search.

    python tests/benchmarks/search.py DIR OUT
    python -m convsim_mini.evaluation.search RUN OUT/rows.jsonl OUT/queries.jsonl --column right

The queries are the questions of task B, train and dev; the rows are all questions that its search
engine found for them. A row is right where people judged it relevant to the query. DIR/cqa holds
the official files and, as a table, part 1 of train. desk.jsonl, beside this file, is rows and
queries at once: 500 tickets of a support desk, 100 with a query in other words.
"""

import csv
import json
import sys
from pathlib import Path

from contenders import ROOT    # noqa: F401  (and the repository's path)
from convsim_mini.evaluation import cqa

FILES = ("SemEval2016-Task3-CQA-QL-dev.xml", "SemEval2016-Task3-CQA-QL-train-part2.xml")
PART_1 = "semeval2016_train_part1_subtaskB_merged.tsv"


def found_of(data):
    """Yield (question, a text that was found for it, whether that is relevant) of all files."""
    for name in FILES:
        for question in cqa.read(Path(data, "cqa", name)):
            yield from ((question.text, c.text, c.relevant) for c in question.candidates)
    with open(Path(data, "cqa", PART_1), encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            yield row["org_body"], row["rel_body"], row["relevance"] != "Irrelevant"


def main(data, out):
    found = [*found_of(data)]
    asked = {query for query, _, relevant in found if relevant}
    rows = {"rows": [{"right": text} for text in sorted({
                text for query, text, _ in found if query in asked})],
            "queries": [{"query": query, "right": text} for query, text, relevant in found
                        if relevant]}
    for name, some in rows.items():
        Path(out, f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in some))


if __name__ == "__main__":
    main(*sys.argv[1:])
