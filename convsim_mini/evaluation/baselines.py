"""Baselines without training: the figures that a trained model has to beat.

TF-IDF and BM25 weight words. Pairs of texts are compared by their words, and by the means of their
word vectors, both plain and by SIF (see `pair_baselines`). Word vectors are a dict, word → (d,);
words without a vector are left out.
"""

import math

import numpy as np

from ..core.arrays import to_host
from ..core.embeddings import sum_rows
from ..core.layers import l2_normalize_forward
from ..core.model import TABLE
from ..core.text import UNKNOWN, tokenize
from ..fast.threads import product
from ..inference.tfidf import document_frequency, term_counts, vocabulary_of

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


def dot_products(left, right):
    """All dot products of the rows of two arrays, or of two sparse matrices: dense, (n, m)."""
    dense = isinstance(left, np.ndarray)
    return product(left, right.T) if dense else (left @ right.T).toarray()


def pair_baselines(texts, left, right, run=None, vectors=None):
    """All baselines for the pairs texts[left[i]], texts[right[i]]: row name → (n,).

    SIF, smooth inverse frequency (Arora, Liang and Ma 2017), weighs words by a/(a + p(word)) and
    projects out the first singular vector of the means. run: if given, its word embeddings and
    p(word) are used, otherwise p(word) of the texts; vectors: from a file, row → word → vector
    """
    vocabulary = run.vocabulary if run else None
    own = {"own vectors": run_vectors(run, words_of(texts))} if run else {}
    weight = frequency_weight(vocabulary or vocabulary_of(texts)[0])
    rows = bag_cosines(texts, left, right, vocabulary)
    for name, of_words in (own | (vectors or {})).items():
        means, weighted = (means_of_texts(texts, of_words, some) for some in (None, weight))
        _, directions = np.linalg.eigh(weighted.T @ weighted)             # by rising eigenvalue
        first = directions[:, -1:]                            # (d, 1)
        sif = weighted - weighted @ first @ first.T
        for kind, matrix in (("mean of", means), ("SIF of", sif)):
            unit, _ = l2_normalize_forward(matrix)
            rows[f"{kind} {name}"] = (unit[left] * unit[right]).sum(axis=1)
    return rows


def bag_cosine(sentence1, sentence2, weight=None):
    """Cosine of the binary word vectors of two sentences; 0 if either has no token.

    weight: token → weight of the word; None: 1, as in SemEval's baseline (Cer et al. 2017, §6)
    """
    one, two = set(tokenize(sentence1)), set(tokenize(sentence2))
    squares = {token: weight(token) ** 2 if weight else 1.0 for token in one | two}
    both, left, right = (math.fsum(map(squares.get, tokens)) for tokens in (one & two, one, two))
    return both / math.sqrt(left * right) if left and right else 0.0


def frequency_weight(vocabulary, a=1e-3):
    """token → a/(a + p(token)): the weight of SIF (Arora et al. 2017), p from the vocabulary."""
    p, ids = vocabulary.probabilities(), vocabulary.ids
    return lambda token: a / (a + p[ids.get(token, UNKNOWN)])


def bag_cosines(texts, left, right, vocabulary=None):
    """`bag_cosine` of the pairs; with a Vocabulary, also with weighted words: row name → (n,)."""
    weights = {"binary word cosine": None}
    if vocabulary:
        weights["word cosine weighted a/(a+p)"] = frequency_weight(vocabulary)
    return {row: np.array([bag_cosine(texts[x], texts[y], weight) for x, y in zip(left, right)])
            for row, weight in weights.items()}


def words_in_common(encoder, texts, left, right):
    """Cosines of a SentenceEncoder's weighted words of texts[left[i]], texts[right[i]]: (n,)."""
    words = encoder.words_of(texts)
    return np.asarray(words[left].multiply(words[right]).sum(axis=1)).ravel()


def words_of(texts):
    """The set of all tokens of a list of texts."""
    return {token for text in texts for token in tokenize(text)}


def run_vectors(run, words):
    """A run's embeddings of words, the sums of their pieces' rows: word → (d,)."""
    packed = run.vocabulary.pack([word] for word in words)
    return dict(zip(words, sum_rows(to_host(run.model.params[TABLE]), packed)))


def means_of_texts(texts, vectors, weight=None):
    """Σ weight(word) v(word) over a text's words with a vector, divided by their number: (B, d).

    vectors: word → (d,); weight: word → float, or None for 1
    """
    vocabulary, packed = vocabulary_of(texts)
    none = np.zeros_like(next(iter(vectors.values()), np.zeros(1)), np.float64)    # of no word
    table = np.array([none, *(vectors.get(word, none) for word in vocabulary.pieces)])
    has_vector = table.any(axis=1).astype(np.float64)
    if weight:
        table[1:] *= np.array([weight(word) for word in vocabulary.pieces])[:, None]
    counts = term_counts(packed, vocabulary.size)
    means = counts @ table                                    # (B, d)
    means /= np.maximum(counts @ has_vector, 1)[:, None]      # in place: SNLI has 1.1 million texts
    return means
