"""Preparing Reddit: killed, repeated, spread over machines, always the same bytes; and mistakes."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress

import psutil
import pytest

from convsim_mini.common.cli import UserError
from convsim_mini.common.lines import zstd
from data_scripts import prepare_reddit, tasks
from data_scripts.prepare_reddit import WORK

import synthetic_dumps
from conftest import ROOT

# The script with smaller buckets, or dumps this small would fill only one.
SMALL_BUCKETS = ("from data_scripts import prepare_reddit as script; "
                 "script.BUCKET_BYTES = 1 << 20; script.main()")


@pytest.fixture(scope="module")
def dumps(tmp_path_factory):
    """Four dumps of 12,000 comments, a second copy of some of them among them."""
    folder = tmp_path_factory.mktemp("dumps")
    for number, year in enumerate((2007, 2010, 2014, 2016)):
        with zstd.open(folder / f"RC_{year}-01.zst", "wb") as stream:
            synthetic_dumps.write_dump(stream, 12_000, year, seed=number // 2 + 1)
    return folder


def start(dumps, out, *options):
    """Start the command in a process group of its own."""
    return subprocess.Popen([sys.executable, "-c", SMALL_BUCKETS, dumps, "--out", out, *options],
                            cwd=ROOT, start_new_session=True, stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE)


def contents(out):
    """Bytes of all that the command left; the cache's file is named after a file's time."""
    return {path.suffix if "cache" in path.parts else str(path.relative_to(out)): path.read_bytes()
            for path in out.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def whole(dumps, tmp_path_factory):
    """A run that nothing stopped: its folder, what it left there."""
    out = tmp_path_factory.mktemp("whole") / "out"
    process = start(dumps, out, "--workers", "1")
    _, errors = process.communicate()
    assert process.returncode == 0, errors.decode()
    report = json.loads((out / "report.json").read_text())
    assert report["plan"]["buckets"] >= 5
    assert report["pairs"] > 5_000 and report["duplicates"] > 5_000
    left = {path.name for path in out.iterdir()}
    assert left == {"pairs", "pairs.jsonl.zst", "cache", "report.json"}
    return out, contents(out)


# ---------------------------------------------------------------- always the same bytes

def test_a_killed_command_leaves_no_process_and_goes_on_to_the_same_bytes(dumps, whole, tmp_path):
    process = start(dumps, tmp_path / "out", "--workers", "2")
    wait_until(lambda: any((tmp_path / "out" / WORK).glob("parsed/.*/*"))
               or process.poll() is not None)
    process.kill()                                            # its processes must end themselves
    _, errors = process.communicate(timeout=300)              # until no one holds standard error
    assert process.returncode == -signal.SIGKILL and "Traceback" not in errors.decode()
    wait_until(lambda: not any(alive_in(process.pid)))
    process = start(dumps, tmp_path / "out", "--workers", "2")
    assert process.communicate() and process.returncode == 0
    assert contents(tmp_path / "out") == whole[1]


def alive_in(group):
    """Yield the processes of a group that still run."""
    for process in psutil.process_iter():
        with suppress(psutil.Error, ProcessLookupError):
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                yield process


@pytest.mark.long
def test_on_a_cluster_one_of_whose_workers_is_killed_midway(dumps, whole, tmp_path):
    (tmp_path / "logs").mkdir()

    def dask(name, *arguments):
        with open(tmp_path / "logs" / name, "w") as log:
            return subprocess.Popen([sys.executable, "-m", "dask", *map(str, arguments)],
                                    cwd=tmp_path, env={**os.environ, "PYTHONPATH": ""},
                                    stdout=log, stderr=log)

    file, started = tmp_path / "scheduler.json", []
    try:
        started.append(dask("scheduler", "scheduler", "--host", "127.0.0.1", "--port", 0,
                            "--no-dashboard", "--scheduler-file", file))
        started += [dask(f"worker{k}", "worker", "--scheduler-file", file, "--nthreads", 1,
                         "--no-nanny", "--no-dashboard",
                         "--local-directory", tmp_path / f"worker{k}") for k in range(2)]
        wait_until(file.exists)
        wait_until(lambda: all("Registered to" in (tmp_path / "logs" / f"worker{k}").read_text()
                               for k in range(2)))
        address = json.loads(file.read_text())["address"]
        process = start(dumps, tmp_path / "out", "--scheduler", address)
        parsed = tmp_path / "out" / WORK / "parsed"
        wait_until(lambda: len(list(parsed.glob(".*/*"))) == 2 or process.poll() is not None)
        started[1].kill()                                     # both were in the middle of a dump
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors.decode()
        assert started[1].wait() == -signal.SIGKILL and started[2].poll() is None
    finally:
        for one in started:
            one.kill()
            one.wait()
    assert contents(tmp_path / "out") == whole[1]


def wait_until(condition, seconds=300):
    """Wait for something that another process does."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.002)


def test_the_order_of_the_inputs_does_not_matter_and_a_second_run_does_nothing(
        dumps, whole, tmp_path, monkeypatch):
    monkeypatch.setattr(prepare_reddit, "BUCKET_BYTES", 1 << 20)
    files = sorted(dumps.iterdir(), reverse=True)
    prepare_reddit.prepare_pairs([*files, files[0]], tmp_path, 2, None)
    assert contents(tmp_path) == whole[1]
    monkeypatch.setattr(prepare_reddit, "run_tasks", None)    # would fail where it is called
    prepare_reddit.prepare_pairs([dumps], tmp_path, 2, None)


@pytest.mark.parametrize("begun", [False, True])
def test_a_run_that_got_the_lock_from_one_that_finished_does_nothing(tmp_path, monkeypatch, begun):
    @contextmanager
    def late(*given):
        monkeypatch.setattr(prepare_reddit, "locked", locked)
        prepare_reddit.prepare_pairs([one], tmp_path / "out", 1, None)
        monkeypatch.setattr(prepare_reddit, "run_tasks", None)
        with locked(*given):
            yield

    one, locked = dump(tmp_path / "one", [GOOD]), prepare_reddit.locked
    if begun:                                                 # it is found while it tidies up
        prepare_reddit.prepare_pairs([one], tmp_path / "out", 1, None)
        (tmp_path / "out" / WORK).mkdir()
    monkeypatch.setattr(prepare_reddit, "locked", late)
    prepare_reddit.prepare_pairs([one], tmp_path / "out", 1, None)
    assert not any(path.name.startswith(".") for path in (tmp_path / "out").iterdir())


def test_a_dump_whose_name_is_not_utf_8_is_known_again(tmp_path, monkeypatch):
    one = dump(tmp_path / os.fsdecode(b"RC_\xff"), [GOOD])
    prepare_reddit.prepare_pairs([one], tmp_path / "out", 1, None)
    monkeypatch.setattr(prepare_reddit, "run_tasks", None)    # would fail where it is called
    prepare_reddit.prepare_pairs([one], tmp_path / "out", 1, None)


# ---------------------------------------------------------------- what it says

def test_the_report_accounts_for_every_line_and_every_comment(dumps, tmp_path, capsys):
    cut = tmp_path / "RC_2012-01.zst"
    cut.write_bytes((dumps / "RC_2010-01.zst").read_bytes()[:-1000])
    inputs = [dumps / "RC_2007-01.zst", cut, dumps / "RC_2016-01.zst"]
    prepare_reddit.prepare_pairs(inputs, tmp_path / "out", 2, None)
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["lines"] == report["malformed"] + sum(report["removed"].values()) + report["kept"]
    assert report["lines"] == sum(dump["lines"] for dump in report["dumps"])
    assert 24_000 < report["lines"] < 36_000
    assert set(report["packed"]["removed"]) <= {
        "input: link_or_mention", "response: link_or_mention",
        "input: not_alphabetic", "response: not_alphabetic"}
    printed = capsys.readouterr().out
    [lines] = [dump["lines"] for dump in report["dumps"] if dump["cut"]]
    assert re.search(f"{cut}: ends too early: .* after line {lines}; what came", printed)
    for number in (report["lines"], report["pairs"], report["removed"]["long"]):
        assert f"{number:,}" in printed


# ---------------------------------------------------------------- mistakes

def dump(path, lines):
    path.write_text("".join(line + "\n" for line in lines))
    return path


GOOD = '{"id": "c1", "link_id": "t3_p", "parent_id": "t3_p", "body": "hello there"}'


def test_other_inputs_do_not_mix_with_what_is_there(tmp_path):
    one, other = dump(tmp_path / "one", [GOOD]), dump(tmp_path / "other", [GOOD, GOOD])
    prepare_reddit.prepare_pairs([one], tmp_path / "out", 1, None)
    before = contents(tmp_path / "out")
    for inputs in ([other], [one, other]):
        with pytest.raises(UserError, match="was made from other files"):
            prepare_reddit.prepare_pairs(inputs, tmp_path / "out", 1, None)
    pairs = tmp_path / "out" / "pairs.jsonl.zst"
    whole = pairs.read_bytes()
    pairs.write_bytes(b"mine")
    with pytest.raises(UserError, match="or the pairs have changed since; choose another folder"):
        prepare_reddit.prepare_pairs([one], tmp_path / "out", 1, None)
    pairs.write_bytes(whole)
    dump(one, [GOOD] * 3)
    with pytest.raises(UserError, match="or these or the pairs have changed since"):
        prepare_reddit.prepare_pairs([one], tmp_path / "out", 1, None)
    assert contents(tmp_path / "out") == before
    (work := tmp_path / "begun" / WORK).mkdir(parents=True)
    (work / "plan.json").write_text("cut of")                 # what it parsed is of an unknown plan
    with pytest.raises(UserError, match="begun: was made from other files"):
        prepare_reddit.prepare_pairs([one], tmp_path / "begun", 1, None)


@pytest.mark.parametrize("name, lines, arguments, words", [
    ("RS_2012-01", ['{"id": "p", "title": "a post"}'] * 3, [],
     r"RS_2012-01: no comment in the first 3 lines \(line 1: no text in"),
    ("pairs.tsv", ["how are you?\tfine"], [], r"pairs.tsv: no comment in the first 1 lines"),
    ("RC_2012-01", [], [], "RC_2012-01: .*it is empty"),
    ("RC", [GOOD], ["nothing"], "nothing: cannot be read: No such file"),
    ("RC", [GOOD], ["folder"], "folder: .* neither a ConvoKit corpus"),
    ("RC", [GOOD], ["--workers", "0"], "argument --workers: invalid positive_int value: '0'"),
    ("RC", [GOOD], ["--scheduler", "tcp://127.0.0.1:9"], "no scheduler answers there"),
    ("RC", [GOOD], ["loop"], "loop: cannot be read"),
    *(("RC", [GOOD], ["--out", out], rf"{name}: already exists and was not changed; choose another "
       r"folder with --out$") for out, name in (
           ("RC", "/RC"), ("theirs", "/theirs"), ("/", "^/"), ("loop", "/loop"),
           ("noted", "/noted"), ("listed", "/listed"))),
    ("RC", [GOOD], ["--out", ""], "^'': is not the name of a file or folder"),
    *(("RC", [GOOD], ["--out", out], r": cannot be written \(.+\); choose another folder")
      for out in ("RC/x", "loop/x", "n\udcff"))])
def test_a_mistake_is_one_line_and_leaves_all_as_it_was(
        tmp_path, monkeypatch, capsys, name, lines, arguments, words):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tasks, "PATIENCE", "200ms")
    (tmp_path / "folder").mkdir()
    (tmp_path / "theirs" / "pairs").mkdir(parents=True)
    (tmp_path / "loop").symlink_to("loop")
    for folder, text in (("noted", "a year of work"), ("listed", '{"sizes": {}}')):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "report.json").write_text(text)
    dump(tmp_path / name, lines)
    before = {*tmp_path.rglob("*")}
    with pytest.raises(SystemExit) as end:
        prepare_reddit.main([name, *arguments] + ["--out", "out"] * ("--out" not in arguments))
    (line,) = capsys.readouterr().err.splitlines()
    assert end.value.code == 2 and line.startswith("error: ")
    assert re.search(words, line.removeprefix("error: ")), line
    assert {path for path in tmp_path.rglob("*") if "out" not in path.parts} == before
