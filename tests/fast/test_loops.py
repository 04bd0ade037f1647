"""The loops that numba may compile, in Python and compiled: equal to what they replace."""

import sys

import numpy as np
import pytest

from convsim_mini.core import optim
from convsim_mini.fast import devices, host, loops

LENGTHS = (0, 1, 7, 8, 9, 16, 31)    # rows per sum: none; below, at and above the block of eight


@pytest.fixture(params=["Python", "numba"])
def way(request):
    """A function: loop → the loop itself, or compiled."""
    if request.param == "Python":
        return lambda loop: loop
    pytest.importorskip("numba", reason="numba is not installed: pip install numba")
    return loops.compiled


def sums_error(sum_rows, dtype=np.float64):
    """The largest error of sum_rows, compared with adding up row by row."""
    rng = np.random.default_rng(0)
    table = rng.standard_normal((23, 11)).astype(dtype)
    offsets = 3 + np.cumsum([0, *LENGTHS])    # a part: ids before it belong to another
    ids = rng.integers(0, 23, offsets[-1] + 2).astype(np.int32)
    y = np.full((len(LENGTHS), 11), np.nan, dtype)
    sum_rows(y, table, ids, offsets)
    expected = [table[ids[a:b]].sum(axis=0, dtype=np.float64) for a, b in zip(offsets, offsets[1:])]
    return np.abs(y - expected).max()


def steps_error(step_rows, adagrad, dtype=np.float64):
    """The largest error of two steps of step_rows against row-wise Adagrad's or SGD's formula."""
    rng = np.random.default_rng(1)
    table = rng.standard_normal((23, 11)).astype(dtype)
    squares = np.full(23, 0.1, dtype) if adagrad else None
    expected, sums = table.astype(np.float64), np.full(23, 0.1)
    for _ in range(2):
        rows = rng.permutation(23)[:9]
        grads = rng.standard_normal((9, 11)).astype(dtype)
        sums[rows] += (grads.astype(np.float64) ** 2).mean(axis=1)
        rates = 0.3 / np.sqrt(sums[rows]) if adagrad else np.full(9, 0.3)
        expected[rows] -= rates[:, None] * grads
        step_rows(table, rows, grads, dtype(0.3), squares)
    worst = np.abs(table - expected).max()
    return max(worst, np.abs(squares - sums).max()) if adagrad else worst


def test_loops_are_what_they_replace(way):
    assert sums_error(host.sum_into) < 1e-13                  # few rows: by SciPy
    assert sums_error(way(loops.sum_rows)) < 1e-13
    assert sums_error(way(loops.sum_rows), np.float32) < 1e-5
    for adagrad in (False, True):
        assert steps_error(optim.step_rows, adagrad) < 1e-14
        assert steps_error(way(loops.step_rows), adagrad) < 1e-14
        assert steps_error(way(loops.step_rows), adagrad, np.float32) < 1e-5


def test_what_is_not_finite_stays_so(way):
    table = np.array([[np.nan, np.inf, -np.inf, 1.0]] * 9)
    y = np.zeros((1, 4))
    way(loops.sum_rows)(y, table, np.arange(9), np.array([0, 9]))
    assert np.isnan(y[0, 0]) and y[0, 1:].tolist() == [np.inf, -np.inf, 9]
    grads = np.array([[np.inf, 1.0, 2.0, 3.0], [np.nan, 1.0, 2.0, 3.0]])
    stepped, expected = np.ones((2, 2, 4))
    with np.errstate(invalid="ignore"):
        way(loops.step_rows)(stepped, np.arange(2), grads, 0.1, np.ones(2))
        optim.step_rows(expected, np.arange(2), grads, 0.1, np.ones(2))
    np.testing.assert_array_equal(stepped, expected)
    assert np.isnan(stepped[1]).all() and np.isnan(stepped[0, 0])


def test_few_rows_do_not_wait_for_numba(monkeypatch):
    called = []
    monkeypatch.setattr(loops, "compiled", lambda loop: called.append(loop))
    monkeypatch.setattr(host, "MANY", 100)
    for number in (99, 100):
        y = np.empty((1, 2))
        host.sum_into(y, np.ones((3, 2)), np.zeros(number, np.int32), np.array([0, number]))
        assert (y == number).all() and called == [loops.sum_rows] * (number // 100)


@pytest.fixture
def fresh():
    """Makes the package look for numba again, now and after the test."""
    for kept in (loops.numba_module, loops.compiled):
        kept.cache_clear()
    yield
    for kept in (loops.numba_module, loops.compiled):
        kept.cache_clear()


@pytest.mark.parametrize("error", [ModuleNotFoundError, ImportError])    # wrong version
def test_without_a_fitting_numba_scipy_computes(error, fresh, monkeypatch):
    class Finder:
        def find_spec(self, name, *_):
            if name == "numba":
                raise error
    for name in [name for name in sys.modules if name.split(".")[0] == "numba"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    monkeypatch.setattr(host, "MANY", 0)
    assert sums_error(host.sum_into) < 1e-14
    assert loops.compiled(loops.step_rows) is None
    assert "numba" not in devices.machine(np)


def test_without_a_folder_for_its_cache_numba_compiles_each_time(fresh, monkeypatch):
    pytest.importorskip("numba", reason="numba is not installed: pip install numba")
    from numba.core import caching
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    assert sums_error(loops.compiled(loops.sum_rows)) < 1e-13
