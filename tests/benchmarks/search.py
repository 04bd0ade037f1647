"""Which search finds the right row first?  python tests/benchmarks/search.py RUN… DIR

Forum questions of SemEval's task B, train and dev, are the queries; all questions that its search
engine found for them are the rows. A row is right where people judged it relevant to the query.
DIR/cqa holds the official files and, as a table, part 1 of train.
"""

import csv
import sys
from pathlib import Path

import numpy as np

from contenders import ROOT    # noqa: F401  (and the repository's path)
from convsim_mini.common.show import table
from convsim_mini.evaluation import cqa
from convsim_mini.evaluation.baselines import bm25_documents
from convsim_mini.inference.index import index_of
from convsim_mini.inference.index import rows_of_texts
from convsim_mini import load
from convsim_mini.inference.tfidf import document_frequency, term_counts, vocabulary_of

FILES = ("SemEval2016-Task3-CQA-QL-dev.xml", "SemEval2016-Task3-CQA-QL-train-part2.xml")
PART_1 = "semeval2016_train_part1_subtaskB_merged.tsv"


def questions_of(data):
    """Yield (question, candidates) of all files: candidates: (text, relevant)."""
    for name in FILES:
        for question in cqa.read(Path(data, "cqa", name)):
            yield question.text, [(c.text, c.relevant) for c in question.candidates]
    with open(Path(data, "cqa", PART_1), encoding="utf-8", newline="") as file:
        found = {}
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            found.setdefault(row["org_body"], []).append(
                (row["rel_body"], row["relevance"] != "Irrelevant"))
    yield from found.items()


def places_of_first(scores, right):
    """The place, from 1 on, of the first right row: scores: n times (rows,) → (n,)."""
    return np.array([1 + (some > some[[*rows]].max()).sum() for some, rows in zip(scores, right)])


def ways(run, queries, rows):
    """Name → scores (queries, rows) of each way that a run can search."""
    index = index_of(load(run), rows_of_texts(rows))
    learned = index.encoder.encode(queries) @ index.vectors.T
    words = np.array([*index.tfidf.scores(queries)])
    weighted = {f"{run}: learned + {w} · TF-IDF": learned + w * words for w in (0, 0.5, 1, 1.5, 2)}
    return {"TF-IDF of the rows": words, **weighted}


def main(*runs, data):
    asked = [(text, found) for text, found in questions_of(data)
             if any(relevant for _, relevant in found)]
    rows = sorted({text for _, found in asked for text, _ in found})
    place = {text: k for k, text in enumerate(rows)}
    right = [{place[text] for text, relevant in found if relevant} for _, found in asked]
    queries = [text for text, _ in asked]
    vocabulary, packed = vocabulary_of(rows)
    documents = bm25_documents(packed, *document_frequency(packed, vocabulary.size))
    counts = term_counts(vocabulary.encode(queries), vocabulary.size)
    shown = {"BM25": (counts @ documents.T).toarray()}
    for run in runs:
        shown |= ways(run, queries, rows)
    print(f"{len(queries):,} questions, {len(rows):,} rows")
    places = {name: places_of_first(scores, right) for name, scores in shown.items()}
    print(table(["", "P@1", "MRR"], [
        [name, f"{100 * (first == 1).mean():.1f}", f"{100 * (1 / first).mean():.1f}"]
        for name, first in places.items()]))


if __name__ == "__main__":
    main(*sys.argv[1:-1], data=sys.argv[-1])
