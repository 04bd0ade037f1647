"""What training does when a signal asks it to stop, and when its curves cannot be drawn."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from convsim_mini import train
from convsim_mini.train import stop_requested
from convsim_mini.common.cli import UserError, errors_in_one_line
from convsim_mini.training import monitor
from convsim_mini.training.run import load_run, read_log

from conftest import PATH, ended, parse_config, wait_for


def test_a_signal_stops_a_training_after_the_step_and_it_says_how_to_go_on(arguments, tmp_path):
    words = [sys.executable, "-m", "convsim_mini.train", *arguments, "--steps", 10**6, "--run"]
    process = subprocess.Popen([*map(str, words), "run"], cwd=tmp_path, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": PATH})
    run = tmp_path / "run"
    wait_for(lambda: any("loss" in record for record in read_log(run / "log.jsonl")), process)
    config = parse_config([*map(str, arguments), "--run", str(run)])
    for second in (lambda: train.resume(run), lambda: train.train(config)):
        with pytest.raises(UserError, match="run: another process is training in it; wait"):
            second()
    process.send_signal(signal.SIGTERM)
    stderr = ended(process)[1].decode()
    assert process.returncode == 128 + signal.SIGTERM
    assert stderr.startswith("stopped; resume with:  ") and stderr.count("\n") == 1
    assert stderr.endswith("python -m convsim_mini.train --resume run\n")
    assert load_run(run).step > 0


def test_what_is_ignored_stays_ignored():
    """As nohup and background jobs need it."""
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with errors_in_one_line(), stop_requested() as asked:
            os.kill(os.getpid(), signal.SIGTERM)
            assert not asked
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_second_signal_ends_the_step_and_the_first_one_counts():
    with pytest.raises(KeyboardInterrupt) as ended, stop_requested() as asked:
        os.kill(os.getpid(), signal.SIGTERM)
        assert asked
        os.kill(os.getpid(), signal.SIGINT)
    assert ended.value.args == (signal.SIGTERM,)


def test_handlers_are_put_back_and_another_thread_sets_none():
    def inside():
        with errors_in_one_line(), stop_requested() as asked:
            seen.append([*map(signal.getsignal, numbers), bool(asked)])

    numbers, seen = (signal.SIGINT, signal.SIGTERM), []
    before = [*map(signal.getsignal, numbers)]
    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    assert seen == [[*before, False]]
    inside()
    assert seen[1][0] == seen[1][1] != before[0]
    assert [*map(signal.getsignal, numbers)] == before


def test_curves_that_cannot_be_drawn_cost_a_line(arguments, tmp_path, monkeypatch, capsys):
    def draw(*_):
        raise RuntimeError("no font")

    monkeypatch.setattr(monitor, "plot_curves", draw)
    options = [*map(str, arguments), "--steps", "9", "--evaluations", "1"]
    folder = train.train(parse_config([*options, "--run", str(tmp_path / "run")])).folder
    assert capsys.readouterr().err == "could not draw the curves (no font)\n"
    assert read_log(folder / "log.jsonl")[-1]["step"] == 9
