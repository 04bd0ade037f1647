"""Which search finds the right row first?  python tests/benchmarks/search.py RUN… --data DIR

Forum questions of SemEval's task B: those of train and dev that people asked are the queries, and
all questions that its search engine found for them are the rows. DIR/cqa holds the official files
and, as a table, part 1 of train. A row is right where people judged it relevant to the query.
"""

import argparse
import csv
from pathlib import Path

import numpy as np

from contenders import ROOT    # noqa: F401  (and the repository's path)
from convsim_mini.common.tables import table
from convsim_mini.evaluation import cqa
from convsim_mini.evaluation.baselines import bm25_documents
from convsim_mini.inference.index import index_of
from convsim_mini.inference.rows import rows_of_texts
from convsim_mini.inference.sentence_encoder import load
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
            candidate = row["rel_body"], row["relevance"] != "Irrelevant"
            found.setdefault(row["org_body"], []).append(candidate)
    yield from found.items()


def places_of_first(scores, right):
    """The place, from 1 on, of the first right row: scores: n times (rows,) → (n,)."""
    return np.array([1 + (some > some[[*rows]].max()).sum() for some, rows in zip(scores, right)])


def bm25(queries, rows):
    vocabulary, packed = vocabulary_of(rows)
    documents = bm25_documents(packed, *document_frequency(packed, vocabulary.size))
    counts = term_counts(vocabulary.encode(queries), vocabulary.size)
    return (counts @ documents.T).toarray()


def ways(run, queries, rows):
    """Name → scores (queries, rows) of each way that a run can search."""
    encoder = load(run)
    index = index_of(encoder, rows_of_texts(rows))
    learned = index.encoder.encode(queries) @ index.vectors.T
    words = np.array([*index.tfidf.scores(queries)])
    return {"TF-IDF of the rows": words, "vectors of encode": encoder.encode(queries) @
            encoder.encode(rows).T, "learned alone": learned,
            **{f"learned + {w} · TF-IDF": learned + w * words for w in (0.3, 0.5, 1.0, 1.5, 2.0)}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--data", required=True)
    options = parser.parse_args()
    asked = [(text, found) for text, found in questions_of(options.data)
             if any(relevant for _, relevant in found)]
    rows = sorted({text for _, found in asked for text, _ in found})
    place = {text: k for k, text in enumerate(rows)}
    right = [{place[text] for text, relevant in found if relevant} for _, found in asked]
    queries = [text for text, _ in asked]
    shown = {"BM25": bm25(queries, rows)}
    for run in options.runs:
        for name, scores in ways(run, queries, rows).items():
            shown[name if name.startswith("TF") else f"{Path(run).name}: {name}"] = scores
    places = {name: places_of_first(scores, right) for name, scores in shown.items()}
    print(f"{len(queries):,} questions, {len(rows):,} rows")
    print(table(["", "P@1", "MRR"], [
        [name, f"{100 * (first == 1).mean():.1f}", f"{100 * (1 / first).mean():.1f}"]
        for name, first in places.items()]))


if __name__ == "__main__":
    main()
