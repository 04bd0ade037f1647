"""The table: which function of core has which faster twin, the function of the same name here."""

from ..core import (
    attention, dropout, embeddings, layers, losses, optim, transformer_layers)
from . import host, kernels

TWINS = {    # function of core: (its twin for NumPy's arrays, for CuPy's); None: there is none
    plain: (getattr(host, name, None), getattr(kernels, name, None))
    for core in (attention, dropout, embeddings, layers, losses, optim, transformer_layers)
    for name, plain in vars(core).items() if hasattr(plain, "plain")}
