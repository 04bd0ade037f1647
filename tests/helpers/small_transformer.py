"""A small model, a Transformer where nothing else is asked for; sentences and pairs for it."""

import numpy as np

from convsim_mini.config import ModelConfig
from convsim_mini.core.batches import Split
from convsim_mini.core.model import Model
from convsim_mini.core.packed import Packed, offsets_of
from convsim_mini.core.initial import initial_parameters

WORDS = 60
CONFIG = ModelConfig(encoder="transformer", embedding_dim=16, layers=[12], heads=4, hidden=24,
                     transformer_layers=2, max_tokens=40)


def pack(*sentences):
    """Lists of word ids to a Packed."""
    return Packed(np.concatenate(sentences).astype(np.int32), offsets_of([*map(len, sentences)]))


def random_sentences(lengths, seed=0):
    """A Packed of random sentences of these lengths."""
    rng = np.random.default_rng(seed)
    return pack(*(rng.integers(0, WORDS, length) for length in lengths))


def small_split(pairs=40):
    """Pairs of random words; no two texts have the same key."""
    packed = random_sentences(np.random.default_rng(0).integers(1, 9, 2 * pairs))
    return Split(*packed, keys=np.arange(2 * pairs, dtype=np.uint64).reshape(-1, 2))


def small_model(config=CONFIG, dtype=np.float32, seed=0, words=WORDS, bigrams=50, noise=0.0,
                classifies=False):
    """A Model with its first values. noise: added to all, so that none is 0 or 1."""
    rng = np.random.default_rng(seed)
    keys = np.arange(words ** 2)[::max(1, words ** 2 // bigrams)][:bigrams] + words // 2
    keys = keys if config.bag or config.encoder == "dan" else keys[:0]
    table = rng.standard_normal((words + len(keys), config.embedding_dim))
    table /= np.sqrt(config.embedding_dim)
    params = initial_parameters(config, table, rng, classifies)
    return Model({name: (p + noise * rng.standard_normal(p.shape)).astype(dtype)
                  for name, p in params.items()}, config, words, keys)
