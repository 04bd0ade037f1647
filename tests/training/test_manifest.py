"""The files of a run know each other: what belongs to another run, or was changed, is refused."""

import dataclasses
import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from convsim_mini.common import arrays_file
from convsim_mini import train
from convsim_mini.common.cli import UserError
from convsim_mini.report import fractions
from convsim_mini.report.claims import by_fraction
from convsim_mini.training.run import finished, load_matrix, load_run, log_of, read_log, save_matrix
from convsim_mini.inference.sentence_encoder import load

from conftest import command

WEIGHTS, STATE = "weights-000030.safetensors", "resume-000030.safetensors"


@pytest.fixture(scope="module")
def other(tmp_path_factory, arguments):
    """As `trained`, with another seed."""
    folder = tmp_path_factory.mktemp("other") / "run"
    done = command("train", *arguments, "--steps", 30, "--evaluations", 1, "--run", folder,
                   "--seed", 2, cwd=folder.parent)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def stopped(run_copy):
    """The run as it is before its end is recorded: `resume` reads all its files."""
    lines = (run_copy / "log.jsonl").read_text().splitlines(keepends=True)
    (run_copy / "log.jsonl").write_text("".join(line for line in lines if '"best"' not in line),
                                        newline="\n")
    return run_copy


def change(folder, name, value):
    """Change a setting in a run's config.json."""
    values = json.loads((folder / "config.json").read_text())
    *groups, last = name.split(".")
    group = values[groups[0]] if groups else values
    group[last] = value
    (folder / "config.json").write_text(json.dumps(values))


def test_an_untouched_run_goes_on(stopped):
    before = (stopped / WEIGHTS).read_bytes()
    train.resume(stopped)
    assert (stopped / WEIGHTS).read_bytes() == before and finished(stopped)


@pytest.mark.parametrize("name, value", [
    ("seed", 2), ("steps", 31), ("model.scale", 19.0), ("model.heads", 4), ("optim.rate", 0.1),
    ("precision", "fp32"), ("model.svd_share", 1.0)])
def test_a_changed_setting_is_refused(stopped, name, value):
    change(stopped, name, value)
    for use in (load, train.resume):
        with pytest.raises(UserError, match=f"copy/config.json: {name} is {value}, but {WEIGHTS} "
                                            "was trained with .*; restore the files"):
            use(stopped)


@pytest.mark.parametrize("name, value", [
    ("optim.chunk", 16), ("run", "elsewhere")])
def test_a_setting_that_changes_no_result_may_change(stopped, name, value):
    change(stopped, name, value)
    load(stopped)
    train.resume(stopped)


@pytest.mark.parametrize("name, message", [
    (WEIGHTS, "config.json: seed is 1, but weights-000030.safetensors was trained with 2"),
    (STATE, "resume-000030.safetensors: belongs to other weights"),
    ("all_but_the_top.safetensors", "all_but_the_top.safetensors: was made for other weights"),
    ("log.jsonl", "log.jsonl: does not hold what was measured up to step 30")])
def test_a_file_of_another_run_is_refused(stopped, other, name, message):
    shutil.copy(other / name, stopped / name)
    with pytest.raises(UserError, match=message):
        load_matrix(load_run(stopped), "all_but_the_top")
        lines = (stopped / "log.jsonl").read_text().splitlines(keepends=True)
        (stopped / "log.jsonl").write_text("".join(x for x in lines if '"best"' not in x),
                                           newline="\n")
        train.resume(stopped)


@pytest.mark.parametrize("damage", [
    lambda text: text.replace('"dev_p1": ', '"dev_p1": 9', 1),    # another P@1
    lambda text: text.replace('"step": 10', '"step": 11', 1),
    lambda text: text.replace("{", "", 1),
    lambda text: text.replace('"best": 30', '"best": 31'),
    lambda text: text.replace('"best"', '"beast"'),
    # without its end, as if killed, and with another last P@1
    lambda text: re.sub(r'(.*"dev_p1": )(.*\n).*\n$', r"\g<1>9\2", text, flags=re.DOTALL),
    lambda text: text.replace('"crc32"', '"crc22"'),
    lambda text: text[:-9] + "\n"])
def test_a_changed_log_is_refused(trained, run_copy, damage):
    text = (run_copy / "log.jsonl").read_text()
    assert (changed := damage(text)) != text
    (run_copy / "log.jsonl").write_text(changed, newline="\n")
    with pytest.raises(UserError, match="log.jsonl, line [0-9]+: is damaged .*; restore it"):
        read_log(run_copy / "log.jsonl")


def test_the_log_of_another_run_is_refused_by_who_reads_it(run_copy, other):
    shutil.copy(other / "log.jsonl", run_copy)
    with pytest.raises(UserError, match="log.jsonl: does not hold what was measured up to step 30"):
        log_of(load_run(run_copy))


def test_a_log_that_is_half_written_is_read_up_to_there(run_copy):
    path = run_copy / "log.jsonl"
    text = path.read_text()
    path.write_text(text[:-9], newline="\n")
    assert len(read_log(path)) == len(text.splitlines()) - 1


def test_other_nli_data_are_refused(trained, arguments, nli_folder, tmp_path):
    nli = shutil.copytree(nli_folder, tmp_path / "nli")
    done = command("train", *arguments, "--steps", 4, "--evaluations", 1, "--run", "run", "--task",
                   "multitask", "--nli", nli, "--optim.nli_batch_size", 60, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    log = tmp_path / "run" / "log.jsonl"
    log.write_text("".join(line for line in log.read_text().splitlines(keepends=True)
                           if '"best"' not in line), newline="\n")
    for part in ("train", "dev"):
        (path,) = nli.glob(f"*{part}*")
        whole = path.read_bytes()
        lines = whole.splitlines(keepends=True)
        path.write_bytes(b"".join(lines[:3] + lines[4:]))
        with pytest.raises(UserError, match="nli: these NLI data are not those that .*run was "):
            train.resume(tmp_path / "run")
        path.write_bytes(whole)
    one, other = (next(nli.glob(f"*{part}*")) for part in ("train", "dev"))
    names = one, other, nli / "kept"
    for old, new in ((0, 2), (1, 0), (2, 1)):                 # the two are swapped
        names[old].rename(names[new])
    with pytest.raises(UserError, match="nli: these NLI data are not those that .*run was "):
        train.resume(tmp_path / "run")
    for old, new in ((1, 2), (0, 1), (2, 0)):
        names[old].rename(names[new])
    train.resume(tmp_path / "run")


@pytest.mark.parametrize("step", [30, 20])
def test_a_matrix_for_a_step_that_is_not_kept_goes_with_it(stopped, capsys, step):
    run = load_run(stopped)
    save_matrix(run._replace(step=step), "tuned", np.eye(16))
    train.resume(stopped)
    assert (stopped / "tuned.safetensors").exists() == (step == 30)
    assert ("is deleted; tune again" in capsys.readouterr().err) == (step == 20)


# ---------------------------------------------------------------- the metadata

def test_a_changed_byte_is_noticed(run_copy):
    path = run_copy / WEIGHTS
    data, rng = path.read_bytes(), np.random.default_rng(5)
    header = int.from_bytes(data[:8], "little")
    places = [*range(8), *rng.integers(8, 8 + header, 300), *rng.integers(8, len(data), 100)]
    for place in places:
        flipped = bytes([data[place] ^ 1 << rng.integers(8)])
        path.write_bytes(data[:place] + flipped + data[place + 1:])
        with pytest.raises(UserError, match="restore"):
            load_run(run_copy)


def test_numbers_read_as_another_kind_or_shape_are_refused(run_copy):
    path = run_copy / WEIGHTS
    arrays = load_file(path)
    with safe_open(path, "numpy") as file:
        metadata = file.metadata()
    for other in (lambda array: array.view(np.int32), lambda array: array.reshape(-1)):
        save_file({name: other(array) for name, array in arrays.items()}, path, metadata)
        with pytest.raises(UserError, match="its checksum is wrong"):
            arrays_file.load_arrays(path)


def test_a_file_of_another_format_is_refused(run_copy, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(arrays_file, "FORMAT", 2)
        arrays_file.save_arrays(run_copy / WEIGHTS, {"a": np.zeros(3)}, {})
    with pytest.raises(UserError, match="written by another version .*format 2, expected 6.; use"):
        load_run(run_copy)


# ---------------------------------------------------------------- figure 8

def test_fractions_refuse_other_options(trained, nli_folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(fractions, "SHARES", (0.5,))
    monkeypatch.setattr(fractions, "train", lambda *given: asked.append(given))
    start, other = (shutil.copytree(trained[0], tmp_path / name) for name in ("run", "run-nli-50"))
    options, asked = ["--nli", str(nli_folder), "--steps", "30", "--evaluations", "1"], []
    for name, value in (("task", "multitask"), ("nli_fraction", 0.5), ("stage", 1),
                        ("nli", str(nli_folder))):
        change(other, name, value)
    fractions.main([str(start), *options])
    assert asked == [("--resume", str(other))]
    for more, message in ((["--optim.rate", "0.01"],
                           "was trained with --optim.rate 0.001, now 0.01 is asked for"),
                          (["--nli", "elsewhere"], "now /.*/elsewhere is asked for")):
        with pytest.raises(SystemExit) as ended:
            fractions.main([str(start), *options, *more])
        assert ended.value.code == 2 and re.search(message, capsys.readouterr().err)
    assert len(asked) == 1


def test_figure_8_keeps_runs_of_other_settings_apart(trained):
    run = load_run(trained[0])

    def result(share, steps):
        config = dataclasses.replace(run.config, task="multitask", init="start", steps=steps,
                                     nli_fraction=share)
        return SimpleNamespace(run=run._replace(config=config, folder=Path(f"{share}-{steps}")))

    mixed = [result(0.1, 10), result(0.5, 20), result(1.0, 10), result(0.1, 20), result(0.2, 10)]
    found = {share: one.run.config.steps for share, one in by_fraction(mixed).items()}
    assert found == {0.1: 10, 0.2: 10, 1.0: 10}
