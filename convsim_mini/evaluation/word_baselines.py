"""Baselines that compare texts by their words alone, and by the vectors of their words.

Vectors are a dict, word → (d,). They give three baselines: the mean of a text's word vectors, SIF,
and the tf-idf soft cosine. A word without a vector is left out of the first two. In the soft cosine
such a word is like itself alone.
"""

from collections import Counter

import numpy as np

from ..backend import to_host
from ..data.text import UNKNOWN, Vocabulary, tokenize
from ..model.layers import l2_normalize_forward
from ..model.projection import all_but_the_top
from .baselines import bag_cosine, document_frequency, frequency_weight, term_counts, tfidf


WEIGHTED = "word cosine weighted a/(a+p)"


def pair_baselines(texts, left, right, run=None, vectors=None):
    """All baselines for the pairs texts[left[i]], texts[right[i]]: row name → (n,).

    run: its word embeddings and its p(word) are used; vectors: of a file, row name → word → vector
    """
    own = {"own vectors": run_vectors(run, words_of(texts))} if run else {}
    vocabulary = run.vocabulary if run else None
    return (bag_cosines(texts, left, right, vocabulary)
            | pair_similarities(texts, left, right, own | (vectors or {}), vocabulary))


def bag_cosines(texts, left, right, vocabulary=None):
    """`bag_cosine` of the pairs, and with a Vocabulary also of weighted words: row name → (n,)."""
    pairs = [(texts[x], texts[y]) for x, y in zip(left, right)]
    rows = {"binary word cosine": np.array([bag_cosine(*pair) for pair in pairs])}
    if vocabulary:
        weight = frequency_weight(vocabulary)
        rows[WEIGHTED] = np.array([bag_cosine(*pair, weight) for pair in pairs])
    return rows


def words_of(texts):
    """The set of all tokens of a list of texts."""
    return {token for text in texts for token in tokenize(text)}


def vocabulary_of(texts):
    """The Vocabulary of all words of a list of B texts, and the texts as Packed of B."""
    counts = Counter(token for text in texts for token in tokenize(text))
    vocabulary = Vocabulary.from_counts(counts, None, 1)
    return vocabulary, vocabulary.encode(texts)


def run_vectors(run, words):
    """A run's embeddings of words: word → (d,). Rare words have the embedding of their bucket."""
    rows = [run.vocabulary.id(word) for word in words]
    return dict(zip(words, to_host(run.model.params["encoder.embedding.weight"][rows])))


def vectors_by_id(vocabulary, vectors):
    """The vector of each id of a Vocabulary, 0 without one: word → (d,) → (size, d)."""
    none = np.zeros_like(next(iter(vectors.values()), np.zeros(1)))       # there may be no word
    return np.array([none, *(vectors.get(word, none) for word in vocabulary.words), none])


def pair_similarities(texts, left, right, sources, vocabulary=None):
    """The baselines from vectors for the pairs texts[left[i]], texts[right[i]]: name → (n,).

    sources: row name → vectors. SIF takes p(word) from a Vocabulary, or else from the texts.
    """
    own, packed = vocabulary_of(texts)
    total, df = document_frequency(packed, own.size)
    df[UNKNOWN] = total                                       # what stands in an empty text: idf 0
    counts, weighted = term_counts(packed, own.size), tfidf(packed, total, df)
    weight = np.array([0, *map(frequency_weight(vocabulary or own), own.words), 0])
    rows = {}
    for name, vectors in sources.items():
        table = vectors_by_id(own, vectors).astype(np.float64)
        for kind, matrix in (("mean of", mean_vectors(counts, table, np.ones(own.size))),
                             ("SIF of", sif_vectors(counts, table, weight))):
            unit, _ = l2_normalize_forward(matrix)
            rows[f"{kind} {name}"] = (unit[left] * unit[right]).sum(axis=1)
        rows[f"soft cosine of {name}"] = soft_cosines(weighted, table, left, right)
    return rows


def mean_vectors(counts, table, weight):
    """Σ weight(word) v(word) over a text's words that have a vector, divided by their number.

    counts: CSR (B, words); table: (words, d), 0 without a vector; weight: (words,) → (B, d)
    """
    words = counts @ table.any(axis=1).astype(np.float64)     # (B,)
    return counts @ (table * weight[:, None]) / np.maximum(words, 1)[:, None]


def sif_vectors(counts, table, weight):
    """Smooth inverse frequency (Arora, Liang and Ma 2017): means weighted by a/(a + p(word)).

    Their first singular vector is projected out. Shapes: as in `mean_vectors`.
    """
    means = mean_vectors(counts, table, weight)
    return means @ all_but_the_top(means)


def soft_cosines(weighted, table, left, right):
    """xᵀMy/√(xᵀMx · yᵀMy), M_ij = max(0, cos(v_i, v_j))², M_ii = 1 (Charlet and Damnati 2017).

    weighted: CSR (B, words) of tf-idf; table: (words, d); left, right: int (n,) → (n,)
    """
    unit, _ = l2_normalize_forward(table)
    texts = [(weighted.indices[a:b], weighted.data[a:b])
             for a, b in zip(weighted.indptr, weighted.indptr[1:])]

    def product(x, y):
        like = np.maximum(unit[x[0]] @ unit[y[0]].T, 0) ** 2  # (words of x, words of y)
        like[x[0][:, None] == y[0]] = 1
        return x[1] @ like @ y[1]

    length = np.sqrt([product(x, x) for x in texts])          # (B,)
    products = np.array([product(texts[x], texts[y]) for x, y in zip(left, right)])
    return products / np.maximum(length[left] * length[right], 1e-12)
