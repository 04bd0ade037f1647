# %% [markdown]
# # 20 · Many workers: when a sum of gradients is a gradient, and when it is not
#
# **Needs** the batch softmax with its gradient (lesson 9), sparse rows (lesson 5).
# **Gives** what several processes have to tell each other so that together they take the step of
# one; the backward of a gather; what that costs for a table of 251,000 rows.
#
# The paper trained on many machines. Each of n workers holds all parameters, takes its share of the
# batch, and all of them make the same step. `mpiexec -n 4 python -m convsim_mini.train` does it
# with processes. Here the workers are plain function calls in one process, one after the other, so
# that every number can be compared with the one that it should be.

# %%
import sys

sys.path += [".", "lessons"]
from lesson import check, expect, plt, seed, show

from collections import Counter

import numpy as np

from convsim_mini.config import TextConfig
from convsim_mini.core.gradcheck import numeric_gradient, relative_error
from convsim_mini.core.layers import linear_backward, linear_forward
from convsim_mini.core.losses import batch_softmax_backward, batch_softmax_forward
from convsim_mini.core.packed import words_and_bigrams
from convsim_mini.core.text import Vocabulary, tokenize
from convsim_mini.data.pairs import read_rows
from convsim_mini.data.tables_and_logs import default_corpus

rng = np.random.default_rng(seed(19))


def parts_of(number, workers):
    """Slices of 0 … number − 1, one for each worker; no two differ by more than one."""
    cuts = [number * k // workers for k in range(workers + 1)]
    return [slice(a, b) for a, b in zip(cuts, cuts[1:])]


# %% [markdown]
# ## A sum of losses: nothing to worry about
#
# Take a loss that is a mean over examples, such as a linear layer with squared errors:
#
# L = (1/B) Σ_i l_i, so ∂L/∂W = (1/B) Σ_i ∂l_i/∂W
#
# Each worker sums over its own examples, and the sums are added up. The operation is called
# **all-reduce**: all workers give an array, all of them get the sum. Every worker then knows the
# whole gradient, makes the same step, and so keeps the same parameters without ever sending them.

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
print("shares of the batch:", *(part.stop - part.start for part in parts))
expect(relative_error(sum(gradient_of(part, B) for part in parts), whole), 0, 1e-14,
       "sum of the workers' gradients against one process")

# %% [markdown]
# **Predict:** many programs let each worker compute the mean over its *own* examples and then
# average those means. Ten examples on three workers are 3, 3 and 4. Is the average right?

# %%
means = [gradient_of(part, part.stop - part.start) for part in parts]
expect(relative_error(sum(means) / workers, whole), 1e-3, 0.5, "average of the means: off by")

# %% [markdown]
# It gives an example on the third worker a weight of 1/12 and the others 1/9. With equal shares the
# two agree. So the mistake hides until a batch cannot be shared evenly.
#
# ### Exercise 1: repair the average
#
# The workers' means arrive, and how many examples each had. Give the gradient of the whole batch.

# %%
def from_means(means, sizes):
    """means: arrays of one shape; sizes: examples of each worker → the batch's gradient."""
    raise NotImplementedError


def judge_from_means(from_means, rng):
    error = relative_error(from_means(means, [3, 3, 4]), whole)
    assert error < 1e-12, f"off by {error:.2g}; what share of the batch does each worker have?"


check(1, from_means, judge_from_means)

# %% [markdown]
# ## The batch softmax is the exception
#
# Its loss is a mean over rows, too. But row i needs *all* replies of the batch, and most of them
# are on other workers. A worker that asks only its own b replies answers an easier question: one of
# b and not one of B. At equal scores the loss is then ln b and not ln B (lesson 9).
#
# What has to travel are the reply vectors alone, e numbers for each pair, never the sentences or
# the encoder's caches. The operation is called **all-gather**: each worker gives its rows, and all
# get all rows. Then a worker computes its own rows of the score matrix.

# %%
B, e, scale = 12, 6, 0.5
u, v = rng.standard_normal((2, B, e))
parts = parts_of(B, 4)
loss, cache = batch_softmax_forward(u, v, scale)
du, dv = batch_softmax_backward(1.0, cache)

alone = sum(batch_softmax_forward(u[part], v[part], scale)[0] for part in parts) / 4
print(f"loss of the batch {loss:.3f}, mean of four losses within the workers {alone:.3f}")
flat, few = np.ones((B, e)), np.ones((3, e))
expect(batch_softmax_forward(flat, flat)[0] - batch_softmax_forward(few, few)[0],
       np.log(4) - 1e-12, np.log(4) + 1e-12, "at equal scores: ln 12 − ln 3 = ln 4")


def worker_step(part, everyone):
    """One worker's rows: its inputs against all replies; → loss, du (b, e), dv (B, e)."""
    loss, cache = batch_softmax_forward(u[part], everyone, scale, None, part.start)
    return loss, *batch_softmax_backward(1.0, cache)


everyone = np.concatenate([v[part] for part in parts])        # what the all-gather brings
losses, dus, copies = zip(*(worker_step(part, everyone) for part in parts))
expect(abs(sum(losses) - loss), 0, 1e-12, "sum of the workers' losses against one process")
expect(relative_error(np.concatenate(dus), du), 0, 1e-12, "du, each worker its own rows")

# %% [markdown]
# ## Backwards through a gather
#
# Forward, v_j was copied to n workers. Lesson 3's rule holds for machines as well: *a value that is
# used several times gets the sum of the gradients.* Worker w has found what its own inputs say
# about all B replies: one array (B, e) each. The owner of reply j needs
#
# dv_j = **Σ_w dv_j⁽ʷ⁾**
#
# So the arrays are added up, and each worker keeps the rows of its own replies. That operation is
# called **reduce-scatter**, and it is the backward of the all-gather. The other way round holds,
# too: the backward of a reduce-scatter is an all-gather.
#
# ![All-reduce, all-gather and reduce-scatter among three workers](pictures/20_collectives.svg)

# %%
summed = sum(copies)                                          # reduce …
owned = [summed[part] for part in parts]                      # … scatter
expect(relative_error(np.concatenate(owned), dv), 0, 1e-12, "dv, summed and cut")
of_loss = lambda: float(sum(worker_step(part, v)[0] for part in parts))
expect(relative_error(np.concatenate(owned), numeric_gradient(of_loss, v)), 0, 1e-8,
       "the same against differences")

# %% [markdown]
# **Predict:** the most frequent mistake is to treat all gathered vectors as constants, except the
# worker's own. Then dv_j keeps one of n summands. Which part of the gradient survives, the pull of
# the true input or the push of the wrong ones?

# %%
kept = np.concatenate([copy[part] for copy, part in zip(copies, parts)])
p = cache[3]
expect(relative_error(kept, dv), 0.1, 1, "own copies alone: off by")
lost = np.concatenate([
    scale / B * np.delete(p, np.r_[part], axis=0)[:, part].T @ np.delete(u, np.r_[part], axis=0)
    for part in parts])
expect(relative_error(kept + lost, dv), 0, 1e-12, "what is lost: pushes by the other workers")
lost_share = 1 - sum(p[part, part].sum() - np.trace(p[part, part]) for part in parts) / (
    p.sum() - np.trace(p))
expect(lost_share, 0.6, 0.95, "share of all pushes that is lost, 9 in 11 if they were equal")

# %% [markdown]
# The true input sits on the same worker as its reply, so the whole pull stays and most of the push
# is gone: replies are drawn to their inputs and hardly kept apart. du is right all the time, so
# training goes on and looks fine. Only a comparison with one process tells.

# %%
figure, axes_row = plt.subplots(1, 3, figsize=(11, 4.2))
one = p - np.eye(B)                                           # B · ds
seen = np.zeros_like(one)
for part in parts:
    seen[part, part] = one[part, part]
for axes, picture, title in zip(axes_row, (one, one, seen), (
        "Rows are computed where\nthe inputs are: worker by worker",
        "A column is one reply's gradient:\nit needs every worker",
        "The mistake: a reply hears\nits own worker alone")):
    axes.imshow(picture, vmin=-1, vmax=1)
    axes.set(title=title, xlabel="reply j", ylabel="input i", xticks=range(0, B, 3),
             yticks=range(0, B, 3))
for part in parts[1:]:
    axes_row[0].axhline(part.start - 0.5, color="black")
    axes_row[1].axvline(part.start - 0.5, color="black")
    for draw in (axes_row[2].axhline, axes_row[2].axvline):
        draw(part.start - 0.5, color="black")
show(figure, "20_many_workers")

# %% [markdown]
# ### Exercise 2: a variance from all workers
#
# The workers want the variance of every column of a batch, whose rows they share unevenly. They may
# use one all-reduce, and no worker may send its rows. What does each of them give, and what does
# one make of the sum?

# %%
def given(x):
    """A worker's rows (b, d), b not the same for all → an array of 3 d numbers or fewer."""
    raise NotImplementedError


def variance_of(summed):
    """The sum of all workers' `given` → the variance of each column over all rows: (d,)."""
    raise NotImplementedError


def judge_variance(functions, rng):
    given, variance_of = functions
    x = 3 + rng.standard_normal((10, 2)) * [1, 5]
    sent = [np.asarray(given(x[part])) for part in parts_of(10, 3)]
    assert max(array.size for array in sent) <= 6, "more than three numbers for each column"
    error = relative_error(variance_of(sum(sent)), x.var(axis=0))
    assert error < 1e-9, (f"off by {error:.2g}; a variance is a mean of squares less a squared "
                          "mean. Of which rows are these means?")


check(2, (given, variance_of), judge_variance)

# %% [markdown]
# ## What travels
#
# Dense gradients are small here: our DAN has one layer of 500 · 500 and one like it for replies.
# The table is large: 251,000 rows of 500, half a gigabyte. There are three ways to send its
# gradient.
#
# 1. **Dense**: as one array. The best method (reduce-scatter, then all-gather) lets a worker
#    receive 2 (n − 1)/n · R rows of 500 numbers.
# 2. **Sparse rows**: a batch uses U rows, far fewer than R. Each worker adds up its own (lesson 5)
#    and gathers those of the n − 1 others: (n − 1) · U rows. That is less as long as n < 2R/U.
# 3. **Before the sum**: all words and bigrams of a sentence get the *same* vector:
#    the sentence's dy over the root of its length (lesson 6). So a worker gathers one vector for
#    each sentence, and two whole numbers for each place: which row, which sentence. The sum over
#    places is left to whoever updates the rows. That is (n − 1) · 2b vectors for b pairs.
#
# The third way is the library's. Every worker has the whole table and updates all of these rows.
#
# **Predict:** a worker has 1,024 pairs of chat. How many different rows do their words and bigrams
# name, nearer 2,000 or 20,000? How much less is one vector for each of the 2,048 sentences?

# %%
chunk = next(read_rows(default_corpus())).pairs           # 5,000 pairs
sentences = [text for pair in chunk for text in pair[:2]]
text = TextConfig()
counts = Counter(token for sentence in sentences for token in tokenize(sentence))
vocabulary = Vocabulary.from_counts(counts, text.words, text.oov_buckets)
R = text.words + text.oov_buckets + text.bigram_buckets
layers = 2 * 500 * 500                                        # of the encoder, of the response
for pairs, most in ((100, 5_000), (1_024, 25_000)):
    batch = vocabulary.encode(sentences[:2 * pairs])
    places = words_and_bigrams(batch, vocabulary.size, text.bigram_buckets).ids
    U = len(np.unique(places))
    before_the_sum = 2 * pairs * 500 * 4 + len(places) * 2 * 4
    print(f"{pairs:,} pairs: {U:,} rows, {U * 500 * 4 / 1e6:.1f} MB; before the sum "
          f"{before_the_sum / 1e6:.1f} MB; the dense table {R * 500 * 4 / 1e6:.0f} MB; the layers "
          f"{layers * 4 / 1e6:.0f} MB")
    expect(U, most / 5, most, "different rows")
    print(f"sparse rows beat the dense array below {2 * R / U:.0f} workers")
    expect(U * 500 * 4 / before_the_sum, 4, 16, "before the sum it is so many times less")

# %% [markdown]
# One more thing has to be the same everywhere: the random numbers. Which words are dropped from a
# sentence must not depend on how many workers there are, or a run could not go on with another
# number of them. So numbers belong to places in the *whole* batch, and each worker takes its own.
#
# ## Where this lives
#
# - `training/distributed.py`: `Workers`, over MPI; the only file that knows of it. A step meets
#   them at two doors: `gather` before the loss, `reduce_scatter` after it. `Group.sum` then adds up
#   all dense gradients. `training/workers.py`: one worker that is alone.
# - `core/model.py`: `pick` opens both. `core/losses.py`: `batch_softmax_forward` with `first`.
# - `tests/training/test_workers.py`: real processes; 2, 3 and 4 workers give the loss and every
#   gradient of one to ten digits.
# - The paper, §3.1, trains with many workers, 95% of them on conversations.
#   `--optim.nli_workers 0.05` does so.
#
# ## What you know now
#
# - The workers' sums add up to the batch's gradient. Their means have to be weighted.
# - The backward of a gather is a reduce-scatter: a value that many use gets the sum.
# - The mistakes here train without an error: compare with one process.
#
# Next: lesson 21 asks what the trained vectors are worth.
#
# Solutions, for when you have tried: `lessons/solutions/20_many_workers.py`.
