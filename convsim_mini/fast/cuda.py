"""How a CUDA kernel is compiled and started: its code in a .cu file, arguments, shared memory."""

import re
from functools import cache, partial
from pathlib import Path

import numpy as np

FILES = ("layers.cu", "embeddings.cu", "attention.cu", "optim.cu")
HERE = Path(__file__).parent
WITHOUT_ASKING = 48 * 1024    # bytes of shared memory that any block may have


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
