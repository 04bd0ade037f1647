"""Every parameter's shape and initial value. training/start.py makes the table's rows."""

import numpy as np

from .model import ENCODERS, TABLE
from .multitask import LABELS


def initial_parameters(config, table, rng, classifies=False):
    """The parameters before training: a flat dict of float32 arrays with dotted names.

    Each has a kind, which says how it starts: "table" (as given), "ones" or "zeros". Other matrices
    are drawn uniformly, with the variance that keeps signals and gradients the same size (Glorot
    and Bengio 2010); a "small" one is then times 0.1, an "off" one times 0. "qkv" is three square
    matrices side by side. A square "identity" is the identity, unless start is "random".
    config: ModelConfig; table: (R, d) initial embeddings; classifies: whether NLI's classifier is
    included
    """
    params = {}
    for name, (shape, kind) in parameter_kinds(config, len(table), classifies).items():
        if kind == "table":
            params[name] = table
        elif kind in ("ones", "zeros"):
            params[name] = getattr(np, kind)(shape, np.float32)
        else:
            fans = 2 * shape[0] if kind == "qkv" else sum(shape)
            bound = np.sqrt(6 / fans) * {"small": 0.1, "off": 0}.get(kind, 1)
            params[name] = rng.uniform(-bound, bound, shape).astype(np.float32)
            if kind == "identity" and shape[0] == shape[1] and config.start != "random":
                params[name] = np.eye(shape[0], dtype=np.float32)
    return params


def parameter_shapes(config, rows, classifies=False):
    """Every parameter's name → its shape. config: a ModelConfig; rows: the length of the table"""
    kinds = parameter_kinds(config, rows, classifies)
    return {name: shape for name, (shape, _) in kinds.items()}


def parameter_kinds(config, rows, classifies=False):
    """Every parameter's name → its shape and its kind (see above).

    With residual_response, the last response layer starts small. With `bag`, the encoder's last
    layer starts at zero, so at first the vector comes only from the bag.
    """
    d, e = config.embedding_dim, config.layers[-1]
    encoder = linear_kinds("encoder", [d, *config.layers], "identity",
                           "off" if config.bag else "identity")
    if not config.encoder_bias:
        del encoder[f"encoder.linear{len(config.layers) - 1}.bias"]
    response = linear_kinds("response", [e, *config.response_hidden, e], "uniform",
                            "small" if config.residual_response else "uniform")
    nli = linear_kinds("nli", [4 * e, config.nli_hidden, len(LABELS)]) if classifies else {}
    return {TABLE: ((rows, d), "table"), **ENCODERS[config.encoder].shapes(config), **encoder,
            **response, **nli}


def linear_kinds(name, widths, kind="uniform", last="uniform"):
    """`parameter_kinds` of linear layers. widths: before the first layer, and after each"""
    kinds = {}
    for k, shape in enumerate(zip(widths, widths[1:])):
        kinds[f"{name}.linear{k}.weight"] = shape, last if k == len(widths) - 2 else kind
        kinds[f"{name}.linear{k}.bias"] = shape[1:], "zeros"
    return kinds
