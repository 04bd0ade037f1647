"""Every parameter's shape and initial value. training/start.py makes the table's rows."""

import numpy as np

from .model import ENCODERS, TABLE
from .nli import LABELS


def initial_parameters(config, table, rng, classifies=False):
    """The parameters before training: a flat dict of float32 arrays with dotted names.

    Matrices are drawn uniformly, with the variance that keeps signals and gradients the same size
    (Glorot and Bengio 2010). Unless start is "random", square encoder.linear and encoder.bag
    weights are the identity. With residual_response, the last response layer starts small. With
    `bag`, the encoder's last layer starts at zero, so at first the vector comes only from the bag.
    config: ModelConfig; table: (R, d) initial embeddings; classifies: whether NLI's classifier is
    included
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
            fans = 2 * shape[0] if name.endswith("qkv.weight") else sum(shape)    # 3 squares
            small = config.residual_response and name == last_of_response
            bound = np.sqrt(6 / fans) * (0.1 if small else 1)
            params[name] = rng.uniform(-bound, bound, shape).astype(np.float32)
            is_linear = name.startswith(("encoder.linear", "encoder.bag"))
            if config.start != "random" and is_linear and shape[0] == shape[1]:
                params[name] = np.eye(shape[0], dtype=np.float32)
    if config.bag:
        params[f"encoder.linear{len(config.layers) - 1}.weight"][:] = 0
    return params


def parameter_shapes(config, rows, classifies=False):
    """Every parameter's name → its shape. config: a ModelConfig; rows: the length of the table"""
    e = config.layers[-1]
    shapes = {TABLE: (rows, config.embedding_dim), **ENCODERS[config.encoder].shapes(config)}
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
