"""Twins for NumPy's arrays, in core's order. The docstring of core's function applies to each.

All cores share the work, and a table's rows are updated as many at a time as fit in a core's cache.
"""

from itertools import chain

import numpy as np

from ..core import optim
from ..core.embeddings import joined, sum_rows as sum_rows_plainly
from ..core.packed import Packed
from .threads import fair_shares, on_all_cores, product

AT_ONCE = 512   # rows of a table that fit a core's cache: 0.6 MB at width 300

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
