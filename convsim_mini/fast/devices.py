"""Where to compute: on the host or on a GPU; how a GPU's kernel is compiled and started."""

import re
from functools import cache, partial
from pathlib import Path

import numpy as np

from ..common.cli import UserError, python_m, user_errors
from . import install

INSTALL_CUPY = ('pip install "cupy-cuda12x[ctk]>=14,<15"   (CUDA 13 drivers: '
                '"cupy-cuda13x[ctk]>=14,<15")')
FILES = ("layers.cu", "embeddings.cu", "attention.cu", "optim.cu")
HERE = Path(__file__).parent
WITHOUT_ASKING = 48 * 1024    # bytes of shared memory that any block may have


def device_module(device, precision="tf32", number=0):
    """numpy for "cpu", cupy for "gpu", with their twins installed.

    precision: of a GPU's products, "tf32" or "fp32"; number: which GPU of this host. Raises
    UserError if the GPU cannot be used, or if a first small product, which loads cuBLAS, fails.
    """
    if device not in ("cpu", "gpu"):
        raise UserError(f'device {device!r}: expected "cpu" or "gpu"')
    install()
    if device == "cpu":
        return np
    try:
        import cupy
        import cupy._core._routines_linalg as linalg
        found = cupy.cuda.runtime.getDeviceCount()
        cupy.cuda.Device(min(number, found - 1)).use()
        capability = int(cupy.cuda.Device().compute_capability)    # "90": 9.0; no TF32 before 8.0
        has_tf32 = precision == "tf32" and capability >= 80
        linalg.set_compute_type(np.float32, linalg.COMPUTE_TYPE_TF32 if has_tf32
                                else linalg.COMPUTE_TYPE_DEFAULT)
        float((cupy.ones((8, 8), cupy.float32) @ cupy.ones((8, 8), cupy.float32)).sum())
    except Exception as error:    # no CuPy, driver, GPU, free memory, or CUDA library
        # CuPy's own ImportError begins with a line of "="; its cause names what is missing
        reason = (str(error.__cause__ or error).strip() or type(error).__name__).splitlines()[0]
        raise UserError(f"--device gpu: CuPy cannot compute ({reason}); nvidia-smi must list a GPU "
                        "with free memory, and CuPy must match its CUDA version: "
                        f"{python_m(INSTALL_CUPY)}") from None
    if number >= found:
        raise UserError(f"--device gpu: {number + 1} or more workers on a host with {found} GPUs; "
                        "start one worker per GPU, and let every worker see all GPUs")
    install(cupy)
    return cupy


def communicator(size, rank):
    """What sums arrays of the GPUs of so many MPI processes. Raises UserError without NCCL."""
    from cupyx.distributed import init_process_group
    install_nccl = python_m("pip install nvidia-nccl-cu12   (CUDA 13: nvidia-nccl-cu13)")
    with user_errors("--device gpu: several workers", install_nccl, RuntimeError):
        return init_process_group(size, rank, use_mpi=True)


# ---------------------------------------------------------------- kernels

def source(file, dtype, width=64):
    """The complete CUDA C source of one of FILES for float32 or float64 and heads of this width."""
    real = {4: "float", 8: "double"}[np.dtype(dtype).itemsize]
    return f"typedef {real} real;\n#define WIDTH {width}\n" + "".join(
        (HERE / name).read_text(encoding="utf-8") for name in ("common.cuh", file))


@cache
def _kernel(kernel, dtype, width):
    """The kernel "file.name", compiled, and a converter for each parameter."""
    import cupy
    file, name = kernel.split(".")
    code = source(f"{file}.cu", dtype, width)
    parameters = re.search(rf"__global__ void {name}\((.*?)\)", code, re.S)[1]
    kinds = {"int": np.int32, "i64": np.int64, "u64": np.uint64, "real": dtype.type,
             "Parameters": np.asarray}                        # is one of kernels.PARAMETERS already
    makers = []
    for parameter in parameters.split(","):
        kind = kinds[re.search("|".join(kinds), parameter)[0]]
        makers.append(partial(_pointer, np.dtype(kind)) if "*" in parameter else kind)
    return cupy.RawKernel(code, name, options=("-std=c++17",)), makers


def _pointer(dtype, x):
    """An array of this dtype, or a null pointer for None."""
    if x is None:
        return np.uint64(0)
    if not x._c_contiguous or x.dtype != dtype:               # CuPy's; x.flags costs ten times more
        raise ValueError(f"a kernel needs a C-contiguous array of {dtype}, not one of {x.dtype} "
                         f"with strides {x.strides}")
    return x


def launch(kernel, blocks, threads, *arguments, dtype=None, shared=0, width=64):
    """Start the kernel "file.name" on the current stream. It runs after this function returns.

    blocks, threads: tuples; dtype: what `real` is, by default the first array's dtype; shared: how
    many `real` numbers each block has in shared memory; width: see `source`. Arguments are numbers,
    C-contiguous arrays or None (a null pointer). Raises ValueError for a wrong number of arguments
    or an array that is not C-contiguous or of another dtype.
    """
    if 0 in blocks:                                           # CuPy would start one
        return
    dtype = dtype or next(x for x in arguments if x is not None).dtype
    function, makers = _kernel(kernel, dtype, width)
    shared *= dtype.itemsize
    if shared > WITHOUT_ASKING:
        function.max_dynamic_shared_size_bytes = shared
    function(blocks, threads, [make(x) for make, x in zip(makers, arguments, strict=True)],
             shared_mem=shared)
