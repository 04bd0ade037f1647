"""Sentences in, unit vectors out: a trained run as users of sentence-transformers expect it."""

import sys
import zlib
from collections.abc import Iterable

import numpy as np
from tqdm import tqdm

from ..core.arrays import array_module, to_device
from ..common.cli import UserError, python_m
from ..core.text import tokenize
from ..core.model import ENCODERS, TABLE, embed, respond
from ..core.layers import l2_normalize_forward
from .projection import with_matrix
from ..core.counting import NUMBERS, with_words, word_directions
from ..training.run import load_matrix, load_run
from .index import Index


class SentenceEncoder:
    """A trained model and its vocabulary: sentences in, unit vectors out.

    It is a bi-encoder, also called a dual encoder: each sentence has a vector of its own. `encode`
    and `similarity` work as in the package sentence-transformers, with fewer options.

    word_weight: weight of the half that counts words, see core/counting.py; 0: the learned half
    is the whole vector
    """

    def __init__(self, model, vocabulary, identity=None, word_weight=0.0):
        self.model, self.vocabulary, self.word_weight = model, vocabulary, word_weight
        self.directions = directions_of(model, vocabulary) if word_weight else None
        self.identity = identity or {}    # what its vectors depend on; an Index compares it
        self.cut = 0                      # sentences so far that a Transformer had to cut

    def __repr__(self):
        on_host = array_module(self.model.params[TABLE]) is np
        return (f"SentenceEncoder(encoder={self.model.config.encoder}, dimension={self.dimension}, "
                f"words={len(self.vocabulary.words)}, device={'cpu' if on_host else 'gpu'})")

    @property
    def dimension(self):
        """Length of an embedding."""
        return self.model.config.layers[-1] + (NUMBERS if self.word_weight else 0)

    def encode(self, sentences, batch_size=1024, show_progress_bar=False, *,
               convert_to_numpy=True, convert_to_tensor=False, normalize_embeddings=True):
        """Embeddings of sentences; the dot product of two embeddings is their cosine.

        sentences: n str in a list, a pandas Series or any other iterable, or one str → float32 (n,
        dimension), or (dimension,). "" counts as one unknown word. The vectors have unit length
        whatever normalize_embeddings says, as with a SentenceTransformer that ends in a Normalize
        layer.
        Raises TypeError for other sentences, ValueError where a tensor is asked for.
        """
        if convert_to_tensor or not convert_to_numpy:
            raise ValueError("encode gives NumPy arrays alone; torch.from_numpy(vectors) makes a "
                             "tensor of them")
        return self._encode(sentences, batch_size, show_progress_bar)

    def encode_responses(self, sentences, batch_size=1024, show_progress_bar=False):
        """Embeddings of sentences as replies, by the response network; the rest as `encode`.

        encode(messages) @ encode_responses(replies).T scores each reply to each message. Training
        ranks replies by this score (ours: the words' half, and the direction that `load` removes).
        """
        return self._encode(sentences, batch_size, show_progress_bar, as_responses=True)

    def _encode(self, sentences, batch_size, show_progress_bar, as_responses=False):
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}, expected 1 or more")
        if isinstance(sentences, str):
            return self._encode([sentences], batch_size, False, as_responses)[0]
        sentences = list_of_texts(sentences)
        vectors = np.empty((len(sentences), self.dimension), np.float32)
        starts = range(0, len(sentences), batch_size)
        for start in tqdm(starts, desc="encoding", unit="batch", disable=not show_progress_bar):
            packed = self.vocabulary.encode(sentences[start:start + batch_size])
            self.cut += number_cut(self.model.config, packed.lengths)
            vectors[start:start + batch_size] = self._embed_batch(packed, as_responses)
        return vectors

    def embed(self, packed, batch_size=1024):
        """The unit vectors of a Packed of n sentences: float32 (n, dimension)."""
        vectors = np.empty((len(packed.lengths), self.dimension), np.float32)
        for first in range(0, len(vectors), batch_size):      # all halves at once would not fit
            part = packed.part(first, min(first + batch_size, len(vectors)))
            vectors[first:first + batch_size] = self._embed_batch(part)
        return vectors

    def _embed_batch(self, packed, as_responses=False):
        u = embed(self.model, packed, len(packed.lengths))
        if as_responses:
            u, _ = l2_normalize_forward(respond(self.model, u))
        return with_words(u, self.directions, packed, self.word_weight)

    def fit(self, sentences, y=None):
        """What scikit-learn calls first. There is nothing left to learn. → the encoder itself"""
        return self

    def transform(self, sentences):
        """`encode`, by the name that a pipeline of scikit-learn calls."""
        return self.encode(sentences)

    def __sklearn_clone__(self):
        return self                                           # not a copy of 0.5 GB for each fold

    def __sklearn_tags__(self):
        from sklearn.base import BaseEstimator
        return BaseEstimator().__sklearn_tags__()

    def search(self, index, sentence, k=10):
        """The k rows of an index that are nearest to a sentence: Hits, best first.

        index: an Index, or the folder of one, which is then read and checked as a whole each time.
        A Hit holds score, number and row, a dict of columns.
        """
        if not isinstance(index, Index):
            index = Index(index, self)
        hits, = index.search([sentence], k)
        return hits

    @staticmethod
    def similarity(a, b):
        """Cosines of vectors a: (n, e) or one (e,), with b: (m, e) or one (e,) → float32 (n, m)."""
        a, b = (l2_normalize_forward(np.atleast_2d(np.asarray(x, np.float32)))[0] for x in (a, b))
        return a @ b.T


def list_of_texts(sentences):
    """Any iterable of str as a list. Raises TypeError for what is none."""
    if isinstance(sentences, (bytes, dict)) or not isinstance(sentences, Iterable):
        raise TypeError(f"sentences is a {type(sentences).__name__}, expected a str or a list of "
                        "str")
    texts = list(sentences)
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"sentence {number} is {text!r}, expected a str")
    return texts


def directions_of(model, vocabulary):
    """`word_directions` of a Vocabulary, on a Model's device."""
    xp = array_module(model.params[TABLE])
    return to_device(word_directions(vocabulary.probabilities()), xp)


def number_cut(config, lengths):
    """How many of the sentences of these lengths (n,) a ModelConfig's encoder cuts."""
    longest = ENCODERS[config.encoder].longest(config)
    return int((lengths > longest).sum()) if longest else 0


def tell_cut(config, lengths):
    """Print how many of the sentences of these lengths (n,) are cut, if any are."""
    cut = number_cut(config, lengths)
    if cut:
        longest = ENCODERS[config.encoder].longest(config)
        print(f"{cut:,} of {len(lengths):,} sentences have more than {longest} words and are cut "
              "there")


def tell_unknown(sentences, vocabulary):
    """Print to standard error which sentences hold no word of the Vocabulary."""
    for sentence in sentences:
        tokens = tokenize(sentence)
        words = [token for token in tokens if token[0].isalnum()] or tokens
        if not vocabulary.ids.keys() & set(words):
            print(f'"{sentence}": 0 of {len(words)} words are known, so its vector says little',
                  file=sys.stderr)


def load(run, device="cpu", tuned=False, words=True):
    """The SentenceEncoder of a run's folder, on "cpu" or "gpu".

    A vector has two halves. The learned one is the model's times a matrix of the run. With `tuned`
    that is what `tune` learned, else all_but_the_top.safetensors, where the run has it: it removes
    the direction in which all vectors agree (Mu et al. 2018). The other half counts words; without
    `words` it is left out. Raises UserError as `load_run`, or without a tuned matrix.
    """
    return encoder_of(load_run(run, device), tuned, words)


def encoder_of(run, tuned=False, words=True):
    """The SentenceEncoder of a Run that is loaded already; the rest as `load`."""
    matrix = load_matrix(run, "tuned" if tuned else "all_but_the_top")
    if tuned and matrix is None:
        raise UserError(f"{run.folder}: holds no tuned.safetensors; make it: " +
                        python_m(f"convsim_mini.tune {run.folder} --data DIR"))
    crc = None if matrix is None else zlib.crc32(np.ascontiguousarray(matrix))
    weight = run.config.model.word_weight if words else 0.0
    identity = {**run.identity, "tuned": tuned, "matrix": crc, "word_weight": weight}
    return SentenceEncoder(with_matrix(run.model, matrix), run.vocabulary, identity, weight)
