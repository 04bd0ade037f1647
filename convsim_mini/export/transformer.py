"""The forward pass of a Transformer: g sentences of equal length are one array, without padding.

n: their words; d: the width of a word's vector; h: the attention heads.
"""

import json
import math
from pathlib import Path

import numpy as np

from .model import SentenceEncoder    # export leaves this line out

WORDS_AT_ONCE = 4_096
EPSILON = 1e-6    # of layer norm


class Transformer(SentenceEncoder):
    """A Transformer encoder (Vaswani et al. 2017; Yang et al. 2018), read from its folder."""

    def __init__(self, folder=Path(__file__).parent):
        super().__init__(folder)
        self.settings = json.loads(Path(folder, "transformer.json").read_text(encoding="utf-8"))
        self.weights = {name: array.astype(np.float32) for name, array in self.arrays.items()
                        if name != "encoder.embedding.weight"}
        self.signal = timing_signal(self.settings["max_tokens"], self.table.shape[1])

    def learned(self, packed):
        """The mean of a sentence's words after all sublayers; the dense layers.

        packed: word ids of sentences, here cut to max_tokens → float32 (sentences, e)
        """
        packed = packed.take(np.arange(len(packed.lengths)), self.settings["max_tokens"])
        means = np.empty((len(packed.lengths), self.table.shape[1]), np.float32)
        for n in np.unique(packed.lengths):
            same = np.flatnonzero(packed.lengths == n)
            g = max(1, WORDS_AT_ONCE // n)
            for group in (same[k:k + g] for k in range(0, len(same), g)):
                ids = packed.take(group).ids.reshape(-1, n)                     # (g, n)
                means[group] = self.sublayers(ids).mean(axis=1)                 # (g, d)
        x = self.dense(means)
        if self.settings["bag"]:                              # what a DAN of one layer gives
            bag = math.sqrt(means.shape[1]) * self.bag(packed)
            x += bag @ self.weights["encoder.bag.weight"]
        return x

    def sublayers(self, ids):
        """Each adds to x. Pre-norm: it reads norm(x). Post-norm: x is normalised after each sum.

        ids: (g, n) → (g, n, d)
        """
        x = self.table[ids].astype(np.float32) * math.sqrt(self.table.shape[1])
        x += self.signal[:ids.shape[1]]                                         # (g, n, d)
        pre_norm = self.settings["pre_norm"]
        for k in range(self.settings["transformer_layers"]):
            for kind, sublayer in (("attention", self.attend), ("feed_forward", self.feed_forward)):
                name = f"encoder.layer{k}.{kind}"
                x = x + sublayer(name, self.norm(f"{name}.norm", x) if pre_norm else x)
                x = x if pre_norm else self.norm(f"{name}.norm", x)
        return self.norm("encoder.norm", x) if pre_norm else x

    def attend(self, name, x):
        """Self-attention, softmax(q kᵀ/√(d/h)) v in each head: (g, n, d) → (g, n, d)."""
        qkv = self.linear(f"{name}.qkv", x).reshape(*x.shape[:2], 3, self.settings["heads"], -1)
        q, k, v = qkv.transpose(2, 0, 3, 1, 4)                # (g, h, n, d/h) each
        scores = q @ k.swapaxes(2, 3) / math.sqrt(q.shape[3])                   # (g, h, n, n)
        p = np.exp(scores - scores.max(axis=3, keepdims=True))
        p /= p.sum(axis=3, keepdims=True)                     # row i: where word i looks
        return self.linear(f"{name}.output", (p @ v).swapaxes(1, 2).reshape(x.shape))

    def feed_forward(self, name, x):
        """Two linear layers with relu between them, each word alone: (g, n, d) → (g, n, d)."""
        return self.linear(f"{name}.linear1", np.maximum(self.linear(f"{name}.linear0", x), 0))

    def linear(self, name, x):
        """x W + b, all words in one product of matrices: (g, n, d) → (g, n, e)."""
        y = x.reshape(-1, x.shape[2]) @ self.weights[f"{name}.weight"]
        y += self.weights[f"{name}.bias"]
        return y.reshape(*x.shape[:2], -1)

    def norm(self, name, x):
        """Layer norm, each word's numbers to mean 0 and variance 1; scale and shift: (g, n, d)."""
        x = x - x.mean(axis=2, keepdims=True)
        x /= np.sqrt((x * x).mean(axis=2, keepdims=True) + EPSILON)
        return x * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]


def timing_signal(length, width):
    """Sines and cosines that tell positions apart: (length, width); their periods grow along it."""
    timescales = 10_000 ** np.linspace(0, 1, width // 2)      # (width/2,): from 1 to 10,000
    angles = np.arange(length)[:, None] / timescales                            # (length, width/2)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)


SentenceEncoder = Transformer    # the name under which users find it
