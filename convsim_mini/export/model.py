"""Turn sentences into vectors with NumPy, SciPy and regex. With this folder on Python's path:

    from model import load
    vectors = load().encode(["How old are you?", "What is your age?"])
    cosines = vectors @ vectors.T
"""

import importlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np


def load(folder=Path(__file__).parent):
    """A folder's encoder: a BiEncoder from the folder's own convsim_mini/core/."""
    settings = json.loads(Path(folder, "settings.json").read_text(encoding="utf-8"))
    text, model, bi_encoder, _ = own_code(folder, settings["module"])

    class Encoder(bi_encoder.BiEncoder):
        def __reduce__(self):                                 # a copy is opened from the folder
            return load, (Path(folder).absolute(),)

    vocabulary = text.Vocabulary(**settings["vocabulary"])
    arrays, config = dict(np.load(Path(folder, "model.npz"))), SimpleNamespace(**settings["model"])
    bigrams = arrays.pop("bigrams")
    params = {name: array.astype(np.float32) for name, array in arrays.items()}    # from 16 bits
    return Encoder(model.Model(params, config, vocabulary.size, bigrams), vocabulary)


def own_code(folder, module):
    """Modules of the folder's own convsim_mini.core, whatever is installed under that name."""
    def take_out():
        names = [name for name in sys.modules if name.split(".")[0] == "convsim_mini"]
        return {name: sys.modules.pop(name) for name in names}
    others = take_out()
    sys.path.insert(0, str(folder))
    try:
        return [importlib.import_module(f"convsim_mini.core.{name}")
                for name in ("text", "model", "bi_encoder", module)]
    finally:
        sys.path.remove(str(folder))
        take_out()                                            # the folder's own
        sys.modules.update(others)
