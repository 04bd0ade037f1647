"""The layers, each as a pair of pure functions: forward(x, …) → (y, cache), backward(dy, cache).

B is the number of sentences in a batch, d, e feature sizes, R rows of a table. A backward's
docstring starts with the forward it differentiates. Nothing here fixes a dtype or a device:
results follow their inputs.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse

from .backend import array_module, fair_shares, on_all_cores, sparse_module


class SparseRows(NamedTuple):
    """Gradient of some rows of a table; a table's gradient is a list of them, the rest has none.

    rows: (U,) distinct, ascending; values: (U, d).
    """

    rows: np.ndarray
    values: np.ndarray


# ---------------------------------------------------------------- linear

def linear_forward(x, weight, bias):
    """y = x W + b.

    x: (B, d), weight: (d, e), bias: (e,) → y: (B, e), cache.
    """
    y = x @ weight                                            # (B, e)
    y += bias                                                 # in place: saves one pass over y
    return y, (x, weight)


def linear_backward(dy, cache):
    """Forward: y_be = Σ_d x_bd W_de + b_e.

    ∂y_be/∂W_de = x_bd, so dW_de = Σ_b x_bd dy_be = (xᵀ dy)_de; ∂y_be/∂x_bd = W_de, so
    dx = dy Wᵀ; b_e stands in every row, so db sums dy over the rows.

    dy: (B, e) → dx: (B, d), dweight: (d, e), dbias: (e,)
    """
    x, weight = cache
    return dy @ weight.T, x.T @ dy, dy.sum(axis=0)


# ---------------------------------------------------------------- activations

def tanh_forward(x):
    """y = tanh x, elementwise; any shape."""
    y = array_module(x).tanh(x)
    return y, y


def tanh_backward(dy, cache):
    """Forward: y = tanh x. dy/dx = 1 − tanh² x = 1 − y², so the output is all it takes."""
    y = cache
    return dy * (1 - y * y)


# ---------------------------------------------------------------- unit length

def l2_normalize_forward(x):
    """Scale each row to unit length: y = x / ‖x‖ (Yang et al. 2018, §3.1).

    x: (B, d) → y: (B, d), cache. A zero row stays zero.
    """
    xp = array_module(x)
    norm = xp.sqrt((x * x).sum(axis=1, keepdims=True))        # (B, 1)
    norm = xp.where(norm > 0, norm, 1)                        # a zero row has no direction
    y = x / norm                                              # (B, d)
    return y, (y, norm)


def l2_normalize_backward(dy, cache):
    """Forward: y = x / n, n = ‖x‖.

    ∂yᵢ/∂xⱼ = (δᵢⱼ − yᵢ yⱼ) / n, so the part of dy along y is projected out (moving x along
    itself does not turn it) and the rest is divided by n.

    dy: (B, d) → dx: (B, d)
    """
    y, norm = cache
    along = (dy * y).sum(axis=1, keepdims=True)               # (B, 1)
    return (dy - along * y) / norm


# ---------------------------------------------------------------- embeddings

def embedding_bag_forward(table, rows, lengths):
    """Sum the embeddings of each sentence and divide by √n, n its length (the paper, §2.3.1).

    A sum alone would make long sentences long vectors; a mean would shrink them, since vectors
    that point in unrelated directions add up like √n. Division by √n is TensorFlow's "sqrtn".

    table: (R, d); rows: Packed, M table rows (words and bigrams alike) in B sentences;
    lengths: (B,) words of each sentence → y: (B, d), cache.

    As matrices, y = S E: E (U, d) holds the distinct rows in use, S (B, U) counts them sentence
    by sentence and carries 1/√n. Both are cut into blocks along U, one for each core.
    """
    xp = array_module(table)
    scale = (1 / xp.sqrt(lengths)).astype(table.dtype)[:, None]           # (B, 1)
    blocks = count_rows(rows, table.dtype)
    y, *others = on_all_cores(lambda block: block.counts.T @ table.take(block.rows, axis=0), blocks)
    for part in others:                                                   # Σ (B, Uₖ) (Uₖ, d) → (B, d)
        y += part
    y *= scale                                                            # in place: saves a pass
    return y, (blocks, scale)


def embedding_bag_backward(dy, cache):
    """Forward: y_b = (1/√n_b) Σ_r count_br E_r, that is y = S E.

    E_r stands in y_b count_br/√n_b times, so dE_r = Σ_b count_br dy_b/√n_b: dE = Sᵀ dy. A row
    that is met several times, in one sentence or in many, collects all its contributions; rows
    that the batch does not use get none and are not mentioned.

    dy: (B, d) → dtable: list of SparseRows, one for each block, no row in two of them
    """
    blocks, scale = cache
    dy = dy * scale                                                       # (B, d)
    return on_all_cores(lambda block: SparseRows(block.rows, block.counts @ dy), blocks)  # (Uₖ, B) (B, d) → (Uₖ, d)


class RowBlock(NamedTuple):
    """Some of the distinct rows that a batch uses, and how often each stands in each sentence.

    rows: (Uₖ,) ascending; counts: CSR (Uₖ, B).
    """

    rows: np.ndarray
    counts: scipy.sparse.csr_matrix


def count_rows(rows, dtype):
    """The table rows in use and their sentences: Packed of M rows in B sentences → list of RowBlocks.

    Sorting the rows brings equal ones together; their sentences, in that order, are the columns
    of a sparse matrix. The blocks hold about equally much work: rows to fetch and entries to add.
    """
    xp = array_module(rows.ids)
    order = xp.argsort(rows.ids)                                          # (M,)
    ids, sentence = rows.ids[order], rows.sentence_numbers[order]         # (M,) each
    changes = xp.flatnonzero(ids[1:] != ids[:-1]) + 1
    begin = xp.concatenate([xp.zeros(1, changes.dtype), changes])         # (U,) where a new row begins
    indptr = xp.append(begin, len(ids)).astype(xp.int32)                  # (U + 1,)
    counts = sparse_module(xp).csr_matrix((xp.ones(len(ids), dtype), sentence, indptr),
                                          shape=(len(begin), len(rows.offsets) - 1))
    distinct = ids[begin]                                                 # (U,)
    shares = fair_shares(begin + xp.arange(len(begin)))
    return [RowBlock(distinct[share], counts[share] if len(shares) > 1 else counts) for share in shares]
