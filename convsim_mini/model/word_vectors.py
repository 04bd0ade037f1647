"""Word vectors before training, from the corpus's own statistics."""

import numpy as np
import scipy.sparse
from scipy.sparse.linalg import svds

WINDOW = 5
SMOOTHING = 0.75
MOST_TOKENS = 4_000_000
MOST_WORDS = 30_000


def ppmi_svd(split, words, dim, rng):
    """Word vectors from co-occurrence: truncated SVD of positive pointwise mutual information.

    PPMI_wc = max(0, ln p(w, c) / (p(w) p(c)^¾)) over windows of 5 words to either side, on up to
    4 million tokens and for the 30,000 most frequent words; U √Σ of its SVD, rows scaled to the
    length that a random row has (Levy, Goldberg and Dagan 2015 compare these choices).
    split: Split; words: how many ids are words; dim: number of columns
    → float32 (min(words, 30,000), dim), with at most words − 1 columns; a word that never stands
    beside another has a zero row
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
    u, s, _ = svds(ppmi.tocsr(), k=min(dim, words - 1), rng=rng)
    vectors = u * np.sqrt(s)                                  # (words, dim)
    norm = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors * np.sqrt(vectors.shape[1]) / np.maximum(norm, 1e-6)).astype(np.float32)


def cooccurrences(split, words):
    """How often two of the first `words` ids stand within 5 places in a sentence: symmetric CSR."""
    sentences = np.searchsorted(split.offsets, min(MOST_TOKENS, len(split.ids)), "right") - 1
    offsets = np.asarray(split.offsets[:sentences + 1])
    ids = np.asarray(split.ids[:offsets[-1]])
    sentence = np.repeat(np.arange(sentences), np.diff(offsets))
    counts = scipy.sparse.csr_matrix((words, words), dtype=np.float32)
    for distance in range(1, WINDOW + 1):
        left, right = ids[:-distance], ids[distance:]
        near = (sentence[:-distance] == sentence[distance:]) & (left < words) & (right < words)
        ones = np.ones(np.count_nonzero(near), np.float32)
        counts += scipy.sparse.csr_matrix((ones, (left[near], right[near])), shape=(words, words))
    return counts + counts.T
