"""Texts compared by the vectors of their words: their mean, SIF, and the tf-idf soft cosine.

Vectors are a dict, word → (d,), which may lack words: those are left out, as if they were not in the
text; only the soft cosine still sees whether both texts have them.
"""

from collections import Counter

import numpy as np

from ..backend import to_host
from ..data.text import UNKNOWN, Vocabulary, tokenize
from ..model.layers import l2_normalize_forward
from .baselines import document_frequency, frequency_weight, term_counts, tfidf
from .vector_files import read_vectors

OWN_VECTORS = "own vectors"


def words_of(texts):
    """The set of all tokens of some texts."""
    return {token for text in texts for token in tokenize(text)}


def run_vectors(run, words):
    """A run's embeddings of words, those of rare ones from their shared buckets: word → (d,)."""
    words = sorted(words)
    rows = run.model.params["encoder.embedding.weight"][[run.vocabulary.id(word) for word in words]]
    return dict(zip(words, to_host(rows)))


def vector_sources(texts, run=None, path=None):
    """The vectors to compare texts by: a run's own, and those of a file: row name → word → (d,)."""
    words, sources = words_of(texts), {}
    if run:
        sources[OWN_VECTORS] = run_vectors(run, words)
    if path:
        sources[path.name] = read_vectors(path, words)
    return sources


def pair_similarities(texts, left, right, sources, vocabulary=None):
    """The baselines of this file for the pairs texts[left[i]], texts[right[i]]: name → (n,).

    left, right: int (n,); sources: row name → vectors. SIF takes p(word) from a Vocabulary, or from
    these texts where there is none; its component is that of all the texts. The idf of the soft
    cosine, too, is that of the texts.
    """
    sentences = [tokenize(text) for text in texts]
    own = Vocabulary.from_counts(Counter(token for tokens in sentences for token in tokens), None, 1)
    packed = own.pack(sentences)
    total, df = document_frequency(packed, own.size)
    df[UNKNOWN] = total                                       # what stands in an empty text is no word: idf 0
    counts, weighted = term_counts(packed, own.size), tfidf(packed, total, df)
    weight = np.array([0, *map(frequency_weight(vocabulary or own), own.words), 0])     # unknown, words, a bucket
    found = {}
    for name, vectors in sources.items():
        table, known = table_of(own, vectors)
        for kind, matrix in (("mean of", mean_vectors(counts, table, known)),
                             ("SIF of", sif_vectors(counts, table, known, weight))):
            unit, _ = l2_normalize_forward(matrix)
            found[f"{kind} {name}"] = (unit[left] * unit[right]).sum(axis=1)
        found[f"soft cosine of {name}"] = soft_cosines(weighted, table, left, right)
    return found


def table_of(vocabulary, vectors):
    """Vectors as a table by word id: float64 (size, d), zero where there is none, and bool (size,)."""
    dim = len(next(iter(vectors.values()), [0]))              # texts without any word have no vectors
    table = np.zeros((vocabulary.size, dim))
    for word in vocabulary.words:
        if word in vectors:
            table[vocabulary.id(word)] = vectors[word]
    return table, table.any(axis=1)


def mean_vectors(counts, table, known, weight=1.0):
    """Σ weight(word) v(word) over a text's words that have a vector, divided by how many they are.

    counts: CSR (B, words); table: (words, d); known: bool (words,); weight: (words,) → (B, d), a zero
    row where no word has a vector.
    """
    words = counts @ known.astype(np.float64)                 # (B,)
    return counts @ (table * np.broadcast_to(weight, known.shape)[:, None]) / np.maximum(words, 1)[:, None]


def sif_vectors(counts, table, known, weight):
    """Smooth inverse frequency (Arora, Liang and Ma 2017): means weighted by a/(a + p(word)), from
    which the direction that all the texts share, their first singular vector, is projected out.

    counts: CSR (B, words); table: (words, d); known: bool (words,); weight: (words,) → (B, d).
    """
    means = mean_vectors(counts, table, known, weight)
    _, directions = np.linalg.eigh(means.T @ means)           # by rising eigenvalue
    common = directions[:, -1]                                # (d,)
    return means - np.outer(means @ common, common)


def soft_cosines(weighted, table, left, right):
    """xᵀMy/√(xᵀMx · yᵀMy), M_ij = max(0, cos(v_i, v_j))², M_ii = 1 (Charlet and Damnati 2017).

    A word without a vector is like itself alone. weighted: CSR (B, words) of tf-idf; table: (words, d);
    left, right: int (n,) → (n,), 0 where a side has no word that weighs anything.
    """
    unit, _ = l2_normalize_forward(table)
    weighted = weighted.tocsr()
    texts = [(weighted.indices[a:b], weighted.data[a:b]) for a, b in zip(weighted.indptr, weighted.indptr[1:])]

    def product(x, y):
        like = np.maximum(unit[x[0]] @ unit[y[0]].T, 0) ** 2  # (words of x, words of y)
        like[x[0][:, None] == y[0]] = 1
        return x[1] @ like @ y[1]

    length = np.sqrt([product(x, x) for x in texts])          # (B,)
    products = np.array([product(texts[x], texts[y]) for x, y in zip(left, right)])
    return products / np.maximum(length[left] * length[right], 1e-12)
