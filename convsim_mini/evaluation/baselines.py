"""Baselines without training: the figures that a trained model has to beat.

TF-IDF and BM25 rank replies and candidates; pairs of texts are compared by their words in common.
"""

import numpy as np

from ..core.text import UNKNOWN
from ..inference.index import WORDS
from ..inference.tfidf import document_frequency, term_counts, vocabulary_of, weighted_once

FITTED_ON = 200_000    # sentences of train from which document frequencies are taken


def fitted_on_train(split, words):
    """document_frequency of up to 200,000 sentences of train: no baseline may see test."""
    return document_frequency(split.sentences(np.arange(min(FITTED_ON, 2 * split.pairs))), words)


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


def pair_baselines(texts, left, right, run=None):
    """Words in common of the pairs texts[left[i]], texts[right[i]]: row name → (n,).

    Weights need a run, whose vocabulary says how frequent a word is.
    """
    rows = {"binary word cosine": word_cosines(texts, left, right)}
    if run:
        weight = frequency_weight(run.vocabulary)
        rows["word cosine weighted a/(a+p)"] = word_cosines(texts, left, right, weight)
        rows["piece cosine, each once"] = words_in_common(run.vocabulary, texts, left, right)
    return rows


def word_cosines(texts, left, right, weight=lambda token: 1.0):
    """Cosines of the bags of words of the pairs texts[left[i]], texts[right[i]]: (n,).

    weight: token → the weight of a word that is there; 1: SemEval's baseline (Cer et al. 2017, §6)
    """
    vocabulary, packed = vocabulary_of(texts)
    bags = term_counts(packed, vocabulary.size).astype(np.float64)
    weights = np.array([0.0, *map(weight, vocabulary.pieces)])    # 0: of a text without any word
    bags.data = weights[bags.indices]
    return cosines(bags, left, right)


def frequency_weight(vocabulary, a=1e-3):
    """token → a/(a + p(token)): the weight of SIF (Arora et al. 2017), p from the vocabulary."""
    p, ids = vocabulary.probabilities(), vocabulary.ids
    return lambda token: a / (a + p[ids.get(token, UNKNOWN)])


def words_in_common(vocabulary, texts, left, right):
    """What similarity adds to meaning, `weighted_once` of texts[left[i]], texts[right[i]]: (n,)."""
    words = weighted_once(vocabulary.encode(texts), vocabulary.probabilities())
    return cosines(words, left, right)


def with_words(run, meaning, texts, left, right):
    """Rows of meaning + words, as in a search (ours); {} without a Run. meaning: row → (n,)"""
    if not run:
        return {}
    words = WORDS * words_in_common(run.vocabulary, texts, left, right)
    return {f"{row}, with words": cosine + words for row, cosine in meaning.items()}


def cosines(rows, left, right):
    """Cosines of the rows left[i], right[i] of an array or a sparse matrix; 0 if one is 0: (n,)."""
    multiply = np.multiply if isinstance(rows, np.ndarray) else type(rows).multiply
    norms = np.sqrt(np.asarray(multiply(rows, rows).sum(axis=1)).ravel())
    dots = np.asarray(multiply(rows[left], rows[right]).sum(axis=1)).ravel()
    return dots / np.maximum(norms[left] * norms[right], np.finfo(dots.dtype).tiny)
