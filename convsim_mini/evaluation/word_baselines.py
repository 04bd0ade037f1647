"""Texts compared by their words alone, and by the vectors of their words.

By vectors: the mean of a text's, SIF, and the tf-idf soft cosine. Vectors are a dict, word → (d,),
which may lack words: those are left out, as if they were not in the text; only the soft cosine
still sees whether both texts have them.
"""

from collections import Counter

import numpy as np

from ..backend import to_host
from ..data.text import UNKNOWN, Vocabulary, tokenize
from ..model.layers import l2_normalize_forward
from .baselines import bag_cosine, document_frequency, frequency_weight, term_counts, tfidf

OWN_VECTORS = "own vectors"


def pair_baselines(texts, left, right, run=None, vectors=None):
    """All baselines for the pairs texts[left[i]], texts[right[i]]: row name → (n,).

    left, right: int (n,); run: whose word embeddings and p(word) are used; vectors: row name →
    word → vector, those of a file.
    """
    own = {OWN_VECTORS: run_vectors(run, words_of(texts))} if run else {}
    vocabulary = run.vocabulary if run else None
    return (bag_cosines(texts, left, right, vocabulary)
            | pair_similarities(texts, left, right, own | (vectors or {}), vocabulary))


def bag_cosines(texts, left, right, vocabulary=None):
    """`bag_cosine` of the pairs, and with a Vocabulary that of weighted words: row name → (n,)."""
    weights = {"binary word cosine": lambda token: 1.0}
    if vocabulary:
        weights["word cosine weighted a/(a+p)"] = frequency_weight(vocabulary)
    return {name: np.array([bag_cosine(texts[x], texts[y], weight) for x, y in zip(left, right)])
            for name, weight in weights.items()}


def words_of(texts):
    """The set of all tokens of some texts."""
    return {token for text in texts for token in tokenize(text)}


def run_vectors(run, words):
    """A run's embeddings of words, those of rare ones from their shared buckets: word → (d,)."""
    words = sorted(words)
    rows = run.model.params["encoder.embedding.weight"][[run.vocabulary.id(word) for word in words]]
    return dict(zip(words, to_host(rows)))


def pair_similarities(texts, left, right, sources, vocabulary=None):
    """The baselines from vectors for the pairs texts[left[i]], texts[right[i]]: name → (n,).

    left, right: int (n,); sources: row name → vectors. SIF takes p(word) from a Vocabulary, or from
    these texts where there is none; its component is that of all the texts. The idf of the soft
    cosine, too, is that of the texts.
    """
    sentences = [tokenize(text) for text in texts]
    counted = Counter(token for tokens in sentences for token in tokens)
    own = Vocabulary.from_counts(counted, None, 1)
    packed = own.pack(sentences)
    total, df = document_frequency(packed, own.size)
    df[UNKNOWN] = total                                       # what stands in an empty text: idf 0
    counts, weighted = term_counts(packed, own.size), tfidf(packed, total, df)
    # by word id: unknown, the words, a bucket
    weight = np.array([0, *map(frequency_weight(vocabulary or own), own.words), 0])
    rows = {}
    for name, vectors in sources.items():
        table, known = table_of(own, vectors)
        for kind, matrix in (("mean of", mean_vectors(counts, table, known)),
                             ("SIF of", sif_vectors(counts, table, known, weight))):
            unit, _ = l2_normalize_forward(matrix)
            rows[f"{kind} {name}"] = (unit[left] * unit[right]).sum(axis=1)
        rows[f"soft cosine of {name}"] = soft_cosines(weighted, table, left, right)
    return rows


def table_of(vocabulary, vectors):
    """Vectors as a table by word id: float64 (size, d), zero where there is none, bool (size,)."""
    dim = len(next(iter(vectors.values()), [0]))    # texts without any word have none
    table = np.zeros((vocabulary.size, dim))
    for word in vocabulary.words:
        if word in vectors:
            table[vocabulary.id(word)] = vectors[word]
    return table, table.any(axis=1)


def mean_vectors(counts, table, known, weight=1.0):
    """Σ weight(word) v(word) over a text's words that have a vector, divided by how many they are.

    counts: CSR (B, words); table: (words, d); known: bool (words,); weight: (words,) → (B, d), a
    zero row where no word has a vector.
    """
    words = counts @ known.astype(np.float64)                 # (B,)
    weighted = table * np.broadcast_to(weight, known.shape)[:, None]
    return counts @ weighted / np.maximum(words, 1)[:, None]


def sif_vectors(counts, table, known, weight):
    """Smooth inverse frequency (Arora, Liang and Ma 2017): means weighted by a/(a + p(word)).

    The direction that all the texts share, their first singular vector, is projected out.

    counts: CSR (B, words); table: (words, d); known: bool (words,); weight: (words,) → (B, d).
    """
    means = mean_vectors(counts, table, known, weight)
    _, directions = np.linalg.eigh(means.T @ means)           # by rising eigenvalue
    common = directions[:, -1]                                # (d,)
    return means - np.outer(means @ common, common)


def soft_cosines(weighted, table, left, right):
    """xᵀMy/√(xᵀMx · yᵀMy), M_ij = max(0, cos(v_i, v_j))², M_ii = 1 (Charlet and Damnati 2017).

    A word without a vector is like itself alone. weighted: CSR (B, words) of tf-idf; table:
    (words, d); left, right: int (n,) → (n,), 0 where a side has no word that weighs anything.
    """
    unit, _ = l2_normalize_forward(table)
    weighted = weighted.tocsr()
    texts = [(weighted.indices[a:b], weighted.data[a:b])
             for a, b in zip(weighted.indptr, weighted.indptr[1:])]

    def product(x, y):
        like = np.maximum(unit[x[0]] @ unit[y[0]].T, 0) ** 2  # (words of x, words of y)
        like[x[0][:, None] == y[0]] = 1
        return x[1] @ like @ y[1]

    length = np.sqrt([product(x, x) for x in texts])          # (B,)
    products = np.array([product(texts[x], texts[y]) for x, y in zip(left, right)])
    return products / np.maximum(length[left] * length[right], 1e-12)
