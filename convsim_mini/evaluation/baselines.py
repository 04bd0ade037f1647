"""Baselines without learning, TF-IDF and BM25: the figures that a trained model has to beat."""

import numpy as np
import scipy.sparse.linalg

from ..data.text import tokenize

FITTED_ON = 200_000    # sentences of train from which document frequencies are taken


def term_counts(packed, words):
    """How often each word id stands in each sentence: Packed of B sentences → CSR (B, words)."""
    parts = np.ones(len(packed.ids), np.float32), packed.ids, packed.offsets
    counts = scipy.sparse.csr_matrix(parts, shape=(len(packed.lengths), words), copy=True)
    counts.sum_duplicates()                                   # in place, hence the copy
    return counts


def document_frequency(packed, words):
    """N and df: how many of the N sentences of a Packed hold each word id: int, (words,)."""
    return len(packed.lengths), np.bincount(term_counts(packed, words).indices, minlength=words)


def fitted_on_train(split, words):
    """document_frequency of up to 200,000 sentences of train: no baseline may see the test."""
    return document_frequency(split.sentences(np.arange(min(FITTED_ON, 2 * split.pairs))), words)


def tfidf(packed, sentences, df):
    """Unit vectors of (1 + ln tf) · ln((1 + N)/(1 + df)): Packed of B sentences → CSR (B, words).

    This form measured 2–3 points of P@1 above the usual one, tf · (idf + 1).
    """
    counts = term_counts(packed, len(df))
    counts.data = 1 + np.log(counts.data)
    weighted = counts.multiply(np.log((1 + sentences) / (1 + df))).tocsr()
    norm = scipy.sparse.linalg.norm(weighted, axis=1)[:, None]
    return weighted.multiply(1 / np.maximum(norm, 1e-12)).tocsr()


def bm25_documents(packed, sentences, df, k1=1.2, b=0.75):
    """BM25's weight of each term in each document (Robertson and Zaragoza 2009).

    idf · tf (k1 + 1) / (tf + k1 (1 − b + b n/n̄)), n the document's length, n̄ the mean length,
    idf = ln(1 + (N − df + ½)/(df + ½)): Packed of B → CSR (B, words), to multiply by term counts.
    """
    counts = term_counts(packed, len(df))
    length = packed.lengths / packed.lengths.mean()           # (B,)
    slack = np.repeat(k1 * (1 - b + b * length), np.diff(counts.indptr))
    counts.data = counts.data * (k1 + 1) / (counts.data + slack)
    return counts.multiply(np.log(1 + (sentences - df + 0.5) / (df + 0.5))).tocsr()


def dot_products(left, right):
    """All dot products of the rows of two arrays, or of two sparse matrices: dense, (n, m)."""
    products = left @ right.T
    return products if isinstance(products, np.ndarray) else products.toarray()


def bag_cosine(sentence1, sentence2, weight=None):
    """Cosine of the binary word vectors of two sentences, each word weighted by weight(token).

    weight: None for 1, SemEval's own baseline (Cer et al. 2017, §6). Without a token it is 0.
    """
    one, two = set(tokenize(sentence1)), set(tokenize(sentence2))
    squares = {token: weight(token) ** 2 if weight else 1.0 for token in one | two}
    both, left, right = (sum(squares[token] for token in tokens)
                         for tokens in (one & two, one, two))
    return float(both / np.sqrt(left * right)) if left and right else 0.0


def frequency_weight(vocabulary, a=1e-3):
    """token → a/(a + p(token)): the weight of SIF (Arora et al. 2017), p from the vocabulary."""
    return lambda token: a / (a + vocabulary.probability(token))
