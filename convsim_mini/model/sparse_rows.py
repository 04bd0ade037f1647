"""The gradient of a table of embeddings: only the rows in use, on either device."""

from typing import NamedTuple

import numpy as np
import scipy.sparse

from ..backend import array_module, compiled
from . import loops


class SparseRows(NamedTuple):
    """Part of a table's gradient; the whole gradient is a list of such parts.

    Place m adds values[sources[m]] to row rows[m]. Several places may add to one row. A row without
    a place has the gradient zero. rows: int (M,); values: (V, d); sources: int (M,), or None where
    place m adds values[m]
    """

    rows: np.ndarray
    values: np.ndarray
    sources: np.ndarray | None = None


def joined(parts):
    """Several SparseRows of one table as one, with all their places."""
    if len(parts) == 1:
        return parts[0]
    xp = array_module(parts[0].values)
    first, sources = 0, []
    for rows, values, own in parts:
        sources.append(first + (xp.arange(len(rows), dtype=rows.dtype) if own is None else own))
        first += len(values)
    rows, values = (xp.concatenate(arrays) for arrays in tuple(zip(*parts))[:2])
    return SparseRows(rows, values, xp.concatenate(sources))


class RowPlaces(NamedTuple):
    """The places of SparseRows, sorted: values[sources[begins[u]:begins[u + 1]]] go to rows[u]."""

    rows: np.ndarray       # (U,): distinct rows, ascending
    begins: np.ndarray     # (U + 1,)
    sources: np.ndarray    # (M,)


def by_row(grad):
    """Bring the places of equal rows together, in their old order: SparseRows of M → RowPlaces."""
    count = len(grad.rows)
    keys = grad.rows.astype(np.int64) << 32
    keys += np.arange(count)                                  # faster than a stable argsort
    keys.sort()
    rows, order = keys >> 32, keys.astype(np.int32)           # the lower half
    begins = np.flatnonzero(np.diff(rows, prepend=-1, append=-1))         # (U + 1,)
    return RowPlaces(rows[begins[:-1]], begins,
                     order if grad.sources is None else grad.sources[order])


@compiled(loops.sum_rows)
def sum_rows(ids, offsets, table, y):
    """y_b = the sum of the rows ids[offsets[b]:offsets[b + 1]] of the table; y is overwritten.

    As matrices, y = S E: E is the table, (R, d); S (B, R) holds how often each row stands in each
    sum. S is sparse, and SciPy adds the rows where they are, without copies. On the host only.
    ids: (M,), of which offsets, (B + 1,), may name a part; table: (R, d); y: (B, d)
    """
    begin, end = offsets[0], offsets[-1]
    counts = scipy.sparse.csr_matrix((np.ones(end - begin, table.dtype), ids[begin:end],
                                      (offsets - begin).astype(np.int32)), (len(y), len(table)))
    y[...] = counts @ table
