"""Each faster twin on the host returns what its function of core does; each has a case."""

import numpy as np
import pytest

from convsim_mini import fast
from convsim_mini.core import optim
from convsim_mini.core.arrays import twinned
from convsim_mini.core.attention import each_group
from convsim_mini.fast import host

from twin_cases import (
    CASES, PAIRS, SEEDS, TWINS, no_rows, plain, results_of, touched_rows, uninstall)


@pytest.fixture(params=[1, 2, 5])
def cores(request, monkeypatch):
    """Installs the twins; even small work is divided among one, two or five threads."""
    monkeypatch.setattr(host, "number_of_cores", lambda: request.param)
    monkeypatch.setattr(host, "_own_threads", True)
    monkeypatch.setattr(host, "LARGE_PRODUCT", 0)
    monkeypatch.setattr(host, "AT_ONCE", 4)
    host._threads.cache_clear()
    fast.install()
    yield
    host._threads.cache_clear()
    uninstall()


def errors(function, case, dtype, seed):
    """The twin's largest error in each array, relative to the largest value."""
    arguments = case(np.random.default_rng(seed), dtype)
    faster = results_of(function, arguments)
    with plain():
        expected = results_of(function, arguments)
    for x, y in zip(faster, expected, strict=True):
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
    return [np.abs(x - y).max(initial=0) / max(1, np.abs(y).max(initial=0))
            for x, y in zip(faster, expected) if x.dtype.kind == "f"]


@pytest.mark.parametrize("dtype, tolerance", [(np.float32, 2e-5), (np.float64, 1e-12)])
@pytest.mark.parametrize("function", CASES, ids=lambda function: function.__name__)
def test_a_twin_gives_what_core_gives(function, dtype, tolerance, cores):
    for seed in SEEDS:
        assert max(errors(function, CASES[function], dtype, seed), default=0) < tolerance


def test_rows_in_many_places_and_in_none_are_updated_alike(cores):
    many = lambda rng, dtype: touched_rows(rng, dtype, places=6_000)    # noqa: E731
    for case in many, no_rows:
        assert max(errors(optim.update_rows, case, np.float64, 0)) < 1e-11


def test_every_twin_has_a_case():
    assert TWINS == {*CASES, *PAIRS.values(), each_group}     # which attention calls


def test_the_first_array_with_an_axis_chooses_the_twin():
    function = twinned(lambda *arguments: "plain")
    function.register(np.ndarray, lambda *arguments: "twin")
    assert function(1.0, np.ones(()), None, [np.float32(1)]) == "plain"
    assert function(np.ones(()), [], ([np.ones(1)],)) == function(None, np.ones(1)) == "twin"
