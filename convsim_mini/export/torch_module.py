"""How sentence_transformers opens this folder (see modules.json); NumPy does the work."""

import shutil

import torch
from threadpoolctl import ThreadpoolController    # scikit-learn, which sentence_transformers needs

from .model import load

# NumPy's threads would wait for each other far longer than a small batch takes
BLAS = ThreadpoolController().select(user_api="blas")


class TorchModule(torch.nn.Module):
    """Texts → "sentence_embedding": float32 (n, dimension), on the CPU, without gradients."""

    save_in_root = True

    def __init__(self, folder):
        super().__init__()
        self.folder, self.encoder = folder, load(folder)

    @classmethod
    def load(cls, folder):
        """The module of a folder."""
        return cls(folder)

    def preprocess(self, texts, prompt=None, **_):
        """Texts, with the prompt in front of each, as the features that `forward` reads."""
        return {"texts": [(prompt or "") + text for text in texts]}

    tokenize = preprocess    # its name before sentence_transformers 5.3

    def forward(self, features):
        """Add the texts' unit vectors to the features."""
        with BLAS.limit(limits=1):
            vectors = torch.from_numpy(self.encoder.encode(features["texts"]))
        return {**features, "sentence_embedding": vectors}

    def train(self, mode=True):
        """Called before each step of a training, which raises TypeError, and by `eval`."""
        if mode:
            raise TypeError(f"{self.folder}: cannot be trained, for NumPy computes its vectors; "
                            "train its run further (convsim_mini.train --init) and export that")
        return super().train(mode)

    def get_sentence_embedding_dimension(self):
        """The dimension of a vector."""
        return self.encoder.dimension

    def save(self, folder, **_):
        """Copy this folder, except what sentence_transformers writes itself."""
        shutil.copytree(self.folder, folder, dirs_exist_ok=True,
                        ignore=shutil.ignore_patterns("__pycache__", "config_*"))
