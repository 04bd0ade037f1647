"""What commands do when their output cannot be shown, and when a signal asks them to end."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from convsim_mini import train
from convsim_mini.common.cli import ENDING, errors_in_one_line
from convsim_mini.training.options import parse_config
from convsim_mini.common.processes import submit
from convsim_mini.training.run import finished, load_run, read_log
from convsim_mini.training import loop, stopping
from convsim_mini.common.workspace import PREFIX

from conftest import ASCII, PATH, SMALL, Finished, ended, wait_for, weights

UNREAD = "unread"    # a pipe whose reader has gone
needs_a_full_device = pytest.mark.skipif(not Path("/dev/full").exists(),
                                         reason="this system has no /dev/full")


def start(*arguments, environment=None, **options):
    """A process of Python with these arguments, which finds the package."""
    return subprocess.Popen([sys.executable, *map(str, arguments)], env={
        **os.environ, "PYTHONPATH": PATH, **(environment or {})}, **options)


def shown(redirected, *arguments, environment=None, cwd=None):
    """Run Python with its output redirected as a shell writes that, or UNREAD; → Finished."""
    command = ["sh", "-c", f'exec "$@" {redirected.replace(UNREAD, "")}', "sh", sys.executable]
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as unread:
        done = subprocess.run(
            [*command, *map(str, arguments)], cwd=cwd, stderr=subprocess.PIPE,
            stdout=unread if UNREAD in redirected else subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": PATH, **(environment or {})})
    return Finished(done.returncode, (done.stdout or b"").decode(), done.stderr.decode())


# ---------------------------------------------------------------- output

@needs_a_full_device
@pytest.mark.parametrize("redirected, environment", [
    (f"{UNREAD} 2>/dev/full", {}), ("> /dev/full", {}), ("<&- >&- 2>&-", {}), ("", ASCII)])
def test_showing_never_ends_a_training(arguments, trained, tmp_path, redirected, environment):
    done = shown(redirected, "-m", "convsim_mini.train", *arguments, "--steps", 30, "--evaluations",
                 1, "--run", tmp_path / "run", environment=environment, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    names = [{path.name for path in run.iterdir()} for run in (trained[0], tmp_path / "run")]
    assert names[0] == names[1] and finished(tmp_path / "run")
    assert weights(tmp_path / "run", 30) == weights(trained[0], 30)
    if environment:
        assert " ? " in done.stdout and done.stdout.isascii()    # the arrow between first pairs


@needs_a_full_device
@pytest.mark.parametrize("redirected, code, line", [
    (UNREAD, 141, ""), ("> /dev/full", 2, "error: standard output: No space left on device; "),
    (">&-", 2, "error: standard output is closed; "), (">&- 2>&-", 2, ""), ("2>/dev/full", 0, "")])
def test_output_that_cannot_be_written_ends_another_command(trained, redirected, code, line):
    done = shown(redirected, "-m", "convsim_mini.encode", trained[0], "hello", "you")
    assert done.returncode == code and done.stderr.startswith(line)
    assert len(done.stderr.splitlines()) == bool(line)


def test_nothing_in_a_text_can_steer_the_terminal():
    text = "hello \x1b]0;title\a\x1b[2J\x9b31m\u202e\u2066\t caf\u00e9 \u05d0\rerror\b\n"
    text += "\u061c\u200e\u200f"
    code = (f"import sys; from convsim_mini.common.cli import UserError, errors_in_one_line\n"
            f"text = {text!r}\n"
            "with errors_in_one_line():\n"
            "    print(text); print(text, file=sys.stderr); raise UserError(text)")
    done = shown("", "-c", code, environment={"PYTHONUTF8": "1"})
    for output in done[1:]:
        assert "hello \ufffd]0;title\ufffd\ufffd[2J" in output and "\t caf\u00e9 \u05d0" in output
        assert not set(output) & set("\x1b\a\b\r\x9b\u202e\u2066\u061c\u200e\u200f")


def test_no_file_gets_the_number_of_a_closed_descriptor(tmp_path):
    code = ("import sys; from convsim_mini.common.cli import errors_in_one_line\n"
            "with errors_in_one_line(must_show=False), open(sys.argv[1], 'wb') as file:\n"
            "    print(1); print(2, file=sys.stderr); file.write(b'%d' % file.fileno())")
    assert shown("<&- >&- 2>&-", "-c", code, tmp_path / "number").returncode == 0
    assert int((tmp_path / "number").read_text()) > 2


def test_after_a_failure_a_librarys_own_messages_go_nowhere():
    code = ("import os; from convsim_mini.common.cli import errors_in_one_line\n"
            "with errors_in_one_line(must_show=False):\n"
            "    print('hello', flush=True); os.write(1, b'by a library')")
    assert shown("> /dev/full", "-c", code) == (0, "", "")


@pytest.mark.parametrize("error, message", [
    (PermissionError(13, "Permission denied", "dir/run"), "dir/run: Permission denied; check"),
    (OSError(28, "No space left on device", "x\ny"), "x y: No space left on device; check"),
    (BrokenPipeError(32, "Broken pipe"), "the system: Broken pipe; check"),
    (UnicodeEncodeError("ascii", "caf\u00e9", 3, 4, "no"), "'\\xe9': letters that ascii"),
    (MemoryError("much"), "too little memory (much); stop")])
def test_what_the_system_refuses_is_one_line(capsys, error, message):
    with pytest.raises(SystemExit) as ended, errors_in_one_line():
        raise error
    lines = capsys.readouterr().err.splitlines()
    assert ended.value.code == 2 and len(lines) == 1 and lines[0].startswith(f"error: {message}")


def test_a_figure_that_cannot_be_drawn_is_a_line(arguments, tmp_path, monkeypatch, capsys):
    def monitor(folder, *more):
        Path(folder, "p_at_n.png").mkdir()
        return real(folder, *more)

    real = loop.Monitor
    monkeypatch.setattr(loop, "Monitor", monitor)
    options = [*map(str, arguments), "--steps", "9", "--evaluations", "1"]
    folder, *_ = train.train(parse_config([*options, "--run", str(tmp_path / "run")]))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2 and all(
        line.startswith("p_at_n.png: is not drawn, training goes on (") for line in lines)
    assert finished(folder) and (folder / "loss.png").is_file() and load_run(folder).step == 9


def test_without_a_home_the_cache_must_be_named(monkeypatch, tmp_path):
    def no_home(path):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", no_home)
    with pytest.raises(train.UserError, match="home directory.*name another folder with --cache"):
        parse_config([])


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
    process = start("-c", code, int(number), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(number)
    assert ended(process) == (b"clean\n", b"")
    assert process.returncode == 128 + number


@pytest.mark.parametrize("number", ENDING[1:])
def test_sigterm_stops_a_training_after_the_step_as_ctrl_c_does(arguments, tmp_path, number):
    process = start("-m", "convsim_mini.train", *arguments, "--steps", 10**6, "--run", "run",
                    cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for(lambda: any("loss" in record for record in read_log(tmp_path / "run" / "log.jsonl")),
             process)
    process.send_signal(number)
    stderr = ended(process)[1].decode()
    assert process.returncode == 128 + number
    assert stderr.startswith("stopped; go on with:  ") and stderr.count("\n") == 1
    assert stderr.endswith("python -m convsim_mini.train --resume run\n")
    assert load_run(tmp_path / "run").step > 0


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="this system masks no signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_pairs_are_prepared_shows_nothing_and_leaves_nothing(
        pair_file, tmp_path, number):
    process = start("-m", "convsim_mini.train", *SMALL, "--pairs", *[pair_file] * 25, "--cache",
                    "cache", "--run", "run", cwd=tmp_path, start_new_session=True,
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for(lambda: [*tmp_path.glob(f"cache/{PREFIX}*/tokenized")], process)
    os.killpg(process.pid, number)                            # as a terminal does: to all of them
    assert ended(process) == (b"", b"")
    assert process.returncode == 128 + number
    assert not [*(tmp_path / "cache").iterdir()] and not (tmp_path / "run").exists()


@pytest.mark.parametrize("number", ENDING)
@pytest.mark.parametrize("another_thread", [False, True])
def test_a_signal_waits_while_a_process_is_started(number, another_thread):
    """What a handler raises while Python forks would be lost. Another thread may get the signal."""
    class Executor:
        def submit(self, function):
            os.kill(os.getpid(), number)
            time.sleep(0.1)                                   # until the other thread has it
            started.append(function)

    started, over = [], threading.Event()
    thread = threading.Thread(target=over.wait, daemon=True)
    if another_thread:
        thread.start()
    try:
        with pytest.raises(SystemExit) as ended, errors_in_one_line():
            submit(Executor(), print)
    finally:
        over.set()
    assert started == [print] and ended.value.code == 128 + number


def test_a_result_of_which_half_was_sent_keeps_no_command_from_its_end():
    work = ("import os, time\n"
            "from multiprocessing import connection\n"
            "def send(self, message):\n"
            "    os.write(self.fileno(), b'12')\n"
            "    print('ready', flush=True)\n"
            "    time.sleep(60)\n"
            "connection.Connection._send = send\n")
    code = ("from convsim_mini.common.cli import errors_in_one_line\n"
            "from convsim_mini.common.processes import local_processes, submit\n"
            "with errors_in_one_line(), local_processes(1, '') as executor:\n"
            f"    submit(executor, exec, {work!r}, {{}}).result()")
    process = start("-c", code, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                    start_new_session=True)
    assert process.stdout.readline() == b"ready\n"
    os.killpg(process.pid, signal.SIGTERM)
    assert ended(process) == (b"", b"")
    assert process.returncode == 128 + signal.SIGTERM


def test_what_is_ignored_stays_ignored():
    """As nohup and a job in the background want it."""
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with errors_in_one_line(), stopping.asked_to_stop() as asked:
            os.kill(os.getpid(), signal.SIGTERM)
            assert not asked.is_set()
    finally:
        signal.signal(signal.SIGTERM, before)


def test_handlers_are_put_back_and_another_thread_sets_none():
    def inside():
        with errors_in_one_line(), stopping.asked_to_stop() as asked:
            seen.append([*map(signal.getsignal, numbers), asked.is_set()])

    numbers, seen = (signal.SIGINT, signal.SIGTERM), []
    before = [*map(signal.getsignal, numbers)]
    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    assert seen == [[*before, False]]
    inside()
    assert seen[1][0] == seen[1][1] != before[0]
    assert [*map(signal.getsignal, numbers)] == before
