"""Baselines without training: the figures that a trained model has to beat.

TF-IDF and BM25 weigh words. Pairs of texts are compared by their words, and by the vectors of
their words: mean, SIF and soft cosine. Vectors are a dict, word → (d,). The mean and SIF leave out
a word without a vector. In the soft cosine such a word is like itself alone.
"""

from collections import Counter

import numpy as np
import scipy.sparse.linalg

from ..core.arrays import to_host
from ..fast.threads import product
from ..core.text import UNKNOWN, Vocabulary, tokenize
from ..core.layers import l2_normalize_forward
from ..inference.projection import all_but_the_top

FITTED_ON = 200_000    # sentences of train from which document frequencies are taken
WEIGHTED = "word cosine weighted a/(a+p)"


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
    return product(left, right.T) if isinstance(left, np.ndarray) else (left @ right.T).toarray()


def pair_baselines(texts, left, right, run=None, vectors=None):
    """All baselines for the pairs texts[left[i]], texts[right[i]]: row name → (n,).

    run: its word embeddings and its p(word) are used; vectors: of a file, row name → word → vector
    """
    own = {"own vectors": run_vectors(run, words_of(texts))} if run else {}
    vocabulary = run.vocabulary if run else None
    return (bag_cosines(texts, left, right, vocabulary)
            | pair_similarities(texts, left, right, own | (vectors or {}), vocabulary))


def bag_cosine(sentence1, sentence2, weight=None):
    """Cosine of the binary word vectors of two sentences, each word weighted by weight(token).

    weight: None for 1, SemEval's own baseline (Cer et al. 2017, §6). Without a token it is 0.
    """
    one, two = set(tokenize(sentence1)), set(tokenize(sentence2))
    squares = {token: weight(token) ** 2 if weight else 1.0 for token in one | two}
    both, left, right = (sum(map(squares.get, tokens)) for tokens in (one & two, one, two))
    return float(both / np.sqrt(left * right)) if left and right else 0.0


def frequency_weight(vocabulary, a=1e-3):
    """token → a/(a + p(token)): the weight of SIF (Arora et al. 2017), p from the vocabulary."""
    return lambda token: a / (a + vocabulary.probability(token))


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

    SIF, smooth inverse frequency (Arora, Liang and Ma 2017), weighs words by a/(a + p(word)) and
    projects out the first singular vector of the means. sources: row name → vectors; vocabulary:
    where p(word) is from, or None for the texts
    """
    own, packed = vocabulary_of(texts)
    total, df = document_frequency(packed, own.size)
    df[UNKNOWN] = total                                       # what stands in an empty text: idf 0
    counts = term_counts(packed, own.size)
    weighted = tfidf(packed, total, df)
    weight = np.array([0, *map(frequency_weight(vocabulary or own), own.words), 0])
    rows = {}
    for name, vectors in sources.items():
        table = vectors_by_id(own, vectors).astype(np.float64)
        means = mean_vectors(counts, table, np.ones(own.size))
        weighted_means = mean_vectors(counts, table, weight)
        sif = weighted_means @ all_but_the_top(weighted_means)
        for kind, matrix in (("mean of", means), ("SIF of", sif)):
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


def soft_cosines(weighted, table, left, right):
    """xᵀMy/√(xᵀMx · yᵀMy), M_ij = max(0, cos(v_i, v_j))², M_ii = 1 (Charlet and Damnati 2017).

    weighted: CSR (B, words) of tf-idf; table: (words, d); left, right: int (n,) → (n,)
    """
    unit, _ = l2_normalize_forward(table)

    def product(x, y):
        x, y = weighted[x], weighted[y]
        like = np.maximum(unit[x.indices] @ unit[y.indices].T, 0) ** 2    # (words of x, of y)
        like[x.indices[:, None] == y.indices] = 1
        return x.data @ like @ y.data

    length = np.sqrt([product(k, k) for k in range(weighted.shape[0])])   # (B,)
    products = np.array([product(*pair) for pair in zip(left, right)])
    return products / np.maximum(length[left] * length[right], 1e-12)
