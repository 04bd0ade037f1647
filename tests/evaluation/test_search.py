"""Searches measured on one's own rows: which rows are right, ranks, the table."""

import json

import numpy as np
import pytest

from convsim_mini.common.cli import UserError
from convsim_mini.evaluation import search

ROWS = ["where is my parcel", "reset my password", "", "the parcel is lost", "where is my parcel",
        "zucchini", "reset my password"]
QUERIES = [("parcel lost", "the parcel is lost"), ("parcel lost", "where is my parcel"),
           ("zucchini", "zucchini"), ("", "6"), ("nothing of it", "where is my parcel")]


@pytest.fixture
def files(tmp_path):
    """ROWS as lines and QUERIES as a table."""
    (tmp_path / "rows.txt").write_text("\n".join(ROWS))
    (tmp_path / "queries.jsonl").write_text("".join(
        json.dumps({"query": query, "right": right}) + "\n" for query, right in QUERIES))
    return tmp_path / "rows.txt", tmp_path / "queries.jsonl"


def test_a_right_row_is_a_text_and_a_wrong_one_is_named(files):
    assert search.read_queries(files[1], ROWS) == {
        "parcel lost": {"the parcel is lost", "where is my parcel"}, "zucchini": {"zucchini"},
        "nothing of it": {"where is my parcel"}}
    for row, message in (({"query": "a", "right": "a parcel"}, 'row 1: "right" is .a parcel.; '),
                         ({"query": "a", "right": ""}, 'row 1: "right" is ..; expected '),
                         ({"query": "a", "right": [1]}, 'row 1 ."right": .*; give a text'),
                         ({"query": "", "right": "6"}, 'expected a text in the column "query"'),
                         ({"question": "a", "right": "6"}, 'has no column "query"')):
        files[1].write_text(json.dumps(row))
        with pytest.raises(UserError, match="queries.jsonl.*" + message):
            search.read_queries(files[1], ROWS)


def test_ranks_count_different_texts_and_of_equal_scores_the_right_one_is_last(encoder, files):
    index, asked = encoder.index(files[0]), search.read_queries(files[1], ROWS)
    found = search.ranks(index, asked)
    assert [*found] == ["meaning + words", "meaning", "TF-IDF", "BM25"]
    # no row has a word of the last query; four different texts
    assert found["TF-IDF"].tolist() == found["BM25"].tolist() == [1, 1, 4]
    texts = [*dict.fromkeys(filter(None, ROWS))]
    cosines = encoder.encode([*asked]) @ encoder.encode(texts).T
    best = [max(of_query[texts.index(text)] for text in right)
            for of_query, right in zip(cosines, asked.values())]
    for rank, of_query, right, score in zip(found["meaning"], cosines, asked.values(), best):
        wrong = [cosine for cosine, text in zip(of_query, texts) if text not in right]
        assert rank == 1 + np.sum(np.array(wrong) >= score - 1e-6)
    hits = encoder.search(index, "parcel lost")
    assert found["meaning + words"][0] == 1 and hits[0].row["line"] in ROWS[:4]


def test_the_table_has_each_way_and_says_who_is_ahead(trained, files, capsys):
    search.main([str(trained[0]), *map(str, files)])
    text = capsys.readouterr().out
    assert text.startswith("rows.txt, 4 different rows: 3 queries; hit@k in per cent, MRR × 100\n")
    assert "meaning + words cannot be told apart from the best baseline, TF-IDF: hit@1 " in text
    figures = {line[:6].strip(): line.split("  ") for line in text.splitlines()}
    assert figures["TF-IDF"][-1].strip() == f"{100 * (2 + 1 / 4) / 3:.1f}"
    assert [*filter(None, figures["BM25"])][1].strip().startswith("66.7 [")
