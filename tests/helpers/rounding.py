"""How far vectors of float32 may be from others that add in another order."""

import numpy as np

from convsim_mini.core.model import embed


def rounding(encoder, sentences):
    """The most by which a number of a vector may differ, for an encoder's weights.

    Each of two vectors is about as far from that of float64 as the encoder's are. How far depends
    on the weights, for layer norm and unit length divide by what may be small. The two together,
    doubled.
    """
    model, packed = encoder.model, encoder.vocabulary.encode(sentences)
    exact = embed(model._replace(params={name: array.astype(np.float64)
                                         for name, array in model.params.items()}), packed)
    return 4 * np.abs(embed(model, packed) - exact).max()
