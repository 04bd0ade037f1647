"""Work divided among threads: every item once, with the same results as one thread."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from convsim_mini.fast import host

from conftest import PATH


@pytest.fixture
def cores(monkeypatch):
    """A function that sets the number of cores."""
    def set_to(number):
        monkeypatch.setattr(host, "number_of_cores", lambda: number)
        host._threads.cache_clear()
    yield set_to
    host._threads.cache_clear()


@pytest.mark.parametrize("number", [1, 2, 3, 8])
@pytest.mark.parametrize("items", [1, 2, 7, 1000])
def test_fair_shares_are_all_items_once_and_nearly_equal_work(items, number, cores):
    cores(number)
    work = np.cumsum(np.random.default_rng(0).integers(1, 9, items))
    shares = host.fair_shares(work)
    assert [k for share in shares for k in range(items)[share]] == list(range(items))
    assert all(share.stop > share.start for share in shares) and len(shares) <= number
    if items == 1000:
        sizes = [work[share.stop - 1] - work[share.start] for share in shares]
        assert len(shares) == number and max(sizes) - min(sizes) < 40


def test_commands_give_blas_one_thread_and_a_program_keeps_its_own():
    code = """if True:
        import numpy, threadpoolctl
        from convsim_mini.fast import host as own
        def threads():
            return [pool["num_threads"] for pool in threadpoolctl.threadpool_info()
                    if pool["user_api"] == "blas"]
        x = numpy.ones((600, 600), numpy.float32)
        print(threads(), own.product(x, x).tobytes() == (x @ x).tobytes())
        own.use_all_cores()
        print(threads(), own.product(x, x)[0, 0])
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          env={**os.environ, "PYTHONPATH": PATH, "OPENBLAS_NUM_THREADS": "2"})
    before, after = done.stdout.splitlines()
    if "[2]" not in before:
        pytest.skip("this NumPy's BLAS does not take two threads from OPENBLAS_NUM_THREADS")
    assert before == "[2] True" and after == "[1] 600.0"


def test_small_products_get_one_thread_and_leave_blas_as_it_was(monkeypatch):
    given, blas = [], host._blas()

    class Blas:
        def limit(self, limits):
            given.append(limits)
            return blas.limit(limits=limits)

    monkeypatch.setattr(host, "_blas", Blas)
    monkeypatch.setattr(host, "_own_threads", False)
    before, x = blas.info(), np.random.default_rng(0).standard_normal((3, 5))
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(host.product, [x] * 50, [x.T] * 50):
            np.testing.assert_array_equal(found, x @ x.T)
    assert given == [1] * 50 and blas.info() == before
