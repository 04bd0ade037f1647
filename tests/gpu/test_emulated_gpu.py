"""The GPU's tests on a CUDA device emulated on the CPU: see vgpu/README.md."""

import os
import subprocess
import sys

import pytest

from conftest import ROOT

FOLDER = ROOT / "tests" / "gpu" / "vgpu"
MODES = {"plain": {}, "strict": {"VGPU_STRICT": "1"},
         "as_on_a_real_card": {"VGPU_HIDDEN": "1", "VGPU_NOISE": "1", "VGPU_ORDER": "reverse"}}
RUNS = [("test_kernels.py", "plain"),
        *(pytest.param(file, mode, marks=pytest.mark.long) for file, mode in (
            ("test_kernels.py", "strict"), ("test_kernels.py", "as_on_a_real_card"),
            ("test_gpu.py", "as_on_a_real_card")))]


def on_the_emulated_device(*arguments, **variables):
    """python ARGUMENTS on the emulated device → its CompletedProcess."""
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("VGPU_", "CUPY_"))}
    environment |= {"PYTHONPATH": os.pathsep.join([str(FOLDER), str(ROOT)]),
                    "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **variables}
    return subprocess.run([sys.executable, *map(str, arguments)], cwd=ROOT, env=environment,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.fixture(scope="module", autouse=True)
def emulator():
    code = "import sys, vgpu; sys.exit(vgpu.missing())"
    done = on_the_emulated_device("-c", code)
    if done.returncode:
        pytest.skip(done.stdout.strip())


@pytest.mark.parametrize("file, mode", RUNS)
def test_the_gpus_tests_pass_and_none_is_skipped(file, mode, tmp_path):
    marked = "gpu and not emulated" if mode == "as_on_a_real_card" else "gpu"
    # -s, or pytest keeps the last words of a device that aborts
    done = on_the_emulated_device("-m", "pytest", "-q", "-s", "-o", "addopts=",
                                  "-p", "no:cacheprovider", "--basetemp", tmp_path / "run",
                                  "-m", marked, FOLDER.parent / file, **MODES[mode])
    assert done.returncode == 0, done.stdout[-20_000:]
    summary = done.stdout.strip().splitlines()[-1]
    assert " passed" in summary and "skipped" not in summary, summary


REVERSAL = """
import cupy
source = r'''
extern "C" __global__ void __launch_bounds__(64) reversal(const float* x, float* y, int n) {
    extern __shared__ float shared[];
    int t = threadIdx.x;
    if (t < n) shared[t] = x[t];
    __syncthreads();
    if (t < n) y[t] = shared[n - 1 - t];
}'''
x, y = cupy.arange(50, dtype="f"), cupy.empty(50, "f")
cupy.RawKernel(source, "reversal")((1,), (64,), (x, y, cupy.int32(50)), shared_mem=200)
print("right" if (y == x[::-1]).all() else "wrong")
"""
CASES = {    # change of REVERSAL, the environment, what is said
    "no mistake": (("", ""), {}, "right"),
    "no barrier": (("__syncthreads();", ""), {}, "wrong"),
    "a barrier that some never reach": (
        ("__syncthreads()", "if (t < 40) __syncthreads(); else __syncwarp()"), {},
        "deadlock: in kernel reversal, 64 of a block's 64 threads"),
    "a read behind an array": (
        ("if (t < n) shared[t] = x[t]", "shared[t % n] = x[n + t]"), {"VGPU_STRICT": "1"},
        "kernel reversal reads or writes"),
    "a write behind shared memory": (
        ("if (t < n) shared[t]", "shared[t]"), {}, "kernel reversal reads or writes"),
    "shared memory that was never written": (("if (t <", "if (t && t <"), {}, "wrong"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_device_sees_mistakes(name):
    change, environment, said = CASES[name]
    assert change[0] in REVERSAL
    done = on_the_emulated_device("-c", REVERSAL.replace(*change, 1), **environment)
    assert said in done.stdout, done.stdout
    assert (done.returncode == 0) == (said in ("right", "wrong")), done.stdout
