"""The script for the first GPU keeps its word: tests/benchmarks/benchmark_gpu.py. Wants no GPU."""

import os
import re
import signal
import subprocess
import sys

import pytest

from conftest import ROOT, ended, wait_for

SCRIPT = ROOT / "tests" / "benchmarks" / "benchmark_gpu.py"
PATCHED = f"""
import sys; sys.path.insert(0, {str(SCRIPT.parent)!r})
import benchmark_gpu as b
b.missing, b.versions = lambda options: [], lambda: ""
"""


def started(*arguments):
    return subprocess.Popen([sys.executable, *map(str, arguments)], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def test_a_bare_machine_is_told_what_is_missing_before_anything_runs(tmp_path):
    process = started("-S", SCRIPT, "--out", tmp_path / "out")    # -S: without site-packages
    _, errors = ended(process)
    assert process.returncode == 1 and not (tmp_path / "out").exists()
    assert errors.startswith("missing: cupy-cuda12x>=14 or cupy-cuda13x>=14, numpy, "), errors
    assert "msgspec" in errors and "pytest-xdist" in errors and errors.count("\n") == 1


def test_what_no_longer_fits_is_skipped_and_named(tmp_path):
    output, errors = ended(started(
        "-c", PATCHED + "b.main()", "--out", tmp_path / "out", "--minutes", "0", "--parts", "tests",
        "speed", "train", "--encoders", "DAN", "--cases", "DAN, 128 pairs"))
    rows = (tmp_path / "out" / "summary.md").read_text(encoding="utf-8").splitlines()[4:]
    assert rows == [f"| {name} | skipped: the 0 minutes are spent |  |  |" for name in (
        "tests: tests/gpu/test_gpu.py", "tests: tests/gpu/test_kernels.py",
        "speed: DAN, 128 pairs", "train: DAN")], errors


@pytest.mark.skipif(os.name == "nt", reason="groups of processes end otherwise on Windows")
def test_what_the_script_started_ends_with_it(tmp_path):
    code = PATCHED + """
b.PARTS["tests"] = lambda options, item: b.run(["sh", "-c", "echo $$; sleep 3600"], options, 60)
b.main()"""
    process, log = started("-c", code, "--out", tmp_path, "--parts", "tests"), tmp_path / "log.txt"
    wait_for(lambda: log.exists() and log.read_text().count("\n") == 2, process)
    process.send_signal(signal.SIGTERM)
    ended(process)
    with pytest.raises(ProcessLookupError):
        os.kill(int(log.read_text().split()[-1]), 0)


@pytest.mark.long
def test_every_contender_works_on_the_host(tmp_path, pair_file, monkeypatch):
    pytest.importorskip("torch", reason="PyTorch is what ours is timed beside")
    monkeypatch.setenv("HOME", str(tmp_path))                 # where a corpus is prepared
    small = ("--model.embedding_dim", "32", "--model.layers", "32", "--model.response_hidden", "32",
             "--model.hidden", "64", "--model.heads", "2", "--model.transformer_layers", "2")
    code = PATCHED + f"""
b.CASES = {{name: case._replace(size=8, device="cpu", steps=(1, 2, 1), options={small})
           for name, case in b.CASES.items()}}
b.main()"""
    output, errors = ended(started("-c", code, "--out", tmp_path / "out", "--parts", "speed",
                                   "profile", "--rounds", "1", "--pairs", pair_file), 900)
    rows = [line for line in output.splitlines() if line.startswith("| speed")]
    assert len(rows) == 16 and all("µs, " in row for row in rows), output + errors
    assert len(re.findall(r"^\| profile: .* ms a step; the host alone", output, re.M)) == 4, output
    assert (tmp_path / "out" / "profile.txt").exists()
