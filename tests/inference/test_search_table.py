"""A table of one's own: one column is embedded, a hit shows the others; an index that grows."""

import csv
import gzip
import json

import pytest

import convsim_mini
from convsim_mini import encode
from convsim_mini.common.cli import UserError
from convsim_mini.inference.index import Index, build_index
from convsim_mini.inference.rows import rows_of_file, rows_of_texts

from conftest import SMALL, command


@pytest.fixture(scope="module")
def encoder(trained):
    return convsim_mini.load(trained[0])


@pytest.fixture
def table(tmp_path, pairs, monkeypatch):
    """A file tickets.csv with 300 pairs and their ids, in the current folder."""
    monkeypatch.chdir(tmp_path)
    with open("tickets.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("ticket", "question", "answer", "note"), *(
            (f"T{k}", *pair, "") for k, pair in enumerate(pairs[:300], start=1))])
    return tmp_path / "tickets.csv"


def search(trained, capsys, *options):
    encode.main([str(trained[0]), *map(str, options)])
    return capsys.readouterr().out


def test_a_hit_shows_the_question_its_answer_and_the_ticket(trained, table, pairs, capsys):
    question, answer = pairs[200]
    first = [text for text, _ in pairs].index(question)
    shown = (f"{question}\n  1.000  {question}\n         ticket: T{first + 1}\n"
             f"         answer: {pairs[first][1]}\n  ")
    from_file = search(trained, capsys, "--search", "tickets.csv", question)
    assert from_file.startswith(shown) and "note" not in from_file
    assert "300 rows; " in search(trained, capsys, "--file", "tickets.csv", "--index", "index")
    assert search(trained, capsys, "--search", question, "--index", "index") == from_file
    by_answer = search(trained, capsys, "--search", "tickets.csv", "--column", "answer", answer)
    assert f"  1.000  {answer}\n" in by_answer


def test_the_best_answers_are_those_of_the_response_side(trained, table, encoder, pairs, capsys):
    question = pairs[200][0]
    assert "300 rows" in search(
        trained, capsys, "--file", "tickets.csv", "--replies", "--index", "index")
    answers = encoder.encode_responses([reply for _, reply in pairs[:300]])
    scores = answers @ encoder.encode(question)
    best = scores.argmax()
    for source in (["--index", "index"], ["--search", "tickets.csv", "--replies"]):
        hit = json.loads(search(trained, capsys, question, "--json", *source).splitlines()[0])
        assert hit["row"] == {"ticket": f"T{best + 1}", "question": pairs[best][0],
                              "answer": pairs[best][1], "note": ""}
        assert (hit["query"], hit["number"]) == (question, best + 1)
        assert hit["score"] == pytest.approx(scores[best], abs=1e-5)


@pytest.mark.parametrize("side", [[], ["--replies"]])
def test_the_parts_of_a_score_are_shown(trained, table, encoder, pairs, capsys, side):
    options = ["--search", "tickets.csv", "--parts", "--top", 3, *side]
    learned = convsim_mini.load(trained[0], words=False)
    question = "fudazi vobamu"
    hits = [json.loads(line) for line in search(
        trained, capsys, question, *options, "--json").splitlines()]
    for hit in hits:
        assert hit["score"] == pytest.approx(hit["learned"] + hit["words"], abs=1e-5)
        embed, text = ((learned.encode_responses, hit["row"]["answer"]) if side else
                       (learned.encode, hit["row"]["question"]))
        assert hit["learned"] == pytest.approx(embed(text) @ learned.encode(question) / 1.4,
                                               abs=1e-5)
    shown = search(trained, capsys, question, *options)
    column = "answer" if side else "question"
    parts = f" = {hits[0]['learned']:.3f} learned + {hits[0]['words']:.3f} words  "
    assert parts + hits[0]["row"][column] in shown
    alone = search(trained, capsys, question, "--no_words", *options, "--json").splitlines()[0]
    assert json.loads(alone)["words"] == 0


def test_tables_of_all_kinds_are_read_as_training_reads_them(encoder, tmp_path):
    def rows(name, data, columns=(), side=0):
        (tmp_path / name).write_bytes(data)
        found = rows_of_file(tmp_path / name, columns, side)
        return found.columns[side], [row for chunk in found.chunks for row in chunk]

    one = {"question": "a?", "answer": "b", "id": 7}
    assert rows("a.jsonl.gz", gzip.compress(json.dumps(one).encode())) == ("question", [one])
    assert rows("a.tsv", b"one\ttwo\n") == ("input", [{"input": "one", "response": "two"}])
    assert rows("a.csv", b"id,text\n1,a\n2,\n", ["text"]) == ("text", [{"id": "1", "text": "a"}])
    log = b"ticket_id,text\n9,hello\n9,hi there\n8,alone\n"
    column, found = rows("log.csv", log, side=1)
    assert column == "response" and len(found) == 1
    assert (found[0]["input"], found[0]["response"], found[0]["thread"]) == ("hello", "hi there",
                                                                            "9")
    assert rows("a.txt", b"id,text\n") == ("line", [{"line": "id,text"}])


# ---------------------------------------------------------------- an index that grows

def test_rows_are_added_and_found_beside_the_others(trained, table, encoder, pairs, capsys):
    search(trained, capsys, "--file", "tickets.csv", "--index", "index")
    with open("more.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("question", "answer", "ticket"), ("zucchini?", "yes", "T301")])
    out = search(trained, capsys, "--file", "more.csv", "--index", "index", "--add")
    assert out == "index: 1 added; 301 rows; each search is exact\n"
    index = Index("index", encoder)
    assert len(index) == 301
    hits = encoder.search(index, "zucchini?", k=1) + encoder.search("index", pairs[5][0], 301)
    assert hits[0].row == {"question": "zucchini?", "answer": "yes", "ticket": "T301"}
    assert hits[0].number == 301 and hits[1].score == pytest.approx(1, abs=1e-5)
    assert {hit.number for hit in hits} == {*range(1, 302)}
    assert sorted(path.name for path in index.folder.iterdir()) == [
        "meta.json", "offsets-2.npy", "rows-2.jsonl", "vectors-2.npy"]


@pytest.mark.parametrize("accident", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_an_interrupted_addition_leaves_the_index_as_it_was(
        encoder, tmp_path, accident, monkeypatch):
    def stopped(*arguments):
        raise accident

    build_index(encoder, rows_of_texts(["one", "two"]), tmp_path / "index")
    before = {path: path.read_bytes() for path in (tmp_path / "index").iterdir()}
    index = Index(tmp_path / "index", encoder)
    for place in ("write_rows", "write_text"):                # before and after files were moved
        monkeypatch.setattr(f"convsim_mini.inference.index.{place}", stopped)
        with pytest.raises(KeyboardInterrupt if accident is KeyboardInterrupt else UserError):
            index.add(rows_of_texts(["three"]))
        monkeypatch.undo()
        assert all(path.read_bytes() == data for path, data in before.items())
        assert len(Index(tmp_path / "index", encoder)) == 2
    other = Index(tmp_path / "index", encoder)                # of another process
    index.add(rows_of_texts(["three"]))
    assert len(index) == 3
    with pytest.raises(UserError, match="another process adds to it"):
        other.add(rows_of_texts(["four"]))
    index.add(rows_of_texts(["four"]))
    assert len(Index(tmp_path / "index", encoder)) == 4


@pytest.mark.parametrize("options, told", [
    ("--file lines.txt --index index --add",
     'index: embeds "question" as messages, but the new rows have "line" as messages'),
    ("--file one.csv --index new", "cannot tell which columns"),
    ("--file log.csv --index new", "log.csv: holds no pair of a message and its answer"),
    ("--file one.csv --column c --index new", 'one.csv: has no column "c"; it has a, b'),
    ("--file tickets.csv --column note --index new", "no row has text to embed"),
    ("--file lines.txt --column c --index new", "lines.txt: has no columns"),
    ("hello --add --index index", "--add: expected --file FILE and --index DIR"),
    ("hello there --json", "--json and --parts: expected --search FILE or --index DIR")])
def test_what_does_not_fit_an_index_is_named(trained, table, capsys, options, told):
    search(trained, capsys, "--file", "tickets.csv", "--index", "index")
    (table.parent / "lines.txt").write_text("one\n")
    (table.parent / "one.csv").write_text("a,b\n1,2\n")
    (table.parent / "log.csv").write_text("thread,text\n1,alone\n")
    with pytest.raises(SystemExit) as left:
        search(trained, capsys, *options.split())
    assert left.value.code == 2 and told in capsys.readouterr().err


def test_a_support_table_from_csv_to_an_answer_with_its_id(data_folder, tmp_path):
    path = data_folder / "conversations" / "ubuntu_irc_gold_links.tsv.gz"
    lines = gzip.decompress(path.read_bytes()).decode().split("\n")
    pairs = [line.split("\t") for line in lines if line.count("\t") == 1][:6_000]
    with open(tmp_path / "support.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("id", "question", "answer"), *(
            (f"ticket {k}", *pair) for k, pair in enumerate(pairs))])
    asked = next(k for k, (question, _) in enumerate(pairs) if "mount" in question)
    question, answer = pairs[asked]
    for name, *options in (
            ("train", "--pairs", "support.csv", *SMALL, "--cache", "cache", "--steps", 20, "--run",
             "run"),
            ("encode", "run", "--file", "support.csv", "--index", "index"),
            ("encode", "run", "--search", question, "--index", "index", "--json")):
        done = command(name, *options, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    rows = [json.loads(line)["row"] for line in done.stdout.splitlines()]
    assert {"id": f"ticket {asked}", "question": question, "answer": answer} in rows
    assert rows[0]["question"] == question
