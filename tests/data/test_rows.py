"""The paper's filters; plain files of pairs; the default corpus."""

import gzip
import json
from decimal import Decimal
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convsim_mini.common.cli import UserError
from convsim_mini.common.lines import zstd
from convsim_mini.data import formats
from convsim_mini.data.filters import RULES, removed_by
from convsim_mini.data.pairs import CHUNK, Pair, left_out, pair_of, read_rows
from convsim_mini.data.formats import default_corpus
from convsim_mini.data.layouts import Reading
from convsim_mini.data.texts import text_of, texts_of, time_of

from pair_files import read, written


# ---------------------------------------------------------------- filters

@pytest.mark.parametrize("text, rule", [
    ("a" * 349, None),
    ("a" * 350, "long"),
    ("\u00e9" * 349, None),
    ("\u00e9" * 350, "long"),                                 # characters, not bytes
    ("https://a.b is where it all began", "link_or_mention"),
    ("http is where it all began", None),
    ("it all began at https", None),
    ("/r/cooking", "link_or_mention"),
    ("/u/someone", None),
    ("@someone hello", "link_or_mention"),
    ("someone@home", None),
    (" @someone hello", None),                                # the text counts as it arrives
    ("", "no_text"),
    ("   ", "no_text"),
    ("\u3000" * 400, "no_text"),
    ("!?!", "not_alphabetic"),
    ("2010", "not_alphabetic"),
    ("मेरा प्रिंटर नहीं चलता", None), ("প্রিন্টার কাজ করছে না", None),    # vowel signs are letters
    ("a b c d e f g", None),                                  # spaces do not count against a text
    ("\u00e9\u00df\u0436\u4f60\u03b1\u05d0\u3042 ...", "not_alphabetic"),   # 7 of 10
    ("\u00e9\u00df\u0436\u4f60\u03b1\u05d0\u3042 ..", None),                # 7 of 9: any script
])
def test_filter(text, rule):
    assert removed_by(text) == rule
    assert rule is None or rule in RULES


@pytest.mark.parametrize("filler", ["1", "\u00bd"])           # ASCII goes another way than the rest
def test_exactly_seventy_per_cent_of_letters_is_too_few_and_one_letter_more_is_enough(filler):
    def text(letters, visible):
        return "a" * letters + filler * (visible - letters)

    lengths = range(10, 350, 10)                              # those of which 70% is a whole number
    assert ({n: removed_by(text(7 * n // 10, n)) for n in lengths}
            == dict.fromkeys(lengths, "not_alphabetic"))
    assert {n: removed_by(text(7 * n // 10 + 1, n)) for n in lengths} == dict.fromkeys(lengths)


@pytest.mark.parametrize("author, rule", [
    ("AutoModerator", "bot"), ("Moderator", None), (None, None), ("", None),
    ("robot9000", "bot"), ("CoolBOT", "bot"), ("Bot", "bot"), ("b0t", None),
])
def test_authors_called_bot_and_automoderator_are_removed_in_any_case(author, rule):
    assert removed_by("hello there", author) == rule


def test_the_side_that_is_left_out_is_named_with_its_rule():
    assert left_out(Pair("hello", "you", "bot", "ann")) == "input: bot"
    assert left_out(Pair("hello", "you", "ann", "BOT")) == "response: bot"
    assert left_out(Pair("x" * 400, "https")) == "input: long"
    assert left_out(Pair("x" * 400, "https"), ["long"]) == "response: link_or_mention"
    assert left_out(Pair("hello", " "), [*RULES]) == "response: no_text"    # always removed
    assert left_out(Pair("hello", "you")) is None


# ---------------------------------------------------------------- rows

def test_a_row_is_a_pair_of_its_fields():
    row = {"input": "a", "response": None, "input_author": "x", "response_author": 3, "score": 4}
    assert pair_of(row) == Pair("a", "", "x", None) and pair_of({"input": ""}) == Pair("", "")
    assert pair_of({"a": "x", "b": "y"}, ("b", "a")) == Pair("y", "x")
    assert pair_of({"a": "x", "b": 3}, ("a",)) == Pair("x", "x")    # the one column asked for
    with pytest.raises(TypeError, match='"response": bytes .* is not text'):
        pair_of({"input": "a", "response": b"b"})


@pytest.mark.parametrize("value, text", [
    ("nan", "nan"), (" a ", " a "), ("\u3000\n", ""), (None, ""),
    (float("nan"), ""), (Decimal("nan"), ""), (np.float32("nan"), ""),
    (4711, "4711"), (4711.0, "4711"), (np.int64(3), "3"), (Decimal("2.50"), "2.50"), (1e3, "1000"),
    (Decimal("1E+30"), "1E+30"), (Decimal("Infinity"), "Infinity"), (float("inf"), "inf"),
    ([], ""), (["a", {"type": "text", "text": "b"}, {"type": "image"}, {"text": None}], "a b"),
    ([{"type": "reasoning", "text": "a"}, {"type": "text", "text": "b"}], "b"), (["a"], "a"),
    (["a", "b"], None), ([{"type": "message", "role": "user", "text": "a"}], None),
    (b"a", None), (True, None), ({"text": "a"}, None), ([{"role": "user", "content": "a"}], None),
    ([1], None), (object, None)])
def test_what_a_text_is(value, text):
    if text is None:
        with pytest.raises(TypeError, match="is not text; expected a str or a number"):
            text_of(value)
        with pytest.raises(TypeError, match="^sentence 1: "):
            [*texts_of(["a", value])]
    else:
        assert text_of(value) == text


def test_a_compact_date_is_no_number_of_seconds():
    assert [*map(time_of, ("20240312", 20240312, "2024-03-12"))] == [1_710_201_600] * 3
    assert time_of("19700101") == 0 and time_of("12345678") == 12_345_678    # there is no month 56


# ---------------------------------------------------------------- plain files

def test_a_log_may_have_a_bad_line_in_a_hundred_too(tmp_path, capsys):
    rows = [{"thread": k // 2, "text": f"text {k}"} for k in range(200)]
    lines = [*map(json.dumps, rows)]
    path = written(tmp_path / "log.jsonl", "\n".join([lines[0], "no json", *lines[1:]]))
    assert len(read(path)) == 100
    assert "malformed rows left out: 1 of 101 (first: row 2: not" in capsys.readouterr().err


@pytest.mark.parametrize("name, line, reason", [
    ("a.tsv", b"no tab", "1 columns, expected 2"), ("a.tsv", b"a\tb\tc", "3 columns, expected 2"),
    ("a.jsonl", b'{"input": "a"', "not a JSON object: Expecting"),
    ("a.jsonl", b'["a"]', "a row is ['a']; expected (message, reply), or a dict of columns"),
    ("a.jsonl", b'{"input": {}}', '"input": dict'),
    ("a.jsonl", b"[" * 100_000, "recursion")])
def test_of_a_hundred_rows_one_may_be_malformed_and_is_told(tmp_path, capsys, name, line, reason):
    good = {"a.tsv": b"x.\ty", "a.jsonl": b'{"input": "x", "response": "y"}'}[name]
    other = good.replace(b"x", b"X").replace(b"y", b"Y")
    path = written(tmp_path / name, b"\n".join([good, b"", line, *[other] * 98, b""]))
    (part,) = read_rows(path)                                 # without the blank lines
    assert {pair.response for pair in part.pairs} == {"y", "Y"} and len(part.rows) == 99
    assert part.records == 100 and part.fields == ("input", "response")
    told = capsys.readouterr().err.splitlines()[-1]
    assert told.startswith(f"{path}: malformed rows left out: 1 of 100 (first: row 3: ")
    assert reason in told
    written(path, b"\n".join([good, b"", line, *[other] * 97]))
    with pytest.raises(UserError, match=f"^{path}: 1 of the first 99 .*row 3: .*; expected pairs"):
        read(path)


@pytest.mark.parametrize("name, data", [
    ("a.tsv", "q\ta\n"), ("a.csv", "question,answer\nq,a\n"),
    ("a.jsonl", '{"question": "q", "answer": "a"}\n')])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "gz", "zst"])
def test_each_reader_says_how_far_it_is(name, data, encoding, tmp_path):
    if encoding in ("gz", "zst"):
        name += f".{encoding}"
        data = {"gz": gzip, "zst": zstd}[encoding].compress(data.encode())
    else:
        data = data.encode(encoding)
    places, path = [], written(tmp_path / name, data)
    (part,) = read_rows(path, places.append)
    assert [pair[:2] for pair in part.pairs] == [("q", "a")] and places[-1] == len(data)


@pytest.mark.parametrize("name", ["a.xlsx", "pairs", "a.tsv.bz2", "a.json"])
def test_another_kind_of_file_is_told(tmp_path, name):
    told = f"{name}: unknown kind of file .*; expected pairs: .*JSON: an object per line"
    with pytest.raises(UserError, match=told):
        read(written(tmp_path / name, "a\tb"))


@pytest.mark.parametrize("line, is_heading", [
    ("input\tresponse", True), ("Context\tResponse", True), ('"question"\t"answer"', True),
    ("\ufeffinput\tresponse", True), ("hello\tresponse", False), ("question\tyes, ask", False)])
def test_a_first_line_that_names_the_columns_is_no_pair(tmp_path, line, is_heading):
    path = written(tmp_path / "pairs.tsv", f"{line}\nhello you\tinput\ninput\tmy response\n")
    pairs = read(path)
    assert len(pairs) == 3 - is_heading
    assert pairs[-2:] == [Pair("hello you", "input"), Pair("input", "my response")]


@given(st.lists(st.tuples(*[st.text(st.characters(exclude_categories=["Cs"],
                                                  exclude_characters="\t\r\n"))] * 2).filter(any),
                min_size=1))
def test_pairs_are_read_as_they_were_written(tmp_path_factory, some):
    folder = tmp_path_factory.mktemp("pairs")
    header = "hello there\tyou\n"                             # or the first pair could be one
    tsv = header + "".join(f"{text}\t{response}\n" for text, response in some)
    jsonl = "".join(json.dumps({"input": text, "response": response, "score": 3}) + "\n"
                    for text, response in some)
    for name, data in (("a.b.tsv", tsv), ("a.jsonl", jsonl),
                       ("a.jsonl.zst", zstd.compress(jsonl.encode()))):
        pairs = [pair[:2] for pair in read(written(folder / name, data))]
        assert pairs[name.endswith(".tsv"):] == [
            tuple("" if text.isspace() else text for text in two) for two in some]


def test_what_is_strange_is_told_once(tmp_path, capsys):
    rows = [{"question": f"q{k}", "answer": f"{k} don\u00e2\u20ac\u2122t", "label": k % 2,
             "score": k} for k in range(12)]
    assert len(read(written(tmp_path / "a.jsonl", rows))) == 12
    _, label, wrong = capsys.readouterr().err.splitlines()
    assert label.startswith(f"{tmp_path}/a.jsonl: 6 rows have 0 as label and 6 have 1; all are")
    assert '12 texts are UTF-8 that a program read as cp1252 or Latin-1, such as "0 don' in wrong
    assert 'for "0 don\u2019t"; export' in wrong
    assert "keep the others: table[table.label == 1] with pandas" in label
    [*read_rows(rows, reading=Reading(("answer",), side="input"))]    # a search is told, too
    assert capsys.readouterr().err.startswith("the table: 12 texts are UTF-8 that a prog")
    rows = [row | {"label": 1, "answer": f"café {row['score']}"} for row in rows]
    read(written(tmp_path / "a.jsonl", rows))
    assert len(capsys.readouterr().err.splitlines()) == 1


# ---------------------------------------------------------------- the default corpus

def test_the_default_corpus_has_131_569_pairs():
    parts = list(read_rows(default_corpus()))
    assert [len(part.pairs) for part in parts] == [CHUNK] * 26 + [1_569]
    pairs = list(chain.from_iterable(part.pairs for part in parts))
    messages = json.loads(default_corpus().read_text(encoding="utf-8"))
    first = next(iter(messages.values()))["messages"]
    turns = [" ".join(message["text"] for message in turn) for turn in first if turn]
    assert pairs[0][:2] == (turns[0], turns[1])
    assert pairs[0].conversation == 2 * (next(iter(messages)),)
    assert pairs[1].input == turns[1]                         # a response is the next pair's input


def test_only_adjacent_turns_of_different_speakers_make_a_pair(tmp_path, monkeypatch):
    def turn(sender, *texts):
        return [{"text": text, "sender": sender} for text in texts]

    conversations = {
        "1": {"messages": [turn("ann", "hi", "there"), turn("bob", "hey"), [], turn("bob", "you?"),
                           turn("ann", "fine")]},
        "2": {"messages": [turn("bob", "no answer")]},
        "3": {"messages": []}, "4": {"messages": [turn("bob", "one"), turn("ann", "two")]},
    }
    path = written(tmp_path / "dataset.json", json.dumps(conversations))
    monkeypatch.setattr(formats, "default_corpus", lambda: path)
    assert read(path) == [Pair("hi there", "hey"), Pair("you?", "fine"), Pair("one", "two")]
