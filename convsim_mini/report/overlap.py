"""How much of STS the NLI training set has shown already (the paper's footnote 9)."""

import numpy as np

from ..data.text import tokenize


def seen_in_training(sts, train):
    """Which pairs of an Sts share a sentence with the Snli `train`: bool (n,).

    Case, marks and quotes may differ.
    """
    seen = {tuple(tokenize(text)) for text in (*train.premises, *train.hypotheses)}
    return np.array([any(tuple(tokenize(text)) in seen for text in pair)
                     for pair in zip(sts.sentences1, sts.sentences2)])
