"""NumPy on all cores: our own threads share the work, and BLAS gets one thread; then the twins.

NumPy and SciPy release the GIL while they compute, so Python's threads compute side by side.
"""

import ctypes
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from itertools import chain
from threading import Lock

import numpy as np
from threadpoolctl import ThreadpoolController

from . import install
from ..core import optim
from ..core.embeddings import joined, sum_rows as sum_rows_plainly
from ..core.packed import Packed

_own_threads = False
_one_at_a_time = Lock()    # of small products, or a thread would restore another's limit
AT_ONCE = 512   # rows of a table that fit a core's cache: 0.6 MB at width 300
LARGE_PRODUCT = 2**23    # multiplications; with fewer, a second thread does not pay off


@cache
def number_of_cores():
    """How many cores this process may use; OMP_NUM_THREADS limits them, as it limits BLAS."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return min(available, int(wanted)) if wanted.isdecimal() and int(wanted) else available


@cache
def _threads():
    return ThreadPoolExecutor(number_of_cores() - 1)


if hasattr(os, "register_at_fork"):                           # a fork has the pool, not its threads
    os.register_at_fork(after_in_child=_threads.cache_clear)


def on_all_cores(function, parts):
    """[function(part) for part in parts], with each part in its own thread.

    This pays off above 0.1 ms of work.
    """
    first, *others = parts
    running = [_threads().submit(function, part) for part in others]
    return [function(first), *(task.result() for task in running)]


def fair_shares(work):
    """Cut n items into one slice per core. work: (n,), the sum of the work before each item"""
    cores = number_of_cores()
    if len(work) < cores:
        return [slice(0, len(work))]
    cuts = np.searchsorted(work, work[-1] / cores * np.arange(1, cores)).tolist()
    cuts = [0, *sorted(set(cuts) - {0}), len(work)]
    return [slice(a, b) for a, b in zip(cuts, cuts[1:])]


def product(a, b):
    """The matrix product a b on the host: (n, k), (k, m) → (n, m). They may be transposed.

    After `use_all_cores`, the cores share the rows of `a`. Before, a small product gets one thread:
    BLAS's threads wait for each other by spinning, up to 20 times as long as the product takes.
    """
    is_small = a.size * b.shape[1] < LARGE_PRODUCT
    if is_small and not _own_threads:
        with _one_at_a_time, _blas().limit(limits=1):
            return a @ b
    if is_small or not _own_threads:
        return a @ b
    y, cores = np.empty((len(a), b.shape[1]), np.result_type(a, b)), number_of_cores()

    def share(k):
        rows = slice(k * len(a) // cores, (k + 1) * len(a) // cores)
        np.matmul(a[rows], b, out=y[rows])
    on_all_cores(share, range(cores))
    return y


@cache
def _blas():
    return ThreadpoolController().select(user_api="blas")


def use_all_cores():
    """Set up the whole process for speed, which commands that compute a lot do first.

    The twins are installed and freed memory is kept. Each BLAS library that threadpoolctl knows
    gets one thread, whatever OPENBLAS_NUM_THREADS says; `product` uses our threads instead.
    OpenBLAS's threads wait for each other by spinning, which takes most of a step's time when other
    processes are busy.
    """
    global _own_threads
    install()
    _blas().limit(limits=1)
    _own_threads = len(_blas()) > 0                           # 0 with Apple's Accelerate
    keep_freed_memory()


def keep_freed_memory():
    """Make the C library keep the memory of freed arrays instead of returning it to the system.

    Every step frees large arrays and asks for the same sizes again. Each new page from the system
    costs a page fault and is filled with zeros. Without mallopt this does nothing.
    """
    M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4                     # malloc.h
    with suppress(AttributeError, OSError, TypeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_MAX, 0)
        libc.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)


# ---------------------------------------------------------------- the twins, in core's order

matmul = product


def sum_rows(table, packed):
    """As in core, but threads share the sentences."""
    def sum_part(part):
        return sum_rows_plainly.plain(table, packed.part(part.start, part.stop))
    return np.concatenate(on_all_cores(sum_part, fair_shares(packed.offsets[:-1])))


def update_rows(table, parts, rate, squares=None):
    """Sort faster; then all cores update rows, as many at a time as fit in a cache."""
    grad = joined(parts)
    rows, places = by_row(grad)
    rate = table.dtype.type(rate)

    def update(share):
        for first in range(share.start, share.stop, AT_ONCE):
            last = min(first + AT_ONCE, share.stop)
            grads = sum_rows_plainly.plain(grad.values, places.part(first, last))
            optim.step_rows(table, rows[first:last], grads, rate, squares)
    on_all_cores(update, fair_shares(places.offsets[:-1] + np.arange(len(rows))))


def by_row(grad):
    """The distinct rows of a SparseRows, (U,), and the sources of each as a Packed of U."""
    keys = grad.rows.astype(np.int64) << 32
    keys += np.arange(len(keys))    # all differ: NumPy's fastest sort keeps the order of equal rows
    keys.sort()
    rows, order = keys >> 32, keys.astype(np.int32)           # the upper and the lower half
    begins = np.flatnonzero(np.diff(rows, prepend=-1, append=-1))
    return rows[begins[:-1]], Packed(grad.sources[order], begins)


def each_group(function, x, sentences, *others):
    """As in core, but threads share the groups."""
    items = list(zip(sentences, *others))
    scores = [group.length * (group.last - group.first) for group in sentences]
    shares = fair_shares(np.cumsum([0, *scores[:-1]]))
    parts = on_all_cores(lambda share: [function(*item) for item in items[share]], shares)
    return [*chain.from_iterable(parts)]
