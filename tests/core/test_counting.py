"""The half that counts words: its directions, what their sums estimate, both halves as one."""

import hashlib

import numpy as np
import pytest

from convsim_mini.core.counting import (
    A, NUMBERS, count_vectors, side_by_side, with_words, word_directions)

from small_transformer import WORDS, random_sentences

PROBABILITIES = np.r_[0, 0.3 / np.arange(1, 2_000)]           # of "unknown", then as Zipf has them
SHA256 = "f2b5654842fd7e32f7efab2103f26ac31545ed6d2f9c7194cf90934d687850f6"


def test_the_directions_are_the_same_bytes_everywhere():
    found = word_directions(PROBABILITIES)
    assert found.shape == (2_000, 512) and found.dtype == np.float32
    assert hashlib.sha256(found.astype("<f4").tobytes()).hexdigest() == SHA256
    # more words leave the others as they are
    np.testing.assert_array_equal(word_directions(PROBABILITIES[:300]), found[:300])


def test_a_direction_is_shorter_the_more_frequent_its_word_is():
    lengths = np.linalg.norm(word_directions(PROBABILITIES).astype(np.float64), axis=1)
    np.testing.assert_allclose(lengths, A / (A + PROBABILITIES), rtol=1e-6)
    assert lengths[0] == pytest.approx(1) and lengths[1] == pytest.approx(0.0099, rel=0.01)


def errors(directions, pairs=500):
    """By how much sums of directions miss the weighted dot products that they estimate: (pairs,).

    In units of the standard deviation that the docstring promises at most. A pair of sentences has
    1 to 12 words each, drawn as often as they occur, and up to 6 common ones.
    """
    rng = np.random.default_rng(0)
    weights = A / (A + PROBABILITIES)
    share = PROBABILITIES / PROBABILITIES.sum()
    found = np.empty(pairs)
    for k in range(pairs):
        common, *own = (rng.choice(len(weights), n, p=share)
                        for n in (rng.integers(0, 7), *rng.integers(1, 7, 2)))
        ids = [np.r_[common, some] for some in own]
        x, y = (np.bincount(some, minlength=len(weights)) * weights for some in ids)
        x_length, y_length = np.linalg.norm(x), np.linalg.norm(y)
        exact = x @ y / (x_length * y_length)
        one, two = (directions[some].sum(axis=0, dtype=np.float64) for some in ids)
        error = one @ two / (x_length * y_length) - exact
        found[k] = error / np.sqrt((1 + exact ** 2) / NUMBERS)
    return found


def is_unbiased_and_near(directions):
    """Whether the mean error is 0 and its standard deviation no larger than promised."""
    found = errors(directions)
    return abs(found.mean()) < 0.1 and np.sqrt((found ** 2).mean()) < 1.05


def test_sums_of_directions_estimate_the_dot_product_of_weighted_counts():
    right = word_directions(PROBABILITIES)
    assert is_unbiased_and_near(right)
    for wrong in (np.abs(right), 1.1 * right, np.sign(right) / 32, right[:, :256] * np.sqrt(2)):
        assert not is_unbiased_and_near(wrong)


def test_a_vector_of_counts_is_the_direction_of_the_words_sum():
    rng = np.random.default_rng(0)
    table, packed = rng.standard_normal((WORDS, 5)), random_sentences([1, 7, 2, 30])
    words = map(np.unique, np.split(packed.ids, packed.offsets[1:-1]))
    sums = [table[some].sum(axis=0) for some in words]
    counts = count_vectors(table, packed)
    expected = sums / np.linalg.norm(sums, axis=1, keepdims=True)
    np.testing.assert_allclose(counts, expected, rtol=0, atol=1e-12)
    u = rng.standard_normal((4, 3))
    assert with_words(u, table, packed, 0) is u
    assert (with_words(u, table, packed, 0.4) == side_by_side(u, counts, 0.4)).all()


@pytest.mark.parametrize("weight", [0.4, 1.0, 7.0])
def test_a_dot_product_of_both_halves_is_the_weighted_mean_of_two_cosines(weight):
    u, c = np.random.default_rng(0).standard_normal((2, 6, 7))
    u, c = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (u, c))
    both = side_by_side(u, c, weight)
    np.testing.assert_allclose(both @ both.T, (u @ u.T + weight * c @ c.T) / (1 + weight),
                               rtol=0, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(both, axis=1), 1, rtol=0, atol=1e-12)
    assert side_by_side(u.astype(np.float32), c, weight).dtype == np.float32
