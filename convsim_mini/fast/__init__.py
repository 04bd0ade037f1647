"""Faster twins of core's functions: threads, compiled loops, CUDA kernels. `install` puts them in.

core/ holds the definitions. TWINS names for each function that has one its twin for NumPy's arrays,
in host.py, and for CuPy's, in kernels.py. A test compares each with its definition.

    host.py      NumPy on all cores, in place where that saves memory
    threads.py   work shared out among the cores, and memory that is kept
    fingerprints.py    which functions of core are still those that their twins were tested against
    loops.py     two loops that numba compiles where it is installed
    kernels.py   what a GPU runs in their place
    cuda.py      how the kernels in the .cu files are compiled and started
    devices.py   the host or a GPU

A reader who changes a function of core runs that function: its twin stays out. CONVSIM_PLAIN=1 in
the environment, or `train --plain`, keeps all of them out, as a debugger wants it.
"""

import os
import sys

import numpy as np

PLAIN = "CONVSIM_PLAIN"
INSTALLED = set()    # modules for whose arrays the twins are in place


def install(xp=np):
    """Put the twins for arrays of module xp in place, numpy or cupy; they stay there.

    A changed function of core keeps its place, and so does the other of its forward and backward,
    because the two share a cache. It is named on stderr.
    """
    from .fingerprints import changed, layer_of, place_of
    from .twins import TWINS
    if xp in INSTALLED or os.environ.get(PLAIN, "0") != "0":
        return
    INSTALLED.add(xp)
    twins = {plain: of_host if xp is np else of_gpu for plain, (of_host, of_gpu) in TWINS.items()}
    own = [plain for plain in changed(TWINS) if twins[plain]]
    for plain in own:
        print(f"{place_of(plain)}: {plain.__name__} was changed, or what it uses; it runs as it "
              "stands there, not its faster twin", file=sys.stderr)
    layers = set(map(layer_of, own))
    for plain, twin in twins.items():
        if twin and layer_of(plain) not in layers:
            plain.register(xp.ndarray, twin)
