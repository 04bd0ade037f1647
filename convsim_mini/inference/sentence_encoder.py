"""Sentences in, unit vectors out: a trained run as users of sentence-transformers expect it."""

import zlib
from collections.abc import Iterable
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ..common.cli import UserError, progress, python_m, say
from ..core.arrays import array_module
from ..core.layers import l2_normalize_forward
from ..core.model import BiEncoder, embed, one_column
from ..core.text import UNKNOWN
from ..data.layouts import Reading
from ..data.texts import texts_of
from .index import WORDS, Index, weight_of
from .stored import index_at
from .tfidf import weighted_once


class SentenceEncoder(BiEncoder):
    """A trained model and its vocabulary: sentences in, unit vectors out.

    `encode` and `similarity` work as in the package sentence-transformers, with fewer options.
    `fit` and `transform` make it a step of a scikit-learn pipeline.
    """

    def __init__(self, model, vocabulary, identity=None, columns=()):
        super().__init__(model, vocabulary)
        self.columns = columns    # of the tables that it was trained on; (): they have known names
        self.identity = identity or {}    # what its vectors depend on; an Index compares it
        self.log = []    # dicts: what `fit` measured and logged
        self.folder = None    # where `fit` put the run, unless that was temporary

    def encode(self, sentences: str | Iterable[str], show_progress_bar: bool = False,
               as_responses: bool = False) -> np.ndarray:
        """As in core, but None, NaN and NA count as "", and a number as its digits.

        show_progress_bar: only in a terminal or a notebook; as_responses: embed them as replies:
        encode(messages) @ encode(replies, as_responses=True).T has the scores that training ranks
        """
        if isinstance(sentences, str):
            return super().encode(sentences, as_responses=as_responses)
        bar = partial(progress, desc="encoding", delay=1) if show_progress_bar else iter
        packed = self.packed(texts_of(one_column(sentences)))
        return embed(self.model, packed, as_responses=as_responses, shown=bar)

    # ---- a step of a scikit-learn pipeline; scikit-learn itself is imported only when it calls

    _sklearn_auto_wrap_output_keys = {"transform"}    # or `set_output` would do nothing

    def fit(self, sentences: Any, y: Any = None) -> Self:
        """Called first by scikit-learn; nothing is left to learn. → the encoder itself"""
        if isinstance(sentences, (list, tuple)) and isinstance(next(iter(sentences), ""), tuple):
            raise TypeError("the encoder is already trained; to train one: convsim_mini.fit(pairs)")
        return self

    def transform(self, sentences: str | Iterable[str]) -> Any:
        """`encode`, as scikit-learn calls it; a DataFrame if `set_output` asks for one."""
        from sklearn.utils._set_output import _wrap_data_with_container
        return _wrap_data_with_container("transform", self.encode(sentences), sentences, self)

    def set_output(self, *, transform: str) -> Self:
        """What `transform` returns: "default" (an array), "pandas" or "polars". → the encoder"""
        self._sklearn_output_config = {"transform": transform}
        return self

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the dimensions: (e,)"""
        return np.array([f"meaning{k}" for k in range(self.dimension)], object)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags
        return Tags("transformer", TargetTags(required=False), TransformerTags(),
                    requires_fit=False, input_tags=InputTags(two_d_array=False, string=True))

    def __sklearn_clone__(self) -> Self:
        return copy(self)    # only `set_output` changes anything in it

    # ---- search

    def index(self, rows: str | Path | Iterable[Any], column: str | int | None = None,
              replies: bool = False, encoding: str = "utf-8") -> Index:
        """An Index of texts, a table (a DataFrame, dicts …) or a file; or that of a folder, opened.

        column: the one to embed, if the columns' names do not show it; replies: whether to embed a
        table's replies; encoding: of a file without a BOM. Raises UserError.
        """
        columns = () if column is None else (str(column),)
        side = "response" if replies else "input"
        return index_at(self, rows, Reading(columns, encoding, self.columns, side))

    def search(self, index: Index, sentences: str | list[str], k: int = 10,
               words: float | None = None) -> Any:
        """The k rows of an Index that are nearest to a sentence: Hits, best first.

        sentences: one; or a list, which gives a list of such lists; words: as in Index.search
        """
        if not isinstance(index, Index):
            raise TypeError(f"{index!s:.60}: expected an Index, as `index` makes, then sentences")
        if index.encoder.identity != self.identity:
            raise ValueError("another run made the index; search it with that run's encoder")
        if isinstance(sentences, str):
            return index.search([sentences], k, words)[0]
        return index.search([*texts_of(one_column(sentences))], k, words)

    def scores(self, a: str | Iterable[str], b: str | Iterable[str], words: float = WORDS
               ) -> np.ndarray:
        """The cosine of the learned vectors plus `words` times that of weighted words.

        a: n texts, b: m texts, or a single one → float32 (n, m). Raises UserError for words < 0
        """
        a, b = ([*texts_of([some] if isinstance(some, str) else one_column(some))]
                for some in (a, b))
        p = self.vocabulary.probabilities()
        x, y = (weighted_once(self.packed(some), p) for some in (a, b))    # (n, pieces), (m, …)
        meaning = self.encode(a) @ self.encode(b).T
        return meaning + np.float32(weight_of(words)) * (x @ y.T).toarray()

    @staticmethod
    def similarity(a: ArrayLike, b: ArrayLike) -> np.ndarray:
        """Cosines of vectors a: (n, e) or one (e,), with b: (m, e) or one (e,) → float32 (n, m)."""
        u, v = (np.atleast_2d(np.asarray(x, np.float64)) for x in (a, b))
        return (l2_normalize_forward(u)[0] @ l2_normalize_forward(v)[0].T).astype(np.float32)


def warn_if_unknown(sentences, vocabulary):
    """Report on standard error the sentences without any word that the Vocabulary can spell."""
    for sentence in sentences:
        if not (vocabulary.encode([sentence]).ids != UNKNOWN).any():
            say(f'"{sentence}": none of its words is known, so its vector says little')


def encoder_of(run, tuned=False):
    """The SentenceEncoder of a Run; tuned: its vectors are multiplied by `tune`'s matrix."""
    if tuned and run.tuned is None:
        raise UserError(f"{run.path}: has no tuned matrix; make one: " +
                        python_m("convsim_mini.tune --data DIR", run.path))
    model = with_matrix(run.model, run.tuned) if tuned else run.model
    crc = zlib.crc32(np.ascontiguousarray(run.tuned)) if tuned else None
    identity = {"weights": run.weights_checksum, "matrix": crc}
    return SentenceEncoder(model, run.vocabulary, identity, run.config.columns)


def with_matrix(model, matrix):
    """A Model that multiplies the vectors of `model` by a matrix and gives them unit length again.

    Vectors are u = x/‖x‖ with x = h W + b, and u M has the direction of x M = h (W M) + b M. So the
    matrix becomes part of the last linear layer, and encoding takes no longer than before. With
    config.bag, x has a second summand, bag W_bag, and W_bag is multiplied by M too.
    matrix: (e, e) on the host
    """
    last = f"encoder.linear{len(model.config.layers) - 1}"
    params = {name: p @ array_module(p).asarray(matrix, p.dtype)
              if name in (f"{last}.weight", f"{last}.bias", "encoder.bag.weight") else p
              for name, p in model.params.items()}
    return model._replace(params=params)
