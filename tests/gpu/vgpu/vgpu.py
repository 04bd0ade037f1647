"""A CUDA device emulated on the CPU, under the real CuPy: the unchanged wheel runs without a GPU.

    PYTHONPATH=tests/gpu/vgpu:. python …    # sitecustomize.py calls install(), in subprocesses too

Only what lies below CuPy is replaced: the driver and the runtime (driver.cpp), cuBLAS (blas.cpp),
NVRTC (g++ behind kernel.h), Thrust's sorts (NumPy). README.md says what that can and cannot show.

    vgpu.counts()  → {"launches": …, "copy to host": …, "sync stream": …, "kernel cupy_add__…": …}
    vgpu.reset()
"""

import ctypes
import hashlib
import importlib.machinery
import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILD = HERE / "build"
WHEEL, VERSION = "cupy-cuda12x", "14.2.0"
CXX = os.environ.get("CXX", "g++")
FLAGS = ["-O2", "-std=c++17", "-fPIC", "-w"]
NOISE = os.environ.get("VGPU_NOISE")
# -fpermissive: CUDA compilers take what g++ calls errors. No contraction: the same bits everywhere.
KERNEL_FLAGS = [*FLAGS, "-fpermissive", f"-I{HERE}/include",
                *(["-ffp-contract=fast", "-mfma"] if NOISE else ["-ffp-contract=off"])]
EMPTY = ("libcublasLt.so.12", "libnvJitLink.so.12", "libcudart.so.12")   # CuPy only opens them
STUBBED = {"cublas": 15, "cusparse": 10}     # library → its "not supported"
NOT_SUPPORTED = 801                          # the runtime's


def missing():
    """Why the device cannot be emulated here, in one line, or None."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return f"vgpu: wants Linux on x86-64, this is {sys.platform} on {platform.machine()}"
    try:
        version = importlib.metadata.version(WHEEL)
    except importlib.metadata.PackageNotFoundError:
        return f"vgpu: {WHEEL} is not installed: pip install {WHEEL}=={VERSION}"
    if version != VERSION:
        return f"vgpu: wants {WHEEL}=={VERSION}, finds {version}: it patches that wheel's binaries"
    for program in (CXX, "nm"):
        if not shutil.which(program):
            return f"vgpu: {program} is not on the path: install g++ and binutils"
    if not _host_blas():
        return "vgpu: NumPy has no OpenBLAS of its own: install NumPy from its wheel on PyPI"
    return None


def install():
    """Arrange that the next `import cupy` finds a device; exits with one line where it cannot."""
    if "cupy" in sys.modules:
        raise RuntimeError("vgpu.install() must come before the first import of cupy")
    sys.meta_path.insert(0, _Finder())


def counts():
    """What the device was asked to do since the last reset: name → number."""
    lines = _libraries["core"].vgpu_counts().decode().splitlines()
    return {name: int(number) for name, number in (line.split("\t") for line in lines)}


def reset():
    """Start counting anew."""
    _libraries["core"].vgpu_reset()


# ---------------------------------------------------------------- stepping in at `import cupy`

_libraries = {}


class _Finder:
    """Loads the emulated libraries before cupy is run and patches its parts after that."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != "cupy":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None:
            return None
        run = spec.loader.exec_module

        def exec_module(module):
            reason = missing()
            if reason:
                raise SystemExit(reason)
            os.environ["CUPY_ACCELERATORS"] = ""       # CUB's kernels are compiled into the wheel
            os.environ["CUPY_CACHE_IN_MEMORY"] = "1"   # BUILD is the cache: one is enough
            packages = Path(spec.origin).parent.parent
            _load(packages)
            run(module)
            _patch(packages)

        spec.loader.exec_module = exec_module
        return spec


def _load(packages):
    folder = _build(packages)
    everywhere = ctypes.RTLD_GLOBAL
    _libraries["core"] = ctypes.CDLL(str(folder / "libvgpu.so"), everywhere)
    _libraries["core"].vgpu_counts.restype = ctypes.c_char_p
    _libraries["core"].vgpu_count.argtypes = [ctypes.c_char_p, ctypes.c_long]
    for name in (*EMPTY, *(f"lib{name}.so.12" for name in STUBBED), "libcuda.so.1"):
        _libraries[name] = ctypes.CDLL(str(folder / name), everywhere)
    host = ctypes.CDLL(str(_host_blas()))
    _libraries["libcublas.so.12"].vgpu_set_blas(
        *(ctypes.cast(gemm, ctypes.c_void_p)
          for gemm in (host.scipy_cblas_sgemm64_, host.scipy_cblas_dgemm64_)))


def _patch(packages):
    import cupy.cuda.compiler
    import cupy.cuda.thrust
    _patch_runtime(_runtime_extension(packages))
    _patch_compiler(cupy.cuda.compiler, packages)
    _patch_thrust(cupy.cuda.thrust)
    if os.environ.get("VGPU_STRICT"):
        cupy.cuda.set_allocator(None)                  # no pool: each array is allocated afresh


# ---------------------------------------------------------------- building

def _host_blas():
    """Path of NumPy's OpenBLAS, or None."""
    import numpy
    folder = Path(numpy.__file__).parent.parent / "numpy.libs"
    return next(folder.glob("libscipy_openblas64*"), None)


def _run(command, target, text=None):
    """Run a compiler that writes target; others that build the same never see half a file.

    text: what it reads from its standard input
    """
    temporary = target.with_name(f"{os.getpid()}-{target.name}")
    command = [*map(str, command), "-o", str(temporary)]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"vgpu: {' '.join(command)}\n{done.stderr[:6000]}")
    temporary.replace(target)


def _digest(*parts):
    return hashlib.sha256(b"\0".join(
        part.read_bytes() if isinstance(part, Path) else str(part).encode()
        for part in parts)).hexdigest()[:32]


def _symbols(library, *options):
    """(address or None, kind, name) of each symbol in a shared object."""
    done = subprocess.run(["nm", *options, str(library)], capture_output=True, text=True,
                          check=True)
    for line in done.stdout.splitlines():
        *address, kind, name = line.split()
        yield int(address[0], 16) if address else None, kind, name.split("@")[0]


def _runtime_extension(packages):
    """CuPy's extension that CUDA's runtime is linked into; its own path, behind any link."""
    folder = packages / "cupy_backends" / "cuda" / "api"
    return next(folder.glob("runtime.*.so")).resolve()


def _runtime_functions(extension):
    """Address in the file → name, of each cuda… function."""
    return {address: name for address, kind, name in _symbols(extension)
            if kind in "tT" and re.fullmatch(r"cuda[A-Z]\w*", name)}


def _build(packages):
    """All libraries, once for each state of their sources; → their folder."""
    import fcntl                                       # elsewhere than on Linux, missing() speaks
    sources = sorted([*HERE.glob("*.cpp"), *HERE.glob("*.h"), *(HERE / "include").rglob("*.h")])
    folder = BUILD / f"lib-{_digest(*sources, Path(__file__), str(packages), *KERNEL_FLAGS)}"
    BUILD.mkdir(parents=True, exist_ok=True)
    with open(BUILD / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)               # another process may want the same
        if not (folder / "done").exists():
            _build_all(packages, folder)
            (folder / "done").touch()
    return folder


def _build_all(packages, folder):
    folder.mkdir(exist_ok=True)
    _build_library(folder, "libvgpu.so", "core.cpp")
    link = [f"-L{folder}", "-lvgpu", f"-Wl,-rpath,{folder}"]
    runtime = {f"vgpu_{name}"
               for name in _runtime_functions(_runtime_extension(packages)).values()}
    _build_library(folder, "libcuda.so.1", "driver.cpp", runtime, NOT_SUPPORTED, link)
    for name, status in STUBBED.items():
        extension = next((packages / "cupy_backends" / "cuda" / "libs").glob(f"{name}.*.so"))
        wanted = {symbol for _, kind, symbol in _symbols(extension, "-D")
                  if kind == "U" and symbol.startswith(name)}
        source = "blas.cpp" if name == "cublas" else os.devnull
        _build_library(folder, f"lib{name}.so.12", source, wanted, status, link)
    for name in EMPTY:
        _build_library(folder, name, os.devnull)
    # A compiled header: with it, one of CuPy's small kernels takes a quarter of the time.
    for header in HERE.glob("*.h"):
        shutil.copy(header, folder)
    _run([CXX, *KERNEL_FLAGS, f"-I{_headers(packages)}", "-x", "c++-header", folder / "cupy.h"],
         folder / "cupy.h.gch")


def _build_library(folder, name, source, wanted=(), status=0, link=()):
    """One shared object; a wanted function that source does not define names itself and fails."""
    stubs = folder / f"{name}.stubs.cpp"
    stubs.write_text("#include <cstdio>\nstatic const char* last;\n" + "".join(
        _stub(symbol, status) for symbol in sorted(wanted)))
    # Nothing but our names may be seen: the C++ library's would take the place of others'.
    # CuPy asks for cuBLAS's and cuSPARSE's functions by their library's version.
    version = name if name.removeprefix("lib").split(".")[0] in STUBBED else ""
    versions = folder / f"{name}.map"
    versions.write_text(f"{version} {{ global: vgpu_*; cu*; local: *; }};\n")
    _run([CXX, *FLAGS, "-shared", f"-I{HERE}", "-x", "c++", HERE / source, stubs, "-x", "none",
          *link, f"-Wl,-soname,{name}", f"-Wl,--version-script={versions}"], folder / name)


def _stub(symbol, status):
    if symbol.endswith(("GetErrorName", "GetErrorString")):    # for the exception that CuPy raises
        return f'extern "C" __attribute__((weak)) const char* {symbol}(int) {{ return last; }}\n'
    message = f"{symbol.removeprefix('vgpu_')} is not emulated"
    return (f'extern "C" __attribute__((weak)) int {symbol}() {{ last = "{message}"; '
            f'fprintf(stderr, "vgpu: %s\\n", last); return {status}; }}\n')


def _headers(packages):
    return packages / "cupy" / "_core" / "include"


# ---------------------------------------------------------------- the runtime inside CuPy

def _patch_runtime(extension):
    """Let every cuda… function that is linked into CuPy's extension jump to the driver's."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    base = min(int(line.split("-")[0], 16) for line in maps if line.endswith(str(extension)))
    libc = ctypes.CDLL(None, use_errno=True)
    page = os.sysconf("SC_PAGESIZE")
    writable = 7                                       # PROT_READ | PROT_WRITE | PROT_EXEC
    for offset, name in _runtime_functions(extension).items():
        ours = getattr(_libraries["libcuda.so.1"], f"vgpu_{name}")
        target = ctypes.cast(ours, ctypes.c_void_p).value
        code = b"\x49\xbb" + target.to_bytes(8, "little") + b"\x41\xff\xe3"   # jump to target
        address = base + offset
        first = address // page * page
        size = address + len(code) - first
        if libc.mprotect(ctypes.c_void_p(first), ctypes.c_size_t(size), writable):
            raise OSError(ctypes.get_errno(), "mprotect")
        ctypes.memmove(address, code, len(code))


# ---------------------------------------------------------------- NVRTC

_BOUNDS = r"(?:__launch_bounds__\s*\(([^)]*)\)\s*)?"
_KERNEL = re.compile(rf'extern\s+"C"\s+__global__\s+{_BOUNDS}void\s+{_BOUNDS}(\w+)\s*\(')
_DYNAMIC = re.compile(r"extern\s+__shared__\s+(?:__align__\s*\([^;\[]*\)\s+)?([\w:<> ]+?)\s+"
                      r"(\w+)\s*\[\s*\]\s*;")
_BARRIER = re.compile(r"__sync|__shfl|__ballot")


def _prepare(source):
    """CUDA source → what g++ compiles."""
    text = _DYNAMIC.sub(r"\1* \2 = (\1*)vgpu_dynamic_shared;", source)
    fibers = "true" if _BARRIER.search(text) else "false"
    launchers = "".join(
        f'extern "C" void vgpu_launch__{name}(void** vgpu_p, vgpu_uint3 vgpu_g, vgpu_uint3 vgpu_b) '
        f'{{ vgpu_launch<{fibers}>({name}, vgpu_p, vgpu_g, vgpu_b); }}\n'
        f'extern "C" {{ extern const unsigned vgpu_bound__{name} = '
        f'vgpu_bound({before or after}); }}\n'
        for before, after, name in _KERNEL.findall(text))
    header = "cupy.h" if "#include <cupy/" in source else "kernel.h"
    noise = '#include "noise.h"\n' if NOISE else ""
    return f'#include "{header}"\n{noise}#line 1 "kernel.cu"\n{text}\n{launchers}'


def _patch_compiler(compiler, packages):
    """Let CuPy's compiler be g++; a "cubin" is the path of a shared object."""
    folder, headers = _build(packages), _headers(packages)

    def compile_using_nvrtc(source, options=(), arch=None, filename="kern.cu", *_):
        text = _prepare(source)
        # Of the folders of headers only CuPy's own: NVIDIA's want a CUDA compiler.
        flags = [*KERNEL_FLAGS, *(option for option in options if option.startswith("-D")),
                 f"-I{folder}", f"-I{headers}"]
        target = BUILD / "kernels" / f"{_digest(text, *flags)}.so"
        if not target.exists():
            target.parent.mkdir(exist_ok=True)
            try:
                _run([CXX, *flags, "-shared", "-x", "c++", "-"], target, text)
            except RuntimeError as error:
                raise compiler.CompileException(str(error), source, filename, options) from None
        return f"VGPU:{target}\0".encode(), {}            # no names of templates

    compiler._compile_using_nvrtc_no_warning = compile_using_nvrtc
    compiler._preprocess = lambda *_: "vgpu"               # it asks NVRTC for its version
    compiler._get_nvrtc_version = lambda: (12, 9)


# ---------------------------------------------------------------- Thrust

def _patch_thrust(thrust):
    """NumPy's stable sorts, as Thrust's are. lexsort stays CuPy's, which fails."""
    import numpy as np

    def array_at(pointer, dtype, shape):
        memory = ctypes.c_char * (int(np.prod(shape)) * np.dtype(dtype).itemsize)
        return np.frombuffer(memory.from_address(pointer), dtype).reshape(shape)

    def note(name):
        _libraries["core"].vgpu_count(name, 1)
        _libraries["core"].vgpu_count(b"launches", 1)      # at least: a radix sort takes several

    def sort(dtype, data_start, keys_start, shape):
        note(b"thrust sort")
        array_at(data_start, dtype, shape).sort(axis=-1, kind="stable")

    def argsort(dtype, idx_start, data_start, keys_start, shape):
        note(b"thrust argsort")
        data = array_at(data_start, dtype, shape)
        order = np.argsort(data, axis=-1, kind="stable")
        array_at(idx_start, np.intp, shape)[...] = order
        data[...] = np.take_along_axis(data, order, -1)

    thrust.sort, thrust.argsort = sort, argsort
