"""Faster twins of core's functions: threads, compiled loops, CUDA kernels. `install` puts them in.

core/ holds the definitions. TWINS names for each function that has one its twin for NumPy's arrays,
in host.py, and for CuPy's, in kernels.py. A test compares each with its definition.

    host.py      NumPy on all cores, in place where that saves memory
    threads.py   work shared out among the cores, and memory that is kept
    loops.py     two loops that numba compiles where it is installed
    kernels.py   what a GPU runs in their place
    cuda.py      how the kernels in the .cu files are compiled and started
    devices.py   the host or a GPU
"""

import numpy as np

INSTALLED = set()    # modules for whose arrays the twins are in place


def install(xp=np):
    """Put the twins for arrays of module xp in place, numpy or cupy; they stay there."""
    from .twins import TWINS
    if xp not in INSTALLED:
        INSTALLED.add(xp)
        for plain, (on_host, on_gpu) in TWINS.items():
            if twin := on_host if xp is np else on_gpu:
                plain.register(xp.ndarray, twin)
