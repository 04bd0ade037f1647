"""Sentences to vectors with NumPy and regex alone. With this folder on Python's path:

    from model import SentenceEncoder
    vectors = SentenceEncoder().encode(["How old are you?", "What is your age?"])
    cosines = vectors @ vectors.T
"""

import importlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np


class SentenceEncoder:
    """A trained encoder, read from its folder; convsim_mini/core/ there computes the vectors."""

    def __init__(self, folder=Path(__file__).parent):
        settings = json.loads(Path(folder, "settings.json").read_text(encoding="utf-8"))
        text, self.encoder, _ = own_code(folder, settings["module"])
        self.vocabulary = text.Vocabulary(**settings["vocabulary"])
        params, config = np.load(Path(folder, "model.npz")), SimpleNamespace(**settings["model"])
        params = {name: array.astype(np.float32) for name, array in params.items()}    # of 16 bits
        self.model = self.encoder.Model(params, config, self.vocabulary.size)
        self.dimension = config.layers[-1]

    def encode(self, sentences, at_once=1_024):
        """Unit vectors: any iterable of n str → float32 (n, dimension); one str → (dimension,)."""
        if isinstance(sentences, str):
            return self.encode([sentences])[0]
        texts = list(sentences)
        parts = [self.encoder.embed(self.model, self.vocabulary.encode(texts[k:k + at_once]))
                 for k in range(0, len(texts) or 1, at_once)]
        return np.concatenate(parts)


def own_code(folder, module):
    """Modules of the folder's own convsim_mini.core, whatever is installed under that name."""
    def taken():
        names = [name for name in sys.modules if name.split(".")[0] == "convsim_mini"]
        return {name: sys.modules.pop(name) for name in names}
    others = taken()
    sys.path.insert(0, str(folder))
    try:
        return [importlib.import_module(f"convsim_mini.core.{name}")
                for name in ("text", "model", module)]
    finally:
        sys.path.remove(str(folder))
        taken()
        sys.modules.update(others)
