"""A matrix on top of the sentence vectors, as part of the model."""

from ..core.arrays import array_module


def with_matrix(model, matrix):
    """A Model that multiplies the vectors of `model` by a matrix and gives them unit length again.

    Vectors are u = x/‖x‖ with x = h W + b, and u M has the direction of x M = h (W M) + b M. So the
    matrix becomes part of the last linear layer, and encoding takes no longer than before. With
    config.bag x has a second summand, bag W_bag, and W_bag is multiplied by M, too.
    matrix: (e, e) on the host, or None: `model` itself
    """
    if matrix is None:
        return model
    last = f"encoder.linear{len(model.config.layers) - 1}"
    params = {name: p @ array_module(p).asarray(matrix, p.dtype)
              if name in (f"{last}.weight", f"{last}.bias", "encoder.bag.weight") else p
              for name, p in model.params.items()}
    return model._replace(params=params)
