"""A small model, a Transformer where nothing else is asked for, and random sentences for it."""

import numpy as np

from convsim_mini.config import ModelConfig
from convsim_mini.core.packed import Packed
from convsim_mini.training.initial import initial_parameters
from convsim_mini.core.model import Model

WORDS = 60
CONFIG = ModelConfig(encoder="transformer", embedding_dim=16, layers=[12], heads=4, hidden=24,
                     transformer_layers=2, max_tokens=40)


def pack(lengths, seed=0):
    """Random sentences of these lengths."""
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return Packed(np.random.default_rng(seed).integers(0, WORDS, offsets[-1]).astype(np.int32),
                  offsets)


def small_model(config=CONFIG, dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    rows = WORDS + 50 * (config.bag or config.encoder == "dan")
    table = rng.standard_normal((rows, config.embedding_dim)) / np.sqrt(config.embedding_dim)
    params = initial_parameters(config, table, rng)
    return Model({name: p.astype(dtype) for name, p in params.items()}, config, WORDS)
