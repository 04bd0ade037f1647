"""The half of a sentence vector that counts words (ours). Nothing in it is learned.

A few hundred learned numbers blur names, numbers and rare words. Counting keeps them apart. So the
vector that `encode` gives has a learned half and a counting half. The dot product of two such
vectors is the weighted sum of the dot products of their halves.
"""

import math

import numpy as np

from .arrays import array_module, to_device, to_host
from .embeddings import embedding_bag_forward
from .layers import l2_normalize_forward
from .packed import once

NUMBERS, SEED = 512, 2018
A = 3e-3    # of a/(a + p) (ours: forums of STS dev 67.3, 67.7, 67.9 with 3e-4, 1e-3, 3e-3)


def word_directions(probabilities):
    """A fixed direction for each word, shorter for frequent words: float32 (words, 512).

    Word w has random signs divided by √512, times a/(a + p(w)). The sum of a sentence's directions
    stands for its weighted word counts, a vector as long as the vocabulary. For unit vectors x and
    y of such counts the dot product of the two sums is x · y plus an error with mean 0 and a
    variance of at most (1 + (x · y)²)/512, because random directions are nearly orthogonal (Johnson
    and Lindenstrauss 1984). So the error of two sentences without a common word is about 0.04.
    probabilities: p(word) of each id, (words,). Vocabulary and seed decide all of it, so a run
    stores nothing more.
    """
    words = len(probabilities)
    bits = np.random.Philox(SEED).random_raw(words * NUMBERS // 64)       # the same in every NumPy
    signs = np.unpackbits(bits.astype("<u8").view(np.uint8)).reshape(words, NUMBERS)    # 0 or 1
    weight = (A / (A + probabilities) / np.sqrt(NUMBERS)).astype(np.float32)[:, None]
    directions = np.multiply(signs, 2 * weight, dtype=np.float32)
    directions -= weight                                      # signs 0 and 1 become −1 and 1
    return directions


def count_vectors(directions, packed):
    """The halves that count words, each once: Packed of n sentences, on the host → (n, 512) there.

    Unit vectors. A word that is said twice tells no more than once (ours: measured on STS dev).
    """
    packed = to_device(once(packed), array_module(directions))
    sums, _ = embedding_bag_forward(directions, packed, packed.lengths)   # √n does not matter here
    return to_host(l2_normalize_forward(sums)[0])


def with_words(u, directions, packed, weight):
    """Both halves: u: (n, e) of the n sentences of a Packed; weight 0: u alone."""
    return side_by_side(u, count_vectors(directions, packed), weight) if weight else u


def side_by_side(u, counts, weight):
    """[u, √w c]/√(1 + w), w the weight: u: (n, e), counts c: (n, 512), unit → unit (n, e + 512).

    The dot product of two such vectors is (u₁ · u₂ + w c₁ · c₂)/(1 + w).
    """
    return np.concatenate([math.sqrt(1 / (1 + weight)) * u,
                           math.sqrt(weight / (1 + weight)) * counts], axis=1, dtype=u.dtype)
