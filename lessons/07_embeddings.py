# %% [markdown]
# # 7 · Embeddings: one row, many gradients
#
# **Needs** `Packed` and ids (lesson 6), xᵀ dy and "copied forward, summed backward" (lesson 3).
# **Gives** the backward of a table lookup, a bug that loses most of it without an error, and why a
# table's gradient is a list of `SparseRows` here and never a table.
# **Time** 45 minutes.
#
# A word is a row of a table, and looking it up is the simplest layer there is. Its backward is one
# line, too. The obvious line looks right, passes many checks, and loses most of the gradient.
#
# **In thirty seconds.** Forward, a row is copied to each place of its word; backward, the row collects
# dy from each of these places. `dtable[ids] += dy` looks like that and keeps one place of each row.

# %%
import sys

sys.path += [".", "lessons"]
from lesson import check, claim, expect, np, plt, seed, show
from small_encoder import words_of_chat
from convsim_mini.core.embeddings import SparseRows, summed
from convsim_mini.core.gradcheck import numeric_gradient, relative_error

rng = np.random.default_rng(seed(5))

# %% [markdown]
# ## A lookup is a matrix product
#
# The table E has R rows of d numbers. Word n of the text has an id, and its embedding y_n is that
# row of E. Take five words with the ids 2 0 2 5 2. Row 2 is at places 0, 2 and 4, so if its
# first number rises by 1, the loss rises by dy at each of them: by 100 + 10 + 1.
#
# Write a matrix O (N, R) with a single 1 in each row, at the place of the id. Then y = O E: a linear
# layer whose input is O. You know its gradient from lesson 3:
#
# **dE = Oᵀ dy**, that is, dE_r = Σ dy_n over all n whose id is r.
#
# Nobody computes it this way, since O is nearly all zeros. But it tells us what the right answer is.
# The gradient ends here: an id is a whole number, so there is nothing further back to differentiate.
#
# ![Gather, scatter and add; and what the hasty line keeps](pictures/07_gather_scatter.svg)

# %%
R, d = 6, 2
table = rng.standard_normal((R, d))
ids = np.array([2, 0, 2, 5, 2])    # row 2 three times, rows 1, 3 and 4 never
dy = np.array([[100, 200], [5, 0], [10, 20], [0, 3], [1, 2]])

one_hot = np.eye(R)[ids]                                      # (N, R)
assert np.array_equal(one_hot @ table, table[ids])            # (N, R) (R, d) → (N, d)
dtable = one_hot.T @ dy                                       # (R, N) (N, d) → (R, d)
print("O =\n", one_hot.astype(int), "\nOᵀ dy =", dtable.astype(int).tolist())
loss = lambda: float((table[ids] * dy).sum())
expect(relative_error(dtable, numeric_gradient(loss, table)), 0, 1e-8, "Oᵀ dy, against differences")

# %% [markdown]
# ## A line many of us have written
#
# Forward `y = table[ids]`, so backward `dtable[ids] += dy`. It reads just like the sum above.
#
# **Predict:** row 2 is at places 0, 2 and 4. Is `dtable[2]` dy₀ + dy₂ + dy₄, only dy₀, or only dy₄?

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
# Only dy₄. NumPy first reads all of `dtable[ids]` (three copies of a zero row), adds dy, and writes
# back: three results into the same row, and the last one stays. There is no error and no warning. If
# no id repeats, the line is right, so a check on such ids passes:

# %%
kind = np.array([4, 0, 2, 5, 1])
expect(relative_error(hasty_backward(dy, kind, R), np.eye(R)[kind].T @ dy), 0, 0,
       "the hasty one, no id repeated")

# %% [markdown]
# ## How much is lost in real text?
#
# Of N looked-up words, U are different. The hasty line keeps one dy for each different word, so it
# loses a share 1 − U/N of the *places*. How much of the gradient is that? We take 1,024 pairs of chat
# and let `minimal.py`, untrained, go back from its loss to the dy of each word.
#
# **Predict** the lost share of the places: a tenth, a half, or nine tenths? And the cosine between
# the hasty gradient of the whole table and the right one?

# %%
ids, dy, word_ids = words_of_chat(1_024, rng)                 # (N,), (N, d), word → id
R = 1 + len(word_ids)                                         # rows of words; no bigrams here
words, times = np.unique(ids, return_counts=True)             # (U,) each
N, U = len(ids), len(words)
right = np.zeros((R, dy.shape[1]))
np.add.at(right, ids, dy)
hasty = hasty_backward(dy, ids, R)
claim("share of the places that the hasty line loses", 1 - U / N, 0.8, 0.95)
claim("cosine between the hasty gradient and the right one",
      (hasty * right).sum() / np.linalg.norm(hasty) / np.linalg.norm(right), high=0.33)

size = np.linalg.norm(hasty[words], axis=1) / np.linalg.norm(right[words], axis=1)
figure, axes = plt.subplots()
axes.loglog(times, size, "o", alpha=0.3, markersize=5, label="measured, one dot a word")
axes.loglog(times, 1 / np.sqrt(times), "k:", label="1/√c: unrelated gradients")
for word in ("the", "you", "like"):
    place = np.searchsorted(words, word_ids[word])
    axes.plot(times[place], size[place], "o", color="C3", markersize=6)
    axes.annotate(word, (times[place], size[place]), (6, 6), textcoords="offset points", color="C3")
axes.set(xlabel="times c that a word occurs in the batch",
         ylabel="length of its hasty gradient / of the right one",
         title="The more often a word occurs, the less of its gradient\nthe hasty line keeps")
show(figure, "07_embeddings")

# %% [markdown]
# Nine tenths of the places are lost, and the hasty gradient is nearly at a right angle to the right
# one. If the dy of one word were unrelated, the cosine would be √(U/N) = 0.34. But most partly agree,
# so the true sum is longer still. (If they oppose one another, the word's dot lies above 1.)
#
# ## Three right ways
#
# 1. Add one after another: `np.add.at(dtable, ids, dy)` has no buffer.
# 2. Sort the ids, so that equal ones are neighbours, take dy in the same order, and add up each run.
# 3. Multiply: Oᵀ dy with O as a *sparse* matrix, such as SciPy's, which stores only its N ones.
#
# The library's gradient is a list: "row 17 gets these values". It may name a row twice; the optimiser
# adds equal rows up (`summed`), then updates them. So for a table of a million rows the gradient
# needs no more room than the places of the batch.

# %%
named, added = summed([SparseRows(ids, dy, np.arange(N))])    # as the library: place n adds dy_n
expect(relative_error(added, right[named]), 0, 1e-6, "the library's list, added up, against add.at")

# %% [markdown]
# The list has a second use: the library's optimiser moves only the rows that are in it (lesson 17).
#
# ### Exercise 1: which of five loses gradient?
#
# Five colleagues have written this backward, and some lose gradient or send it to the wrong row. Do
# not read their code: write the check that tells. Which ids, and which dy, make every mistake show?

# %%
suspects = {
    "+=": hasty_backward,
    "columns": lambda dy, ids, R: np.stack([np.bincount(ids, part, R) for part in dy.T], axis=1),
    "one-hot": lambda dy, ids, R: np.eye(R)[ids].T @ dy,
    "runs": lambda dy, ids, R: np.stack([dy[np.sort(ids) == r].sum(axis=0) for r in range(R)]),
    "mean": lambda dy, ids, R: np.eye(R)[ids].T @ dy / np.bincount(ids, minlength=R).clip(1)[:, None]}


def is_right(backward):
    """backward: (dy (N, d), ids (N,), R) → dtable (R, d). → True if it is right for any ids."""
    raise NotImplementedError


def judge_is_right(is_right, rng):
    for name in rng.permutation(list(suspects)):
        verdict = bool(is_right(lambda *given, name=name: suspects[name](*given)))
        right = name in ("columns", "one-hot")
        assert verdict == right, (
            f"“{name}” is {'right' if right else 'wrong'}, and you say the opposite; does an id "
            "repeat, with others between, and is dy different at each place?")


check(1, is_right, judge_is_right)

# %% [markdown]
# ## Where this lives
#
# - `core/embeddings.py`: `SparseRows`; `summed` sorts and adds. `core/optim.py`:
#   `SGD.step`, `Adaptive`, `update_rows`.
# - `minimal.py`: `bag_backward` sorts and adds, too, for its bags.
# - [The paper](https://arxiv.org/abs/1804.07754), §2.3.1: embeddings of words and bigrams are learned
#   with everything else, by SGD (§3.1). Row-wise Adagrad on the table is ours.
# - To read further: the option `sparse` of
#   [PyTorch's Embedding](https://pytorch.org/docs/stable/generated/torch.nn.Embedding.html).

# %% [markdown]
# ## What you know now
#
# - A lookup is a product with a one-hot matrix, so its gradient is a sum over all places of a row.
# - `dtable[ids] += dy` keeps one place of each row: in a batch of chat it loses nine tenths of them.
# - A list of rows is as large as its batch, and a row that is not in it does not move.
#
# Next: lesson 8 adds up the rows of a sentence and asks what to divide the sum by.
#
# Solutions, for when you have tried: `lessons/solutions/07_embeddings.py`.
