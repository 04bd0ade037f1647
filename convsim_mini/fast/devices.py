"""Where to compute: on the host or on a GPU."""

import numpy as np

from ..common.cli import UserError, python_m, user_errors
from . import install

INSTALL_CUPY = ('pip install "cupy-cuda12x[ctk]>=14,<15"   (CUDA 13 drivers: '
                '"cupy-cuda13x[ctk]>=14,<15")')


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
