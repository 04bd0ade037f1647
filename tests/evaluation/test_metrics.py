"""Metrics, intervals, differences: compared with formulas, published values and SciPy."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convsim_mini.core.ranking import true_ranks
from convsim_mini.evaluation import metrics, sts
from convsim_mini.evaluation.results import measured, show
from convsim_mini.evaluation.sts import Sts

samples = st.lists(st.tuples(*2 * [st.integers(-20, 20).map(lambda n: n / 4)]), min_size=4,
                   max_size=40).filter(lambda xy: all(len(set(side)) > 1 for side in zip(*xy)))


@given(samples)
def test_correlations_and_their_intervals_are_the_formulas(xy):
    x, y = np.array(xy).T

    def by_hand(x, y):
        x, y = x - x.mean(), y - y.mean()
        return x @ y / math.sqrt((x @ x) * (y @ y))

    def ranks(x):
        return np.array([(x < value).sum() + ((x == value).sum() + 1) / 2 for value in x])

    r = metrics.pearson(x, y)
    assert r == pytest.approx(by_hand(x, y), abs=1e-12)
    assert metrics.spearman(x, y) == pytest.approx(by_hand(ranks(x), ranks(y)), abs=1e-12)
    if abs(r) < 1 - 1e-9:                                     # the interval is [r, r] there
        z, half = math.atanh(r), 1.959964 / math.sqrt(len(x) - 3)
        assert metrics.pearson_interval(x, y) == pytest.approx(
            (math.tanh(z - half), math.tanh(z + half)), abs=1e-6)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("x", [[], [1], [1, 1], [1, 1, 1], np.ones(5), np.full(5, 0.1)])
def test_samples_that_are_constant_or_too_short_have_no_correlation_and_no_interval(x):
    x, y = np.array(x, float), np.arange(float(len(x)))
    for one, other in ((x, y), (y, x)):
        assert math.isnan(metrics.pearson(one, other)) and math.isnan(metrics.spearman(one, other))
        assert np.isnan(metrics.pearson_interval(one, other)).all()


def test_what_only_rounding_tells_apart_is_constant_and_ties_are_ties():
    """All vectors are equal up to 1e-7, as those of a script that a run never saw."""
    rng = np.random.default_rng(0)

    def encode(texts):
        return np.float32(1 / np.sqrt(500) + 1e-8 * rng.standard_normal((len(texts), 500)))

    for one in measured(encode, None, ["sts", "cqa"]):
        for row in one.scores:
            assert np.isnan([*one.figures[row].values()]).all()
        assert "trained" not in show(one).split("built-in set")[-2].split("\n\n", 2)[-1]
    noise = 1e-8 * rng.standard_normal((200, 100))
    assert (true_ranks(np.float32(noise)) == 100).all()
    assert metrics.top_of_ranking(np.arange(100) < 3, noise[0]).tolist() == [1] * 3 + [0] * 8
    ties = np.repeat([0.3, 0.7], 50) + noise[0]
    pairs = Sts(np.repeat("news", 100), rng.random(100), [], [])
    assert sts.figures(pairs, ties)["rho"] == sts.figures(pairs, ties - noise[0])["rho"]
    assert sts.lead(pairs, ties, ties - noise[0])[0] == 0


@pytest.mark.parametrize("hits, n", [(0, 10), (10, 10), (1, 1), (3, 7), (50, 100), (1, 10_000),
                                     (7_777, 10_000)])
def test_the_interval_of_a_share_is_wilsons(hits, n):
    p, z = hits / n, 1.959963985
    centre, half = (p + z * z / (2 * n)), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    expected = [100 * p, *(100 * end / (1 + z * z / n) for end in (centre - half, centre + half))]
    assert metrics.per_cent(np.arange(n) < hits) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_too_few_items_have_no_interval(n):
    one, other, labels = np.random.default_rng(0).standard_normal((3, n))
    assert np.isnan(metrics.difference(np.mean, one, other)[1:]).all()
    assert np.isnan(sts.lead(Sts(None, labels, [], []), one, other)[1:]).all()


def test_the_interval_of_a_difference_of_correlations_is_that_of_each_resample():
    rng = np.random.default_rng(1)
    y = rng.integers(0, 26, 12) / 5
    x, z = y + 1.5 * rng.standard_normal(12), y ** 1.5 + 4 * rng.standard_normal(12)
    drawn = np.stack([x, z, y])[:, np.random.default_rng(2).integers(0, 12, (20_000, 12))]
    drawn -= drawn.mean(axis=2, keepdims=True)
    drawn /= np.linalg.norm(drawn, axis=2, keepdims=True)
    r = 100 * (drawn[:2] * drawn[2]).sum(axis=2)              # x with y, z with y: (2, 20000)
    _, low, high = sts.lead(Sts(None, y, [], []), x, z)
    assert (low, high) == pytest.approx(tuple(np.quantile(r[0] - r[1], [0.025, 0.975])),
                                        abs=0.03 * (high - low))


@pytest.mark.filterwarnings("error")
def test_pairs_so_few_that_resamples_may_be_constant_leave_an_interval():
    x, z, y = np.random.default_rng(3).standard_normal((3, 4))
    difference, low, high = sts.lead(Sts(None, y, [], []), x, z)
    assert -200.1 < low <= difference <= high < 200.1
    own = Sts(None, np.arange(9.0), [], [])
    assert np.isnan(sts.lead(own, np.ones(9), own.labels)).all()


def test_differences_are_paired():
    # Two systems that differ in only one question: variation that they share must not widen the
    # interval.
    one = np.random.default_rng(0).random(60)
    other = one.copy()
    one[0], other[0] = 1, 0
    difference, low, high = metrics.difference(np.mean, one, other)
    assert difference == pytest.approx(1 / 60) and low == 0 and high < 4 / 60
