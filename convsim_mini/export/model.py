"""Turn sentences into vectors with NumPy, SciPy and regex. With this folder on Python's path:

    from model import load
    vectors = load().encode(["How old are you?", "What is your age?"])
    cosines = vectors @ vectors.T
"""

import json
import sys
from importlib import import_module, util
from pathlib import Path
from types import SimpleNamespace

import numpy as np


def load(folder=Path(__file__).parent):
    """A folder's encoder: a BiEncoder from the folder's own core/."""
    settings = json.loads(Path(folder, "settings.json").read_text(encoding="utf-8"))
    core = package(Path(folder, "core").absolute())
    text, model, _ = (import_module(f"{core}.{name}") for name in (
        "text", "model", settings["module"]))

    class Encoder(model.BiEncoder):
        def __reduce__(self):                                 # a copy is opened from the folder
            return load, (Path(folder).absolute(),)

    vocabulary = text.Vocabulary(**settings["vocabulary"])
    arrays, config = dict(np.load(Path(folder, "model.npz"))), SimpleNamespace(**settings["model"])
    bigrams = arrays.pop("bigrams")
    params = {name: array if name == model.TABLE else array.astype(np.float32)
              for name, array in arrays.items()}              # from 16 bits
    return Encoder(model.Model(params, config, vocabulary.size, bigrams), vocabulary)


def package(folder):
    """Import a folder as a package; → its name, which no other folder's has."""
    name = f"core_{bytes(folder).hex()}"
    if name not in sys.modules:
        spec = util.spec_from_file_location(name, folder / "__init__.py")
        sys.modules[name] = util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return name
