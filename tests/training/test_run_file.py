"""A run is one file: what it holds, and how damage to it is reported."""

import functools
import json
import shutil

import numpy as np
import pytest

from convsim_mini.common import arrays_file
from convsim_mini import train
from convsim_mini.common.cli import UserError
from convsim_mini import load
from convsim_mini.training.run import (
    MODEL, TRAINING, describe, finished, load_run, newest, read_log, save_tuned)

from conftest import command


def test_one_file_is_the_whole_run(trained, tmp_path):
    alone = shutil.copy(trained[0] / MODEL, tmp_path / "chat.safetensors")
    texts = ["hello there", "what is it"]
    np.testing.assert_array_equal(load(alone).encode(texts), load(trained[0]).encode(texts))
    one, other = load_run(alone), load_run(trained[0])
    assert one.config == other.config and one.weights_checksum == other.weights_checksum != 0
    assert not one.state and one.step == one.measured[-1]["step"] == 30 and read_log(
        one.path.with_name("log.jsonl")) == []


def test_a_matrix_is_added_to_the_file(run_copy):
    run = load_run(run_copy)
    turned = np.eye(16)[::-1]
    assert run.tuned is None and save_tuned(run, turned).tuned.tolist() == turned.tolist()
    again = load_run(run_copy)
    assert again.tuned.tolist() == turned.tolist()
    assert again.weights_checksum == run.weights_checksum
    assert again.config == run.config
    before = (run_copy / MODEL).read_bytes()
    save_tuned(again, turned)
    assert (run_copy / MODEL).read_bytes() == before
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(load(run_copy, tuned=True).encode("hello"),
                                   load(run_copy).encode("hello"))


def test_a_changed_byte_is_noticed(run_copy):
    path = run_copy / MODEL
    data, rng = path.read_bytes(), np.random.default_rng(5)
    header = int.from_bytes(data[:8], "little")
    for place in [*range(8), *rng.integers(8, 8 + header, 300), *rng.integers(8, len(data), 100)]:
        flipped = bytes([data[place] ^ 1 << rng.integers(8)])
        path.write_bytes(data[:place] + flipped + data[place + 1:])
        with pytest.raises(UserError, match="model.safetensors: "):
            load_run(run_copy)


@pytest.mark.parametrize("place, value", [
    ("settings", []), ("settings.model.encoder", "transformer"), ("settings.model.layers", [17]),
    ("settings.task", "multitask"), ("vocabulary", None), ("vocabulary.pieces", ["a"]),
    ("vocabulary.counts", ["a"] * 300), ("measured", 3)])
def test_a_forged_run_is_told(run_copy, place, value):
    arrays, about = arrays_file.load_arrays(run_copy / MODEL)
    *groups, name = place.split(".")
    functools.reduce(dict.get, groups, about)[name] = value
    arrays_file.save_arrays(run_copy / MODEL, arrays, about)
    with pytest.raises(UserError, match="safetensors: is damaged or incomplete .*; restore it, or"):
        load(run_copy)


def test_a_file_of_another_format_is_refused(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(arrays_file, "FORMAT", 8)
        arrays_file.save_arrays(tmp_path / MODEL, {"a": np.zeros(3)}, {})
    with pytest.raises(UserError, match="another version .*format 8, expected 11"):
        load_run(tmp_path)


def test_arrays_are_whole_however_they_lie(tmp_path):
    arrays = {"strided": np.arange(60.).reshape(6, 10)[::2, ::3], "columns": np.eye(3, 5).T,
              "one": np.zeros(1, np.float16), "number": np.array(3), "none": np.zeros((0, 4), "f4")}
    arrays_file.save_arrays(tmp_path / "a.safetensors", arrays, {"step": 3})
    found, about = arrays_file.load_arrays(tmp_path / "a.safetensors")
    assert about["step"] == 3 and found.keys() == arrays.keys()
    for name in arrays:
        np.testing.assert_array_equal(found[name], arrays[name], strict=name != "number")


def test_a_run_without_a_checkpoint_is_named(tmp_path):
    (tmp_path / TRAINING).write_text("")
    with pytest.raises(UserError, match="stopped before its first checkpoint; resume it: .* --res"):
        load_run(tmp_path)


def test_a_log_is_read_up_to_a_line_that_is_half_written(run_copy):
    path = run_copy / "log.jsonl"
    text = path.read_text()
    path.write_text(text[:-9])
    assert read_log(path) == [json.loads(line) for line in text.splitlines()[:-1]]
    path.write_text("{\n" + text)
    with pytest.raises(UserError, match="log.jsonl: is damaged"):
        read_log(path)
    for line in ("5", "null", '"x"', '{"loss": 1.0}', '{"step": "5"}'):
        path.write_text(f"{text}{line}\n")
        with pytest.raises(UserError, match="log.jsonl: is damaged"):
            read_log(path)


def test_other_nli_data_are_refused(arguments, nli_folder, tmp_path):
    nli = shutil.copytree(nli_folder, tmp_path / "nli")
    done = command("train", *arguments, "--steps", 4, "--evaluations", 1, "--run", "run", "--task",
                   "multitask", "--nli", nli, "--optim.nli_batch_size", 60, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "run"
    assert finished(folder) and newest(folder) == folder / MODEL
    (path,) = nli.glob("*train*")
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[1:]))
    with pytest.raises(UserError, match="nli: these NLI data are not those that .*run was "):
        train.resume(folder)
    assert describe(folder).nli_checksum is not None
