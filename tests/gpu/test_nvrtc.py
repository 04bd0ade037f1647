"""The kernels compiled by NVIDIA's own compilers, which need no GPU: errors, registers, spills.

    PYTHONPATH=. python tests/gpu/test_nvrtc.py    # writes kernel_sizes.json anew
"""

import ctypes
import json
import re
import struct
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from convsim_mini.fast import kernels
from tests.benchmarks import kernel_table

# CUDA's version → the package with its NVRTC on PyPI, the module that holds the library
COMPILERS = {12: ("nvidia-cuda-nvrtc-cu12", "nvidia.cuda_nvrtc"),
             13: ("nvidia-cuda-nvrtc", "nvidia.cu13")}
ARCHITECTURES = ("sm_80", "sm_90", "sm_100")                  # A100, H100 and H200, B200
# What cupy.RawModule adds, without the folders of CuPy's headers; -v: ptxas prints registers.
OPTIONS = ("--std=c++17", "-ftz=true", "--device-as-default-execution-space",
           "--ptxas-options=-v")
SIZES = Path(__file__).with_name("kernel_sizes.json")
INSTRUCTION = 16                                              # bytes


class Kernel(NamedTuple):
    """What a kernel takes of a GPU.

    registers: of a thread; instructions: of its code; spilled, shared: bytes, shared of a block
    """

    name: str
    registers: int
    instructions: int
    spilled: int
    shared: int


class NotCompiled(Exception):
    """NVRTC's log."""


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
    """→ list of the source's Kernels; raises NotCompiled."""
    program = ctypes.c_void_p()
    options = [option.encode() for option in (*OPTIONS, f"-arch={architecture}")]
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None,
                                    None) == 0
    error = nvrtc.nvrtcCompileProgram(program, len(options),
                                      (ctypes.c_char_p * len(options))(*options))
    log = output(nvrtc, program, "ProgramLog").decode().rstrip("\0")
    code = b"" if error else output(nvrtc, program, "CUBIN")
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    if error:
        raise NotCompiled(log)
    return list(kernels_in(log, code_sizes(code)))


def output(nvrtc, program, what):
    """The bytes of what NVRTC made of a program: "ProgramLog" or "CUBIN"."""
    size = ctypes.c_size_t()
    assert getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size)) == 0
    data = ctypes.create_string_buffer(size.value)
    assert getattr(nvrtc, f"nvrtcGet{what}")(program, data) == 0
    return data.raw


def code_sizes(elf):
    """Kernel → bytes of its code, which an ELF file holds in the section .text.KERNEL."""
    table, = struct.unpack_from("<Q", elf, 40)
    step, count, of_names = struct.unpack_from("<HHH", elf, 58)
    sections = [struct.unpack_from("<I20xQQ", elf, table + k * step) for k in range(count)]
    names, sizes = sections[of_names][1], {}                  # of a section: name, place, size
    for name, _, size in sections:
        text = elf[names + name:elf.index(0, names + name)].decode()
        if text.startswith(".text."):
            sizes[text.removeprefix(".text.")] = size
    return sizes


def kernels_in(log, sizes):
    """The Kernels that ptxas tells of; what functions inside a kernel spill counts as its own."""
    for part in log.split("Compiling entry function '")[1:]:
        name, shared = part.partition("'")[0], re.search(r"(\d+) bytes smem", part)
        yield Kernel(name, int(re.search(r"Used (\d+) registers", part)[1]),
                     sizes[name] // INSTRUCTION,
                     sum(map(int, re.findall(r"(\d+) bytes spill", part))),
                     int(shared[1]) if shared else 0)


def check(nvrtc, source, architecture):
    """Compile, print what each kernel takes, refuse one that spills."""
    found = compiled(nvrtc, source, architecture)
    assert len(found) == len(re.findall(r'extern "C"\s+__global__', source))
    for kernel in found:
        print(f"{kernel.name:40}{architecture:>14}{kernel.registers:11}{kernel.instructions:14}"
              f"{kernel.spilled:9}{kernel.shared:9}")
    assert not [kernel for kernel in found if kernel.spilled]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("file", kernels.FILES)
def test_every_kernel_compiles_and_none_spills(nvrtc, file, dtype):
    print(f"\n{f'{file}, {dtype.__name__}':40}  architecture  registers  instructions  "
          "spilled   shared")
    widths = (64, 125) if "attention" in file else (64,)      # of a head: the paper's, the small
    for architecture in ARCHITECTURES:
        for width in widths:
            check(nvrtc, kernels.source(file, dtype, width), architecture)


def sizes_of(nvrtc):
    """Kernel → [registers, instructions], for float32 on an H100."""
    return {kernel.name: [kernel.registers, kernel.instructions] for file in kernels.FILES
            for kernel in compiled(nvrtc, kernels.source(file, np.float32), "sm_90")}


def grown(sizes, recorded):
    """Names of kernels that take a tenth more than is recorded, or of which nothing is."""
    return [name for name, size in sizes.items()
            if name not in recorded or any(a > 1.1 * b for a, b in zip(size, recorded[name]))]


def test_no_kernel_grows_by_a_tenth_without_a_word(nvrtc, request):
    """Where one shall grow: write kernel_sizes.json anew, as above, and say in the commit why."""
    cuda = str(request.node.callspec.params["nvrtc"])
    sizes = sizes_of(nvrtc)
    recorded = {name: size[cuda] for name, size in
                json.loads(SIZES.read_text(encoding="utf-8")).items()}
    assert not grown(sizes, recorded), {name: (sizes[name], recorded.get(name))
                                        for name in grown(sizes, recorded)}
    assert grown({"a": [32, 112], "b": [36, 100], "c": [1, 1]},
                 {"a": [32, 100], "b": [32, 100]}) == ["a", "b", "c"]


def test_the_table_of_kernels_finds_their_main_loops():
    pytest.importorskip("cupy")
    if not find_spec("nvidia") or not kernel_table.disassembler():
        pytest.skip("nvidia-cuda-nvdisasm is not installed")
    reads_and_sums = {name: tuple(cells[-2:]) for name, *cells in kernel_table.rows()}
    assert reads_and_sums["attention_forward"] == reads_and_sums["attention_backward"] == (16, 32)


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


if __name__ == "__main__":
    found = {str(cuda): sizes_of(library(cuda)) for cuda in COMPILERS}
    lines = [json.dumps(name) + ": " + json.dumps({cuda: found[cuda][name] for cuda in found})
             for name in found["12"]]
    SIZES.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
