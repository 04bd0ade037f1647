"""Models, optimisers and runs on a GPU against the CPU."""

import numpy as np
import pytest

from convsim_mini import train
from convsim_mini.common.cli import UserError
from convsim_mini.core.arrays import to_device, to_host
from convsim_mini.core.model import Model, encoder_forward, loss_and_gradients
from convsim_mini.core.optim import SGD, Adaptive
from convsim_mini.core.batches import Batch
from convsim_mini.fast.devices import device_module
from convsim_mini import load
from convsim_mini.core.initial import initial_parameters
from convsim_mini.training import monitor
from convsim_mini.training.run import describe, read_log

from conftest import SMALL, command, parse_config
from test_kernels import MODELS
from twin_cases import sentences

pytestmark = pytest.mark.gpu
TOLERANCE = {np.float64: 1e-10, np.float32: 1e-5}
IDS = sentences(np.random.default_rng(5), [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8])
NLI_BATCH = Batch(IDS, labels=np.arange(6) % 3, task="classes")


@pytest.mark.parametrize("optimizer", [SGD, Adaptive])
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", ["dan", "transformer", "bag"])    # a bias of the paper's is noise
def test_models_and_optimisers_agree(cupy, name, dtype, optimizer):
    rng = np.random.default_rng(0)
    params = initial_parameters(MODELS[name], rng.standard_normal((30, 8)), rng, classifies=True)
    if MODELS[name].bag:                                      # or no gradient reaches the sublayers
        params["encoder.linear0.weight"] = rng.standard_normal((8, 6))
    params = {key: p.astype(dtype) for key, p in params.items()}
    results = []
    for xp in (np, cupy):
        model = Model(to_device({key: p.copy() for key, p in params.items()}, xp), MODELS[name], 9,
                      np.arange(0, 62, 3))                    # of 9 · left + right
        u, _ = encoder_forward(model, IDS)
        loss, grads = loss_and_gradients(model, Batch(IDS), (3,))
        of_nli, nli_grads = loss_and_gradients(model, NLI_BATCH, (4,))
        entailed, entailed_grads = loss_and_gradients(model, Batch(IDS, task="entailments"), (5,))
        stepper = optimizer(model.params)
        for some in (grads, nli_grads, entailed_grads):
            stepper.step(model.params, some, 0.01, 0.02)
        results.append({"u": to_host(u), "loss": to_host(loss), "of_nli": to_host(of_nli),
                        "entailed": to_host(entailed),
                        **to_host(model.params)})
    for key, mine in results[0].items():
        if key.endswith("qkv.bias") and optimizer is Adaptive:
            # Softmax does not see the keys' bias: its gradient is noise, which Adam blows up.
            mine, results[1][key] = (np.delete(bias, np.s_[8:16])
                                     for bias in (mine, results[1][key]))
        np.testing.assert_allclose(results[1][key], mine, rtol=0, atol=10 * TOLERANCE[dtype],
                                   err_msg=key)


@pytest.mark.emulated    # a real GPU cannot be made smaller
@pytest.mark.parametrize("memory, message", [
    ("100000", "error: too little memory (Out of memory allocating"),
    ("20000", "error: too little memory (Out of memory allocating"),
    ("100", "error: --device gpu: CuPy cannot compute (Out of memory allocating"),
])
def test_too_little_memory_is_one_line(pair_file, cache_folder, tmp_path, memory, message,
                                       monkeypatch):
    monkeypatch.setenv("VGPU_MEMORY", memory)
    monkeypatch.delenv("VGPU_STRICT", raising=False)          # it takes memory in other pieces
    done = command("train", *SMALL, "--pairs", pair_file, "--cache", cache_folder, "--steps", 10,
                   "--device", "gpu", "--run", tmp_path / "run", cwd=tmp_path)
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 2 and last.startswith(message), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("preset", ["chat", "transformer-small"])
def test_ten_steps_agree_and_a_run_opens_on_either_device(
        cupy, pair_file, cache_folder, tmp_path, monkeypatch, preset):
    monkeypatch.setattr(monitor, "plot_curves", lambda *_: None)
    small = [*SMALL, "--model.heads", "2", "--model.hidden", "24",
             "--model.transformer_layers", "2", "--optim.batch_size", "64"]
    losses_of, texts = {}, ["fudazi vobamu", "setodi"]
    for device in ("cpu", "gpu"):
        config = parse_config(["--preset", preset, *small, "--pairs", str(pair_file),
                               "--cache", str(cache_folder), "--steps", "10", "--evaluations", "2",
                               "--device", device, "--precision", "fp32",
                               "--run", str(tmp_path / device)])
        train.train(config)
        losses_of[device] = [record["loss"] for record in read_log(tmp_path / device / "log.jsonl")
                             if "loss" in record]
    # float32 sums in another order
    np.testing.assert_allclose(losses_of["gpu"], losses_of["cpu"], rtol=1e-5)
    here = load(tmp_path / "gpu").encode(texts)
    assert np.abs(here - load(tmp_path / "cpu").encode(texts)).max() < 1e-4
    on_gpu = load(tmp_path / "gpu", "gpu").encode(texts)
    assert on_gpu.shape == (2, 16) and np.abs(on_gpu - here).max() < 1e-5


@pytest.mark.parametrize("first, then", [("cpu", "gpu"), ("gpu", "cpu")])
def test_a_stopped_run_goes_on_on_the_device_that_is_named(
        cupy, pair_file, cache_folder, tmp_path, monkeypatch, first, then):
    monkeypatch.setattr(monitor, "plot_curves", lambda *_: None)
    real, folder = monitor.Monitor.checkpoint, tmp_path / "run"

    def stopped(*arguments):
        real(*arguments)
        raise KeyboardInterrupt

    def command(*options):
        return [*SMALL, "--pairs", str(pair_file), "--cache", str(cache_folder), "--steps", "10",
                "--evaluations", "2", "--run", *map(str, options)]

    train.train(parse_config(command(tmp_path / "whole")))
    monkeypatch.setattr(monitor.Monitor, "checkpoint", stopped)
    with pytest.raises(KeyboardInterrupt):
        train.train(parse_config(command(folder, "--device", first, "--precision", "fp32")))
    monkeypatch.setattr(monitor.Monitor, "checkpoint", real)
    train.resume(folder, device=then)
    assert describe(folder).config.device == then
    one, whole = (load(run).encode(["fudazi vobamu"]) for run in (folder, tmp_path / "whole"))
    assert np.abs(one - whole).max() < 1e-4


def test_a_worker_without_a_gpu_of_its_own_is_told_so(cupy):
    found = cupy.cuda.runtime.getDeviceCount()
    with pytest.raises(UserError, match=f"{found + 1} or more workers on a host with {found} GPU"):
        device_module("gpu", number=found)
