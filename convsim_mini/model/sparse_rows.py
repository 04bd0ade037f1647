"""The gradient of a table of embeddings: only the rows in use, on either device."""

from typing import NamedTuple

import numpy as np
import scipy.sparse

from ..backend import array_module, fair_shares


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


class RowBlock(NamedTuple):
    """U distinct rows of a table, in ascending order. Their gradients are counts @ values."""

    rows: np.ndarray                   # (U,)
    counts: scipy.sparse.csr_matrix    # (U, V): how often each of the values is added to each row


def row_blocks(grad):
    """Bring equal rows together: SparseRows of M places, on the host → RowBlocks, one a core.

    The places are sorted by row. Their sources, in that order, are the column numbers of a sparse
    matrix. Each block has about the same work: rows to fetch and entries to add.
    """
    order = np.argsort(grad.rows, kind="stable")                          # (M,)
    rows = grad.rows[order]
    sources = order if grad.sources is None else grad.sources[order]
    changes = np.flatnonzero(rows[1:] != rows[:-1]) + 1
    begin = np.concatenate([np.zeros(1, changes.dtype), changes])         # (U,) where a row begins
    indptr = np.append(begin, len(rows)).astype(np.int32)                 # (U + 1,)
    counts = scipy.sparse.csr_matrix((np.ones(len(rows), grad.values.dtype), sources, indptr),
                                     shape=(len(begin), len(grad.values)))
    distinct = rows[begin]                                                # (U,)
    shares = fair_shares(begin + np.arange(len(begin)))
    return [RowBlock(distinct[share], counts[share] if len(shares) > 1 else counts)
            for share in shares]
