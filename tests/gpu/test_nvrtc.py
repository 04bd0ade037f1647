"""The kernels compiled by NVIDIA's own compiler, which needs no GPU: errors, registers, spills."""

import ctypes
import re
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from convsim_mini.model import kernels

PACKAGE = "nvidia-cuda-nvrtc-cu12"
ARCHITECTURES = ("sm_80", "sm_90")                            # A100, H100
# What cupy.RawModule adds, without the folders of CuPy's headers; -v: ptxas prints registers.
OPTIONS = ("--std=c++17", "-ftz=true", "--device-as-default-execution-space",
           "--ptxas-options=-v")


class Kernel(NamedTuple):
    """What a kernel takes of a GPU: registers a thread, bytes spilled, bytes of shared memory."""

    name: str
    registers: int
    spilled: int
    shared: int


class NotCompiled(Exception):
    """NVRTC's log."""


@pytest.fixture(scope="module")
def nvrtc():
    try:
        folder = find_spec("nvidia.cuda_nvrtc").submodule_search_locations[0]
    except (ModuleNotFoundError, AttributeError):
        pytest.skip(f"{PACKAGE} is not installed: pip install {PACKAGE}")
    return ctypes.CDLL(str(next(Path(folder, "lib").glob("libnvrtc.so.*"))))


def compiled(nvrtc, source, architecture):
    """→ list of the source's Kernels; raises NotCompiled."""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    options = [option.encode() for option in (*OPTIONS, f"-arch={architecture}")]
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None,
                                    None) == 0
    error = nvrtc.nvrtcCompileProgram(program, len(options),
                                      (ctypes.c_char_p * len(options))(*options))
    assert nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size)) == 0
    log = ctypes.create_string_buffer(size.value)
    assert nvrtc.nvrtcGetProgramLog(program, log) == 0
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    if error:
        raise NotCompiled(log.value.decode())
    return list(kernels_in(log.value.decode()))


def kernels_in(log):
    """The Kernels that ptxas tells of; what functions inside a kernel spill counts as its own."""
    for part in log.split("Compiling entry function '")[1:]:
        shared = re.search(r"(\d+) bytes smem", part)
        yield Kernel(part.partition("'")[0], int(re.search(r"Used (\d+) registers", part)[1]),
                     sum(map(int, re.findall(r"(\d+) bytes spill", part))),
                     int(shared[1]) if shared else 0)


def check(nvrtc, source, architecture):
    """Compile, print what each kernel takes, refuse one that spills."""
    found = compiled(nvrtc, source, architecture)
    assert len(found) == len(re.findall(r'extern "C"\s+__global__', source))
    for kernel in found:
        print(f"{kernel.name:40}{architecture:>14}{kernel.registers:11}{kernel.spilled:9}"
              f"{kernel.shared:9}")
    assert not [kernel for kernel in found if kernel.spilled]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("file", kernels.FILES)
def test_every_kernel_compiles_and_none_spills(nvrtc, file, dtype):
    print(f"\n{f'{file}, {dtype.__name__}':40}  architecture  registers  spilled   shared")
    for architecture in ARCHITECTURES:
        check(nvrtc, kernels.source(file, dtype), architecture)


# N values live at the same time, where two blocks of 1,024 threads leave 32 registers a thread.
SPILLS = """
extern "C" __global__ void __launch_bounds__(1024, 2) spills(float* x) {
    float value[N];
    #pragma unroll
    for (int k = 0; k < N; ++k) value[k] = x[k * 1024 + threadIdx.x];
    #pragma unroll
    for (int k = 0; k < N; ++k) x[threadIdx.x * N + k] = value[N - 1 - k];
}
"""


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_kernel_that_spills_is_seen(nvrtc, architecture):
    check(nvrtc, "#define N 8" + SPILLS, architecture)
    with pytest.raises(AssertionError, match="spills"):
        check(nvrtc, "#define N 64" + SPILLS, architecture)


def test_a_kernel_that_does_not_compile_is_seen(nvrtc):
    with pytest.raises(NotCompiled, match=r"kernel.cu\(2\): error: .*INFINITY"):
        compiled(nvrtc, '\nextern "C" __global__ void f(float* x) { *x = INFINITY; }', "sm_90")
