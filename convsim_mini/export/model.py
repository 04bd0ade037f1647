"""Sentences to vectors with NumPy and regex alone. With this folder on Python's path:

    from model import SentenceEncoder
    vectors = SentenceEncoder().encode(["How old are you?", "What is your age?"])
    cosines = vectors @ vectors.T
"""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np

from ..data.packed import words_and_bigrams    # on one line: export leaves out such lines
from ..data.text import Vocabulary, list_of_texts
from ..model.word_counts import NUMBERS, side_by_side, word_directions    # on one line, too

AT_ONCE = 1_024    # sentences
KINDS = {"F32": "<f4", "F16": "<f2"}


class SentenceEncoder:
    """A deep averaging network (Iyyer et al. 2015; Yang et al. 2018), read from its folder."""

    def __init__(self, folder=Path(__file__).parent):
        self.arrays = read_safetensors(Path(folder, "model.safetensors"))
        words = Path(folder, "vocabulary.json").read_text(encoding="utf-8")
        self.vocabulary = Vocabulary(**json.loads(words))
        self.table, self.layers = self.arrays["encoder.embedding.weight"], []
        while (name := f"encoder.linear{len(self.layers)}") + ".weight" in self.arrays:
            weight = self.arrays[f"{name}.weight"].astype(np.float32)
            bias = self.arrays.get(f"{name}.bias", np.zeros(weight.shape[1]))
            self.layers.append((weight, bias.astype(np.float32)))
        self.dimension, self.word_weight = weight.shape[1], float(self.arrays["word_weight"][0])
        if self.word_weight:
            self.dimension += NUMBERS
            self.directions = word_directions(self.vocabulary.probabilities())

    def encode(self, sentences):
        """Unit vectors: any iterable of n str → float32 (n, dimension); one str → (dimension,)."""
        if isinstance(sentences, str):
            return self.encode([sentences])[0]
        sentences = list_of_texts(sentences)
        vectors = np.empty((len(sentences), self.dimension), np.float32)
        for k in range(0, len(sentences), AT_ONCE):
            vectors[k:k + AT_ONCE] = self.embed(self.vocabulary.encode(sentences[k:k + AT_ONCE]))
        return vectors

    def embed(self, packed):
        """The learned half and the half that counts words, as one unit vector.

        packed: word ids of n sentences → float32 (n, dimension)
        Raises ValueError where damaged weights make numbers that are not finite.
        """
        u = unit_length(self.learned(packed))
        if self.word_weight:
            counts = sums_of_rows(self.directions, packed)
            u = side_by_side(u, unit_length(counts), self.word_weight)
        if not np.isfinite(u.sum()):
            raise ValueError("the vectors are not finite: model.safetensors is damaged")
        return u

    def learned(self, packed):
        """A bag of words and bigrams; the layers: n sentences → float32 (n, e)."""
        return self.dense(self.bag(packed))

    def bag(self, packed):
        """The sum of a sentence's rows divided by √words: n sentences → float32 (n, width)."""
        words, rows = self.vocabulary.size, packed
        if len(self.table) > words:                           # the other rows are for bigrams
            rows = words_and_bigrams(packed, words, len(self.table) - words)
        return sums_of_rows(self.table, rows) / np.sqrt(packed.lengths).astype(np.float32)[:, None]

    def dense(self, x):
        """The fully connected layers, with tanh between them: (n, width) → (n, dimension)."""
        for k, (weight, bias) in enumerate(self.layers):
            x = (np.tanh(x) if k else x) @ weight + bias
        return x


def array_module(x):
    """The module that computes with x: NumPy here, perhaps CuPy in convsim_mini."""
    return np


def sums_of_rows(table, packed):
    """The sum of each sentence's rows: table (R, d), row numbers of n sentences → (n, d)."""
    sums = np.empty((len(packed.lengths), table.shape[1]), np.float32)
    for total, (begin, end) in zip(sums, pairwise(packed.offsets)):
        table[packed.ids[begin:end]].sum(axis=0, dtype=np.float32, out=total)
    return sums


def unit_length(x):
    """Each row divided by its length: (n, e) → (n, e). A zero row stays zero."""
    norm = np.linalg.norm(x, axis=1, keepdims=True)
    return x / np.where(norm > 0, norm, 1)


def read_safetensors(path):
    """Name → array, mapped: 8 bytes with the header's length, a header in JSON, the numbers."""
    file = np.memmap(path, np.uint8, "r")
    begin = 8 + int(file[:8].view("<u8")[0])
    header = json.loads(file[8:begin].tobytes())
    header.pop("__metadata__", None)
    return {name: file[begin + of["data_offsets"][0]:begin + of["data_offsets"][1]]
            .view(KINDS[of["dtype"]]).reshape(of["shape"]) for name, of in header.items()}
