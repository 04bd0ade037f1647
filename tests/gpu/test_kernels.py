"""Every CUDA kernel against its NumPy function, broken kernels, launches and bits of whole steps.

Needs CuPy and a GPU, or the emulated device: tests/gpu/vgpu/README.md.
"""

import faulthandler
import os
import sys
from functools import cache

import numpy as np
import pytest

from convsim_mini.config import Config, ModelConfig
from convsim_mini.core import (
    attention, embeddings, losses, optim, transformer_layers)
from convsim_mini.core.arrays import to_device, to_host
from convsim_mini.core.model import Model, loss_and_gradients
from convsim_mini.core.batches import Batch
from convsim_mini.fast import devices
from convsim_mini.core.initial import initial_parameters
from convsim_mini.training.run import Run
from convsim_mini.training.monitor import Monitor

from twin_cases import (
    CASES, DROPOUT, SEEDS, attended, labelled, no_rows, numbers, plain, results_of, sentences,
    touched_rows)

pytestmark = pytest.mark.gpu
TOLERANCE = {np.float32: 2e-5, np.float64: 1e-12}
emulated = sys.modules.get("vgpu")      # the module of the emulated device, or None

# ---------------------------------------------------------------- kernels

CHECKS = {function.__name__.removesuffix("_forward"): (function, case, SEEDS)
          for function, case in CASES.items()}
CHECKS |= {name: (function, case, [0]) for name, function, case in (
    ("many columns", embeddings.sum_rows,
     lambda *some: (*numbers(*some, (30, 600)), sentences(some[0]))),
    ("wide rows", transformer_layers.layer_norm_forward,
     lambda *some: numbers(*some, (9, 300), 300, 300)),
    ("no rows", transformer_layers.layer_norm_forward,
     lambda *some: numbers(*some, (0, 5), 5, 5)),
    ("one number", transformer_layers.dropout_forward,
     lambda *some: (*numbers(*some, (1, 1)), DROPOUT)),
    ("attention by tiles", attention.attention_forward,
     lambda *some: attended(*some, (1, 3, 31, 32, 33, 70))),
    ("attention, wide heads", attention.attention_forward,
     lambda *some: attended(*some, (2, 40), 1, 70)),
    ("attention, the paper's width", attention.attention_forward,
     lambda *some: attended(*some, (17, 40), 2, 64)),
    ("many classes", losses.cross_entropy_forward, lambda *some: labelled(*some, 320)),
    ("rows in no place", optim.update_rows, no_rows),
    ("rows in many places", optim.update_rows, lambda *some: touched_rows(*some, 6000)),
)}


def check(cupy, name, dtype):
    """A function gives the same on both devices, plain on the host."""
    function, case, seeds = CHECKS[name]
    for seed in seeds:
        arguments = case(np.random.default_rng(seed), dtype)
        with plain():
            results = results_of(function, arguments)
        for mine, theirs in zip(results, results_of(function, arguments, cupy), strict=True):
            assert theirs.dtype == mine.dtype
            np.testing.assert_allclose(theirs, mine, rtol=0, atol=TOLERANCE[dtype]
                                       * max(1, np.abs(mine).max(initial=0)))


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", CHECKS)
def test_a_twin_is_its_function(cupy, name, dtype):
    check(cupy, name, dtype)


@pytest.mark.parametrize("name", CHECKS)
def test_core_runs_on_the_device_as_it_stands(cupy, name):
    with plain(cupy):
        check(cupy, name, np.float64)


MUTANTS = [    # a check, what a kernel says, what it says instead: one mistake of each kind
    ("layer_norm", "warp_sum(squares) / d", "warp_sum(squares)"),                 # a scale
    ("layer_norm", "- mean - normal[c] * along", "- mean"),                       # a term
    ("dropout", "8 * (at % 8)", "at % 8"),
    ("many columns", "c < d; c += blockDim.x", "c < d - 1; c += blockDim.x"),     # a bound
    ("adam", "correction) + epsilon", "1) + epsilon"),                            # a constant
    ("cross_entropy", "logits[labels[row]]", "logits[row % c]"),                  # another place
    ("update_rows", "sources[order[j]]", "order[j]"),                             # a place
    ("rows in many places", "found < 32", "true"),
    ("cross_entropy", "    top = warp_max(top);\n", ""),      # a maximum of each thread's own
    ("attention by tiles", "total * shrink + ", "total + "),                      # a factor
    ("attention, the paper's width", "a[c] * b[c]", "a[c] * b[0]"),
]
if os.environ.get("VGPU_ORDER"):                              # not seen in the usual order
    MUTANTS += [("attention by tiles", f"__syncthreads();{42 * ' '}// all have read the", "//")]


@pytest.mark.emulated    # a real GPU may survive a missing barrier by luck
@pytest.mark.parametrize("name, old, new", MUTANTS, ids=lambda text: text[:30])
def test_a_broken_kernel_fails_its_check(cupy, name, old, new, monkeypatch):
    correct = devices.source
    monkeypatch.setattr(devices, "_kernel", cache(devices._kernel.__wrapped__))
    assert any(old in correct(file, np.float64) for file in devices.FILES), (
        f"no kernel holds {old!r}: the mutant tests nothing")
    monkeypatch.setattr(devices, "source", lambda *some: correct(*some).replace(old, new))
    assert outcome_in_a_child(lambda: check(cupy, name, np.float64)) in ("wrong", "killed")


def outcome_in_a_child(attempt):
    """"right", "wrong" or "killed": how it ends that may touch memory it must not."""
    child = os.fork()
    if child == 0:
        faulthandler.disable()                                # it would report where the child died
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)          # as the device does
        try:
            attempt()
        except AssertionError:
            os._exit(1)
        except BaseException:
            os._exit(2)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 139:       # VGPU_STRICT exits with 139
        return "killed"
    return ["right", "wrong", "another error"][os.WEXITSTATUS(status)]


# ---------------------------------------------------------------- whole steps

def test_an_array_that_is_not_contiguous_or_of_another_type_is_refused(cupy):
    x = cupy.ones((6, 4), np.float32)
    for weight in (x[:, ::2][:4, 0], x[0].astype(np.float64)):
        with pytest.raises(ValueError, match="C-contiguous array of float32"):
            transformer_layers.layer_norm_forward(x, weight, weight)


TRANSFORMER = {"encoder": "transformer", "embedding_dim": 8, "layers": [6], "heads": 2,
               "hidden": 12, "response_hidden": [6], "dropout": 0.3}
MODELS = {
    "dan": ModelConfig(embedding_dim=8, layers=[8]),
    "paper": ModelConfig(embedding_dim=8, layers=[6, 6, 6], encoder_bias=True, response_hidden=[6],
                         residual_response=False, unit_response=False),
    "transformer": ModelConfig(**TRANSFORMER),
    "bag": ModelConfig(**TRANSFORMER, bag=True),
}


def steps_on(xp, name, optimizer):
    """A function that takes a training step with arrays of xp and gives its loss; the Model."""
    rng = np.random.default_rng(0)
    params = initial_parameters(MODELS[name], rng.standard_normal((40, 8), np.float32), rng)
    model = Model(to_device(params, xp), MODELS[name], 9, np.arange(0, 62, 2))
    batch = Batch(sentences(rng, [3, 1, 4, 2, 6, 2, 1, 3]))
    stepper = optimizer(model.params)

    def step():
        loss, grads = loss_and_gradients(model, batch, (7,))
        stepper.step(model.params, grads, 0.01, 0.01)
        return loss
    return step, model


@pytest.mark.emulated    # only the emulated device counts launches
@pytest.mark.parametrize("name, optimizer, most", [
    ("dan", optim.Adaptive, 52), ("paper", optim.SGD, 60), ("transformer", optim.SGD, 450),
    ("bag", optim.Adaptive, 450)])
def test_a_step_launches_little_waits_for_nothing_and_sends_few_arrays(cupy, name, optimizer, most):
    step, _ = steps_on(cupy, name, optimizer)
    step()                                                    # compiles, and makes the signal
    emulated.reset()
    step()
    counts = emulated.counts()
    print({what: number for what, number in counts.items() if not what.startswith("kernel")})
    assert counts["launches"] <= most
    assert not [what for what in counts if what.startswith("sync")], counts
    # a bag's places and scale; of a Transformer, the sentences and their order
    assert counts.get("copy to device") <= 8 and "copy to host" not in counts


@pytest.mark.emulated    # only the emulated device counts copies
def test_the_log_reads_all_losses_in_one_copy(cupy, tmp_path):
    monitor = Monitor(Run(tmp_path / "run", Config(steps=1_000), None, None), None)
    emulated.reset()
    for step in range(1, 11):
        monitor.after_step(step, {"loss": cupy.asarray(np.float32(step))})
    assert emulated.counts()["copy to host"] == 2             # of the first step, of the rest
    assert [record["loss"] for record in monitor.records] == [1.0, 6.0]


@pytest.mark.parametrize("name", MODELS)
def test_two_runs_are_the_same_bits(cupy, name):
    weights = []
    for _ in range(2):
        step, model = steps_on(cupy, name, optim.Adaptive)
        for _ in range(3):
            step()
        weights.append(to_host(model.params))
    for key, mine in weights[0].items():
        np.testing.assert_array_equal(weights[1][key], mine, err_msg=key)
