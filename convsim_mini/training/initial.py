"""Every parameter's shape and initial value."""

import numpy as np

from ..core.model import ENCODERS, TABLE, Model
from ..core.nli import LABELS
from .word_vectors import ppmi_svd

A = 3e-4    # of a/(a + p)


def initial_model(config, corpus, trained=None):
    """The Model of a Config before any training, from its seed: the same arrays every time.

    trained: parameters to start from, as far as there are any; NLI's classifier may be new
    """
    rng = np.random.Generator(np.random.Philox(config.seed))
    table = (trained[TABLE] if trained else
             initial_table(corpus, config.bigram_rows, config.model, rng))
    params = initial_parameters(config.model, table, rng, config.classifies)
    params |= {name: p for name, p in (trained or {}).items() if name in params}
    return Model(params, config.model, corpus.vocabulary.size)


def initial_parameters(config, table, rng, classifies=False):
    """The parameters before any training: a flat dict of float32 arrays with dotted names.

    Matrices are drawn uniformly, with the variance that keeps signal and gradient the same size
    (Glorot and Bengio 2010); with the start from the corpus, square layers are the identity.
    With residual_response the last layer of the response network starts small. With `bag` the last
    layer of the encoder starts at zero, so at first only the bag makes the vector. config:
    ModelConfig; table: (R, d) initial embeddings; classifies: with NLI's classifier
    """
    params = {}
    last_of_response = f"response.linear{len(config.response_hidden)}.weight"
    for name, shape in parameter_shapes(config, len(table), classifies).items():
        if name == TABLE:
            params[name] = table
        elif name.endswith("norm.weight"):
            params[name] = np.ones(shape, np.float32)
        elif name.endswith("bias"):
            params[name] = np.zeros(shape, np.float32)
        else:
            # queries, keys and values are three square matrices in one
            fans = 2 * shape[0] if name.endswith("qkv.weight") else sum(shape)
            small = config.residual_response and name == last_of_response
            bound = np.sqrt(6 / fans) * (0.1 if small else 1)
            params[name] = rng.uniform(-bound, bound, shape).astype(np.float32)
            is_linear = name.startswith(("encoder.linear", "encoder.bag"))
            if config.start == "corpus" and is_linear and shape[0] == shape[1]:
                params[name] = np.eye(shape[0], dtype=np.float32)
    if config.bag:
        params[f"encoder.linear{len(config.layers) - 1}.weight"][:] = 0
    return params


def parameter_shapes(config, rows, classifies=False):
    """Name → shape of every parameter of a ModelConfig; rows: the length of its table."""
    e = config.layers[-1]
    shapes = {TABLE: (rows, config.embedding_dim),
              **ENCODERS[config.encoder].shapes(config)}
    networks = {"encoder": [config.embedding_dim, *config.layers],
                "response": [e, *config.response_hidden, e]}
    if classifies:
        networks["nli"] = [4 * e, config.nli_hidden, len(LABELS)]
    for name, widths in networks.items():
        for k, shape in enumerate(zip(widths, widths[1:])):
            shapes |= {f"{name}.linear{k}.weight": shape, f"{name}.linear{k}.bias": shape[1:]}
    if not config.encoder_bias:
        del shapes[f"encoder.linear{len(config.layers) - 1}.bias"]
    return shapes


def initial_table(corpus, bigrams, model, rng):
    """Rows of pieces, then of bigrams: float32 (vocabulary size + bigrams, embedding_dim).

    A random row is normally distributed. From the corpus, a piece starts as its co-occurrences
    times a/(a + p); p is its share of all pieces. So a sum of rows is a weighted bag of words, in
    which "the" hardly counts (Arora et al. 2017). Bigrams start at zero, or they would drown words.
    """
    pieces, dim = corpus.vocabulary.size, model.embedding_dim
    of_pieces = rng.standard_normal((pieces, dim), np.float32)
    if model.start == "corpus":
        vectors = ppmi_svd(corpus.train, pieces, dim, rng)
        met = vectors.any(axis=1)                # a piece without neighbours stays random
        of_pieces[:len(vectors), :vectors.shape[1]][met] = vectors[met]
        weight = A / (A + corpus.vocabulary.probabilities())
        of_pieces *= weight.astype(np.float32)[:, None]
    table = np.zeros((pieces + bigrams, dim), np.float32)    # only now: the SVD needs memory, too
    table[:pieces] = of_pieces
    if model.start == "random":
        table[pieces:] = rng.standard_normal((bigrams, dim), np.float32)
    table /= np.float32(ENCODERS[model.encoder].table_divisor(dim))
    return table
