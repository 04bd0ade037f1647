"""Faster twins of core's functions: threads, compiled loops, CUDA kernels. `install` puts them in.

core/ holds the definitions. A twin has the name of its function. The twin in host.py runs on NumPy
arrays, the twin in kernels.py on CuPy arrays; a test compares each with its definition.

    twins.py          the table of functions and twins
    fingerprints.py   which functions of core are unchanged since their twins were tested
    host.py           NumPy on all cores
    threads.py        how work is shared out among the cores, and how freed memory is kept
    loops.py          two loops that numba compiles if it is installed
    kernels.py        calls of the GPU kernels, whose code is in the .cu files
    cuda.py           how a kernel is compiled and started
    devices.py        the choice of host or GPU

If you change a function of core, your version runs instead of its twin. CONVSIM_PLAIN=1 in the
environment, or `train --plain`, switches off all twins, which is what you want in a debugger.
"""

import os
import sys

import numpy as np

PLAIN = "CONVSIM_PLAIN"
INSTALLED = set()    # numpy, cupy or both: twins for their arrays are installed


def install(xp=np):
    """Register the twins for arrays of module xp, numpy or cupy, for the rest of the process.

    A changed function of core is named on stderr and gets no twin. The backward of a changed
    forward gets none either, nor the forward of a changed backward: the two share a cache.
    """
    from .fingerprints import changed, layer_of, place_of
    from .twins import TWINS
    if xp in INSTALLED or os.environ.get(PLAIN, "0") != "0":
        return
    INSTALLED.add(xp)
    twins = {plain: of_host if xp is np else of_gpu for plain, (of_host, of_gpu) in TWINS.items()}
    edited = [plain for plain in changed(TWINS) if twins[plain]]
    for plain in edited:
        print(f"{place_of(plain)}: {plain.__name__} was changed, or what it uses; your version "
              "runs instead of its faster twin", file=sys.stderr)
    layers = set(map(layer_of, edited))
    for plain, twin in twins.items():
        if twin and layer_of(plain) not in layers:
            plain.register(xp.ndarray, twin)
