"""A model before its first step: from the corpus's own statistics, word vectors, or another run.

In a default run, the corpus alone gives STS 75 (77 after training) and P@1 20 (27 after training).
"""

import numpy as np

from ..common.cli import UserError
from ..core.initial import initial_parameters
from ..core.model import ENCODERS, NO_BIGRAMS, TABLE, Model
from ..core.packed import frequent_bigrams, neighbour_counts
from ..core.text import INSIDE
from ..data.vectors import vectors_of

A = 3e-4    # of a/(a + p)
WINDOW = 5
SMOOTHING = 0.75
MOST_WORDS = 30_000
MORE, POWERS = 20, 2    # of the randomised SVD


def initial_model(config, corpus, trained=None):
    """The Model of a Config before any training. The same seed always gives the same arrays.

    trained: a Model to start from, or None; parameters that it lacks (NLI's classifier) are new
    """
    rng, size = np.random.Generator(np.random.Philox(config.seed)), corpus.vocabulary.size
    if trained:
        table, bigrams = trained.params[TABLE], trained.bigrams
    else:
        wanted = config.bigram_rows
        bigrams = frequent_bigrams(corpus.train.packed, size, wanted) if wanted else NO_BIGRAMS
        table = initial_table(corpus, len(bigrams), config.model, rng)
    params = initial_parameters(config.model, table, rng, config.classifies)
    if trained:
        params |= {name: np.asarray(p, np.float32) for name, p in trained.params.items()
                   if name in params}
    return Model(params, config.model, size, bigrams)


def initial_table(corpus, bigrams, model, rng):
    """Rows of pieces, then of bigrams: float32 (vocabulary size + bigrams, embedding_dim).

    Random rows are normally distributed. With "corpus", a piece's row is its `ppmi_svd` vector
    times a/(a + p); p is the piece's share of all pieces. So a sum of rows is a weighted bag of
    words, in which "the" hardly counts (Arora et al. 2017). Bigrams then start at 0; otherwise they
    would drown out the words. With a file, its vectors are the first columns.
    """
    pieces, dim = corpus.vocabulary.size, model.embedding_dim
    divisor = np.float32(ENCODERS[model.encoder].table_divisor(dim))
    if model.start == "random":
        return rng.standard_normal((pieces + bigrams, dim), np.float32) / divisor
    of_pieces = rng.standard_normal((pieces, dim), np.float32)
    given = given_vectors(model, corpus.vocabulary)                       # (pieces, columns)
    columns = given.shape[1]
    parts = [(given, 0)]
    if columns < dim:
        parts.append((ppmi_svd(corpus.train, pieces, dim - columns, rng), columns))
    for vectors, first in parts:
        met = vectors.any(axis=1)                # a piece without a vector stays random
        of_pieces[:len(vectors), first:first + vectors.shape[1]][met] = vectors[met]
    weight = A / (A + corpus.vocabulary.probabilities())
    of_pieces *= weight.astype(np.float32)[:, None]
    table = np.zeros((pieces + bigrams, dim), np.float32)    # only now: the SVD needs memory, too
    table[:pieces] = of_pieces / divisor
    return table


def given_vectors(model, vocabulary):
    """Each piece's vector in the file that start names, scaled like random rows: (pieces, columns).

    It is the vector of the piece's text; a piece without one has a row of zeros. Raises UserError.
    """
    if model.start == "corpus":
        return np.zeros((vocabulary.size, 0), np.float32)
    texts = [piece.removeprefix(INSIDE) for piece in vocabulary.pieces]
    found = vectors_of(model.start, [*dict.fromkeys(texts)])
    columns = len(next(iter(found.values()), ()))
    if not 0 < columns <= model.embedding_dim:
        raise UserError(f"--model.start {model.start}: vectors of {columns} dimensions, expected 1 "
                        f"to {model.embedding_dim} (--model.embedding_dim), for words of the pairs")
    given = np.zeros((vocabulary.size, columns), np.float32)
    for k, text in enumerate(texts, start=1):
        given[k] = found.get(text, 0)
    return as_long_as_random(given)


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
    return as_long_as_random(vectors)


def as_long_as_random(vectors):
    """Rows scaled to the length of a random row, √dim; a row of zeros stays: float32 (n, dim)."""
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
    basis = orthonormal(matrix @ columns)            # (n, k + 20)
    for _ in range(POWERS):
        basis = orthonormal(transposed @ basis)
        basis = orthonormal(matrix @ basis)
    small = transposed @ basis                       # (m, k + 20)
    values, vectors = np.linalg.eigh(small.T @ small)         # by rising eigenvalue
    return basis @ vectors[:, ::-1][:, :k]


def orthonormal(columns):
    """Orthonormal columns with the span of the given ones, whatever signs LAPACK's QR chooses."""
    basis, r = np.linalg.qr(columns)
    return basis * np.sign(np.diag(r))


def cooccurrences(split, words):
    """How often two of the first `words` ids are ≤ 5 places apart in a sentence: symmetric CSR."""
    counts = neighbour_counts(split.packed, words, range(1, WINDOW + 1))
    return counts + counts.T
