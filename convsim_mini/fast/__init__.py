"""Faster twins of a few of core's functions: threads, CUDA kernels. `install` puts them in.

core/ holds the definitions. A twin has the name of its function. The twin in host.py runs on NumPy
arrays, the twin in kernels.py on CuPy arrays; a test compares each with its definition.

    host.py           NumPy on all cores: how they share work, how freed memory is kept
    kernels.py        calls of the GPU kernels, whose code is in the .cu files
    devices.py        the choice of host or GPU, and how a kernel is compiled and started

If you change a file of core that has such functions, all of core runs as it stands. The same does
CONVSIM_PLAIN=1 in the environment, or `train --plain`, which is what you want in a debugger.
"""

import inspect
import os
import sys
import zlib
from importlib import import_module

import numpy as np

from ..core import arrays, attention, embeddings, layers, losses, optim, transformer_layers

PLAIN = "CONVSIM_PLAIN"
INSTALLED = set()    # numpy, cupy or both: twins for their arrays are installed
TESTED = {           # files with functions that have a twin: the `checksum` that their tests saw
    arrays: "14a44490", attention: "b1a65beb", embeddings: "42d9f109",
    layers: "760d9263", losses: "4fa8d032", optim: "f084b196",
    transformer_layers: "44c2a5a9",
}


def install(xp=np):
    """Register the twins for arrays of module xp, numpy or cupy, for the rest of the process.

    If one of these files of core was changed, stderr says so, and all of core runs as it stands.
    """
    if xp in INSTALLED or os.environ.get(PLAIN, "0") != "0":
        return
    INSTALLED.add(xp)
    changed = [file.__name__ for file, tested in TESTED.items() if checksum(file) != tested]
    if changed:
        print(f"{', '.join(changed)} was changed; core runs as it stands, without its faster twins",
              file=sys.stderr)
        return
    twins = import_module(".host" if xp is np else ".kernels", __package__)
    for plain in twinned_functions():
        if twin := getattr(twins, plain.__name__, None):      # the other kind of array may have it
            plain.register(xp.ndarray, twin)


def twinned_functions():
    """The functions of core that have a twin."""
    return {one for file in TESTED for one in vars(file).values() if hasattr(one, "plain")}


def checksum(file):
    """CRC-32, in hexadecimal, of the source of a file of core."""
    return f"{zlib.crc32(inspect.getsource(file).encode()):08x}"
