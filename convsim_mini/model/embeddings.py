"""Embeddings: bags of rows, single rows, the mean over a sentence. A table's gradient is sparse.

B is the number of sentences in a batch, N the number of their words; a table is (R, d).
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse

from ..backend import array_module, fair_shares, on_all_cores, sparse_module
from ..data.packed import Packed


class SparseRows(NamedTuple):
    """Part of a table's gradient, which is a list of them: rows that none of them names have zero.

    rows: (U,) distinct, ascending; values: (U, d)
    """

    rows: np.ndarray
    values: np.ndarray


def embedding_bag_forward(table, rows, lengths):
    """Sum the embeddings of each sentence and divide by √n, n its length (the paper, §2.3.1).

    The length of a sum of n vectors in unrelated directions grows like √n. So a sum would give long
    sentences long vectors and a mean would give them short ones. TensorFlow: "sqrtn".

    As matrices, y = S E: E (U, d) holds the distinct rows in use; S (B, U) holds their counts in
    each sentence, times 1/√n. Both are cut into blocks along U, one for each core.
    table: (R, d); rows: Packed, M table rows (words and bigrams alike) in B sentences;
    lengths: (B,) words of each sentence → y: (B, d), cache
    """
    xp = array_module(table)
    scale = (1 / xp.sqrt(lengths)).astype(table.dtype)[:, None]           # (B, 1)
    blocks = count_rows(rows, table.dtype)
    y, *others = on_all_cores(lambda block: block.counts.T @ table.take(block.rows, axis=0), blocks)
    for part in others:                                               # Σ (B, Uₖ) (Uₖ, d) → (B, d)
        y += part
    y *= scale                                                            # in place: saves a pass
    return y, (blocks, scale)


def embedding_bag_backward(dy, cache):
    """Forward: y_b = (1/√n_b) Σ_r count_br E_r, that is y = S E.

    y_b contains E_r count_br/√n_b times, so dE_r = Σ_b count_br dy_b/√n_b, that is dE = Sᵀ dy. A
    row that stands in several places gets the sum of their gradients. A row that the batch does not
    use has no gradient and is not in the list.
    dy: (B, d) → dtable: list of SparseRows, one for each block, no row in two of them
    """
    blocks, scale = cache
    dy = dy * scale                                                       # (B, d)
    return on_all_cores(lambda block: SparseRows(block.rows, block.counts @ dy), blocks)


class RowBlock(NamedTuple):
    """rows: (Uₖ,) distinct, ascending; counts: CSR (Uₖ, B), how often each is in each sentence."""

    rows: np.ndarray
    counts: scipy.sparse.csr_matrix


def count_rows(rows, dtype):
    """Table rows in use and their sentences: Packed of M rows in B sentences → list of RowBlock.

    Sorting brings equal rows together. Their sentences, in that order, are the column numbers of a
    sparse matrix. Each block has about the same work: rows to fetch and entries to add.
    """
    xp = array_module(rows.ids)
    order = xp.argsort(rows.ids)                                          # (M,)
    ids, sentence = rows.ids[order], rows.sentence_numbers[order]         # (M,) each
    changes = xp.flatnonzero(ids[1:] != ids[:-1]) + 1
    begin = xp.concatenate([xp.zeros(1, changes.dtype), changes])         # (U,) where a row begins
    indptr = xp.append(begin, len(ids)).astype(xp.int32)                  # (U + 1,)
    counts = sparse_module(xp).csr_matrix((xp.ones(len(ids), dtype), sentence, indptr),
                                          shape=(len(begin), len(rows.offsets) - 1))
    distinct = ids[begin]                                                 # (U,)
    shares = fair_shares(begin + xp.arange(len(begin)))
    return [RowBlock(distinct[share], counts[share] if len(shares) > 1 else counts)
            for share in shares]


def embedding_forward(table, ids):
    """The embedding of each word: table: (R, d), ids: (N,) → (N, d), cache."""
    return table.take(ids, axis=0), ids


def embedding_backward(dy, ids):
    """Forward: y_n = E_{ids n}. As in bags of one word each, dE_r = Σ dy_n over all n with word r.

    dy: (N, d) → dtable: list of SparseRows
    """
    blocks = count_rows(Packed(ids, array_module(ids).arange(len(ids) + 1)), dy.dtype)
    return on_all_cores(lambda block: SparseRows(block.rows, block.counts @ dy), blocks)


def mean_pool_forward(x, packed):
    """The mean of each sentence's rows: x: (N, d), packed: Packed of N words → y: (B, d), cache."""
    xp = array_module(x)
    share = (1 / packed.lengths).astype(x.dtype)                          # (B,)
    sentences = packed.sentence_numbers                                   # (N,)
    rows, indptr = xp.arange(len(x), dtype=xp.int32), packed.offsets.astype(xp.int32)
    means = sparse_module(xp).csr_matrix((share.take(sentences), rows, indptr),
                                         shape=(len(share), len(x)))
    return means @ x, (share, sentences)


def mean_pool_backward(dy, cache):
    """Forward: y_b = (1/n_b) Σ x_i over sentence b. So dx_i = dy_b/n_b: dy: (B, d) → dx: (N, d)."""
    share, sentences = cache
    return (dy * share[:, None]).take(sentences, axis=0)
