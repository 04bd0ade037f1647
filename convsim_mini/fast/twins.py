"""Functions of core and their faster twins of the same names, in host.py and kernels.py."""

from ..core import (
    attention, dropout, embeddings, layers, losses, optim, transformer_layers)
from . import host, kernels

TWINS = {    # each @twinned function: (its twin for NumPy's arrays, for CuPy's), None for no twin
    function: (getattr(host, name, None), getattr(kernels, name, None))
    for core in (attention, dropout, embeddings, layers, losses, optim, transformer_layers)
    for name, function in vars(core).items() if hasattr(function, "plain")}
