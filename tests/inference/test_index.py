"""Search: an index finds what an exact search of the file finds; tables; adding rows."""

import json
import os
from collections import Counter
from dataclasses import replace
from math import log, sqrt

import numpy as np
import pytest

from convsim_mini import encode
from convsim_mini.common.cli import UserError
from convsim_mini.core.ranking import settled
from convsim_mini.core.text import tokenize
from convsim_mini.data import texts as data_texts
from convsim_mini.common import arrays_file
from convsim_mini.fast.host import product
from convsim_mini.inference.index import index_of, nearest
from convsim_mini.inference.rows import rows_of_file, rows_of_texts
from convsim_mini.inference.sentence_encoder import encoder_of
from convsim_mini.inference.stored import FILE, add_to_index, build_index, open_index
from convsim_mini.training.run import load_run

from pair_files import written

QUERIES = ["fudazi vobamu", "you?", "\u2603"]


@pytest.fixture(scope="module")
def lines(pairs):
    """Lines of all kinds, some of them repeated, in random order."""
    some = [text for pair in pairs[:700] for text in pair]
    odd = ["", "caf\u00e9 \U0001f600", "a\rb\u2028c", "fudazi vobamu", "fudazi vobamu"]
    return np.random.default_rng(1).permutation([*some, *odd]).tolist()


@pytest.fixture
def file(tmp_path, lines, monkeypatch):
    """The lines as a file lines.txt in the current folder."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "lines.txt"
    path.write_bytes("\n".join(lines).encode())
    return path


@pytest.fixture
def table(tmp_path, pairs, monkeypatch):
    """A file tickets.csv with 300 pairs and their ids, in the current folder."""
    monkeypatch.chdir(tmp_path)
    return written(tmp_path / "tickets.csv", [("ticket", "question", "answer", "note"), *(
        (f"T{k}", *pair, "") for k, pair in enumerate(pairs[:300], start=1))])


@pytest.fixture
def said(trained, capsys):
    """A function: options of encode → what it prints."""
    def said(*options):
        encode.main([str(trained[0]), *map(str, options)])
        return capsys.readouterr().out
    return said


def test_an_index_finds_what_a_search_of_the_file_finds(encoder, lines, file, said):
    assert said("--file", file, "--index", "index") == "index: 1,405 rows\n"
    assert sorted(path.name for path in file.parent.iterdir()) == ["index", "lines.txt"]
    shown = said("--search", file, *QUERIES)
    assert shown.split()[2] == "2.000" and shown.count("line ") == 30
    in_memory = encoder.index(file)
    file.unlink()                                             # the index needs no file
    assert said("--index", "index", *QUERIES) == shown
    opened = encoder.index("index")
    assert opened.held.column == "line" and in_memory.texts == opened.texts == lines
    for words in (0, 1):
        found, right = ([hit for hits in some.search(QUERIES, 2_000, words) for hit in hits]
                        for some in (opened, in_memory))
        assert [hit[3:] for hit in found] == [hit[3:] for hit in right]
        np.testing.assert_allclose([hit[:3] for hit in found], [hit[:3] for hit in right],
                                   rtol=0, atol=1e-6)


def test_the_words_of_a_search_are_tfidf(encoder, lines):
    texts = [*QUERIES, "fudazi zucchini", "zucchini", ""]     # "zucchini" is in no row
    found = [*encoder.index(lines).tfidf.scores(texts)]
    np.testing.assert_allclose(found, tfidf_in_loops(texts, lines), rtol=0, atol=1e-5)
    assert found[3].any() and not found[4].any()


def tfidf_in_loops(queries, texts):
    """TF-IDF cosines by definition: (queries, texts)."""
    texts = [Counter(tokenize(text)) for text in texts]

    def vector(counts):
        weights = {}
        for word, tf in counts.items():
            if df := sum(word in text for text in texts):
                weights[word] = (1 + log(tf)) * log((1 + len(texts)) / (1 + df))
        norm = sqrt(sum(weight ** 2 for weight in weights.values()))
        return {word: weight / norm for word, weight in weights.items()}

    rows = [*map(vector, texts)]
    return np.array([[sum(row.get(word, 0) * weight for word, weight in query.items())
                      for row in rows]
                     for query in (vector(Counter(tokenize(q))) for q in queries)])


def test_nothing_is_near_an_empty_query_and_equal_scores_keep_the_rows_order(encoder, said):
    texts = [f"tufome{k % 2 * '!'} {k}" for k in range(40)]
    index = index_of(encoder, rows_of_texts(texts))
    index.vectors = index.vectors[:1] + np.float32(1e-8) * np.arange(40)[:, None]
    empty, blank, hits = index.search(["", " ", "tufome"], 40, words=0)
    assert empty == blank == [] and [hit.number for hit in hits] == [*range(1, 41)]
    with pytest.raises(UserError, match="column x: texts and lines have no columns"):
        encoder.index(texts, column="x")
    for unfit in ({"top": 0}, {"words": -1}, {"words": np.nan}):
        with pytest.raises(UserError, match="expected a whole number|expected a finite weight"):
            index.search(["tufome"], **unfit)


@pytest.mark.parametrize("words", [0, 1, 2.5])
def test_near_copies_are_one_hit_with_the_best_of_them_and_no_row_is_lost(encoder, pairs, words):
    """By a loop over the rows, best first. Without words, only equal texts are copies."""
    texts = ["", *(text for pair in pairs[:100] for text in pair), "\u2603", "?",
             *(" " * (k % 20) + "tufome now" for k in range(40))]
    searched = index_of(encoder, rows_of_texts(texts))
    cosines = np.array([*searched.tfidf.scores(texts)])
    for query in (*QUERIES, "tufome now"):
        meaning = product(searched.vectors, encoder.encode([query]).T)[:, 0]    # as in the search
        counted = next(searched.tfidf.scores([query])) * (words > 0)
        scores = settled(meaning + words * counted)
        free, found = np.array([text != "" for text in texts]), []
        for best in np.argsort(-scores, kind="stable"):
            if free[best]:
                group = free & (np.array([text == texts[best] for text in texts])
                                | (words > 0) & (cosines[best] > 0.7))
                others = [k for k in np.flatnonzero(group) if k != best][:4]
                found.append((scores[best], meaning[best], counted[best], best + 1,
                              {"line": texts[best]}, group.sum(),
                              [{"line": texts[k]} for k in others]))
                free &= ~group
        assert searched.search([query], 243, words)[0] == found and len(found) > 100
        few, = searched.search([query], 3, words)
        assert [hit[:5] for hit in few] == [hit[:5] for hit in found[:3]]


@pytest.mark.parametrize("top", [1, 4, 60])
def test_the_nearest_are_the_best_and_of_equals_the_first(top):
    cosines = np.random.default_rng(3).permutation(50) / 50
    assert nearest(cosines, top).tolist() == np.argsort(-cosines)[:top].tolist()
    assert nearest(np.array([0.5, 1, 0.5, 1, 0.5, 0.5]), top).tolist() == [1, 3, 0, 2, 4, 5][:top]


# ---------------------------------------------------------------- tables

def test_a_hit_shows_the_question_its_answer_and_the_ticket(table, pairs, said):
    question, answer = pairs[200]
    first = [text for text, _ in pairs].index(question)
    same = "2.000 = 1.000 meaning + 1.000 words"
    shown = (f"{question}\n  {same}  {question}\n         ticket: T{first + 1}\n"
             f"         answer: {pairs[first][1]}\n  ")
    from_file = said("--search", "tickets.csv", question)
    assert from_file.startswith(shown) and "note" not in from_file
    assert said("--file", "tickets.csv", "--index", "index") == "index: 300 rows\n"
    assert said("--index", "index", question).startswith(shown)
    without = said("--index", "index", question, "--words", 0)
    assert without.startswith(f"{question}\n  1.000 = 1.000 meaning + 0.000 words  {question}\n")
    by_answer = said("--search", "tickets.csv", "--column", "answer", answer)
    assert f"  {same}  {answer}  (and 1 more like it)\n" in by_answer


def test_the_best_answers_are_those_of_the_response_side(table, encoder, pairs, said):
    question = pairs[200][0]
    said("--file", "tickets.csv", "--replies", "--index", "index")
    replies = [reply for _, reply in pairs[:300]]
    meanings = encoder.encode(replies, as_responses=True) @ encoder.encode(question)
    scores = meanings + 0.3 * tfidf_in_loops([question], replies)[0]
    best = scores.argmax()
    for source in (["--index", "index"], ["--search", "tickets.csv", "--replies"]):
        shown = said(question, "--top", 4, *source)
        assert shown.startswith(
            f"{question}\n  {scores[best]:.3f} = {meanings[best]:.3f} meaning + "
            f"{scores[best] - meanings[best]:.3f} words  {pairs[best][1]}")
        lines = said(question, "--json", "--top", 4, *source).splitlines()
        assert len(lines) == 4 and json.loads(lines[0])["number"] == best + 1
    hit, = encoder.search(encoder.index("index"), question, k=1)
    assert (hit.number, hit.score) == (best + 1, pytest.approx(scores[best], abs=1e-5))
    assert hit.row == {"ticket": f"T{best + 1}", "question": pairs[best][0],
                       "answer": pairs[best][1], "note": ""}


def test_the_columns_of_a_run_are_known_and_not_reported_as_a_guess(trained, tmp_path, capsys):
    path, run = tmp_path / "a.tsv", load_run(trained[0])
    path.write_text("Id\tKunde sagt\tWir\n7\tna\xefv\tja\n8\twas?\tdas\n", encoding="cp1252")
    own = encoder_of(run._replace(config=replace(run.config, columns=["Kunde sagt", "Wir"])))
    for options, column in (({}, "Kunde sagt"), ({"replies": True}, "Wir"),
                            ({"column": "Id"}, "Id")):
        assert own.index(path, encoding="cp1252", **options).held.column == column
        assert capsys.readouterr().err == ""
    assert own.index(path, encoding="cp1252").texts == ["na\xefv", "was?"]


@pytest.mark.parametrize("name", ["misread.txt", "misread.csv"])
def test_misread_texts_are_reported_once_for_lines_and_tables(name, said, tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(data_texts, "say", told.append)
    file = written(tmp_path / name, "text\n" + 6 * "don\u00e2\u20ac\u2122t do it\n")
    said("--search", file, "--top", 1, "do it")
    assert ["6 texts are UTF-8 that a program read as" in one for one in told] == [True]


def test_numbers_that_json_does_not_have_are_null(encoder, tmp_path, said):
    path = tmp_path / "a.jsonl"
    path.write_text('{"input": "a?", "response": "b", "x": NaN, "y": 1e999}\n')
    assert index_of(encoder, rows_of_file(path)).search(["a?"])[0][0].row == {
        "input": "a?", "response": "b", "x": None, "y": None}
    shown = said("--search", path, "--json", "a?")
    assert json.loads(shown, parse_constant=pytest.fail)["row"]["y"] is None


# ---------------------------------------------------------------- what is refused

@pytest.mark.parametrize("options, told", [
    ("--file lines.txt --index index --add", "question and answer, but the new rows hold line and"),
    ("--file tickets.csv --replies --index index --add", "--replies only if it was used before"),
    ("--file one.csv --index new", "must name them); name the column to search in"),
    ("--file log.csv --index new", "log.csv: no message in it answers another; expected"),
    ("--file one.csv --column c --index new", 'one.csv: has no column "c"; it has a, b'),
    ("--file tickets.csv --column note --index new", "no row has text to embed"),
    ("--file lines.txt --column c --index new", "column c: texts and lines have no columns"),
    ("--file flags.jsonl --index index --add --key ticket", "--key ticket (bool True is not text"),
    ("--file lists.jsonl --index index --add --key ticket", "--key ticket ([] is a list)"),
    ("hello --add --index index", "--add: needs --file FILE and --index DIR"),
    ("hello --key ticket --index index", "--key: needs --add"),
    ("--file tickets.csv --index index --add --key= ", "--key : is not a column of row 1")])
def test_what_does_not_fit_an_index_is_named(table, said, capsys, options, told):
    said("--file", "tickets.csv", "--index", "index")
    (table.parent / "lines.txt").write_text("one\n")
    (table.parent / "one.csv").write_text("a,b\n1,2\n")
    (table.parent / "log.csv").write_text("thread,text\n1,alone\n")
    (table.parent / "flags.jsonl").write_text('{"ticket": true, "question": "a", "answer": "b"}')
    (table.parent / "lists.jsonl").write_text('{"ticket": [], "question": "a", "answer": "b"}')
    with pytest.raises(SystemExit) as left:
        said(*options.split())
    assert left.value.code == 2 and told in capsys.readouterr().err
    assert sorted(path.name for path in table.parent.iterdir()) == [
        "flags.jsonl", "index", "lines.txt", "lists.jsonl", "log.csv", "one.csv", "tickets.csv"]


def test_an_index_of_other_weights_or_options_is_refused(encoder, tmp_path, monkeypatch):
    build_index(encoder, rows_of_texts(["one", "two"]), tmp_path)
    for name in ("weights", "vocabulary", "matrix"):
        monkeypatch.setitem(encoder.identity, name, 1)
        with pytest.raises(UserError, match=f"different: {name}"):
            open_index(tmp_path, encoder)
        monkeypatch.undo()


def test_a_file_of_an_index_that_is_changed_is_refused(encoder, tmp_path):
    def refused(**options):
        with pytest.raises(UserError, match="(damaged|is not an index|another version).*another"):
            open_index(tmp_path, encoder, **options)

    build_index(encoder, rows_of_texts(["one", "two"]), tmp_path)
    whole = (tmp_path / FILE).read_bytes()
    for place in np.linspace(0, len(whole) - 1, 50).astype(int):
        changed = whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1:]
        (tmp_path / FILE).write_bytes(changed)
        refused(mapped=())
    (tmp_path / FILE).write_bytes(whole)
    arrays, about = arrays_file.load_arrays(tmp_path / FILE)
    for wrong in ({}, about | {"made_by": []}, about | {"holds": "line"}, about | {"holds": 7}):
        arrays_file.save_arrays(tmp_path / FILE, arrays, wrong)
        refused()
    for name in ("vectors", "begins"):                        # of one row less
        arrays_file.save_arrays(tmp_path / FILE, arrays | {name: arrays[name][1:]}, about)
        refused()
    whole = arrays | {"vectors": arrays["vectors"].view(np.int32)}
    arrays_file.save_arrays(tmp_path / FILE, whole, about)
    refused()
    arrays_file.save_arrays(tmp_path / FILE, arrays | {"rows": arrays["rows"] * 0}, about)
    with pytest.raises(UserError, match="row 1 of the index is damaged .*; make another"):
        open_index(tmp_path, encoder).search(["one"])
    (tmp_path / FILE).unlink()
    refused()
    os.mkfifo(tmp_path / FILE)                                # whoever opens it waits
    refused()


# ---------------------------------------------------------------- whole or not at all; rows added

def test_rows_are_added_and_found_beside_the_others(table, encoder, pairs, said):
    def add(rows, *key, suffix=".csv"):
        more = written(table.parent / f"more{suffix}", rows)
        return said("--file", more, "--index", "index", "--add", *key)

    said("--file", "tickets.csv", "--index", "index")
    (table.parent / "index" / "mine").write_text("precious")
    head, key = "question,answer,ticket\n", ("--key", "ticket")
    assert add(f"{head}zucchini?,yes,T301\n") == "index: 1 added; 301 rows\n"
    assert add("answer,ticket,question\nyes,T301,zucchini?\n") == "index: 0 added; 301 rows\n"
    assert sorted(path.name for path in table.parent.iterdir()) == [
        "index", "more.csv", "tickets.csv"]
    assert (table.parent / "index" / "mine").read_text() == "precious"
    assert open_index("index", encoder).tfidf.vocabulary.pieces.count("zucchini") == 1
    hits = encoder.search(encoder.index("index"), "zucchini?", k=301)
    assert hits[0].row == {"question": "zucchini?", "answer": "yes", "ticket": "T301"}
    assert sum(hit.copies for hit in hits) == 301
    assert add(f"{head}zucchini?,yes,T301\nzucchini?,no,T7\nzucchini,so,T302\n", *key) == (
        "index: 2 added, 1 replaced; 302 rows\n")
    hit, other = encoder.search(encoder.index("index"), "zucchini?", k=2)    # equal texts are one
    assert (hit.row["ticket"], hit.copies, other.copies) == ("T301", 2, 1)
    assert [row["ticket"] for row in hit.others] == ["T7"]
    held = open_index("index", encoder)
    rows = [row for row in map(held.row, range(len(held))) if row["ticket"] == "T7"]
    assert [row["answer"] for row in rows] == ["no"]
    del held                                                  # Windows cannot replace a mapped file
    # rows without a key are kept
    assert add(f"{head}a,b,\nc,d,\nzucchini,new,T302\ne,f,7.0\n", *key) == (
        "index: 4 added, 1 replaced; 305 rows\n")
    # the last row of a key counts, also if it is held already, in whatever format it came
    assert add(f"{head}e,h,7\ne,g,7\n", *key) == "index: 1 added, 1 replaced; 305 rows\n"
    assert add('{"question": "e", "answer": "g", "ticket": 7, "x": null}\n', *key,
               suffix=".jsonl") == "index: 0 added; 305 rows\n"
    # and of rows of one key that were added without it one stays
    assert add(f"{head}e,i,7\n") == "index: 1 added; 306 rows\n"
    assert add(f"{head}e,i,7\n", *key) == "index: 1 added, 2 replaced; 305 rows\n"


@pytest.mark.parametrize("accident", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_an_interrupted_index_or_addition_leaves_what_was_there(
        encoder, tmp_path, accident, monkeypatch):
    def stopped(*_):
        raise accident

    def interrupted(make, text):
        with monkeypatch.context() as patch, pytest.raises((KeyboardInterrupt, UserError)):
            patch.setattr(arrays_file, "save_file", stopped)
            make(encoder, rows_of_texts([text]), tmp_path / "index")

    interrupted(build_index, "one")
    assert not [*tmp_path.iterdir()]
    build_index(encoder, rows_of_texts(["one", "two"]), tmp_path / "index")
    before = {path: path.read_bytes() for path in (tmp_path / "index").iterdir()}
    interrupted(add_to_index, "three")
    assert {path: path.read_bytes() for path in (tmp_path / "index").iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


def test_of_two_that_add_at_the_same_time_the_second_ends(encoder, tmp_path):
    def texts():
        add_to_index(encoder, rows_of_texts(["three"]), folder)
        yield "four"

    folder = tmp_path / ("i" * 250)                           # five more, and it would be too long
    build_index(encoder, rows_of_texts(["one", "two"]), folder)
    with pytest.raises(UserError, match="another process is adding rows; wait until it"):
        add_to_index(encoder, rows_of_texts(texts()), folder)
    add_to_index(encoder, rows_of_texts(["five"]), folder)
    assert open_index(folder, encoder).texts == ["one", "two", "five"]
    assert [*tmp_path.iterdir()] == [folder] and [*folder.iterdir()] == [folder / FILE]
    mine = folder / ".convsim_mini.lock"
    mine.write_text("precious")
    with pytest.raises(UserError, match="is not ours, and has the name of our lock; rename it"):
        add_to_index(encoder, rows_of_texts(["six"]), folder)
    assert mine.read_text() == "precious"
