"""Embeddings: bags of rows, single rows, the mean over a sentence. A table's gradient is sparse.

B is the number of sentences in a batch, N the number of their words; a table is (R, d).
"""

import math

import numpy as np

from ..backend import fair_shares, on_all_cores, on_gpu
from ..data.packed import words_and_bigrams
from . import kernels
from .layers import NO_DROPOUT, dropout_backward, dropout_forward
from .sparse_rows import SparseRows, sum_rows


@on_gpu(kernels.word_bag_forward)
def word_bag_forward(table, packed, word_rows):
    """The bag of a sentence's words and hashed bigrams: the input of a DAN (§2.3.1).

    table: (R, d); its first `word_rows` rows are words, the others are bigrams; packed: word ids of
    B sentences → y: (B, d), cache
    """
    rows = words_and_bigrams(packed, word_rows, len(table) - word_rows)
    return embedding_bag_forward(table, rows, packed.lengths)


def embedding_bag_forward(table, rows, lengths):
    """Sum the embeddings of each sentence and divide by √n, n its length (the paper, §2.3.1).

    On the host only; a GPU has all of `word_bag_forward` in one kernel.
    The length of a sum of n vectors in unrelated directions grows like √n. So a sum would give long
    sentences long vectors and a mean would give them short ones. TensorFlow calls this combiner
    "sqrtn"; PyTorch's EmbeddingBag has the sum and the mean.

    table: (R, d); rows: Packed, M table rows (words and bigrams alike) in B sentences;
    lengths: (B,) words of each sentence → y: (B, d), cache
    """
    scale = (1 / np.sqrt(lengths)).astype(table.dtype)[:, None]           # (B, 1)
    y = np.empty((len(scale), table.shape[1]), table.dtype)               # (B, d)

    def bags(part):
        sum_rows(rows.ids, rows.offsets[part.start:part.stop + 1], table, y[part])
        y[part] *= scale[part]
    on_all_cores(bags, fair_shares(rows.offsets[:-1]))
    return y, (rows.ids, rows.sentence_numbers, scale)


def embedding_bag_backward(dy, cache):
    """Forward: y_b = (1/√n_b) Σ_r count_br E_r, that is y = S E.

    y_b contains E_r count_br/√n_b times, so dE_r = Σ_b count_br dy_b/√n_b, that is dE = Sᵀ dy. In
    other words: each place in sentence b where row r stands adds dy_b/√n_b to dE_r. This list of
    places is returned. The optimiser adds up equal rows, when it has the places of a whole batch.
    dy: (B, d) → dtable: list of SparseRows
    """
    rows, sources, scale = cache
    return [SparseRows(rows, dy * scale, sources)]


@on_gpu(kernels.word_sum)
def word_sum(table, packed):
    """The sum of each sentence's word rows, divided by √n: (R, d), Packed of B → (B, d)."""
    return embedding_bag_forward(table, packed, packed.lengths)[0]


def embedding_forward(table, ids):
    """The embedding of each word: table: (R, d), ids: (N,) → (N, d), cache."""
    return table.take(ids, axis=0), ids


def embedding_backward(dy, ids):
    """Forward: y_n = E_{ids n}. So dE_r = Σ dy_n over all n with word r.

    dy: (N, d) → dtable: list of SparseRows
    """
    return [SparseRows(ids, dy)]


@on_gpu(kernels.placed_embedding_forward)
def placed_embedding_forward(table, packed, signal, dropout=NO_DROPOUT):
    """What a Transformer starts from: √d times a word's embedding plus its position's signal.

    table: (R, d); packed: Packed of N words; signal: (longest or more, d), see `timing_signal`
    → x: (N, d), with dropout, cache
    """
    x, embedding_cache = embedding_forward(table, packed.ids)             # (N, d)
    x *= math.sqrt(x.shape[1])
    positions = np.arange(len(x)) - packed.offsets.take(packed.sentence_numbers)
    x += signal.take(positions, axis=0)
    x, dropout_cache = dropout_forward(x, dropout)
    return x, (embedding_cache, dropout_cache)


def placed_embedding_backward(dx, cache):
    """Forward: x = dropout(√d E + signal). The signal is a constant and has no gradient.

    dx: (N, d) → dtable: list of SparseRows
    """
    embedding_cache, dropout_cache = cache
    return embedding_backward(dropout_backward(dx, dropout_cache) * math.sqrt(dx.shape[1]),
                              embedding_cache)


@on_gpu(kernels.mean_pool_forward)
def mean_pool_forward(x, packed):
    """The mean of each sentence's rows: x: (N, d), packed: Packed of N words → y: (B, d), cache."""
    share = (1 / packed.lengths).astype(x.dtype)                          # (B,)
    y = np.empty((len(share), x.shape[1]), x.dtype)
    sum_rows(np.arange(len(x), dtype=np.int32), packed.offsets, x, y)
    y *= share[:, None]
    return y, (share, packed.sentence_numbers)


@on_gpu(kernels.mean_pool_backward)
def mean_pool_backward(dy, cache):
    """Forward: y_b = (1/n_b) Σ x_i over sentence b. So dx_i = dy_b/n_b: dy: (B, d) → dx: (N, d)."""
    share, sentences = cache
    return (dy * share[:, None]).take(sentences, axis=0)
