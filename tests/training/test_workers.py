"""Training with several workers, started by a real mpiexec."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from convsim_mini.common.cli import UserError
from convsim_mini.core.batches import Split
from convsim_mini.core.ranking import N
from convsim_mini.training.run import describe, load_run, newest, read_log
from convsim_mini.training.workers import LAUNCHERS, OF_MPIEXEC, SINGLE_WORKER, Workers, launched
from convsim_mini.training.tasks import Tasks, batches_of_tasks

from conftest import ROOT, Finished, command, parse_config

pytest.importorskip("mpi4py", reason="workers cannot be started without mpi4py")
MPIEXEC = shutil.which("mpiexec", path=os.pathsep.join(
    [str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
if MPIEXEC is None:
    pytest.skip("no mpiexec to start workers: pip install mpich", allow_module_level=True)
STEPS = 50    # with more, the first checkpoint comes after 50
SCRIPTS = ROOT / "tests" / "training"


@pytest.mark.parametrize("size", LAUNCHERS)
def test_copies_that_a_launcher_started_do_not_each_train_everything(size, monkeypatch):
    for name in LAUNCHERS:
        monkeypatch.delenv(name, raising=False)
    assert launched() is SINGLE_WORKER
    # where no mpiexec says so, MPI is not even loaded: it may abort the process
    loaded = SimpleNamespace(MPI=SimpleNamespace(COMM_WORLD=SimpleNamespace(size=2)))
    monkeypatch.setitem(sys.modules, "mpi4py", None if size in OF_MPIEXEC else loaded)
    monkeypatch.setenv(size, "2")
    with pytest.raises(UserError, match="one of 2 workers, .* pip install mpi4py mpich"):
        launched()


def job(number, *arguments, cwd, path=ROOT):
    """Run Python with these arguments as `number` workers, for at most five minutes; → Finished."""
    done = subprocess.run(
        [MPIEXEC, "-n", str(number), sys.executable, *map(str, arguments)], cwd=cwd, text=True,
        capture_output=True, stdin=subprocess.DEVNULL, timeout=300,
        env={**os.environ, "PYTHONPATH": f"{path}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"})
    return Finished(done.returncode, done.stdout, done.stderr)


def happens(what, step, *arguments, cwd):
    """Train with two workers; something happens to worker 1 at a step; → Finished."""
    return job(2, SCRIPTS / "worker_job.py", what, step, *arguments, cwd=cwd)


@pytest.fixture(scope="module")
def options(arguments):
    """Options of a run whose batches two or three workers cannot share evenly."""
    return [*arguments, "--optim.batch_size", 65, "--steps", STEPS, "--evaluations", 1]


@pytest.fixture(scope="module")
def alone(options, tmp_path_factory):
    """The same run in one process: folder, Finished."""
    folder = tmp_path_factory.mktemp("alone") / "run"
    done = command("train", *options, "--run", folder, cwd=folder.parent)
    assert done.returncode == 0, done.stderr
    return folder, done


def assert_same_run(folder, other):
    """Both have the same weights, up to float32 rounding, and the same P@N on dev."""
    theirs = load_run(other).model.params
    for name, p in load_run(folder).model.params.items():
        np.testing.assert_allclose(p, theirs[name], rtol=0, atol=1e-5, err_msg=name)
    one, two = (read_log(some / "log.jsonl")[-1] for some in (folder, other))
    assert [one[f"dev_p{n}"] for n in N] == [two[f"dev_p{n}"] for n in N]


@pytest.mark.parametrize("number", [2, 3, 4])
def test_workers_have_the_loss_and_the_gradients_of_one_process(number, tmp_path):
    done = job(number, SCRIPTS / "worker_gradients.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found["differences"]) == 6
    wrong = {case: size for case, size in found["differences"].items() if not size < 1e-10}
    assert not wrong
    assert found["same bits"]


def test_two_workers_train_what_one_process_trains_and_one_of_them_speaks(
        alone, options, tmp_path):
    done = job(2, "-m", "convsim_mini.train", *options, "--run", alone[0], cwd=tmp_path)
    assert done.returncode == 2 and "already exists" in done.stderr
    done = job(2, "-m", "convsim_mini.train", *options, "--run", tmp_path / "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert_same_run(tmp_path / "run", alone[0])
    losses = [[(record["step"], record["loss"]) for record in read_log(some / "log.jsonl")
               if "loss" in record] for some in (tmp_path / "run", alone[0])]
    np.testing.assert_allclose(*losses, rtol=1e-5)
    lines = [[line for line in some.stdout.splitlines() if "run" not in line and "step" not in line]
             for some in (done, alone[1])]
    assert lines[0] == lines[1]
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        path.name for path in alone[0].iterdir()}


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_an_epoch_has_every_pair_once_whatever_the_number_of_workers(number):
    pairs, size = 130, 16                                     # 2 pairs are left for another epoch
    split = Split(np.arange(2 * pairs, dtype=np.int32), np.arange(2 * pairs + 1))
    config = parse_config(["--optim.batch_size", str(size), "--steps", "100"])
    seen = []
    for place in range(number):
        played = SimpleNamespace(rank=place, size=number)
        for batch in islice(batches_of_tasks(config, Tasks(split)), pairs // size):
            seen += Workers.part(played, batch).sentences.ids.tolist()
    assert len(seen) == len(set(seen)) == 2 * size * (pairs // size)
    two = replace(config, task="multitask", nli="DIR", nli_share=0.5, steps=5,
                  optim=replace(config.optim, nli_batch_size=size, drop_at=0.5))
    five = islice(batches_of_tasks(two, Tasks(split, split)), 5)
    sizes = [len(batch.sentences.lengths) for batch in five]
    assert sizes == 3 * [2 * size] + 2 * [4 * size]    # they grow after 2.5, so after 3 steps
    assert Workers.agree(SimpleNamespace(comm=SimpleNamespace(allreduce=lambda stop: 1)), False)


@pytest.mark.long
@pytest.mark.parametrize("what, code", [("is interrupted", 130), ("is killed", None)])
def test_what_two_workers_began_three_and_one_finish(what, code, options, tmp_path):
    often = [*options, "--evaluations", 5, "--run", tmp_path / "run"]
    done = happens(what, 24, *often, cwd=tmp_path)
    assert done.returncode == code if code else done.returncode != 0
    assert "Traceback" not in done.stderr
    assert describe(newest(tmp_path / "run")).step == (25 if code else 20)
    done = job(3, SCRIPTS / "worker_job.py", "is interrupted", 10, "--resume",
               tmp_path / "run", cwd=tmp_path)
    assert done.returncode == 130, done.stderr
    assert done.stderr.count("stopped; resume with") == 1
    assert describe(newest(tmp_path / "run")).step == (36 if code else 31)
    done = job(1, "-m", "convsim_mini.train", "--resume", tmp_path / "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    done = command("train", *often[:-1], tmp_path / "alone", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert_same_run(tmp_path / "run", tmp_path / "alone")


@pytest.mark.parametrize("what, line", [
    ("fails", "error: its disk is gone\n"),
    ("has a bug", "worker 1: Traceback (most recent call last):\n")])
def test_an_error_of_one_worker_ends_the_job(what, line, options, tmp_path):
    done = happens(what, 40, *options, "--evaluations", 2, "--run", tmp_path / "run", cwd=tmp_path)
    assert done.returncode != 0
    assert done.stderr.count(line) == 1
    assert load_run(tmp_path / "run").step == 25


@pytest.mark.parametrize("more, told", [
    (["--optim.batch_size", 2], "error: --optim.batch_size 2: expected 3 or more pairs in a "
     "batch; there are 3,437 to train on\n"),
    (["--stepps", 3], "error: unrecognized arguments: --stepps")])
def test_what_ends_all_workers_is_told_once_by_one_of_them(more, told, options, tmp_path):
    done = job(3, "-m", "convsim_mini.train", *options, *more, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert (done.stdout + done.stderr).count(told) == 1 and "Traceback" not in done.stderr
    assert not [*tmp_path.glob("runs/*")]


def test_gpus_with_nccl_have_the_loss_and_the_gradients_of_one_process(tmp_path, monkeypatch):
    """Here on CUDA devices that the host emulates: see vgpu/README.md."""
    pytest.importorskip("cupy", reason="CuPy is needed for its emulated device")
    monkeypatch.setenv("VGPU_ORDER", "")
    done = job(2, SCRIPTS / "worker_gradients.py", "gpu", cwd=tmp_path,
               path=ROOT / "tests" / "gpu" / "vgpu")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["differences"]
    exact = {case: size for case, size in found.items() if "float32" not in case}
    assert len(exact) == 6 and max(exact.values()) < 1e-10, found
    assert len(found) == 12 and max(found.values()) < 1e-4, found


def test_several_gpus_without_nccl_are_refused():
    pytest.importorskip("cupy", reason="CuPy would have it")
    told = "several workers .NCCL is not available.; .* install nvidia-nccl-cu12 "
    with pytest.raises(UserError, match=told):
        Workers.between_gpus(SimpleNamespace(nccl=None, size=2, rank=0))
