"""Where arrays are, and what differs between NumPy and CuPy. Kernels are in model/kernels.py.

The arrays decide the device: every function of this package computes where its inputs are. Only the
precision of a GPU's products is global; see `set_precision`.
"""

import ctypes
import os
import platform
import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, wraps
from pathlib import Path

import numpy as np
from threadpoolctl import ThreadpoolController

from .common.cli import UserError, python_m

_own_threads = False
LARGE_PRODUCT = 2**23    # multiplications, from which on a second thread pays
product_precision = "tf32"    # on a GPU: a setting of its library, not of an array
MANY = 4_096    # rows that are worth the import of numba
_compiling = threading.Lock()
INSTALL_CUPY = 'pip install "cupy-cuda12x[ctk]"   (CUDA 13 drivers: "cupy-cuda13x[ctk]")'


def array_module(x):
    """The module that array x belongs to: numpy, or cupy when x is a CuPy array."""
    if isinstance(x, (np.ndarray, np.generic)):
        return np
    import cupy
    return cupy.get_array_module(x)


def on_gpu(kernel):
    """Decorator: where the first array is CuPy's, `kernel` is called instead of the function.

    Both take the same arguments and give the same results; only their caches differ. The NumPy
    function is the one to read, and what tests compare with.
    """
    def decorate(plain):
        @wraps(plain)
        def either(first, *others, **named):
            array = first
            while isinstance(array, (tuple, list)):
                array = array[0] if array else np.float64(0)
            function = plain if array_module(array) is np else kernel
            return function(first, *others, **named)
        return either
    return decorate


def compiled(loop, always=False):
    """Decorator: where numba is installed, `loop`, compiled, is called instead of the function.

    Both take the same arguments and give the same results, up to rounding. Without `always` a short
    first argument goes to the function: to import numba takes longer than a few sentences take.
    """
    def decorate(plain):
        @wraps(plain)
        def either(first, *others):
            function = plain
            if always or len(first) >= MANY:
                with _compiling:                              # two threads may want it at once
                    function = _compiled(loop) or plain
            return function(first, *others)
        return either
    return decorate


@cache
def _compiled(loop):
    """The loop as numba compiles it, without the GIL, or None where numba is not used."""
    if not (numba := numba_module()):
        return None
    options = {"nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "contract"}}
    try:    # nan stays nan; the cache knows a changed loop, but not changed options
        return numba.njit(cache=True, **options)(loop)
    except RuntimeError:                                      # no folder for a cache is writable
        return numba.njit(**options)(loop)


@cache
def numba_module():
    """numba where it is installed and fits this Python and this NumPy, else None."""
    try:
        import numba
        from numba.core import event
    except ModuleNotFoundError:
        return None
    except ImportError as error:                              # it tells what it needs
        print(f"numba is not used: {error}", file=sys.stderr)
        return None

    class Listener(event.Listener):
        def on_start(self, event):
            if event.data["dispatcher"].py_func.__module__.startswith(__package__):
                _tell_once("numba compiles loops, for a few seconds and then seldom again")

        def on_end(self, _):
            pass
    event.register("numba:compile", Listener())
    return numba


@cache
def _tell_once(line):
    print(line, file=sys.stderr)


@cache
def _cores():
    """Cores that this process may use; OMP_NUM_THREADS, which limits BLAS, limits them too."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return min(available, int(wanted)) if wanted.isdecimal() and int(wanted) else available


@cache
def _threads():
    return ThreadPoolExecutor(_cores() - 1)


def on_all_cores(function, parts):
    """[function(part) for part in parts], each part in a thread of its own.

    It pays from a tenth of a millisecond of NumPy's and SciPy's work, which releases the GIL. What
    no thread has begun when the first part is done is computed here: on a busy machine a thread may
    start late.
    """
    first, *others = parts
    running = [_threads().submit(function, part) for part in others]
    results = [function(first)]
    for part, task in zip(others, running):
        results.append(function(part) if task.cancel() else task.result())
    return results


def fair_shares(work):
    """Cut n items into one slice for each core. work: (n,), the total work before each item."""
    cores = _cores()
    if len(work) < cores:
        return [slice(0, len(work))]
    cuts = np.searchsorted(work, work[-1] / cores * np.arange(1, cores)).tolist()
    cuts = [0, *sorted(set(cuts) - {0}), len(work)]
    return [slice(a, b) for a, b in zip(cuts, cuts[1:])]


def by_rows(function, *arrays):
    """function(*arrays), for one that treats each row on its own, in chunks and on all cores."""
    chunks = _chunks(arrays[0])
    if len(chunks) <= 1:
        return function(*arrays)

    def parts(rows):
        result = function(*(array[rows] for array in arrays))
        return result if isinstance(result, tuple) else (result,)
    whole = tuple(np.empty((len(arrays[0]), *part.shape[1:]), part.dtype)
                  for part in parts(slice(1)))                # one row tells widths and dtypes

    def fill(rows):
        for target, part in zip(whole, parts(rows)):
            target[rows] = part
    _share_out(fill, chunks)
    return whole if len(whole) > 1 else whole[0]


def product(a, b):
    """The matrix product a b: (n, k), (k, m) → (n, m), as `products`."""
    return products((a, b))[0]


def products(*pairs):
    """The matrix products a b of pairs (a, b), on either device; a list. Factors may be transposed.

    After `claim_process` the rows of each a are shared out among the cores.
    """
    multiplications = sum(a.size * b.shape[1] for a, b in pairs)
    if not _own_threads or multiplications < LARGE_PRODUCT or array_module(pairs[0][0]) is not np:
        return [a @ b for a, b in pairs]
    results = [np.empty((len(a), b.shape[1]), np.result_type(a, b)) for a, b in pairs]
    cores = _cores()

    def share(k):
        for (a, b), y in zip(pairs, results):
            rows = slice(k * len(a) // cores, (k + 1) * len(a) // cores)
            np.matmul(a[rows], b, out=y[rows])
    on_all_cores(share, range(cores))
    return results


def add_to(y, x, factor=1):
    """y += factor · x in place, on all cores. y: (n, …); x: like y, or one row for all."""
    def add(rows):
        part = x[rows] if x.ndim == y.ndim else x
        y[rows] += part if factor == 1 else factor * part
    _share_out(add, _chunks(y))


def _chunks(x):
    """Slices of x's rows, each a megabyte, which a core's cache holds; on the device one slice."""
    at_once = max(1, 2**20 // max(1, x[:1].nbytes)) if array_module(x) is np else max(1, len(x))
    return [slice(first, first + at_once) for first in range(0, len(x), at_once)]


def _share_out(function, chunks):
    """function(chunk) for every chunk, shared out among the cores."""
    if chunks:
        on_all_cores(lambda share: [function(chunk) for chunk in chunks[share]],
                     fair_shares(np.arange(len(chunks))))


def device_module(device, precision="tf32", number=0):
    """numpy for "cpu", cupy for "gpu"; precision: of a GPU's products, as for `set_precision`.

    number: of the GPU on this host. Raises UserError where it cannot be used, or where a first
    small product fails (cuBLAS is loaded only then).
    """
    if device == "cpu":
        return np
    try:
        import cupy
    except ImportError as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(f"--device gpu: CuPy cannot be loaded ({reason}); uninstall what there is "
                        f"and install it for your driver: {python_m(INSTALL_CUPY)}") from None
    if not cupy.is_available():
        raise UserError("--device gpu: CuPy is installed but finds no CUDA device; nvidia-smi must "
                        f"list a GPU, and the wheel fit its CUDA version: {python_m(INSTALL_CUPY)}")
    if number >= (found := cupy.cuda.runtime.getDeviceCount()):
        raise UserError(f"--device gpu: {number + 1} or more workers on a host with {found} GPUs; "
                        "start one worker for each, and let each see all of them")
    cupy.cuda.Device(number).use()
    set_precision(precision)
    try:
        float((cupy.ones((8, 8), cupy.float32) @ cupy.ones((8, 8), cupy.float32)).sum())
    except MemoryError:
        raise UserError(f"--device gpu: {machine(cupy)} has no free memory; stop what else runs "
                        "on it (nvidia-smi lists it)") from None
    except Exception as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(f"--device gpu: the GPU was found but a first product failed ({reason}); "
                        f"install CuPy with its CUDA libraries: {python_m(INSTALL_CUPY)}") from None
    return cupy


def set_precision(precision):
    """How a GPU multiplies float32 matrices from now on: "tf32", "fp32" or "bf16"."""
    global product_precision
    import cupy
    import cupy._core._routines_linalg as linalg
    capability = cupy.cuda.Device().compute_capability        # "90": 9.0; no TF32 before 8.0
    if precision == "bf16" and int(capability) < 80:
        raise UserError(f"--precision bf16: {machine(cupy)} has compute capability "
                        f"{int(capability) / 10}, expected 8.0 or more; use --precision fp32")
    product_precision = precision
    linalg.set_compute_type(np.float32, linalg.COMPUTE_TYPE_TF32 if precision == "tf32"
                            and int(capability) >= 80 else linalg.COMPUTE_TYPE_DEFAULT)


def shared_memory():
    """Bytes of shared memory that a block of a kernel can have on this GPU."""
    import cupy
    return cupy.cuda.Device().attributes["MaxSharedMemoryPerBlockOptin"]


def machine(xp):
    """The name of what computes: the processor, its cores in use and perhaps numba; or the GPU."""
    if xp is not np:
        return xp.cuda.runtime.getDeviceProperties(xp.cuda.Device().id)["name"].decode()
    info = Path("/proc/cpuinfo")                              # Linux
    told = info.read_text(encoding="utf-8") if info.exists() else ""
    names = re.findall(r"model name\s*:\s*(.+)", told)
    name = (names or [platform.processor() or platform.machine()])[0]
    loops = f", numba {numba_module().__version__}" if numba_module() else ""
    return f"{name}, {_cores()} cores{loops}"


def to_device(x, xp):
    """A host array, or a dict or tuple of them, as arrays of module xp; None stays None."""
    if isinstance(x, dict):
        return {name: to_device(value, xp) for name, value in x.items()}
    if not isinstance(x, tuple):
        return None if x is None else xp.asarray(x)
    arrays = _arrays(x)    # in one transfer, through page-locked ("pinned") memory
    if xp is not np and any(isinstance(array, np.ndarray) for array in arrays):
        begins = np.cumsum([0, *(-(-array.nbytes // 16) * 16 for array in arrays)])
        packed = np.zeros(begins[-1], np.uint8)
        for array, begin in zip(arrays, begins):
            packed[begin:begin + array.nbytes] = array.reshape(-1).view(np.uint8)
        packed = xp.asarray(packed)
        arrays = [packed[begin:begin + array.nbytes].view(array.dtype).reshape(array.shape)
                  for array, begin in zip(arrays, begins)]
    return _rebuilt(x, iter(arrays))


def _arrays(x):
    """The arrays in nested tuples, in order."""
    if isinstance(x, tuple):
        return [array for part in x for array in _arrays(part)]
    return [] if x is None else [x]


def _rebuilt(x, arrays):
    """The same nested tuples with other arrays, taken one by one."""
    if isinstance(x, tuple):
        parts = [_rebuilt(part, arrays) for part in x]
        return x._make(parts) if hasattr(x, "_make") else tuple(parts)
    return None if x is None else next(arrays)


def to_host(x):
    """An array of either module, or a dict of them, as NumPy arrays."""
    if isinstance(x, dict):
        return {name: to_host(value) for name, value in x.items()}
    return x if isinstance(x, (np.ndarray, np.generic)) else x.get()


def claim_process():
    """A command that computes much calls this first. The process is then its own.

    Each BLAS library that is loaded, and that threadpoolctl knows, gets one thread, whatever
    OPENBLAS_NUM_THREADS says; `products` shares its work out among our own. OpenBLAS's threads wait
    for each other by spinning, which beside other busy processes takes most of a step's time. Freed
    memory is kept.
    """
    global _own_threads
    blas = ThreadpoolController().select(user_api="blas")
    blas.limit(limits=1)
    _own_threads = len(blas) > 0                              # Apple's Accelerate it does not know
    keep_freed_memory()


def keep_freed_memory():
    """Make the C library keep the memory of freed arrays instead of returning it to the kernel.

    Every step frees large arrays and asks for the same sizes again. New pages from the kernel cost
    a page fault each and are filled with zeros. Without mallopt this does nothing.
    """
    M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4                     # malloc.h
    with suppress(AttributeError, OSError, TypeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_MAX, 0)
        libc.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
