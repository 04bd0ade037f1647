"""Search: what an index finds is what an exact search of the file finds; tables; an index grows."""

import csv
import gzip
import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import convsim_mini
from convsim_mini import encode
from convsim_mini.common.cli import UserError
from convsim_mini.common.files import checksum
from convsim_mini.inference import index, rows
from convsim_mini.inference.index import Index, build_index
from convsim_mini.inference.rows import rows_of_file, rows_of_texts

from rounding import rounding

QUERIES = ["fudazi vobamu", "you?", ""]


@pytest.fixture(scope="module")
def encoder(trained):
    return convsim_mini.load(trained[0])


@pytest.fixture(scope="module")
def lines(pairs):
    """Lines of all kinds, some of them twice, in random order."""
    some = [text for pair in pairs[:700] for text in pair]
    odd = ["", "caf\u00e9 \U0001f600", "a\rb\u2028c", "fudazi vobamu", "fudazi vobamu"]
    return np.random.default_rng(1).permutation([*some, *odd]).tolist()


@pytest.fixture
def file(tmp_path, lines, monkeypatch):
    """The lines as a file lines.txt in the current folder, searched in several blocks."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(rows, "CHUNK", 400)
    monkeypatch.setattr(index, "BLOCK", 400)
    path = tmp_path / "lines.txt"
    path.write_bytes("\n".join(lines).encode())
    return path


@pytest.fixture
def table(tmp_path, pairs, monkeypatch):
    """A file tickets.csv with 300 pairs and their ids, in the current folder."""
    monkeypatch.chdir(tmp_path)
    with open("tickets.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("ticket", "question", "answer", "note"), *(
            (f"T{k}", *pair, "") for k, pair in enumerate(pairs[:300], start=1))])
    return tmp_path / "tickets.csv"


@pytest.fixture
def said(trained, capsys):
    """A function: options of encode → what it prints."""
    def said(*options):
        encode.main([str(trained[0]), *map(str, options)])
        return capsys.readouterr().out
    return said


def test_an_index_finds_what_a_search_of_the_file_finds(encoder, lines, file, said):
    """All lines, each with its number and its cosine; the best first."""
    assert said("--file", file, "--index", "index") == "index: 1,405 rows\n"
    assert sorted(path.name for path in file.parent.iterdir()) == ["index", "lines.txt"]
    shown = said("--search", file, *QUERIES)
    first = [line.split()[0] for line in shown.split("\n\n")[0].splitlines()[1:]]
    assert len(first) == 10 and first[:2] == ["1.000", "1.000"]
    options = SimpleNamespace(index=None, search=file, columns=(), side=0, top=1_405)
    of_file, column = encode.search(encoder, QUERIES, options)
    file.unlink()                                             # from here on the index has all
    assert column == "line" and said("--index", "index", *QUERIES).count("\n  ") == 30
    cosines = encoder.encode(QUERIES) @ encoder.encode(lines).T
    # a cosine adds up errors of two unit vectors' numbers, with random signs
    error = 2 * np.sqrt(encoder.dimension) * rounding(encoder, lines)
    assert error < 1e-4
    for found in (of_file, Index("index", encoder).search(QUERIES, 1_405)):
        for hits, right in zip(found, cosines):
            scores = [hit.score for hit in hits]
            assert sorted(number for _, number, _ in hits) == [*range(1, 1_406)]
            assert all(lines[hit.number - 1] == hit.row["line"] for hit in hits)
            assert scores == sorted(scores, reverse=True)
            np.testing.assert_allclose(scores, [right[hit.number - 1] for hit in hits],
                                       rtol=0, atol=error)


@pytest.mark.parametrize("block", [1, 3, 50])
def test_the_nearest_are_the_best_of_all_blocks(block):
    cosines = np.random.default_rng(3).permutation(50) / 50
    blocks = [(np.stack([cosines[k:k + block], -cosines[k:k + block]], axis=1),
               range(k, min(k + block, 50))) for k in range(0, 50, block)]
    expected = np.argsort(-cosines)
    for top in (1, 4, 60):
        best, worst = index.nearest(np.eye(2), blocks, top)
        for hits, order, sign in ((best, expected, 1), (worst, expected[::-1], -1)):
            assert [hit.row for hit in hits] == order[:top].tolist()
            assert [hit[:2] for hit in hits] == [(sign * cosines[k], k + 1) for k in order[:top]]
    equal = [(np.ones((2, 1)), range(2)), (np.ones((3, 1)), range(3))]
    assert [hit.number for hit in index.nearest(np.ones((1, 1)), equal, 3)[0]] == [1, 2, 3]


# ---------------------------------------------------------------- tables

def test_a_hit_shows_the_question_its_answer_and_the_ticket(table, pairs, said):
    question, answer = pairs[200]
    first = [text for text, _ in pairs].index(question)
    shown = (f"{question}\n  1.000  {question}\n         ticket: T{first + 1}\n"
             f"         answer: {pairs[first][1]}\n  ")
    from_file = said("--search", "tickets.csv", question)
    assert from_file.startswith(shown) and "note" not in from_file
    assert said("--file", "tickets.csv", "--index", "index") == "index: 300 rows\n"
    assert said("--index", "index", question).startswith(shown)
    by_answer = said("--search", "tickets.csv", "--column", "answer", answer)
    assert f"  1.000  {answer}\n" in by_answer


def test_the_best_answers_are_those_of_the_response_side(table, encoder, pairs, said):
    question = pairs[200][0]
    said("--file", "tickets.csv", "--replies", "--index", "index")
    answers = encoder.encode_responses([reply for _, reply in pairs[:300]])
    scores = answers @ encoder.encode(question)
    best = scores.argmax()
    for source in (["--index", "index"], ["--search", "tickets.csv", "--replies"]):
        hits = [json.loads(line) for line in said(question, "--json", "--top", 4, *source).split(
            "\n")[:-1]]
        assert len(hits) == 4 and hits[0]["query"] == question and hits[0]["number"] == best + 1
        assert hits[0]["row"] == {"ticket": f"T{best + 1}", "question": pairs[best][0],
                                  "answer": pairs[best][1], "note": ""}
        assert hits[0]["score"] == pytest.approx(scores[best], abs=1e-5)


@pytest.mark.parametrize("name, data, options, column, found", [
    ("a.jsonl.gz", gzip.compress(b'{"question": "a?", "answer": "b", "id": 7}', mtime=0), {},
     "question", [{"question": "a?", "answer": "b", "id": 7}]),
    ("a.tsv", b"one\ttwo\n", {}, "input", [{"input": "one", "response": "two"}]),
    ("a.csv", b"id,text\n1,a\n2,\n", {"columns": ["text"]}, "text", [{"id": "1", "text": "a"}]),
    ("a.txt", b"id,text\n", {}, "line", [{"line": "id,text"}])])
def test_tables_of_all_kinds_are_read_as_training_reads_them(
        tmp_path, name, data, options, column, found):
    (tmp_path / name).write_bytes(data)
    read = rows_of_file(tmp_path / name, **options)
    assert (read.columns[0], [*read.chunks]) == (column, [found])


# ---------------------------------------------------------------- what is refused

@pytest.mark.parametrize("options, told", [
    ("--file lines.txt --index index --add", "holds question and answer, the new rows line and"),
    ("--file tickets.csv --replies --index index --add", "--replies or without as before"),
    ("--file one.csv --index new", "cannot tell which columns"),
    ("--file log.csv --index new", "log.csv: holds no pair of a message and its answer"),
    ("--file one.csv --column c --index new", 'one.csv: has no column "c"; it has a, b'),
    ("--file tickets.csv --column note --index new", "no row has text to embed"),
    ("--file lines.txt --column c --index new", "lines.txt: has no columns"),
    ("hello --add --index index", "--add: expected --file FILE and --index DIR")])
def test_what_does_not_fit_an_index_is_named(table, said, capsys, options, told):
    said("--file", "tickets.csv", "--index", "index")
    (table.parent / "lines.txt").write_text("one\n")
    (table.parent / "one.csv").write_text("a,b\n1,2\n")
    (table.parent / "log.csv").write_text("thread,text\n1,alone\n")
    with pytest.raises(SystemExit) as left:
        said(*options.split())
    assert left.value.code == 2 and told in capsys.readouterr().err
    assert sorted(path.name for path in table.parent.iterdir()) == [
        "index", "lines.txt", "log.csv", "one.csv", "tickets.csv"]


def test_an_index_of_other_weights_or_options_is_refused(encoder, trained, tmp_path, monkeypatch):
    build_index(encoder, rows_of_texts(["one", "two"]), tmp_path / "index")
    assert len(Index(tmp_path / "index", encoder)) == 2
    for name, value in (("weights", 1), ("vocabulary", 1), ("matrix", 1), ("tuned", True)):
        monkeypatch.setitem(encoder.identity, name, value)
        with pytest.raises(UserError, match=f"different: {name}"):
            Index(tmp_path / "index", encoder)
        monkeypatch.undo()
    with pytest.raises(UserError, match="different: word_weight"):
        Index(tmp_path / "index", convsim_mini.load(trained[0], words=False))
    monkeypatch.setattr(index, "FORMAT", 9)
    with pytest.raises(UserError, match="different: format"):
        Index(tmp_path / "index", encoder)


def test_a_file_of_an_index_that_is_changed_is_refused(encoder, tmp_path):
    folder = tmp_path / "index"
    build_index(encoder, rows_of_texts(["one", "two"]), folder)
    for name in ("vectors.npy", "rows.jsonl"):
        whole = (folder / name).read_bytes()
        for data in (whole[:-1], whole[:-1] + bytes([whole[-1] ^ 1])):
            (folder / name).write_bytes(data)
            with pytest.raises(UserError, match=f"is damaged .{name} is missing or not as it was"):
                Index(folder, encoder)
        (folder / name).write_bytes(whole)
    assert len(Index(folder, encoder).search(["one"])[0]) == 2
    meta = json.loads((folder / "meta.json").read_text())
    (folder / "rows.jsonl").write_text('{"line": "one"}\n')    # put together by hand
    meta["crc32"]["rows.jsonl"] = checksum(folder / "rows.jsonl")
    for damaged, told in ((meta, "2 vectors for 1 rows"), ({}, "is damaged")):
        (folder / "meta.json").write_text(json.dumps(damaged))
        with pytest.raises(UserError, match=f"{told}.*; delete it and make the index"):
            Index(folder, encoder)


# ---------------------------------------------------------------- whole or not at all; rows added

def test_rows_are_added_and_found_beside_the_others(table, encoder, pairs, said, monkeypatch):
    monkeypatch.setattr(index, "BLOCK", 70)
    said("--file", "tickets.csv", "--index", "index")
    modes = {"": 0o750, "vectors.npy": 0o640, "rows.jsonl": 0o600, "meta.json": 0o606}
    for name, mode in modes.items():
        (table.parent / "index" / name).chmod(mode)
    (table.parent / "index" / "mine").write_text("precious")
    with open("more.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("question", "answer", "ticket"), ("zucchini?", "yes", "T301")])
    out = said("--file", "more.csv", "--index", "index", "--add")
    assert out == "index: 1 added; 301 rows\n"
    assert sorted(path.name for path in table.parent.iterdir()) == [
        "index", "index.old", "more.csv", "tickets.csv"]
    assert [path.name for path in (table.parent / "index.old").iterdir()] == ["mine"]
    if sys.platform != "win32":                               # which has no such permissions
        assert {name: (table.parent / "index" / name).stat().st_mode & 0o777
                for name in modes} == modes
    assert len(encoder.search("index", "a")) == len(Index("index", encoder).search(["a"])[0]) == 10
    hits = encoder.search("index", "zucchini?", k=301)
    assert hits[0].row == {"question": "zucchini?", "answer": "yes", "ticket": "T301"}
    assert {hit.number for hit in hits} == {*range(1, 302)}
    for hit in hits[1:]:
        assert hit.row["ticket"] == f"T{hit.number}"
        assert hit.row["question"] == pairs[hit.number - 1][0]


@pytest.mark.parametrize("accident", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_an_interrupted_index_or_addition_leaves_what_was_there(
        encoder, tmp_path, accident, monkeypatch):
    def stopped(*_):
        raise accident

    def chunks():
        yield [{"line": "three"}]
        raise accident

    expected = KeyboardInterrupt if accident is KeyboardInterrupt else UserError
    broken = rows.Rows(("line", "line"), 0, chunks())
    with pytest.raises(expected):
        build_index(encoder, broken, tmp_path / "index")
    assert not [*tmp_path.iterdir()]
    build_index(encoder, rows_of_texts(["one", "two"]), tmp_path / "index")
    before = {path: path.read_bytes() for path in (tmp_path / "index").iterdir()}
    opened, other = Index(tmp_path / "index", encoder), Index(tmp_path / "index", encoder)
    with pytest.raises(expected):
        opened.add(broken._replace(chunks=chunks()))
    monkeypatch.setattr(index, "write_text", stopped)
    with pytest.raises(expected):
        opened.add(rows_of_texts(["three"]))
    monkeypatch.undo()
    assert {path: path.read_bytes() for path in (tmp_path / "index").iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["index"]
    assert opened.add(rows_of_texts(["three"])) == "1 added; 3 rows" and len(opened) == 3
    with pytest.raises(UserError, match="another process has added to it"):
        other.add(rows_of_texts(["four"]))
    assert len(Index(tmp_path / "index", encoder)) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["index"]
