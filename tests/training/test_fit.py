"""convsim_mini.fit: from Python pairs to a SentenceEncoder; its index of a table."""

import io
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

import convsim_mini
from convsim_mini import train
from convsim_mini.common.cli import UserError
from convsim_mini.data.prepare import open_corpus
from convsim_mini.training.options import parse
from convsim_mini.training.run import describe

from conftest import SMALL

pandas = pytest.importorskip("pandas")


@pytest.fixture
def settings(cache_folder):
    """Keyword arguments for a small run of two steps."""
    return {**parse(SMALL), "steps": 2, "evaluations": 1, "cache": cache_folder}


def test_pairs_of_all_kinds_train_the_same(pairs, pair_file, settings, tmp_path, capsys):
    messages, replies = zip(*pairs)
    runs = [convsim_mini.fit(some, tmp_path / str(k), **settings) for k, some in enumerate(
        [pairs, pandas.DataFrame({"question": messages, "answer": replies}), str(pair_file),
         [pair_file]])]
    assert capsys.readouterr().out.count("Picking the true reply among 100") == 4    # the summary
    vectors = [run.encode(["fudazi vobamu", "you?"]) for run in runs]
    assert len({found.tobytes() for found in vectors}) == 1
    assert [record["step"] for record in runs[0].log if "dev_p1" in record] == [0, 2]
    opened = convsim_mini.load(tmp_path / "0")
    np.testing.assert_allclose(opened.encode(["you?"]), vectors[0][1:], rtol=0, atol=1e-6)


def test_from_another_run_and_files_with_the_same_ids_fit_is_the_command(
        pairs, settings, trained, tmp_path):
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for file, half in zip(files, (pairs[::2], pairs[1::2])):
        file.write_text("".join(
            json.dumps({"question": a, "answer": b, "thread_id": k // 4}) + "\n"
            for k, (a, b) in enumerate(half)))
    given = {"cache": settings["cache"], "steps": 1, "evaluations": 1, "init": str(trained[0])}
    convsim_mini.fit(files, tmp_path / "fit", **given)
    train.main([*(f"--{name}={value}" for name, value in given.items()), "--pairs",
                *map(str, files), "--run", str(tmp_path / "train")])
    one, other = (describe(tmp_path / name).config for name in ("fit", "train"))
    assert one.epochs == 8 and one.optim == other.optim and one.encoding == other.encoding
    ways = [open_corpus(config, None).report["conversations"] for config in (one, other)]
    assert ways[0] == ways[1]


def test_home_is_known_in_python_too(pairs, settings, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    convsim_mini.fit(pairs, "~/mine", **settings)
    (tmp_path / "mine.txt").write_text("hello\n")
    encoder = convsim_mini.load("~/mine")
    assert len(encoder.index("~/mine.txt")) == 1 and (tmp_path / "mine").is_dir()


def test_without_a_folder_nothing_is_left(pairs, settings, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    encoder = convsim_mini.fit(pairs, **settings | {
        "half": False, "optim.learning_rate": np.float32(0.01), "model.layers": (16,),
        "model.response_hidden": 16})
    assert encoder.folder is None and encoder.log and not [*tmp_path.iterdir()]
    assert "The weights are those of step" in (shown := capsys.readouterr().out)
    assert "The run is in" not in shown                       # it is gone


def test_any_text_is_shown_by_any_output(pairs, settings, monkeypatch):
    output = io.TextIOWrapper(io.BytesIO(), "ascii")
    monkeypatch.setattr(sys, "stdout", output)
    convsim_mini.fit([("caf\u00e9 \ud83d", "yes, it is"), *pairs], **settings)
    output.flush()
    assert b"caf? ? ? yes, it is" in output.buffer.getvalue()


@pytest.mark.parametrize("change, told", [
    ({"stepz": 3}, "--stepz: is not a setting; did you mean steps?"),
    ({"steps": "many"}, "--steps many: expected int"),
    ({"optim.decay": "x"}, "--optim.decay x: expected linear, none"),
    ({"encoder": "cnn"}, "--model.encoder cnn: expected dan, transformer"),
    ({"init": "nowhere"}, "nowhere: is not a run"),
    ({"task": "\ud83d"}, "--task .: expected conversation"),
    ({"columns": "question"}, "--columns question: expected two names, for input"),
    ({"cache": b"bytes"}, "--cache .*: expected str"),
    ({"run": 3}, "'3': is not the name of a file or folder"),
    ({"run": "taken"}, "taken: already exists and was not changed")])
def test_mistakes_are_named_before_anything_is_written(
        pairs, settings, tmp_path, monkeypatch, change, told):
    monkeypatch.chdir(tmp_path)
    Path("taken").mkdir()
    Path("taken/mine").touch()
    with pytest.raises(UserError, match=told.replace("?", r"\?")):
        convsim_mini.fit(pairs, **{"run": "new", **settings, **change})
    assert [*tmp_path.iterdir()] == [tmp_path / "taken"]
    with pytest.raises(UserError, match="^pairs: 10 of 10 pairs are left"):
        convsim_mini.fit(pairs[:10], "a/b/new", **settings)
    assert [*tmp_path.iterdir()] == [tmp_path / "taken"]


def test_pairs_may_come_one_by_one_but_must_be_there(pairs, settings, tmp_path):
    convsim_mini.fit((pair for pair in pairs), tmp_path / "run", **settings)
    (tmp_path / "run").rename(tmp_path / "moved")             # its pairs are inside
    file, = describe(tmp_path / "moved").config.pairs
    assert Path(file).parent == tmp_path / "moved"
    assert Path(file).read_text().count("\n") == len(pairs)
    for none in (None, [], iter(()), pandas.DataFrame({"input": [], "response": []})):
        with pytest.raises(UserError, match="pairs is empty"):
            convsim_mini.fit(none, **settings)
    with pytest.raises(UserError, match="a int has no rows .*; give pairs, a table or a file"):
        convsim_mini.fit(3, **settings)
    with pytest.raises(UserError, match="a row is .*a.*c.*; expected .message, reply., or a dict"):
        convsim_mini.fit([("a", "b", "c")], **settings)


def test_a_file_is_copied_as_its_columns_and_its_encoding_say(
        pairs, settings, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{a},caf\u00e9 {b}\n" for a, b in pairs)
    (tmp_path / "own.csv").write_bytes(f"frage,antwort\n{rows}".encode("cp1252"))
    encoder = convsim_mini.fit(tmp_path / "own.csv", "run", **settings,
                               columns=["frage", "antwort"], encoding="cp1252")
    copied = json.loads(Path(*describe(tmp_path / "run").config.pairs).read_text().split("\n")[0])
    assert (copied["frage"], copied["antwort"]) == (pairs[0][0], f"caf\u00e9 {pairs[0][1]}")
    assert encoder.columns == ["frage", "antwort"] and encoder.folder == tmp_path / "run"


def test_an_index_of_a_table_is_searched(trained):
    encoder = convsim_mini.load(trained[0])
    table = pandas.DataFrame({"id": [7, 9, 8], "text": ["fudazi vobamu", None, "you?"]})
    index = encoder.index(table, column="text")
    hit, = encoder.search(index, "you?", k=1)
    assert (hit.number, hit.row) == (3, {"id": 8, "text": "you?"})
    vectors = encoder.encode(["fudazi vobamu", "you?"])
    np.testing.assert_allclose(index.vectors[::2], vectors, rtol=0, atol=1e-6)
    other = convsim_mini.load(trained[0])
    other.identity = {**other.identity, "weights": 0}
    with pytest.raises(ValueError, match="another run made the index"):
        other.search(index, "you?")
    for told, mistake in {"expected an Index": ("you?", index), "top '3': ex": (index, "a", "3"),
                          "words '1': expected": (index, "a", 1, "1")}.items():
        with pytest.raises((TypeError, UserError), match=told):
            encoder.search(*mistake)
    with pytest.raises(TypeError, match="already trained"):
        encoder.fit([("a", "b")])
    assert encoder.index(pandas.DataFrame({0: ["one", "two"]})).texts == ["one", "two"]
    assert encoder.index(pandas.DataFrame([["a", "b"]]), column=1).texts == ["b"]
