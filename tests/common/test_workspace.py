"""Folders that processes share: temporary names, locks, leftovers of killed processes."""

import errno
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

from convsim_mini.common import workspace
from convsim_mini.common.cli import UserError
from convsim_mini.data import prepare
from convsim_mini.common.files import new_folder, replace_file, write_rows, write_text
from convsim_mini.common.workspace import FOLDERS_OPEN, OWN, PREFIX, WEEK, locked, sweep, workplace

from conftest import PATH

HOLDS = """
import sys, time
from convsim_mini.common.workspace import workplace
with workplace(sys.argv[1]) as folder:
    (folder / "half").write_bytes(b"half")
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path):
    """A process that is at work in a workplace in tmp_path, and that folder."""
    process = subprocess.Popen([sys.executable, "-c", HOLDS, tmp_path], stdout=subprocess.PIPE,
                               text=True, env={**os.environ, "PYTHONPATH": PATH})
    yield process, Path(process.stdout.readline().strip())
    process.kill()
    process.communicate()


def leftovers(folder):
    return list(Path(folder).glob(f"{PREFIX}*"))


def write(text):
    """What `replace_file` is given: it writes this text."""
    return lambda temporary: Path(temporary).write_text(text)


# ---------------------------------------------------------------- temporary names

def test_files_of_the_user_beside_the_output_are_left_alone(tmp_path):
    mine, precious = tmp_path / "v.npy.tmp", tmp_path / "precious"
    precious.write_text("mine")
    for make in (lambda: mine.write_text("mine"), lambda: mine.symlink_to(precious)):
        mine.unlink(missing_ok=True)
        make()
        write_rows(tmp_path / "v.npy", [np.ones((2, 3), np.float32)], 3)
        assert mine.read_text() == precious.read_text() == "mine"
    assert {path.name for path in tmp_path.iterdir()} == {"v.npy", "v.npy.tmp", "precious"}


def test_a_file_that_is_replaced_keeps_its_mode(tmp_path):
    path = tmp_path / "vectors"
    write_text(path, "old")
    path.chmod(0o600)
    write_text(path, "new")
    assert (path.stat().st_mode & 0o777, path.read_text()) == (0o600, "new")


def test_two_that_write_one_file_do_not_mix(tmp_path):
    path = tmp_path / "out"

    def slower(temporary):
        with open(temporary, "w") as file:
            file.write("slow")
            replace_file(path, write("the other"))
            assert path.read_text() == "the other"
            file.write("er")

    replace_file(path, slower)
    assert path.read_text() == "slower" and not leftovers(tmp_path)


def test_of_two_that_make_one_folder_the_second_is_told(tmp_path):
    with pytest.raises(UserError, match="out: cannot be written .Directory not empty.; choose"):
        with new_folder(tmp_path / "out", "choose") as slower:
            (slower / "file").write_text("slower")
            with new_folder(tmp_path / "out", "choose") as faster:
                (faster / "file").write_text("faster")
    assert (tmp_path / "out" / "file").read_text() == "faster" and not leftovers(tmp_path)


# ---------------------------------------------------------------- leftovers

def test_the_work_of_the_living_stays_and_that_of_the_dead_goes(holder, tmp_path):
    process, folder = holder
    mine = tmp_path / f"{PREFIX}mine"
    mine.write_text("a file")
    replace_file(tmp_path / "out", write("text"))
    assert (folder / "half").exists()
    process.send_signal(signal.SIGKILL)
    process.wait()
    replace_file(tmp_path / "out", write("text"))
    assert leftovers(tmp_path) == [mine]


@pytest.mark.parametrize("begin", [f"{PREFIX}elsewhere-", f"{OWN}2-"])
def test_unfinished_work_of_another_machine_goes_after_a_week(tmp_path, begin):
    other = tmp_path / f"{begin}12345678"
    for age, there in ((0, True), (WEEK - 60, True), (WEEK + 60, False)):
        other.mkdir(exist_ok=True)
        os.utime(other, (time.time() - age,) * 2)
        sweep(tmp_path)
        assert other.exists() == there


def test_a_folder_that_is_swept_before_its_lock_is_made_again(tmp_path, monkeypatch):
    """The worst moment: another process sweeps a new folder whose owner has no lock yet."""
    make, made, lock = tempfile.mkdtemp, [], workspace.lock_descriptor

    def swept_before_it_is_opened(**where):
        made.append(make(**where))
        if len(made) == 1:
            sweep(tmp_path)
        return made[-1]

    def swept_before_it_is_locked(descriptor, **how):
        if FOLDERS_OPEN and len(made) == 2 and Path(made[1]).exists():
            os.rmdir(made[1])
        return lock(descriptor, **how)

    monkeypatch.setattr("tempfile.mkdtemp", swept_before_it_is_opened)
    monkeypatch.setattr(workspace, "lock_descriptor", swept_before_it_is_locked)
    with workplace(tmp_path) as folder:
        assert folder.is_dir() and len(made) == 2 + FOLDERS_OPEN
    assert not leftovers(tmp_path)


def test_without_locks_work_goes_on_and_nothing_is_swept(tmp_path, monkeypatch):
    def no_locks(*_, **__):
        raise OSError(errno.ENOTSUP, "Operation not supported")

    (tmp_path / f"{OWN}12345678").mkdir()
    monkeypatch.setattr(workspace, "lock_descriptor", no_locks)
    replace_file(tmp_path / "out", write("text"))
    with locked(tmp_path, "busy"):
        assert (tmp_path / "out").read_text() == "text"
    assert len(leftovers(tmp_path)) == 1


# ---------------------------------------------------------------- locks

def test_a_lock_has_one_holder(tmp_path):
    with locked(tmp_path, "busy"), pytest.raises(UserError, match="^busy$"):
        with locked(tmp_path, "busy"):
            pass
    for busy, error in ((None, FileNotFoundError), ("busy", UserError)):
        with pytest.raises(error), locked(tmp_path / "none", busy):
            pass


# ---------------------------------------------------------------- the cache

def test_of_two_that_prepare_one_corpus_the_second_takes_the_firsts(
        pair_file, text_config, tmp_path, monkeypatch):
    real, began, firsts = prepare._prepare, [], []

    def overtaken(*arguments):
        began.append(arguments)
        if len(began) == 1:
            prepare.load_corpus([pair_file], text_config, tmp_path)
            (folder,) = (path for path in tmp_path.iterdir() if not path.name.startswith(PREFIX))
            firsts.append(folder.stat().st_ino)
        real(*arguments)

    monkeypatch.setattr(prepare, "_prepare", overtaken)
    assert prepare.load_corpus([pair_file], text_config, tmp_path).train.pairs
    assert len(began) == 2 and [path.stat().st_ino for path in tmp_path.iterdir()] == firsts
