"""Does a search find the right row? Ask it of your own rows, with queries of your own.

    python -m convsim_mini.evaluation.search RUN ROWS QUERIES [--column NAME]

ROWS is what `encode --search` reads. QUERIES is a table with the columns "query" and "right", the
text of a row that should be found. A query with several right rows has a line for each. hit@1 and
hit@5: for how many queries a right one is among the best 1 or 5, in per cent; MRR: the mean of
1/rank, × 100. Rows with the same text count once, and of equal scores the right one counts as the
last.
"""

import numpy as np

from ..common.cli import UserError, errors_in_one_line, parser_of, path_of, user_errors
from ..core.ranking import settled
from ..data.layouts import Reading
from ..data.texts import text_of
from ..inference.index import WORDS, index_of
from ..inference.rows import rows_of_file
from ..inference.sentence_encoder import encoder_of
from ..inference.tfidf import document_frequency, term_counts, vocabulary_of
from ..training.run import load_run
from .baselines import bm25_documents
from .metrics import difference, mean_figure, per_cent
from .results import cell, grid, verdict

QUERY, RIGHT = "query", "right"
OURS, BASELINES = "meaning + words", ("TF-IDF", "BM25")


def read_queries(path, texts, encoding="utf-8"):
    """The queries in a table's file: dict, query → the right ones of the texts of all rows.

    Lines without a query are skipped. Raises UserError if a right row is not there.
    """
    known, asked = {*texts} - {""}, {}
    queries = rows_of_file(path, Reading((QUERY,), encoding, side="input"))
    for number, row in enumerate(queries.rows, start=1):
        with user_errors(f"{path}: row {number}", "give a text", TypeError):
            query, right = (text_of(row.get(name), f'"{name}": ') for name in (QUERY, RIGHT))
        if query and right not in known:
            raise UserError(f'{path}: row {number}: "{RIGHT}" is {right!r}; expected the text of a '
                            "row")
        if query:
            asked.setdefault(query, set()).add(right)
    if not asked:
        raise UserError(f'{path}: expected a text in the column "{QUERY}" of some row')
    return asked


def ranks(index, asked):
    """The rank of the best right row of each of q queries: way to search an Index → int (q,)."""
    rows = index.distinct                                     # each text once
    places = {index.texts[k]: place for place, k in enumerate(rows)}
    vocabulary, packed = vocabulary_of(index.texts)
    documents = bm25_documents(packed, *document_frequency(packed, vocabulary.size))
    counts = term_counts(vocabulary.encode([*asked]), vocabulary.size)
    found = {}
    for query, words, vector, right in zip(
            counts, index.tfidf.scores([*asked]), index.encoder.encode([*asked]), asked.values()):
        meaning = index.vectors @ vector                                  # (n,), as all the others
        is_right = np.isin(np.arange(len(rows)), [*map(places.get, right)])
        for way, scores in ((OURS, meaning + WORDS * words),
                            ("meaning", meaning), ("TF-IDF", words),
                            ("BM25", (documents @ query.T).toarray().ravel())):
            scores = settled(scores)[rows]
            before = (scores >= scores[is_right].max()) & ~is_right
            found.setdefault(way, []).append(1 + before.sum())
    return {way: np.array(of_way) for way, of_way in found.items()}


def figures_of(ranks):
    """Ranks (q,) → metric → (value, low, high)."""
    return {"hit@1": per_cent(ranks == 1), "hit@5": per_cent(ranks <= 5),
            "MRR": mean_figure(100 / ranks)}


def ahead(found):
    """A sentence: is a search ahead of the better baseline by hit@1? found: way → ranks (q,)"""
    best = max(BASELINES, key=lambda way: (found[way] == 1).sum())
    gap = difference(np.mean, 100.0 * (found[OURS] == 1), 100.0 * (found[best] == 1))
    return (f"{OURS} {verdict(gap)} the best baseline, {best}: hit@1 {cell(gap, '+.1f')}, "
            "paired.")


@errors_in_one_line()
def main(argv=None):
    """The command: print the table and who is ahead."""
    parser = parser_of("evaluation.search", __doc__, "--device")
    parser.add_argument("rows", type=path_of, help="the file to search in")
    parser.add_argument("queries", type=path_of, help=f'a table with "{QUERY}" and "{RIGHT}"')
    parser.add_argument("--column", metavar="NAME", dest="columns", nargs=1, default=(),
                        help="which column of ROWS to search in, if its name is not a known one")
    parser.add_argument("--encoding", default="utf-8", help="of both files (default: utf-8)")
    options = parser.parse_args(argv)
    encoder = encoder_of(load_run(options.run, options.device))
    reading = Reading(options.columns, options.encoding, encoder.columns, side="input")
    index = index_of(encoder, rows_of_file(options.rows, reading))
    asked = read_queries(options.queries, index.texts, options.encoding)
    found = ranks(index, asked)
    name = f"{options.rows.name}, {len(index.distinct):,} different rows"
    print(f"{name}: {len(asked):,} queries; hit@k in per cent, MRR × 100",
          grid({way: figures_of(found[way]) for way in found}), ahead(found), sep="\n\n")


if __name__ == "__main__":
    main()
