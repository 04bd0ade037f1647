"""The kernels compiled by NVIDIA's own compilers, which need no GPU: errors, registers, spills."""

import ctypes
import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from convsim_mini.fast import devices

# CUDA's version → the package with its NVRTC on PyPI, the module that holds the library
COMPILERS = {12: ("nvidia-cuda-nvrtc-cu12", "nvidia.cuda_nvrtc"),
             13: ("nvidia-cuda-nvrtc", "nvidia.cu13")}
ARCHITECTURES = ("sm_80", "sm_90", "sm_100")                  # A100, H100 and H200, B200
# What cupy.RawModule adds, without the folders of CuPy's headers; -v: ptxas prints registers.
OPTIONS = ("--std=c++17", "-ftz=true", "--device-as-default-execution-space",
           "--ptxas-options=-v")


def library(cuda):
    """The NVRTC of a version of CUDA; raises ModuleNotFoundError where it is not installed."""
    package, module = COMPILERS[cuda]
    found = find_spec("nvidia") and find_spec(module)
    for folder in found.submodule_search_locations if found else ():
        for path in Path(folder, "lib").glob("libnvrtc.so.*"):
            return ctypes.CDLL(str(path))
    raise ModuleNotFoundError(f"{package} is not installed: pip install {package}")


@pytest.fixture(scope="module", params=COMPILERS)
def nvrtc(request):
    try:
        return library(request.param)
    except ModuleNotFoundError as error:
        pytest.skip(str(error))


def compiled(nvrtc, source, architecture):
    """→ what ptxas tells of the source's kernels; raises ValueError with NVRTC's log."""
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
        raise ValueError(log.value.decode())
    return log.value.decode()


@pytest.mark.parametrize("file", devices.FILES)
def test_every_kernel_compiles_and_none_spills(nvrtc, file):
    widths = (64, 125) if "attention" in file else (64,)      # of a head: the paper's, the small
    for architecture in ARCHITECTURES:
        for width in widths:
            source = devices.source(file, np.float32, width)
            told = compiled(nvrtc, source, architecture)
            print(f"\n{file}, {width}", told)
            kernels = len(re.findall(r'extern "C"\s+__global__', source))
            assert told.count("Compiling entry function") == kernels
            assert told.count(" bytes spill stores") >= kernels
            assert not re.search(r"[1-9]\d* bytes spill", told)
