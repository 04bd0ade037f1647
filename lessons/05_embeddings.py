# %% [markdown]
# # 5 · Embeddings: one row, many gradients
#
# **Needs** `Packed` and ids (lesson 4), xᵀ dy and "copied forward, summed backward" (lesson 3).
# **Gives** the backward of a table lookup, the bug that nearly everyone writes once, and the reason
# why a table's gradient is a list of `SparseRows` here and never a table.
#
# A word's meaning is a row of numbers in a table, and looking it up is the simplest layer there is.
# The backward that comes to mind is one line, looks right, passes many a check, and throws away
# most of the gradient.

# %%
import sys

sys.path += [".", "lessons"]
from lesson import check, expect, plt, seed, show

import tracemalloc
from collections import Counter
from itertools import islice

import numpy as np
import scipy.sparse

from convsim_mini.core.embeddings import SparseRows, summed
from convsim_mini.core.gradcheck import dense, numeric_gradient, relative_error
from convsim_mini.core.text import Vocabulary, tokenize
from convsim_mini.data.pairs import read_rows
from convsim_mini.data.tables_and_logs import default_corpus

rng = np.random.default_rng(seed(5))

# %% [markdown]
# ## A lookup is a matrix product
#
# The table E has R rows of d numbers. Word n of the text has the id ids_n, and its embedding is
# y_n = E_{ids n}. Write a matrix O (N, R) with a single 1 in each row, at the place of the id. Then
# y = O E: a linear layer whose input is O. You know its gradient from lesson 3:
#
# **dE = Oᵀ dy**, that is, dE_r = Σ dy_n over all n whose id is r.
#
# Nobody computes it so, for O is nearly all zeros. But it says what is right.

# %%
R, d = 6, 3
table = rng.standard_normal((R, d))
ids = np.array([2, 0, 2, 5, 2])    # row 2 three times, rows 1, 3 and 4 never
dy = rng.standard_normal((len(ids), d))

one_hot = np.eye(R)[ids]                                      # (N, R)
assert np.array_equal(one_hot @ table, table[ids])            # (N, R) (R, d) → (N, d)
dtable = one_hot.T @ dy                                       # (R, N) (N, d) → (R, d)
loss = lambda: float((table[ids] * dy).sum())
expect(relative_error(dtable, numeric_gradient(loss, table)), 0, 1e-8, "Oᵀ dy, against differences")
print("rows that were looked up", np.unique(ids), "rows with a gradient",
      np.flatnonzero(dtable.any(axis=1)))

# %% [markdown]
# ## The line that everyone writes
#
# Forward `y = table[ids]`, so backward `dtable[ids] += dy`. It reads like the sum above.
#
# **Predict:** row 2 stands at places 0, 2 and 4 of the text. What will `dtable[2]` be:
# dy₀ + dy₂ + dy₄, only dy₀, or only dy₄?

# %%
def hasty_backward(dy, ids, R):
    """Forward: y = table[ids]. It looks right."""
    dtable = np.zeros((R, dy.shape[1]))
    dtable[ids] += dy
    return dtable


hasty = hasty_backward(dy, ids, R)
assert np.array_equal(hasty[2], dy[4])
expect(relative_error(hasty, dtable), 0.1, 1, "the hasty backward against Oᵀ dy")

# %% [markdown]
# Only the last one. NumPy reads all of `dtable[ids]` first (three copies of a zero row), adds dy,
# and writes back: three results into the same row, and the last stays. No error, no warning. And
# with ids that do not repeat it is even right, so a check on `ids = arange(5)` passes:

# %%
kind = np.array([4, 0, 2, 5, 1])
expect(relative_error(hasty_backward(dy, kind, R), np.eye(R)[kind].T @ dy), 0, 0,
       "the hasty one, no id repeated")

# %% [markdown]
# ### Exercise 1: break the check
#
# Fool it properly: find ids and dy, *with a repeated id and without a single zero in dy*, for which
# the hasty backward is right all the same. Who survives in a repeated row? Then what must the
# others add up to?

# %%
def unlucky_batch():
    """→ ids (N,) with a repeated id, dy (N, 3) without zeros."""
    raise NotImplementedError


def judge_unlucky(unlucky_batch, rng):
    ids, dy = map(np.asarray, unlucky_batch())
    assert len(np.unique(ids)) < len(ids), "no id repeats"
    assert (dy != 0).all(), "dy holds zeros"
    rows = ids.max() + 1
    error = relative_error(hasty_backward(dy, ids, rows), np.eye(rows)[ids].T @ dy)
    assert error < 1e-12, (
        f"the two differ by {error:.2g}; what is lost in a repeated row has to add up to zero")


check(1, unlucky_batch, judge_unlucky)

# %% [markdown]
# ## How much is lost in real text?
#
# Of N looked-up words, U are different. The hasty line keeps one dy for each different word, so of
# N gradients U arrive: a share 1 − U/N is lost, and a word that comes c times in the batch keeps
# 1/c. Lesson 4 has shown how lopsided c is. **Predict** the lost share for 1,024 chat pairs, the
# default batch, which are 2,048 sentences: a tenth, a half, or nine tenths?

# %%
pairs = (pair for chunk in read_rows(default_corpus()) for pair in chunk.pairs)
sentences = [tokenize(text) for pair in islice(pairs, 40_000)
             for text in (pair.input, pair.response)]
vocabulary = Vocabulary.from_counts(Counter(token for tokens in sentences for token in tokens),
                                    50_000, 1_000)
batch = vocabulary.pack([sentences[i] for i in rng.choice(len(sentences), 2_048, replace=False)])

words, counts = np.unique(batch.ids, return_counts=True)      # (U,) each
N, U = len(batch.ids), len(words)
print(f"{N:,} words, {U:,} different; most frequent:", *[f"{vocabulary.token(words[k])} {counts[k]}"
                                                          for k in np.argsort(-counts)[:8]])
expect(1 - U / N, 0.8, 0.95, "share of the gradients that never arrive")

lost = np.repeat(1 - 1 / counts, counts)                      # (N,) for each word of the text
print(f"a typical entry of the dictionary loses {np.median(1 - 1 / counts):.0%}, a typical word of "
      f"the text {np.median(lost):.0%}")
assert np.isclose(lost.mean(), 1 - U / N)

figure, axes = plt.subplots()
axes.loglog(counts, 100 / counts, "o", alpha=0.3, markersize=5)
for word in ("i", "you", "movie", "weekend"):
    for c in counts[words == vocabulary.id(word)]:            # one number, or none
        axes.annotate(f"{word} ({c})", (c, 100 / c), (-8, -10), textcoords="offset points",
                      ha="right")
axes.set(xlabel="times that a word occurs in the batch", ylim=(0.03, 200),
         ylabel="of its gradient that table[ids] += dy keeps, %",
         title=f"The hasty line loses {1 - U / N:.0%} of a batch's gradients")
show(figure, "05_hasty_line")

# %% [markdown]
# Nine tenths are lost, and mostly from the words that sentences are made of. No error tells you. (A
# model with a wrong gradient still learns, only worse: lesson 12 shows one.)
#
# ## Four right ways
#
# 1. `np.add.at(dtable, ids, dy)`: one addition after the other, no buffer. Right, and the slowest.
# 2. Oᵀ dy with O as a *sparse* matrix, which stores only its N ones.
# 3. Sort the ids, so that equal ones stand together, and add up each run (exercise 2).
# 4. As 2, but only the U rows that occur: the result is (U, d) instead of (R, d), and the other
#    rows, which have no gradient, are not even mentioned.
#
# The library does the fourth in two parts. A backward names the N places: this row gets these
# values. A row may be named twice; the optimiser adds equal rows up (`summed`), then updates them.

# %%
d = 500                                                       # the default width
dy = rng.standard_normal((N, d)).astype(np.float32)
ones, columns = np.ones(N, np.float32), np.arange(N + 1)


def add_at(R):
    """→ (R, d)"""
    dtable = np.zeros((R, d), np.float32)
    np.add.at(dtable, batch.ids, dy)
    return dtable


def sparse_to_dense(R):
    """→ (R, d): Oᵀ dy, where column n of Oᵀ has its 1 in row ids_n."""
    return scipy.sparse.csc_matrix((ones, batch.ids, columns), shape=(R, N)) @ dy


def sparse_rows():
    """→ rows (U,) and values (U, d) of the words that occur, whatever R is."""
    rows, place = np.unique(batch.ids, return_inverse=True)   # (U,), (N,)
    values = scipy.sparse.csc_matrix((ones, place, columns), shape=(len(rows), N)) @ dy
    return [SparseRows(rows, values, np.arange(len(rows)))]


def places(dy, ids):
    """As the library: place n adds dy_n to row ids_n."""
    return [SparseRows(ids, dy, np.arange(len(ids)))]


R = vocabulary.size
right, like = add_at(R), np.zeros((R, d), np.float32)
by_place = dense(places(dy, batch.ids), like)
expect([relative_error(other, right)
        for other in (sparse_to_dense(R), dense(sparse_rows(), like), by_place)],
       0, 1e-6, "sparse to dense, sparse rows, places against add.at, float32")
print("the library's gradient for ids", ids, "names these rows; added up they are",
      summed(places(table[ids], ids))[0])

# %% [markdown]
# ## What a dense gradient costs
#
# The gradient of a table of R rows is as large as the table: R d numbers, whether the batch has
# four thousand different words or four. Sparse rows, added up, have U d numbers, and R does not
# matter.
#
# **Predict:** the default table has 250,000 rows of 500 numbers, 4 bytes each. How many megabytes
# has its dense gradient? And the rows of this batch, added up?

# %%
def megabytes(backward):
    """What is left of the memory that `backward` asks for: the gradient."""
    tracemalloc.start()
    gradient = backward()
    left, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del gradient
    return left / 1e6


default_rows = 250_000
sizes = np.array([25_000, 50_000, 100_000, default_rows])
memory = {"dense": [megabytes(lambda: sparse_to_dense(R)) for R in sizes],
          "sparse rows, equal ones added up": [megabytes(sparse_rows) for _ in sizes]}
for name, amounts in memory.items():
    print(f"{name:34}", *[f"{amount:6.0f} MB" for amount in amounts])
expect(memory["dense"][-1], 500, 502, "MB of a dense gradient; R d 4 bytes are 500")
expect(memory["sparse rows, equal ones added up"][-1], 4e-6 * U * d, 4e-6 * U * d + 1,
       f"MB of sparse rows; U d 4 bytes are {4e-6 * U * d:.1f}")

figure, axes = plt.subplots()
for (name, amounts), color in zip(memory.items(), ("C3", "C0")):
    axes.loglog(sizes, amounts, "o", color=color, label=name)
axes.loglog(sizes, 4e-6 * sizes * d, "k:", label="derived: 4 R d and 4 U d bytes")
axes.loglog(sizes, np.full(len(sizes), 4e-6 * U * d), "k:")
axes.set(xlabel="rows of the table, R", ylabel=f"megabytes of its gradient, d = {d}",
         ylim=(3, 3000), title="A dense gradient grows with the table, sparse rows do not")
axes.set_xticks(sizes, [f"{R:,}" for R in sizes])
axes.minorticks_off()
show(figure, "05_embeddings")

# %% [markdown]
# (The library names places instead, with dy as their values: N d numbers, which exist anyway.) A
# dense gradient is written, read and cleared in each step, and an optimiser with a memory has one
# or two more arrays of its size. With a small table that costs nothing worth a special case.
# Another reason for sparse rows is not about size.
#
# ## A row without a gradient must rest
#
# "No gradient" and "a gradient of zero" are not the same to Adam, which keeps a running mean of
# past gradients and moves by it (lesson 16). Give it a dense gradient, and a word goes on moving
# for steps in which nobody has spoken it. Here is Adam twice: for all five rows of a table, and for
# the rows in use alone. Word 3 occurs in the first batch only.

# %%
moved = {}
for kind in ("all rows", "rows in use"):
    table, mean, square = np.zeros((3, 5, 2))
    for step in range(1, 7):
        word = 3 if step == 1 else 1
        gradient = np.zeros((5, 2))
        gradient[word] = [1.0, -1.0]
        rows = np.arange(5) if kind == "all rows" else [word]
        mean[rows] = 0.9 * mean[rows] + 0.1 * gradient[rows]
        square[rows] = 0.999 * square[rows] + 0.001 * gradient[rows] ** 2
        root = np.sqrt(square[rows] / (1 - 0.999**step)) + 1e-8
        table[rows] -= 0.1 * mean[rows] / (1 - 0.9**step) / root
        if step == 1:
            after_first = table[3].copy()
    moved[kind] = np.abs(table[3] - after_first).max()
expect(np.abs(after_first).max(), 0.099, 0.101, "word 3 moved in its own batch")
expect(moved["all rows"], 0.1, 1, "and in five batches without it: Adam for all rows")
expect(moved["rows in use"], 0, 0, "Adam for the rows in use")

# %% [markdown]
# Adam for all rows moved the word further *after* its only occurrence than at it. The library's
# `Adaptive` gives tables no Adam but row-wise Adagrad, which has no running mean: with it a
# gradient of zero moves nothing, dense or sparse.
#
# ### Exercise 2: sort and add
#
# The way that needs no sparse matrix. Sort the ids (`np.argsort`, kind="stable"), take dy in the
# same order, find where a new id begins, and let `np.add.reduceat` add up each run.

# %%
def sorted_backward(dy, ids):
    """Forward: y = table[ids]. → rows (U,) distinct and ascending, values (U, d)."""
    raise NotImplementedError


def judge_sorted(backward, rng):
    for ids in (np.array([2, 0, 2, 5, 2]), np.array([4]), batch.ids[:500]):
        dy = rng.standard_normal((len(ids), 3))
        rows, values = backward(dy, ids)
        assert np.array_equal(rows, np.unique(ids)), (
            f"for ids {ids[:5]} … the rows have to be distinct and ascending")
        wanted = np.zeros((ids.max() + 1, 3))
        np.add.at(wanted, ids, dy)
        error = relative_error(np.asarray(values), wanted[rows])
        assert error < 1e-12, (
            f"ids {ids[:5]} …: values off by {error:.2g}; is dy in the order of the sorted ids?")


check(2, sorted_backward, judge_sorted)

# %% [markdown]
# ## Where this lives
#
# - `core/embeddings.py`: `SparseRows`; `summed`, exercise 2 in the library; `sum_rows`.
#   `core/optim.py`: `SGD.step`, `Adaptive`, `update_rows`. `fast/host.py`: `sum_into`, the sparse
#   product; `fast/loops.py`: the same sums as a loop, for numba.
# - The paper, §2.3.1: embeddings of words and bigrams are learned with everything else, by SGD
#   (§3.1). Row-wise Adagrad on the table is ours.
#
# ## What you know now
#
# - A lookup is a product with a one-hot matrix, so its gradient is a sum over all places of a row.
# - `dtable[ids] += dy` keeps one place of each row: of a batch of chat it loses 88% of the
#   gradient.
# - A list of rows is 56 times smaller than a dense gradient. A row that is not in it does not move.
#
# Next: lesson 6 adds the rows of a sentence up and asks by what to divide.
#
# Solutions, for when you have tried: `lessons/solutions/05_embeddings.py`.
