"""Every parameter's shape and first value."""

import numpy as np

from ..data.snli import LABELS
from .input_response import Model
from .word_vectors import ppmi_svd


def initial_model(config, corpus):
    """The Model of a Config before any training, from its seed: the same arrays every time."""
    rng = np.random.Generator(np.random.Philox(config.seed))
    embeddings = initial_table(corpus, config.bigram_rows, config.model, rng)
    params = initial_parameters(config.model, embeddings, rng, config.classifies)
    return Model(params, config.model, corpus.vocabulary.size)


def initial_parameters(config, table, rng, classifies=False):
    """The parameters before any training: a flat dict of float32 arrays with dotted names.

    config: ModelConfig; table: (R, d) initial embeddings; rng: numpy Generator; classifies: with
    NLI's classifier. Matrices are drawn uniformly with the variance that keeps signal and gradient
    the same size (Glorot and Bengio 2010), biases are zero, the scales of layer norms one; the last
    layer of a residual response network starts small.
    """
    params, last_of_response = {}, f"response.linear{len(config.response_hidden)}.weight"
    for name, shape in parameter_shapes(config, len(table), classifies).items():
        if name == "encoder.embedding.weight":
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
    return params


def parameter_shapes(config, rows, classifies=False):
    """Name → shape of every parameter of a ModelConfig whose table has so many rows."""
    shapes = {"encoder.embedding.weight": (rows, config.embedding_dim)}
    if config.encoder == "transformer":
        shapes.update(transformer_shapes(config))
    e = config.layers[-1]
    networks = {"encoder": [config.embedding_dim, *config.layers],
                "response": [e, *config.response_hidden, e]}
    if classifies:
        networks["nli"] = [4 * e, config.nli_hidden, len(LABELS)]
    for name, widths in networks.items():
        for k, (fan_in, fan_out) in enumerate(zip(widths, widths[1:])):
            shapes[f"{name}.linear{k}.weight"] = (fan_in, fan_out)
            shapes[f"{name}.linear{k}.bias"] = (fan_out,)
    return shapes


def transformer_shapes(config):
    """Name → shape of the parameters of a ModelConfig's Transformer layers."""
    d, hidden, shapes = config.embedding_dim, config.hidden, {}
    for k in range(config.transformer_layers):
        linears = {"attention": {"qkv": (d, 3 * d), "output": (d, d)},
                   "feed_forward": {"linear0": (d, hidden), "linear1": (hidden, d)}}
        for sublayer, parts in linears.items():
            prefix = f"encoder.layer{k}.{sublayer}"
            shapes[f"{prefix}.norm.weight"] = shapes[f"{prefix}.norm.bias"] = (d,)
            for name, shape in parts.items():
                shapes[f"{prefix}.{name}.weight"] = shape
                shapes[f"{prefix}.{name}.bias"] = shape[1:]
    if config.pre_norm:
        shapes["encoder.norm.weight"] = shapes["encoder.norm.bias"] = (d,)
    return shapes


def initial_table(corpus, bigrams, model, rng):
    """Word rows, then bigram rows: float32 (vocabulary size + bigrams, embedding_dim).

    Words are drawn from a normal distribution. With `svd_share` that share of their dimensions
    comes from the corpus's own co-occurrences instead; with `frequency_weight` a the row of a
    word is scaled by a/(a + p(word)), so that sums of embeddings start as weighted bags of words
    in which "the" hardly counts (Arora et al. 2017). Bigrams start at zero or like words. A
    Transformer multiplies rows by √embedding_dim, so they start that much shorter.
    """
    words, dim = corpus.vocabulary.size, model.embedding_dim
    table = np.empty((words + bigrams, dim), np.float32)
    table[:words] = rng.standard_normal((words, dim), np.float32)
    from_svd = round(model.svd_share * dim)
    if from_svd:
        vectors = ppmi_svd(corpus.train, 1 + len(corpus.vocabulary.words), from_svd, rng)
        table[:vectors.shape[0], :vectors.shape[1]] = vectors
    if model.frequency_weight:
        p = corpus.vocabulary.probabilities()
        weight = model.frequency_weight / (model.frequency_weight + p)
        table[:words] *= weight.astype(np.float32)[:, None]
    if model.zero_bigrams:
        table[words:] = 0
    else:
        table[words:] = rng.standard_normal((bigrams, dim), np.float32)
    if model.encoder == "transformer":
        table /= np.float32(np.sqrt(dim))
    return table
