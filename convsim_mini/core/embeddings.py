"""A table of embeddings: bags of its rows, and its sparse gradient.

B is the number of sentences in a batch; a table is (R, d).
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse

from .arrays import array_module, to_device, to_host, twinned
from .packed import Packed

TABLE = "encoder.embedding.weight"    # the name of the table among the parameters


# ---------------------------------------------------------------- forward: rows of the table

def embedding_bag_forward(table, rows, lengths):
    """Sum the rows of a sentence's n words and its bigrams, and divide by √n (the paper, §2.3.1).

    The norm of a sum of unrelated vectors grows like the root of their number. So a sum would give
    long sentences long vectors, and a mean would give them short ones. TensorFlow's combiner
    "sqrtn" divides by the root of the number of rows; PyTorch's EmbeddingBag has sum and mean.

    table: (R, d); rows: Packed, the numbers of M table rows (words and bigrams) in B sentences;
    lengths: (B,), the number of words in each sentence; both on the host → y: (B, d), cache
    """
    table, ids = in_32_bits(table, rows.ids)
    rows = rows._replace(ids=ids)
    scale = (1 / np.sqrt(lengths)).astype(table.dtype)[:, None]           # (B, 1)
    rows, sources, scale = to_device((rows, rows.sentence_numbers, scale), array_module(table))
    y = sum_rows(table, rows)                                 # (B, d)
    y *= scale
    return y, (rows.ids, sources, scale)


def embedding_bag_backward(dy, cache):
    """Forward: y_b = (1/√n_b) Σ_r count_br E_r, E the table, count_br: how often row r is in b.

    y_b contains E_r count_br/√n_b times, so dE_r = Σ_b count_br dy_b/√n_b. In other words: each
    place in sentence b that uses row r adds dy_b/√n_b to dE_r. The list of all places is returned.
    The optimiser adds up the gradients of each row once it has the places of a whole batch.
    dy: (B, d) → dtable: list of SparseRows
    """
    rows, sources, scale = cache
    return [SparseRows(rows, dy * scale, sources)]


def in_32_bits(table, ids):
    """For a table in 16 or 8 bits, the rows in use, in the 32 that sums need; or else the table.

    In 8 bits, row r is table["scale"][r] · table["row"][r], the second int8 (export/ writes it).
    table: (R, d); ids: row numbers, (M,), on the host → (U, d), the numbers of the same rows: (M,)
    """
    if table.dtype in (np.float32, np.float64):
        return table, ids
    used, ids = np.unique(ids, return_inverse=True)
    rows = table[used]
    rows = (rows.astype(np.float32) if rows.dtype == np.float16 else
            rows["scale"][:, None] * rows["row"])
    return rows, ids.astype(np.int32)


@twinned
def sum_rows(table, packed):
    """The sum of each sentence's rows. table: (R, d); packed: row numbers, B sentences → (B, d).

    As matrices, y = S E: E is the table, and S (B, R) counts how often a row is in a sentence. Of
    the sparse S only the places of the ids are stored, and SciPy visits only those rows of E.
    """
    ids, offsets = to_host(packed.ids), to_host(packed.offsets)           # SciPy is for the host
    counts = scipy.sparse.csr_matrix((np.ones(len(ids), table.dtype), ids, offsets),
                                     (len(offsets) - 1, len(table)))
    return array_module(table).asarray(counts @ to_host(table))           # (B, d)


# ---------------------------------------------------------------- backward: rows of the gradient

class SparseRows(NamedTuple):
    """Part of a table's gradient; the whole gradient is a list of such parts.

    A place is one use of a row in the batch. Place m adds values[sources[m]] to row rows[m].
    Several places may add to one row, or share a value: a bag has one value per sentence. The
    gradient of a row without a place is zero.
    """

    rows: np.ndarray       # int32 (M,)
    values: np.ndarray     # (V, d)
    sources: np.ndarray    # int32 (M,)


def joined(parts):
    """Several SparseRows of one table, combined into one with all their places."""
    if len(parts) == 1:
        return parts[0]
    xp = array_module(parts[0].values)
    begins = np.cumsum([0, *(len(part.values) for part in parts)]).tolist()
    sources = [part.sources + begin for part, begin in zip(parts, begins)]
    return SparseRows(xp.concatenate([part.rows for part in parts]),
                      xp.concatenate([part.values for part in parts]), xp.concatenate(sources))


def summed(parts):
    """Sum the gradients of each row over all places: list of SparseRows → rows (U,), grads (U, d).

    The rows are distinct and in ascending order.
    """
    grad = joined(parts)
    xp = array_module(grad.values)
    order = xp.argsort(grad.rows, kind="stable")              # equal rows side by side
    rows = grad.rows[order]
    begins = xp.flatnonzero(xp.diff(rows, prepend=-1))        # (U,): where each new row begins
    # treat each distinct row as a sentence whose words are the sources of the row's places
    places = Packed(grad.sources[order], xp.append(begins, len(rows)))
    return rows[begins], sum_rows(grad.values, places)
