"""Tables and logs that people have become pairs; what is wrong with one is said in a line."""

import re
import sqlite3
import sys
from datetime import datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convsim_mini.common.cli import UserError, python_m
from convsim_mini.data import formats
from convsim_mini.data.formats import EMPTY
from convsim_mini.data.pairs import Pair, read_rows
from convsim_mini.data.layouts import IN_PAIRS

from pair_files import read, written

PAIRS = [("how are you, friend?", "fine,\nthanks"), ("a; b", 'she said "no"'), ("é", "à")]


@pytest.mark.parametrize("header", [
    *([name, "output"] for name in IN_PAIRS["input"]),
    *(["query", name] for name in IN_PAIRS["response"]),
    ["\ufeffquestion", "\xa0Answer "], ["context", "instruction", "x", "response"],    # Dolly
    ["instruction", "input", "output"], ["question", "Sprint", "Sprint", "answer"]])    # Alpaca
def test_names_of_columns_are_known_and_context_is_not_the_question(header, tmp_path):
    cells = [{"instruction": "text", header[0]: "text", header[-1]: "reply"}.get(name, "other")
             for name in header]
    if header[0] == "context" and len(header) > 2:
        cells[0] = "other"
    path = written(tmp_path / "mine.csv", [header[::-1], cells[::-1]])
    assert read(path) == [Pair("text", "reply")]


def test_parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table({"question": [a for a, _ in PAIRS], "answer": [b for _, b in PAIRS]})
    parquet.write_table(table, tmp_path / "mine.parquet")
    assert read(tmp_path / "mine.parquet") == [Pair(*pair) for pair in PAIRS]
    folder = tmp_path / "folder" / "split=train"
    folder.mkdir(parents=True)
    for part in ("part-00001", "part-00000"):
        index = [[part]] * (part == "part-00001")             # as pandas writes it
        names = ["question", "answer", "__index_level_0__"][:2 + len(index)]
        parquet.write_table(pyarrow.table([[part], ["a"], *index], names=names),
                            folder / f"{part}.parquet")
    written(tmp_path / "folder" / "_SUCCESS", "")
    for path in (tmp_path / "folder", tmp_path / "folder.parquet"):
        folder.parent.rename(path)
        folder = path / "split=train"
        assert read(path) == [Pair("part-00000", "a"), Pair("part-00001", "a")]
        (part,) = read_rows(path)
        assert part.rows[1].keys() == {"question", "answer"}
    with pytest.raises(UserError, match=r"bad\.parquet: cannot be read as Parquet"):
        read(written(tmp_path / "bad.parquet", b"PAR1 no table PAR1"))
    table = pyarrow.table({"input": [datetime(2020, 1, 2)], "response": ["a"]})
    parquet.write_table(table, tmp_path / "bad.parquet")
    with pytest.raises(UserError, match='first: row 1: "input": datetime'):
        read(tmp_path / "bad.parquet")


def test_consecutive_messages_of_a_thread_become_pairs(tmp_path):
    log = [("t1", "ann", "hello"), ("t2", "cy", "anyone?"), ("t1", "bob", "hi"),
           ("t1", "bob", "all well?"), ("t1", "ann", "yes"), ("t3", "dan", "alone")]
    rows = [{"thread": thread, "speaker": speaker, "text": text} for thread, speaker, text in log]
    assert read(written(tmp_path / "log.jsonl", rows)) == [
        Pair("hello", "hi all well?", "ann", "bob"), Pair("hi all well?", "yes", "bob", "ann")]
    path = written(tmp_path / "log.csv", [["Thread", "text"], *([a, c] for a, _, c in log)])
    assert read(path) == [Pair("hello", "hi"), Pair("hi", "all well?"), Pair("all well?", "yes")]
    rows = [{"thread": "t1", "text": text} for text in ("hello", "", None, "hi")] + [{"thread": 1}]
    assert read(written(tmp_path / "log.jsonl", rows)) == [
        *[Pair("", "")] * 3, Pair("hello", "hi")]    # without text or thread: counted, no turns
    rows = ["Release 2,a", "Release 2.0,b", "2,c", "2.0,d", ",e"]
    path = written(tmp_path / "log.csv", "\n".join(["thread,text", *rows]))
    assert read(path) == [Pair("", ""), Pair("c", "d")]


def test_replies_find_their_messages_wherever_these_are(tmp_path, capsys):
    rows = [{"id": 1, "text": "who?"}, {"id": 2, "reply_to": 1, "text": "me"},
            {"id": 3, "reply_to": 1, "text": "you"}, {"id": 4, "reply_to": 99, "text": "lost"},
            {"id": 5, "reply_to": 2, "text": None}, {"text": "no id"}, {"id": None, "text": "."}]
    expected = [("who?", "me"), ("who?", "you")]
    path = written(tmp_path / "log.jsonl", rows)
    assert [pair[:2] for pair in read(path)] == [*expected, ("", "lost"), ("me", "")]
    path = written(tmp_path / "log.jsonl", rows[::-1])
    assert sorted(read(path)) == sorted(Pair(*two) for two in [*expected, ("me", ""), ("", "lost")])
    assert "the id" not in capsys.readouterr().err
    written(path, [*rows, {"id": 2, "text": "again"}, {"id": 6, "reply_to": 2, "text": "?"}])
    assert read(path)[-1] == Pair("again", "?")
    assert '1 rows repeat the id of an earlier row, such as "2"; replies' in capsys.readouterr().err
    rows = ["id,reply_to,text", "1,1,who?", "2,1.0,me", "3,t1_1,you", ",2.5,lost 2.0"]
    path = written(tmp_path / "log.csv", "\n".join(rows))
    assert [pair[:2] for pair in read(path)] == [*expected, ("", "lost 2.0")]


def test_an_answer_to_oneself_goes_on_with_the_message(tmp_path):
    log = [(1, "", "ann", "lost"), (2, 1, "ann", "a gift"), (3, 2, "shop", "which?"),
           (4, 3, "shop", "please"), (5, 4, "ann", "7"), (6, 1, "bo", "oh"),
           (7, "", "[deleted]", "who?"), (8, 7, "[deleted]", "me")]
    rows = [dict(zip(("id", "reply_to", "speaker", "text", "time"), (*row, row[0]))) for row in log]
    expected = {("lost a gift", "which? please"), ("which? please", "7"), ("lost a gift", "oh"),
                ("who?", "me")}
    for some in (rows, rows[::-1]):
        path = written(tmp_path / "log.jsonl", some)
        assert {pair[:2] for pair in read(path)} == expected
    no_ids = [{"id": 1, "speaker": "ann", "text": "a", "reply_to": ""},
              {"id": "", "speaker": "ann", "text": "b", "reply_to": 1},
              {"id": 2, "speaker": "ann", "text": "c", "reply_to": ""},    # answers nothing
              {"id": 3, "speaker": "bo", "text": "d", "reply_to": 1}]
    assert [pair[:2] for pair in read(no_ids)] == [("a b", "d")]
    rows = [{name: row[name] for name in row if name != "time"} for row in rows]
    path = written(tmp_path / "log.jsonl", [rows[1], rows[0], rows[2]])    # in no known order
    assert {pair[:2] for pair in read(path)} == {("a gift", "which?")}


def test_a_reply_finds_its_message_in_another_thread_if_no_id_is_there_twice():
    """How ids that start anew in each thread are read is in data_scripts/test_conversations.py."""
    rows = [{"thread": "a", "id": 1, "reply_to": None, "text": "a 1"},
            {"thread": "b", "id": 2, "reply_to": 1, "text": "b 2"}]
    assert [pair[:2] for pair in read(rows)] == [("a 1", "b 2")]


TIMES = ["2026-01-02 10:00", "2026-01-02T10:01:00Z", None, "2026-01-02 10:02:00+00:00",
         "2026-01-03 10:02:00", "2026-01-04 10:02:01"]


COMPACT = ["20260102T100000", "20260102100100", "", 20260102100200, "20260103_100200",
           "20260104 100201"]


@pytest.mark.parametrize("times", [TIMES, [1_767_348_000, "1767348060", "", 1_767_348_120_000.0,
                                           1_767_434_520, 1_767_520_921],
                                   [*TIMES[:2], 10**400, *TIMES[3:]], COMPACT])
def test_a_log_is_read_in_order_of_time_and_long_silence_is_no_answer(times, tmp_path, capsys):
    rows = [{"thread": "t", "text": f"{k}", "created_at": time} for k, time in enumerate(times)]
    expected = [Pair(f"{k}", f"{k + 1}") for k in range(4)]   # the last one is a second too late
    for order in (range(6), [0, 3, 4, 5, 1, 2]):
        path = written(tmp_path / "log.jsonl", [rows[k] for k in order])
        assert read(path) == expected
    assert "is read from the end" not in capsys.readouterr().err
    written(path, [rows[k] for k in (5, 4, 3, 1, 0)])
    assert read(path) == [Pair("0", "1"), Pair("1", "3"), Pair("3", "4")]
    assert f"{path}: its last message is the oldest; it is read from the end" in (
        capsys.readouterr().err)
    read(written(path, [row | {"created_at": "01/03/2026"} for row in rows]))
    assert f'{path}: "01/03/2026" is not read as a time, so the rows' in capsys.readouterr().err
    rows = [{"messages": [{"role": str(k % 2), "timestamp": times[k], "content": str(k)}
                          for k in (3, 1, 0)]}]
    assert [pair[:2] for pair in read(written(path, rows))] == [("0", "1 3")]


@pytest.mark.parametrize("name, text, columns, message", [
    ("a.csv", "id,frage,antwort\n1,a,b\n", [], "its column names do not show where input and "
     "response are; it has id, frage, antwort (the first line of a .csv must name them); name "
     "two of them: --columns INPUT RESPONSE"),
    ("a.csv", "question,answer\na,b\n", ["question", "reply"], 'has no column "reply"; it has '
     "question, answer; name two of them"),
    ("a.csv", "question,answer\n", [], "holds no row below its header"),
    ("a.csv", 'question,answer\na,b\n"c,d\ne,f\ng,h\n', [], "the row 2 lines below the header"),
    ("a.xlsx", b"PK\3\4 and more", [], "is a zip file, such as an .xlsx; unpack it, or save"),
    ("a.csv", b"question,answer\na,b\n\xff,c\n", [], "line 3: is not UTF-8 text ('utf-8'"),
    ("a.jsonl", '{"thread": 1, "text": "a"}\nno json\n', [], "row 2: not a JSON object: Exp"),
    ("a.jsonl", '{"thread": 1, "text": "a"}\n\n[1]\n', [], "row 3: a row is [1]; expected"),
    ("a.jsonl", "[\n{}]", ["x"], "is a single JSON array; write one object per line"),
    ("a.csv", """question,answer\n"[{'role': 'user', 'content': 'q'}]",a\n""", [],
     "first: row 2: a cell holds a chat as JSON, expected a text"),
    ("a.csv", "question,answer\nq,a\n".encode("utf-16-le"), [], "is UTF-16 without its mark, or"),
    ("a.csv", 'question,answer\n"q\nq",a\n1,2,3\n', [], "row 3: 3 columns, expected 2 (as in"),
    ("a.tsv", "\n\n", [], "holds no row below"),
    ("a.jsonl", '{"messages": [{"role": "user", "content": "q"}]}', [], "no message in it answers"),
    ("a.jsonl", '{"messages": [{"role": "user", "content": "q"}]}\n{"messages": 7}', [],
     "row 2: messages of type int, expected a list"),
    ("a.jsonl", '{"answers": [{"author": "a", "text": "b"}]}', [], "must have role and content"),
    ("a.csv", ",answers\n1,b\n", [], 'it has "", answers (the first line of a'),
    ("a.csv", "question,answer\nq,a\n".encode("gb18030") + "打印机".encode("gb18030"), [],
     '--encoding cp1252 ("´òÓ¡»ú"), --encoding gb18030 ("打印机")'),
    ("a.jsonl", '["q", "a", "b"]', [], "a row is ['q', 'a', 'b']; expected"),
    ("a.csv", 'question,answer\n"' + "a" * (1 << 24) + 'b",c', [], "more than 16,777,216 bytes"),
    ("a.csv", 'question,answer\n"' + "a\n" * (1 << 23) + 'b",c', [], "field larger"),
])
def test_what_is_wrong_is_said_with_its_place(name, text, columns, message, tmp_path):
    path = written(tmp_path / name, text)
    with pytest.raises(UserError) as caught:
        read(path, columns)
    assert str(caught.value).startswith(str(path)) and message in str(caught.value)


def test_what_is_not_installed_is_said_with_the_command_that_installs_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setattr(formats, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=re.escape(python_m("pip install pyarrow"))):
        read(tmp_path / "a.parquet")
    with pytest.raises(UserError, match=re.escape(python_m("pip install chitchat-dataset"))):
        formats.default_corpus()


@pytest.mark.parametrize("name", ["messages", "conversations"])
def test_chats_become_pairs(name, tmp_path, capsys):
    def chat(*said):
        role, content = ("role", "content") if name == "messages" else ("from", "value")
        return {"id": 1, name: [{role: who, content: text} for who, text in said]}

    rows = [chat(("system", "be kind"), ("user", "hello"), ("assistant", "hi"), ("user", "bye")),
            chat(("Developer", "be"), ("user", "why?"), ("assistant", None), ("tool", "{}"),
                 ("assistant", "so")),
            chat(("USER", "a taxi"), ("SYSTEM", "where?"), ("USER", "here")), {"id": 2, name: None}]
    expected = [Pair("hello", "hi", "user", "assistant"),
                Pair("", ""),    # the call of the tool, which is counted: "no_text"
                Pair("hi", "bye", "assistant", "user"),
                Pair("why?", "so", "user", "assistant"),
                Pair("a taxi", "where?", "USER", "SYSTEM"),
                Pair("where?", "here", "SYSTEM", "USER")]
    pairs = read(written(tmp_path / "chats.jsonl", rows))
    assert {*pairs} == {*expected} and len(pairs) == len(expected)
    assert capsys.readouterr() == (
        "", f'{tmp_path}/chats.jsonl: a conversation in each row (messages = "{name}")\n')
    pytest.importorskip("pyarrow.parquet").write_table(
        pytest.importorskip("pyarrow").Table.from_pylist(rows), tmp_path / "chats.parquet")
    assert {*read(tmp_path / "chats.parquet")} == {*expected}


def test_the_list_of_messages_is_the_one_with_their_names_and_its_parts_are_texts(tmp_path):
    rows = [{"tools": [{"type": "function", "function": {"name": "f"}}], "messages": [
        {"author": "ann", "content": [{"type": "text", "text": "look"}, {"type": "image"}, "!"]},
        {"author": "bob", "content": "nice"}]}]
    assert read(written(tmp_path / "a.ndjson", rows)) == [Pair("look !", "nice", "ann", "bob")]
    rows[0]["messages"][1]["content"] = {"no": "text"}
    with pytest.raises(UserError, match="""row 1: "content": dict {'no': 'text'} is not text; """
                       "expected a str or a number, such as one of its no.;"):
        read(written(tmp_path / "a.ndjson", rows))


def test_empty_names_do_not_hide_others_and_thoughts_are_not_said(tmp_path):
    def read_chat(*said):
        return [pair[:2] for pair in read(written(tmp_path / "a.jsonl", [{"messages": said}]))]

    for empty in (None, "", []):
        assert read_chat({"sender": "human", "content": empty, "text": "q"},
                         {"sender": "assistant", "content": "a", "text": ""}) == [("q", "a")]
    thought = {"role": "assistant", "content": "hm"}
    for thoughts in ({"channel": "analysis"}, {"type": "reasoning"}, {"thought": True}):
        assert read_chat({"role": "user", "content": "q"}, thought | thoughts,
                         {"role": "assistant", "channel": "final", "content": "a"}) == [("q", "a")]
    parts = [{"text": "hm", "thought": True}, {"text": "a"}]
    assert read_chat({"role": "user", "parts": [{"text": "q"}]},
                     {"role": "model", "parts": parts}) == [("q", "a")]
    with pytest.raises(UserError, match="first: row 1: a chat as its program exports it; make"):
        read_chat({"from": "8:bo", "messagetype": "RichText", "content": "q"})


@pytest.mark.parametrize("name, text, columns, expected", [
    ("a.csv", "question,answer\nq,a,,\nq,,,\n,\n\n", [], [("q", "a"), ("q", ""), ("", "")]),
    ("a.csv", "question;answer, or none\nq;a\n", ["question", "answer, or none"], [("q", "a")]),
    ("a.csv", '\ufeff\ufeffquestion,answer\n"q", "a, b"\n', [], [("q", "a, b")]),
    ("a.csv", 'question,answer\r"q\nr",a\rs,b\r', [], [("q\nr", "a"), ("s", "b")]),
    ("a.csv", "\n,\nquestion,answer\nNA,a\nq,NULL\nq,None\n", [], [
        ("", "a"), ("q", ""), ("q", "None")]),
    ("a.csv", "question,answer\nq\r,a\n\nquestion,answer\nr,b\n", [], [("q ", "a"), ("r", "b")]),
    ("a.csv", '"sep=;"\nques\u200btion;"an\nswer"\nq;a\n', ["question", "an swer"], [("q", "a")]),
    ("a.csv", "SEP=|\r\nid|question|answer\r\n1|a b|c, d\r\n", [], [("a b", "c, d")]),
    ("a.tsv", 'question\tanswer\n"q\n\nr"\t"say ""a"""\n"s" he said\t"t\n', [], [
        ("q\n\nr", 'say "a"'), ('"s" he said', '"t')]),
    ("a.tsv", 'question\tanswer\nq\t"a\nr\ts"\nt\t"b\nc"\n', [], [    # as MRPC has its marks
        ("q", '"a'), ("r", 's"'), ("t", "b\nc")]),
    ("a.tsv", '"q"\t"a"\nEU or NA?\tNA\n', [], [    # without a header marks are text, so is NA
        ('"q"', '"a"'), ("EU or NA?", "NA")]),
    ("a.TSV", "\t\nq\ta\n", [], [("", ""), ("q", "a")]),
    ("a.tsv", "\ufeff\ufeff\nquestion\tanswer\rq\t\\N\r", [], [("q", "")]),
    ("a.tsv", 'id\tresponse\tinput\n1\t"yes\tis it?\n', [], [("is it?", '"yes')]),
    ("a.tsv", "answer\tquestion\nyes\tis it?\nalone\n", [], [("is it?", "yes"), ("", "alone")]),
    ("a.tsv", "one\nyes\n", ["one"], [("yes", "yes")]),
    ("a.jsonl", '["q", "a"]\n["r", "b"]\n', [], [("q", "a"), ("r", "b")]),
    ("a.jsonl", '{"x": "q", "input": 3, "y": "a"}\n', ["x", "y"], [("q", "a")])])
def test_tables_as_programs_write_them(name, text, columns, expected, tmp_path):
    assert [pair[:2] for pair in read(written(tmp_path / name, text), columns)] == expected


def test_a_code_page_that_is_named_is_used(tmp_path):
    path = written(tmp_path / "a.csv", "question,answer\né,à\n".encode("cp1252"))
    assert read(path, [], "cp1252") == [Pair("é", "à")]


def test_a_first_line_of_single_words_is_told_to_be_a_pair(tmp_path, capsys):
    path = written(tmp_path / "a.tsv", "Antwort\tFrage\nYes, it is.\tIs it so?\n")
    assert len(read(path)) == 2
    assert f"{path}: line 1 is read as a pair, ['Antwort', 'Frage'];" in capsys.readouterr().err


CELLS = st.none() | st.text(st.characters(
    exclude_categories=["Cs"], exclude_characters="\r\0")).filter(lambda text: text not in EMPTY)


@given(st.lists(st.fixed_dictionaries({"id": st.integers(0, 9), "answer": CELLS,
                                       "question": CELLS}),
                min_size=1))
def test_a_file_and_a_table_of_the_same_rows_are_the_same_pairs(tmp_path_factory, rows):
    pandas, polars = (pytest.importorskip(name) for name in ("pandas", "polars"))
    frame, folder = pandas.DataFrame(rows), tmp_path_factory.mktemp("tables")
    texts = [(row["question"] or "", row["answer"] or "") for row in rows]
    for table in (rows, frame, [*frame.itertuples()], frame[["question", "answer"]].to_numpy(),
                  polars.DataFrame(rows, {"id": int, "answer": str, "question": str})):
        assert [pair[:2] for pair in read(table)] == texts
    for name, text in (("a.csv", frame.to_csv(index=False)), ("a.jsonl", rows),
                       ("a.tsv", frame.to_csv(None, sep="\t"))):
        # a .csv may have blanks behind its delimiters
        pairs = read(written(folder / name, text))
        assert [[text.lstrip(" ") for text in pair[:2]] for pair in pairs] == [
            [text.lstrip(" ") for text in two] for two in texts]


def test_a_dataset_of_hugging_face_is_read_whatever_its_kind_and_format():
    datasets, *_ = map(pytest.importorskip, ("datasets", "pandas", "polars", "torch"))
    rows = [{"id": k, "question": text, "answer": reply} for k, (text, reply) in enumerate(PAIRS)]
    whole, expected = datasets.Dataset.from_list(rows), [Pair(*pair) for pair in PAIRS]
    kinds = [whole, whole.select(range(3)), whole.sort("id"), whole.filter(lambda row: True),
             datasets.concatenate_datasets([whole.select([0]), whole.select([1, 2])]),
             datasets.IterableDataset.from_generator(lambda: iter(rows)),
             *(kind.with_format(form) for kind in (whole, whole.to_iterable_dataset())
               for form in (None, "numpy", "pandas", "arrow", "polars", "torch"))]
    assert [read(kind) for kind in kinds] == [expected] * len(kinds)
    assert {*read(whole.shuffle(seed=1))} == {*expected}
    with pytest.raises(UserError, match="a DatasetDict has no rows; give one of its tables"):
        read(whole.train_test_split(0.5))


def test_tables_in_memory_keep_the_names_of_their_fields(capsys):
    pyarrow, row = pytest.importorskip("pyarrow"), np.array([("a", "q")], "U1, U1")
    row.dtype.names = ("answer", "question")
    query = sqlite3.connect(":memory:")
    query.row_factory = sqlite3.Row
    rows = query.execute("select 'a' as answer, 'q' as question")
    for table, told in ((row, "a ndarray has no rows; .*make one, with pandas.DataFrame"),
                        (rows, r"a row is <sqlite3.Row .*; expected \(message, reply\), or")):
        with pytest.raises(UserError, match=told):
            read(table)
    text = pyarrow.chunked_array([["q"]])[0]
    assert read([{"answer": "a", "question": text}]) == [Pair("q", "a")]
    twice = pyarrow.table([["q"], ["a"], ["b"]], names=["question", "answer", "answer"])
    assert read(twice) == [Pair("q", "a")]
    told = "the table: several columns are called answer; the first is read\n"
    assert told in capsys.readouterr().err
