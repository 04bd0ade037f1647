"""Faster twins of a few of core's functions: threads, CUDA kernels. `install` puts them in.

core/ holds the definitions. A twin has the name of its function. The twin in host.py runs on NumPy
arrays, the twin in kernels.py on CuPy arrays; a test compares each with its definition.

    host.py           NumPy on all cores
    threads.py        how work is shared out among the cores, and how freed memory is kept
    kernels.py        calls of the GPU kernels, whose code is in the .cu files
    cuda.py           how a kernel is compiled and started
    devices.py        the choice of host or GPU

If you change a function of core, your version runs instead of its twin. CONVSIM_PLAIN=1 in the
environment, or `train --plain`, switches off all twins, which is what you want in a debugger.
"""

import inspect
import os
import sys
import zlib
from importlib import import_module
from itertools import chain

import numpy as np

from ..core import arrays, attention, embeddings, layers, losses, optim, transformer_layers

PLAIN = "CONVSIM_PLAIN"
INSTALLED = set()    # numpy, cupy or both: twins for their arrays are installed
TESTED = {           # functions that have a twin, with the `checksum` that their tests saw
    "matmul": "04aaa649", "sum_rows": "80090cc3", "sgd": "4501e18f",
    "adam": "526e5a0d", "update_rows": "2243fddd", "cross_entropy": "0dac5ebd",
    "each_group": "5b3174f5", "attention": "820239f7", "dropout": "e1b0a73b",
    "layer_norm": "b13e48b6", "tanh_backward": "2ae353da",
}
MODULES = arrays, attention, embeddings, layers, losses, optim, transformer_layers


def install(xp=np):
    """Register the twins for arrays of module xp, numpy or cupy, for the rest of the process.

    A function of core that was changed is named on stderr and gets no twin; nor does the backward
    of a changed forward, or the forward of a changed backward: the two share a cache.
    """
    if xp in INSTALLED or os.environ.get(PLAIN, "0") != "0":
        return
    INSTALLED.add(xp)
    module = import_module(".host" if xp is np else ".kernels", __package__)
    for name, tested in TESTED.items():
        plain = functions(name)
        twins = [getattr(module, one.__name__, None) for one in plain]
        if not all(twins):                                    # the other kind of array has them
            continue
        if checksum(plain) == tested:
            for one, twin in zip(plain, twins):
                one.register(xp.ndarray, twin)
        else:
            print(f"core/{plain[0].__module__.rpartition('.')[2]}.py: {name} was changed, or what "
                  "it uses; your version runs instead of its faster twin", file=sys.stderr)


def functions(name):
    """The functions of core with this name, or with _forward and _backward behind it."""
    found = [vars(module).get(name + end) for module in MODULES
             for end in ("", "_forward", "_backward")]
    return [*dict.fromkeys(one for one in found if hasattr(one, "plain"))]


def checksum(some):
    """CRC-32, in hexadecimal, of the code of functions of core and of those that they call."""
    sources = {}
    waiting = [*map(inspect.unwrap, some)]
    for function in waiting:                                  # which grows meanwhile
        if function.__qualname__ not in sources:
            sources[function.__qualname__] = inspect.getsource(function)
            waiting += called_by(function)
    return f"{zlib.crc32(''.join(sources.values()).encode()):08x}"


def called_by(function):
    """The functions of core whose names a function uses, or one that is defined inside it."""
    code = function.__code__
    blocks = [code, *filter(inspect.iscode, code.co_consts)]
    names = chain.from_iterable(block.co_names for block in blocks)
    used = map(inspect.unwrap, map(function.__globals__.get, names))
    return [one for one in used if inspect.isfunction(one)
            and one.__module__.startswith(arrays.__package__)]
