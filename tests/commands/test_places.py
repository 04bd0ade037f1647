"""Where output may go: each command that writes, and each kind of place. Nothing else changes."""

import os
import shutil
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

import convsim_mini
from convsim_mini import encode, train
from convsim_mini.common.cli import UserError
from convsim_mini.evaluation import __main__ as evaluation
from convsim_mini.export import __main__ as export
from convsim_mini.training.options import config_of, parse
from data_scripts import chats

from conftest import SMALL

TRAINING = [*SMALL, *"--pairs pairs.tsv --cache cache --steps 2 --evaluations 1".split()]


def notebooks(run, place):
    pytest.importorskip("jupytext")
    from lessons.book.__main__ import main
    main(["1", "--notebooks", place])


def book(run, place):
    pytest.importorskip("jupytext")
    from lessons.book.__main__ import main
    main(["1", "--out", place])


def reddit(run, place):
    pytest.importorskip("duckdb")
    from data_scripts.prepare_reddit import main
    main(["RC", "--out", place])


FOLDERS = {    # command → a function of the run's folder and the place as it is typed
    "train": lambda run, place: train.train(config_of(parse([*TRAINING, "--run", place]))),
    "fit": lambda run, place: convsim_mini.fit(
        "pairs.tsv", run=place, cache="cache", steps=2, evaluations=1, text={"pieces": 300}),
    "index": lambda run, place: encode.main([run, "--file", "lines.txt", "--index", place]),
    "export": lambda run, place: export.main([run, "--out", place]),
    "evaluation": lambda run, place: evaluation.main([run, "--on", "sts", "--out", place]),
    "lessons.book": notebooks}
CONTINUED = {"lessons.book --out": book, "prepare_reddit": reddit}    # in what they made, too
FILES = {
    ".npy": lambda run, place: encode.main([run, "--file", "lines.txt", "--out", place]),
    ".jsonl": lambda run, place: chats.main(["chat.txt", "--out", place])}


@pytest.fixture
def place(tmp_path, trained, pair_file, monkeypatch):
    """A folder with a run, inputs, and one place of each kind; where the test stands."""
    shutil.copytree(trained[0], tmp_path / "run")
    shutil.copy(pair_file, tmp_path / "pairs.tsv")
    (tmp_path / "lines.txt").write_text("a line\nanother line\n")
    (tmp_path / "chat.txt").write_text("".join(
        f"01/02/2026, 10:{k:02d} - {'Ann' if k % 2 else 'Bob'}: text {k}\n" for k in range(40)))
    for name in ("theirs", "theirs/report", "empty", "here", "linked"):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(0o750)
    for name in ("theirs/report/evaluation.md", "theirs/requirements.txt", "notes"):
        (tmp_path / name).write_text("a year of work")
    (tmp_path / "RC").write_text('{"id": "c", "link_id": "p", "parent_id": "p", "body": "hello"}')
    (tmp_path / "own.jsonl").write_text('{"thread": "a", "speaker": "Ann", "text": "hello"}\n')
    np.save(tmp_path / "own.npy", np.zeros((2, 3), np.float32))
    (tmp_path / "link").symlink_to("linked")
    (tmp_path / "to notes").symlink_to("notes")
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def all_below(folder, but=()):
    """What stands in a folder, but for places and the cache: name → mode, owner, content."""
    found = {}
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if not name.startswith((*but, "cache")):
            stat = path.lstat()
            content = os.readlink(path) if path.is_symlink() else (
                zlib.crc32(path.read_bytes()) if path.is_file() else "")
            found[name] = stat.st_mode, stat.st_uid, content
    return found


def refused(write, place):
    """Whether a command says in a line that it does not write there."""
    try:
        write("run", place)
    except (SystemExit, UserError) as error:
        assert isinstance(error, UserError) or error.code == 2
        return True
    return False


@pytest.mark.parametrize("typed", ["new", "far/away/new", "empty", "link", "here/../empty"])
@pytest.mark.parametrize("command", FOLDERS)
def test_a_folder_that_is_new_or_empty_is_filled_once(place, command, typed):
    target = Path(os.path.realpath(typed))
    before, mode = all_below(place, but=("new", "far", "linked/", "empty/")), None
    if target.exists():
        mode = target.stat().st_mode
    assert not refused(FOLDERS[command], typed)
    assert [*target.iterdir()] and (mode is None or target.stat().st_mode == mode)
    assert all_below(place, but=("new", "far", "linked/", "empty/")) == before
    filled = all_below(place)
    assert refused(FOLDERS[command], typed)    # it holds something now
    assert all_below(place) == filled


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere, names are Unicode")
@pytest.mark.parametrize("command", ["export", "evaluation"])
def test_names_that_are_not_unicode_are_shown_as_well_as_can_be(place, command):
    place.joinpath("run").rename("r\udcff")
    FOLDERS[command]("r\udcff", "new\udcff")
    assert [*Path("new\udcff").iterdir()]


@pytest.mark.parametrize("command", ["export", "evaluation"])
def test_the_folder_in_which_one_stands_is_filled_and_stays(place, command, monkeypatch):
    monkeypatch.chdir("here")
    stands = place.joinpath("here").stat().st_ino
    FOLDERS[command]("../run", ".")
    assert [*Path(".").iterdir()] and place.joinpath("here").stat().st_ino == stands


@pytest.mark.parametrize("typed", ["theirs", "theirs/report", "notes", "to notes", "loop", "run",
                                   ".", "notes/below"])
@pytest.mark.parametrize("command", [*FOLDERS, *CONTINUED])
def test_what_is_the_users_is_refused_as_a_folder(place, command, typed):
    before = all_below(place)
    assert refused((FOLDERS | CONTINUED)[command], typed)
    assert all_below(place) == before


@pytest.mark.parametrize("typed", ["notes", "to notes", "run/model.safetensors", "run/log.jsonl",
                                   "lines.txt", "own.npy", "own.jsonl", "theirs", "loop",
                                   "notes/below"])
@pytest.mark.parametrize("ending", FILES)
def test_what_is_the_users_is_refused_as_a_file(place, ending, typed):
    before = all_below(place)
    assert refused(FILES[ending], typed)
    assert all_below(place) == before


@pytest.mark.parametrize("ending", FILES)
def test_what_is_read_is_not_replaced(place, ending):
    (place / f"lines{ending}").symlink_to("chat.txt")
    shutil.copy("lines.txt", "text.npy")
    before = all_below(place)
    assert refused(FILES[ending], f"lines{ending}")
    assert refused(lambda run, out: encode.main([run, "--file", "text.npy", "--out", out]),
                   "./text.npy")
    assert all_below(place) == before


@pytest.mark.parametrize("ending", FILES)
def test_a_file_of_the_same_kind_is_replaced_and_keeps_its_mode_and_its_link(place, ending):
    older = {".npy": b"\x93NUMPY\2 older", ".jsonl": b""}[ending]    # of chats only an empty one
    (place / f"old{ending}").write_bytes(older)
    (place / f"old{ending}").chmod(0o2640)
    (place / f"link{ending}").symlink_to(f"old{ending}")
    before = all_below(place, but=("old", "new"))
    assert not refused(FILES[ending], f"link{ending}")
    assert not refused(FILES[ending], f"new{ending}")
    assert (place / f"old{ending}").stat().st_mode & 0o7777 == 0o2640
    written = (place / f"new{ending}").read_bytes()
    assert written != older and (place / f"old{ending}").read_bytes() == written
    assert all_below(place, but=("old", "new")) == before
