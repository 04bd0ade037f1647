"""Word vectors before training, from the corpus's own statistics."""

import numpy as np
import scipy.sparse

from ..fast.threads import fair_shares, on_all_cores

WINDOW = 5
SMOOTHING = 0.75
MOST_WORDS = 30_000
TOKENS_AT_ONCE = 4_000_000    # so that memory does not grow with the corpus
MORE, POWERS = 20, 2    # of the randomised SVD


def ppmi_svd(split, words, dim, rng):
    """Word vectors from co-occurrence: truncated SVD of positive pointwise mutual information.

    PPMI_wc = max(0, ln [p(w, c) / (p(w) q(c))]), q(c) ∝ p(c)^¾, over windows of 5 words to either
    side, for the 30,000 most frequent words. Of its SVD we take U, with rows scaled to the length
    of a random row (Levy, Goldberg and Dagan 2015 compare these choices).
    split: Split; words: how many ids are words; dim: number of columns
    → float32 (min(words, 30,000), dim), with at most words − 1 columns; the row of a word that
    never occurs near another one is zero
    """
    words = min(words, MOST_WORDS)
    counts = cooccurrences(split, words)
    if not counts.nnz:
        return np.zeros((words, dim), np.float32)
    row, column = (np.asarray(counts.sum(axis=axis)).ravel() for axis in (1, 0))
    context = column ** SMOOTHING / (column ** SMOOTHING).sum()
    ppmi = counts.tocoo()
    pmi = np.log(ppmi.data / (row[ppmi.row] * context[ppmi.col]))
    ppmi.data = np.maximum(pmi, 0).astype(np.float32)
    ppmi = ppmi.tocsr()
    ppmi.eliminate_zeros()
    vectors = left_singular_vectors(ppmi, min(dim, words - 1), rng)       # (words, dim)
    vectors[np.diff(ppmi.indptr) == 0] = 0                    # nothing is known about these
    norm = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors * np.sqrt(vectors.shape[1]) / np.maximum(norm, 1e-6)).astype(np.float32)


def left_singular_vectors(matrix, k, rng):
    """Approximate left singular vectors, for the k largest singular values (Halko et al. 2011).

    Products with the matrix turn random columns towards these vectors, and QR keeps the columns
    apart. SciPy's svds takes four times as long. matrix: CSR (n, m); rng: numpy Generator → (n, k),
    best first
    """
    transposed = matrix.T.tocsr()
    columns = rng.standard_normal((matrix.shape[1], min(k + MORE, *matrix.shape)), np.float32)
    basis = orthonormal(_product(matrix, columns))            # (n, k + 20)
    for _ in range(POWERS):
        basis = orthonormal(_product(transposed, basis))
        basis = orthonormal(_product(matrix, basis))
    small = _product(transposed, basis)                       # (m, k + 20)
    values, vectors = np.linalg.eigh(small.T @ small)         # by rising eigenvalue
    return basis @ vectors[:, ::-1][:, :k]


def orthonormal(columns):
    """Orthonormal columns with the span of the given ones, whatever signs LAPACK's QR chooses."""
    basis, r = np.linalg.qr(columns)
    return basis * np.sign(np.diag(r))


def _product(matrix, columns):
    """CSR matrix @ dense columns. Each core gets rows with about the same number of values."""
    return np.concatenate(on_all_cores(lambda rows: matrix[rows] @ columns,
                                       fair_shares(matrix.indptr[:-1])))


def cooccurrences(split, words):
    """How often two of the first `words` ids are ≤ 5 places apart in a sentence: symmetric CSR."""
    counts = scipy.sparse.csr_matrix((words, words), dtype=np.float32)
    cuts = np.searchsorted(split.offsets, np.arange(0, len(split.ids), TOKENS_AT_ONCE))
    for first, last in zip(cuts, [*cuts[1:], len(split.offsets) - 1]):
        offsets = np.asarray(split.offsets[first:last + 1])
        ids = np.asarray(split.ids[offsets[0]:offsets[-1]])
        sentence = np.repeat(np.arange(last - first), np.diff(offsets))
        for distance in range(1, WINDOW + 1):
            left, right = ids[:-distance], ids[distance:]
            near = (sentence[:-distance] == sentence[distance:]) & (left < words) & (right < words)
            ones = np.ones(np.count_nonzero(near), np.float32)
            counts += scipy.sparse.csr_matrix((ones, (left[near], right[near])),
                                              shape=(words, words))
    return counts + counts.T
