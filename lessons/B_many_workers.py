# %% [markdown]
# # B · Many workers: when a sum of gradients is a gradient, and when it is not
#
# **Needs** the batch softmax with its gradient (lesson 5), sparse rows (lesson 7).
# **Gives** what several processes have to send each other to take the step of one, and its price.
# **Time** 45 minutes.
#
# Each of n workers holds all parameters and takes its share of the batch, and all of them make the
# same step. `mpiexec -n 4 python -m convsim_mini.train` does it with processes. Here the workers
# are function calls in one process, so that every number can be compared with the right one.

# %%
import sys

sys.path += [".", "lessons"]
from lesson import check, claim, expect, plt, seed, show

import numpy as np

from convsim_mini.core.gradcheck import numeric_gradient, relative_error
from convsim_mini.core.layers import linear_backward, linear_forward
from convsim_mini.core.losses import batch_softmax_backward, batch_softmax_forward

rng = np.random.default_rng(seed(19))


def parts_of(number, workers):
    """Slices of 0 … number − 1, one for each worker; no two differ by more than one."""
    cuts = [number * k // workers for k in range(workers + 1)]
    return [slice(a, b) for a, b in zip(cuts, cuts[1:])]


# %% [markdown]
# ## A sum of losses: the gradients add
#
# Take a loss that is a mean over examples, such as a linear layer with squared errors:
#
# L = (1/B) Σ_i l_i, so ∂L/∂W = (1/B) Σ_i ∂l_i/∂W
#
# Each worker sums over its own examples, and the sums are added up. The operation is called
# **all-reduce**: all workers give an array, all of them get the sum. So all make the same step, and
# the parameters are never sent.

# %%
B, workers = 10, 3
x, target = rng.standard_normal((B, 4)), rng.standard_normal((B, 2))
weight, bias = rng.standard_normal((4, 2)), np.zeros(2)


def gradient_of(rows, divisor):
    """dW of (1/divisor) Σ ½ |x W − target|² over some of the examples."""
    y, cache = linear_forward(x[rows], weight, bias)
    return linear_backward((y - target[rows]) / divisor, cache)[1]


whole = gradient_of(slice(None), B)
parts = parts_of(B, workers)
expect(relative_error(sum(gradient_of(part, B) for part in parts), whole), 0, 1e-14,
       "sum of the workers' gradients against one process")

# %% [markdown]
# **Predict:** many programs let each worker compute the mean over its *own* examples and then
# average those means. Ten examples on three workers are 3, 3 and 4. Is the average right?

# %%
means = [gradient_of(part, part.stop - part.start) for part in parts]
expect(relative_error(sum(means) / workers, whole), 1e-3, 0.5, "average of the means: off by")

# %% [markdown]
# No: an example on the third worker has the weight 1/12, and the others have 1/9. With equal shares
# nobody sees the mistake.
#
# ### Exercise 1: repair the average
#
# The workers' means arrive, and how many examples each had. Give the gradient of the whole batch.

# %%
def from_means(means, sizes):
    """means: arrays of one shape; sizes: examples of each worker → the batch's gradient."""
    raise NotImplementedError


def judge_from_means(from_means, rng):
    sizes = [int(size) for size in rng.permutation([3, 4, *rng.integers(1, 9, 2)])]
    parts = [rng.standard_normal((size, 2, 3)) for size in sizes]
    found = from_means([part.mean(axis=0) for part in parts], sizes)
    error = relative_error(found, np.concatenate(parts).mean(axis=0))
    assert error < 1e-12, f"off by {error:.2g}; what share of the batch does each worker have?"


check(1, from_means, judge_from_means)

# %% [markdown]
# ## The batch softmax is the exception
#
# Its loss is a mean over rows, too. But row i needs *all* replies of the batch, and most of them
# are on other workers. A worker that takes only its own b replies has an easier task: one of b and
# not one of B.
#
# Only the reply vectors have to be sent, e numbers for each pair. The operation is called
# **all-gather**: each worker gives its rows, and all get all rows. Then a worker computes its own
# rows of the score matrix.

# %%
B, e, scale = 12, 6, 0.5
u, v = rng.standard_normal((2, B, e))
parts = parts_of(B, 4)
loss, cache = batch_softmax_forward(u, v, scale)
du, dv = batch_softmax_backward(1.0, cache)


def worker_step(part, everyone):
    """One worker's rows: its inputs against all replies; → loss, du (b, e), dv (B, e)."""
    loss, cache = batch_softmax_forward(u[part], everyone, scale, part.start)
    return loss, *batch_softmax_backward(1.0, cache)


everyone = np.concatenate([v[part] for part in parts])        # what the all-gather brings
losses, dus, copies = zip(*(worker_step(part, everyone) for part in parts))
expect(abs(sum(losses) - loss), 0, 1e-12, "sum of the workers' losses against one process")
expect(relative_error(np.concatenate(dus), du), 0, 1e-12, "du, each worker its own rows")

# %% [markdown]
# ## Backwards through a gather
#
# Forward, v_j was copied to n workers. Lesson 3's rule holds for machines as well: *a value that is
# used several times gets the sum of the gradients.* Each worker w has the gradient of its own rows
# for all B replies: an array (B, e). The owner of reply j needs
#
# dv_j = **Σ_w dv_j⁽ʷ⁾**
#
# So the arrays are added up, and each worker keeps the rows of its own replies. That operation is
# called **reduce-scatter**, and it is the backward of the all-gather.
#
# ![All-reduce, all-gather and reduce-scatter among three workers](pictures/B_collectives.svg)

# %%
summed = sum(copies)                                          # reduce …
owned = [summed[part] for part in parts]                      # … scatter
expect(relative_error(np.concatenate(owned), dv), 0, 1e-12, "dv, summed and cut")
of_loss = lambda: float(sum(worker_step(part, v)[0] for part in parts))
expect(relative_error(np.concatenate(owned), numeric_gradient(of_loss, v)), 0, 1e-8,
       "the same against differences")

# %% [markdown]
# **Predict:** a frequent mistake is to treat all gathered vectors as constants, except the worker's
# own. Then dv_j keeps one of n summands. Which part of the gradient is left, the one toward the
# true input or the one away from wrong inputs?

# %%
kept = np.concatenate([copy[part] for copy, part in zip(copies, parts)])
p = cache[3]
claim("own copies alone: relative error of dv", relative_error(kept, dv), low=0.1)
lost_share = 1 - sum(p[part, part].sum() - np.trace(p[part, part]) for part in parts) / (
    p.sum() - np.trace(p))
claim("share of the gradient away from wrong inputs that is lost; 9/11 if all were equal",
      lost_share, 0.6, 0.95)

# %% [markdown]
# The true input is on the same worker as its reply. So the part of the gradient toward it stays,
# and most of the part away from wrong inputs is lost. du is right, so the loss falls and nothing
# looks wrong. Only a comparison with one process shows it.

# %%
figure, axes_row = plt.subplots(1, 2, figsize=(10, 4.6))
one = p - np.eye(B)                                           # B · ds
worker = np.arange(B) // 3
seen = one * (worker[:, None] == worker)
for axes, picture, title in zip(axes_row, (one, seen), (
        "B ∂loss/∂s: a worker has three rows;\na reply's gradient needs its whole column",
        "The mistake: of each column\nonly its own worker's part is used")):
    axes.imshow(picture, vmin=-1, vmax=1)
    axes.set(title=title, xlabel="reply j", ylabel="input i", xticks=range(0, B, 3),
             yticks=range(0, B, 3))
    for part in parts[1:]:
        axes.axhline(part.start - 0.5, color="black", linewidth=3)
show(figure, "B_many_workers")

# %% [markdown]
# ### Exercise 2: a variance from all workers
#
# The workers want the variance of every column of a batch, whose rows they share unevenly. Taking
# mean(x²) − mean(x)² is a trap: in float32, with a mean of 100,000 and a variance of 1, both terms
# are 10¹⁰. float32 tells numbers of that size apart by 1,024, so their difference is 0 or far off.
# So each worker sends its number of rows, their mean, and the sum of squared differences from *that
# mean*. Merge two of these (Chan et al. 1983): by how much do the two means add to the sum?

# %%
def given(x):
    """A worker's rows (b, d) → number, mean, sum of squares around it, of each column: (3, d)."""
    mean = x.mean(axis=0)
    return np.stack([np.full_like(mean, len(x)), mean, ((x - mean) ** 2).sum(axis=0)])


def merged(a, b):
    """The `given` of two sets of rows → that of both sets together, from these numbers alone."""
    raise NotImplementedError


def judge_merged(merged, rng):
    for dtype, mean, tolerance in ((np.float64, 0, 1e-9), (np.float32, 1e5, 0.03)):
        for apart in (0, 3):
            sets = [(mean + apart * k + rng.standard_normal((int(rng.integers(2, 40)), 3)))
                    .astype(dtype) for k in range(4)]
            number, center, squares = given(sets[0])
            for rows in sets[1:]:
                number, center, squares = merged((number, center, squares), given(rows))
            whole = np.concatenate(sets).astype(float)
            assert (number == len(whole)).all(), "the number of rows is wrong"
            assert np.abs(center - whole.mean(axis=0)).max() < 1e-6 * mean + 1e-9, (
                "a wrong mean; does a set of more rows count more?")
            found, right = (squares / number)[0], whole[:, 0].var()
            assert abs(found / right - 1) < tolerance, (
                f"mean {mean:g}, sets {apart} apart, {dtype.__name__}: the variance is "
                f"{found:.4g}, expected {right:.4g}; how far is each mean from the common one, "
                "and do two large numbers nearly cancel?")


check(2, merged, judge_merged)

# %% [markdown]
# ## What travels
#
# The matrices of our DAN are small: 500 · 500. The table is large: by the default settings up to
# 230,001 rows of 500 (30,000 pieces of words, the unknown one, 200,000 for bigrams). A worker with
# b = 1,024 pairs can send its gradient in three ways:
#
# 1. **Dense**. Sent: one array of 230,001 · 500 numbers of 4 bytes, 460 MB.
# 2. **Sparse rows**. Sent: the rows that its batch uses, each summed (lesson 7), 2,000 bytes a row.
# 3. **Before the sum**. Sent: one vector for each of 2b sentences, 4.1 MB, and two whole numbers, 8
#    bytes, for each place: which row, which sentence. This is enough, since all words and bigrams
#    of a sentence get the *same* vector (lesson 8). Others sum over places themselves.
#
# So the third sends less where a batch has more distinct rows than sentences. The library does it.
#
# ## Where this lives
#
# - `training/distributed.py`: `Workers`, over MPI: `gather` before the loss, `reduce_scatter` after
#   it. `core/model.py`: `pick` calls both. `core/losses.py`: `batch_softmax_forward` with `first`.
# - `tests/training/test_workers.py`: real processes; 2, 3 and 4 workers give the loss and every
#   gradient of one to ten digits.
# - The paper, §3.1, trains with many workers, 95% of them on conversations.

# %% [markdown]
# ## Claims
#
# Over five seeds, as `python -m lessons.claims B` prints it. The last column says which values would refute the claim.
#
# | claim | mean ± sd | least to most | refuted |
# | --- | --- | --- | --- |
# | own copies alone: relative error of dv | 0.232 ± 0.02 | 0.202 to 0.271 | below 0.1 |
# | share of the gradient away from wrong inputs that is lost; 9/11 if all were equal | 0.797 ± 0.05 | 0.746 to 0.851 | below 0.6, above 0.95 |

# %% [markdown]
# ## What you know now
#
# - The workers' sums add up to the batch's gradient. Their means have to be weighted.
# - The backward of a gather is a reduce-scatter: a value that many use gets the sum.
# - The mistakes here train without an error: compare with one process.
#
# Next: lesson C, also optional: the same arrays on a GPU.
#
# Solutions, for when you have tried: `lessons/solutions/B_many_workers.py`.
