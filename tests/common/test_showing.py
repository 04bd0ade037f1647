"""What commands show, including hints and errors, and what they do when a signal ends them."""

import os
import shutil
import signal
import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest

from convsim_mini.common.cli import (
    Parser, UserError, errors_in_one_line, path_of, python_m, user_errors)

from conftest import ASCII, PATH, ended


def start(*arguments, **environment):
    """A Python process with these arguments, which can import the package."""
    return subprocess.Popen([sys.executable, *map(str, arguments)], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            env={**os.environ, "PYTHONPATH": PATH, **environment})


# ---------------------------------------------------------------- input

def test_the_home_folder_is_known_where_no_shell_sees_it(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    parser = Parser("a", "b")
    parser.add_argument("--out", type=path_of)
    assert parser.parse_args(["--out=~/b"]).out == tmp_path / "b"
    assert path_of("~") == tmp_path and path_of("~no-such/b") == Path("~no-such/b")
    for name in ("", "a\0b", "\ud83d", 3, None, b"bytes"):
        with pytest.raises(UserError, match="is not the name of a file or folder"):
            path_of(name)


# ---------------------------------------------------------------- output

def test_nothing_in_a_text_can_steer_the_terminal_or_lack_a_letter():
    text = "hello \x1b]0;title\a\x1b[2J\x9b31m\u202e\u2066\t caf\u00e9 \u05d0\rerror\b\n"
    text += "\u061c\u200e\u200f"
    code = ("from convsim_mini.common.cli import UserError, errors_in_one_line\n"
            "from convsim_mini.common.show import table\n"
            f"text = {text!a}\n"
            "with errors_in_one_line():\n"
            "    print(table(['a'], [[text]])); raise UserError(text)")
    for output in ended(start("-c", code, PYTHONUTF8="1")):
        assert "hello \ufffd]0;title\ufffd\ufffd[2J" in output.decode()
        assert "\t caf\u00e9 \u05d0" in output.decode()
        assert not set(output.decode()) & set("\x1b\a\b\r\x9b\u202e\u2066\u061c\u200e\u200f")
    for output in ended(start("-c", code, **ASCII)):
        assert b"\t caf? ?" in output and output.isascii()


def test_a_notebook_of_another_python_costs_no_picture(tmp_path):
    code = ("import sys; from convsim_mini.common.show import new_figure, save_figure\n"
            "save_figure(new_figure()[0], sys.argv[1])")
    process = start("-c", code, tmp_path / "a.png", MPLBACKEND="inline, but elsewhere")
    assert ended(process) == (b"", b"") and (tmp_path / "a.png").exists()


def test_who_has_no_reader_ends_without_a_word(tmp_path):
    code = ("import sys; from convsim_mini.common.cli import errors_in_one_line\n"
            "from convsim_mini.common.files import new_folder\n"
            "with errors_in_one_line(), new_folder(sys.argv[1], 'choose another'):\n"
            "    input(); print('hello', flush=True)")
    process = start("-c", code, tmp_path / "new")
    process.stdout.close()
    process.stdin.write(b"now\n")
    process.stdin.close()
    assert process.stderr.read() == b"" and process.wait() == 141


@pytest.mark.parametrize("error, message", [
    (PermissionError(13, "Permission denied", "dir/run"), "dir/run: Permission denied; check"),
    (OSError(28, "No space left on device", "x\ny"), "x y: No space left on device; check"),
    (OSError(5, "Input/output error"), "the system: Input/output error; check"),
    (MemoryError("much"), "too little memory (much); stop")])
def test_what_the_system_refuses_is_one_line(capsys, error, message):
    with pytest.raises(SystemExit) as ended, errors_in_one_line():
        raise error
    lines = capsys.readouterr().err.splitlines()
    assert ended.value.code == 2 and len(lines) == 1 and lines[0].startswith(f"error: {message}")


@pytest.mark.parametrize("python, said", [
    ("{here}/bin/python", "bin/python"), ("{here}/a b/python", "'a b/python'"),
    ("/usr/bin/python", "/usr/bin/python")])
def test_hints_name_the_python_that_runs_as_one_types_it_here(python, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", python.format(here=tmp_path))
    assert python_m("a.b --c", Path("my run"), "it's") == (
        f"{said} -m a.b --c 'my run' 'it'\"'\"'s'")


@pytest.mark.parametrize("closed", [[0, 2], [0, 1, 2]])
def test_what_a_daemon_has_closed_is_not_missed(trained, tmp_path, closed):
    out = tmp_path / "out.npy"
    code = f"import os; [os.close(fd) for fd in {closed}]; os.execv(sys.argv[1], sys.argv[1:])"
    done = subprocess.run([sys.executable, "-c", f"import sys; {code}", sys.executable, "-m",
                           "convsim_mini.encode", trained[0], "--out", out, "a", "b"],
                          env={**os.environ, "PYTHONPATH": PATH})
    assert done.returncode == 0 and len(np.load(out)) == 2


# ---------------------------------------------------------------- signals

@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_cleans_up_even_if_it_comes_twice(number):
    code = ("import os, signal, sys; from convsim_mini.common.cli import errors_in_one_line\n"
            "with errors_in_one_line():\n"
            "    try:\n"
            "        try:\n"
            "            print('ready', flush=True); signal.pause()\n"
            "        finally:\n"
            "            os.kill(os.getpid(), int(sys.argv[1])); signal.pause()\n"
            "    finally:\n"
            "        print('clean')")
    process = start("-c", code, int(number))
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(number)
    assert ended(process) == (b"clean\n", b"")
    assert process.returncode == 128 + number


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_signal_that_python_loses_in_a_weak_reference_still_counts():
    with pytest.raises(SystemExit) as left, errors_in_one_line():
        reference = weakref.ref({1}, lambda _: signal.raise_signal(signal.SIGTERM))
        assert reference() is None                            # we go on
    assert left.value.code == 143


def test_of_a_folder_s_copy_the_last_reason_is_said():
    with pytest.raises(UserError, match=r"^a \(no space\); b$"), user_errors("a", "b"):
        raise shutil.Error([("one", "two", "no right"), ("three", "four", "no space")])
