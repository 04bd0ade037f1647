"""Metrics and their intervals; is a difference real? Against formulas, published values, SciPy."""

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from convsim_mini.evaluation import cqa, metrics
from convsim_mini.evaluation.cqa import Candidate, Question


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


@pytest.mark.parametrize("hits, n", [(0, 10), (10, 10), (1, 1), (3, 7), (50, 100), (1, 10_000),
                                     (7_777, 10_000)])
def test_the_interval_of_a_share_is_wilsons(hits, n):
    p, z = hits / n, 1.959963985
    centre, half = (p + z * z / (2 * n)), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    expected = [100 * p, *(100 * end / (1 + z * z / n) for end in (centre - half, centre + half))]
    assert metrics.per_cent(np.arange(n) < hits) == pytest.approx(expected, abs=1e-5)


def test_the_interval_of_a_mean_is_1_96_standard_errors_to_both_sides():
    half = 1.959964 * math.sqrt(14 / 3 / 4)
    assert metrics.mean_interval(np.array([1.0, 2, 3, 6])) == pytest.approx((3, 3 - half, 3 + half))
    assert metrics.with_interval((1, -0.25, 2.25), "+.1f") == "+1.0 [-0.2, +2.2]"


@pytest.mark.parametrize("interval, said", [
    ((0.1, 2), "better than"), ((-2, -0.1), "worse than"), ((0, 1), "not told apart from"),
    ((-1, 0), "not told apart from"), ((np.nan, np.nan), "not told apart from")])
def test_a_difference_is_only_called_one_where_its_interval_leaves_out_0(interval, said):
    assert metrics.verdict(*interval) == said


def sample(n, rx, rz, between):
    """x, z, y: (n,) whose correlations are exactly r(x, y), r(z, y), r(x, z)."""
    noise = np.random.default_rng(0).standard_normal((n, 3))
    white, _ = np.linalg.qr(noise - noise.mean(axis=0))
    return (white @ np.linalg.cholesky([[1, between, rx], [between, 1, rz], [rx, rz, 1]]).T).T


def graded(rng, n, noise, other):
    """Labels of STS's kind, and two systems that err by so much: x, z, y."""
    y = rng.integers(0, 26, n) / 5
    return y + noise * rng.standard_normal(n), y ** 1.5 + other * rng.standard_normal(n), y


# From the manuals of two R packages: cor_diff of bruceR prints t(97) = -4.56 and p = 1e-05, r.test
# of psych p = 0.1000759.
def test_williams_test_gives_the_published_values():
    t, p = metrics.williams_test(*sample(100, 0.20, 0.45, 0.80))
    assert round(t, 2) == -4.56 and f"{p:.0e}" == "1e-05"
    _, p = metrics.williams_test(*sample(5_105, 0.693458895410494, 0.695966022434845,
                                         0.988475791500198))
    assert round(p, 7) == 0.1000759


def test_williams_test_is_the_formula_with_the_determinant_of_the_correlation_matrix():
    rng = np.random.default_rng(0)
    for n in (4, 7, 30, 400):
        data = rng.standard_normal((3, 3)) @ rng.standard_normal((3, n))
        r = np.corrcoef(data)
        (x, z, y), mean = data, (r[0, 2] + r[1, 2]) / 2
        expected = (r[0, 2] - r[1, 2]) / math.sqrt(
            (2 * (n - 1) / (n - 3) * np.linalg.det(r) + mean**2 * (1 - r[0, 1]) ** 3)
            / ((n - 1) * (1 + r[0, 1])))
        t, p = metrics.williams_test(x, z, y)
        assert t == pytest.approx(expected, rel=1e-6)
        assert p == pytest.approx(2 * scipy.stats.t.sf(abs(expected), n - 3), rel=1e-6)


@pytest.mark.parametrize("scale", [1, 2, 0.1, 1 / 3, 1e6])
def test_a_system_is_never_better_than_itself_on_another_scale(scale):
    y, noise = np.random.default_rng(2).standard_normal((2, 1_500))
    x = y + noise
    assert metrics.williams_test(x, scale * x + 0.7, y)[1] > 0.99


@pytest.mark.parametrize("n", [1, 2, 3])
def test_too_few_pairs_have_no_test_and_no_interval(n):
    x, z, y = np.random.default_rng(0).standard_normal((3, n))
    assert (np.isnan(metrics.williams_test(x, z, y)).all()
            and np.isnan(metrics.pearson_difference(x, z, y)[1:]).all())


def test_the_interval_of_a_difference_of_correlations_is_that_of_each_resample():
    x, z, y = graded(np.random.default_rng(1), 12, 1.5, 4)
    differences = []
    for drawn in np.random.default_rng(2).integers(0, 12, (20_000, 12)):
        r = np.corrcoef(np.stack([x, z, y])[:, drawn])
        differences.append(r[0, 2] - r[1, 2])
    _, low, high = metrics.pearson_difference(x, z, y)
    assert (low, high) == pytest.approx(tuple(np.quantile(differences, [0.025, 0.975])),
                                        abs=0.03 * (high - low))


@pytest.mark.filterwarnings("error")
def test_pairs_so_few_that_resamples_may_be_constant_leave_an_interval():
    x, z, y = np.random.default_rng(3).standard_normal((3, 4))
    difference, low, high = metrics.pearson_difference(x, z, y)
    assert -2.001 < low <= difference <= high < 2.001
    assert np.isnan(metrics.pearson_difference(np.ones(9), np.arange(9.0), np.arange(9.0))).all()


def test_map_differences_are_paired():
    # Two orders that find the same but for one question: what all questions share must not widen
    # the interval.
    relevant = np.random.default_rng(0).random((60, 10)) < 0.3
    other = relevant.copy()
    other[0], relevant[0] = False, True
    difference, low, high = metrics.map_difference(relevant, other)
    assert difference == pytest.approx(1 / 60) and low == 0 and high < 4 / 60
    assert np.isnan(metrics.map_difference(relevant[:3], other[:3])[1:]).all()


def test_a_ranking_is_only_called_better_where_the_interval_leaves_out_0():
    questions = [Question(f"Q{n}", "", [Candidate(f"R{k}", k + 1, k == 1, "") for k in range(5)])
                 for n in range(30)]
    right, wrong = ([float(k == place) for _ in questions for k in range(5)] for place in (1, 4))
    mixed = (right[:5] + wrong[:5]) * 15
    nearly = right[:-5] + wrong[-5:]                          # many a resample lacks the last one
    for trained, engine, tfidf, said in (
            (right, wrong, right, ["better than", "not told apart from"]),
            (mixed, wrong, right, ["better than", "worse than"]),
            (right, mixed, nearly, ["better than", "not told apart from"]),
            (nearly, mixed, right, ["better than", "not told apart from"])):
        _, *lines = cqa.differences(questions, {
            "trained": trained, cqa.SEARCH_ENGINE: engine, cqa.TFIDF: tfidf}).splitlines()
        assert [line.startswith(f"  {one} ") for line, one in zip(lines, said)] == [True] * 2
        if trained is right and engine is wrong:
            assert f"{cqa.SEARCH_ENGINE} (+66.67 [+66.67, +66.67])" in lines[0]
            assert f"{cqa.TFIDF} (+0.00 [+0.00, +0.00])" in lines[1]
