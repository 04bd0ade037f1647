# %% [markdown]
# # B · Many workers: when they may simply add their gradients
#
# **Needs** the batch softmax with its gradient (lesson 5), sparse rows (lesson 7), P@1 (lesson 18).
# **Gives** what several processes must send each other to take the step of one, and what it costs.
# **Time** 45 minutes.
#
# **In thirty seconds.** If the loss is a sum over examples, workers may add their
# gradients. The batch softmax is not such a sum, because every row needs all replies: gather the
# replies first, and send their gradients back afterwards. Forget the second half and the loss still
# falls, while the model picks replies no better than before its first step.
#
# Each of n workers holds all parameters and takes its share of the batch, and then all of them make
# the same step. `mpiexec -n 4 python -m convsim_mini.train` does it with processes. Here the
# workers are function calls in one process, so that we can compare every number with the right one.

# %%
import sys

sys.path += [".", "lessons"]
from lesson import check, claim, expect, np, plt, seed, show
from small_encoder import p_at_1, small_config, some_chat, train
from convsim_mini.core.gradcheck import numeric_gradient, relative_error
from convsim_mini.core.layers import linear_backward, linear_forward
from convsim_mini.core.losses import batch_softmax_backward, batch_softmax_forward
from convsim_mini.core.model import TASKS, Task, response_backward, response_forward
from convsim_mini.training.start import initial_model

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
# Each worker sums over its own examples, and the sums are added up. This operation is called
# **all-reduce**: each worker gives an array, and each gets the sum. So all of them make the same
# step, and the parameters themselves never have to travel.

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
# average those means. Ten examples on three workers make 3, 3 and 4. Is the average right?

# %%
means = [gradient_of(part, part.stop - part.start) for part in parts]
expect(relative_error(sum(means) / workers, whole), 1e-3, 0.5, "average of the means: off by")

# %% [markdown]
# The average is wrong: an example on the third worker has the weight 1/12, and the others have 1/9.
# With equal shares nobody sees the mistake, which is why it lives so long.
# So weigh each mean by its share of the batch: 3/10, 3/10 and 4/10.
#
# ## The batch softmax is the exception
#
# Its loss is a mean over rows as well. But row i needs *all* replies of the batch, and most of them
# are on other workers. A worker that makes do with its own b replies sits an easier exam: find one
# of b instead of one of B.
#
# It is enough to send the reply vectors, e numbers for each pair. This operation is called
# **all-gather**: each worker gives its rows, and each gets all rows. Then a worker can compute its
# own rows of the score matrix.

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
# On the way forward v_j was copied to n workers, and lesson 3's rule holds for machines, too: *a
# value that is used several times gets the sum of the gradients.* Each worker w has a gradient for
# all B replies, an array (B, e), but only as far as its own rows go. The owner of reply j needs
#
# dv_j = **Σ_w dv_j⁽ʷ⁾**
#
# So the arrays are added up, and each worker keeps the rows of its own replies. This operation is
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
# own. Then dv_j keeps one of n summands. Which part of the gradient is left, the pull towards the
# true input or the push away from wrong ones?

# %%
kept = np.concatenate([copy[part] for copy, part in zip(copies, parts)])
p = cache[3][0]
claim("own copies alone: relative error of dv", relative_error(kept, dv), low=0.1)
lost_share = 1 - sum(p[part, part].sum() - np.trace(p[part, part]) for part in parts) / (
    p.sum() - np.trace(p))
claim("share of the push away from wrong inputs that is lost; 9/11 if all p were equal",
      lost_share, 0.6, 0.95)

# %% [markdown]
# The pull towards the true input survives, because that input is on the same worker as its reply;
# most of the push away from wrong ones is lost.
#
# ### Exercise 1: a batch that hides it
#
# A test of a gather is only as good as its batch. Find one of twelve pairs, three for each of four
# workers, on which the mistake changes no gradient, although every reply has one. (Write down what
# dv_j loses: each of its terms may be zero, or they may cancel.)

# %%
def hiding_batch(rng):
    """→ u, v: (12, e) each, for an e of your choice; the scale is 1."""
    raise NotImplementedError


def judge_hiding_batch(hiding_batch, rng):
    u, v = map(np.asarray, hiding_batch(rng))
    assert u.shape == v.shape and len(u) == 12, f"shapes {u.shape} and {v.shape}"
    _, cache = batch_softmax_forward(u, v, 1.0)
    dv, ds = batch_softmax_backward(1.0, cache)[1], (cache[3][0] - np.eye(12)) / 12
    least = np.linalg.norm(dv, axis=1).min()
    assert least > 1e-3, f"a reply has a gradient of size {least:.1g}: there is nothing to lose"
    error = relative_error(np.concatenate([ds[k, k].T @ u[k] for k in parts_of(12, 4)]), dv)
    assert error < 1e-6, (
        f"the mistake shows, its error is {error:.2g}; how large are p_ij u_i of other workers?")


check(1, hiding_batch, judge_hiding_batch)

# %% [markdown]
# ## What the mistake costs
#
# It gives no error message, and du is right. So let us train lesson 18's encoder with it, as four
# workers with 64 pairs each would, next to the same training without it.
#
# **Predict:** does the loss fall? What becomes of P@1, which is 15.0 before the first step?

# %%
corpus, config = some_chat(40_000, 8_000), small_config(8_000)


def forgetful(workers):
    """The task of picking replies, by workers that keep only their own part of dv′."""
    def head(model, u, v, batch, weight, others):
        everyone, response_cache = response_forward(model, v)
        loss, cache = batch_softmax_forward(u, everyone, model.config.scale)
        du, dv_prime = batch_softmax_backward(weight, cache)
        for part in parts_of(len(u), workers):    # of dv′ only what the owner's rows give
            _, cache = batch_softmax_forward(u[part], everyone, model.config.scale, part.start)
            dv_prime[part] = batch_softmax_backward(weight, cache)[1][part]
        dv, grads = response_backward(dv_prime, response_cache)
        return loss, du, dv, grads
    return Task(head)


start, curves, hits = p_at_1(initial_model(config, corpus), corpus.dev), {}, {}
names = {1: "right", 4: "four workers with the mistake"}
for workers in names:
    TASKS["forgetful"], model = forgetful(workers), initial_model(config, corpus)
    curves[workers] = train(model, config, corpus, "forgetful")
    hits[workers] = p_at_1(model, corpus.dev)
    end = np.mean(curves[workers][-10:])
    print(f"{names[workers]}: loss {curves[workers][0]:.2f} → {end:.2f}, "
          f"P@1 {start:.1f} → {hits[workers]:.1f}")
claim("with the mistake: loss at the start less that at the end", curves[4][0] - end, low=0.3)
claim("P@1 that the mistake costs, points", hits[1] - hits[4], low=2)
claim("with the mistake: P@1 at the end less that at the start, points", hits[4] - start, high=3)

# %%
figure, axes_row = plt.subplots(1, 3, figsize=(13, 4.3))
one = p - np.eye(B)                                           # B · ds
worker = np.arange(B) // 3
seen = one * (worker[:, None] == worker)
for axes, picture, title in zip(axes_row, (one, seen), (
        "B ∂loss/∂s: a worker has three rows;\na reply's gradient needs its whole column",
        "The mistake: of the 12 cells\nof each column 9 are lost")):
    image = axes.imshow(picture, vmin=-1, vmax=1)
    axes.set(title=title, xlabel="reply j", ylabel="input i", xticks=range(0, B, 3),
             yticks=range(0, B, 3))
    for part in parts[1:]:
        axes.axhline(part.start - 0.5, color="black", linewidth=3)
figure.colorbar(image, ax=axes_row[1], shrink=0.6)
for workers, losses in curves.items():
    smooth = np.convolve(losses, np.ones(20) / 20, "valid")
    axes_row[2].plot(np.arange(10, 10 + len(smooth)), smooth, color=f"C{2 if workers == 1 else 3}",
                     label=f"{names[workers]}: P@1 {hits[workers]:.1f}")
axes_row[2].axhline(np.log(256), color="k", linestyle=":", label="ln 256")
axes_row[2].set(title=f"Both losses fall. Before training\nP@1 was {start:.1f}", xlabel="step",
                ylabel="loss of 256 pairs (mean of 20 steps)", ylim=(4.4, 6))
show(figure, "B_many_workers")

# %% [markdown]
# The loss falls to well below ln 256, and by itself the curve looks fine. But P@1 is a point lower than
# *before* training: the run was worse than none. P@1 shows it, and so does a check of dv, as above.
#
# ## What travels
#
# The matrices of our DAN are small: 500 · 500. The table is large: by the default settings 17,635 rows
# of 500 (7,635 pieces of words, the unknown one among them, and 10,000 for bigrams). A worker with
# b = 1,024 pairs can send its gradient in three ways:
#
# 1. **Dense**. Sent: one array of 17,635 · 500 numbers of 4 bytes, 35 MB.
# 2. **Sparse rows**. Sent: the rows that its batch uses, each summed (lesson 7), 2,000 bytes a row.
# 3. **Before the sum**. Sent: one vector for each of 2b sentences, 4.1 MB, and two whole numbers, 8
#    bytes, for each place: which row, which sentence. That is enough, since all words and bigrams
#    of a sentence get the *same* vector (lesson 8); whoever receives it does the sums.
#
# On our chat 1,024 pairs use 10,200 rows: 20 MB as sparse rows, 4.6 MB before the sum. So the
# library sends it the third way.
#
# ### Exercise 2: a sum by neighbours
#
# If each of n workers sends the others its whole array, n − 1 arrays leave each machine. By a *ring* it is
# 2(n − 1)/n, and each talks to its neighbours only. Here is the first half, a reduce-scatter. Cut every array
# into n chunks. In each of n − 1 steps each worker sends one chunk to its right neighbour (the last to the
# first), which adds it to its own. In the end chunk w of worker w is the sum over all. Which chunk goes when?

# %%
def chunk_to_send(step, worker, workers):
    """→ the number of the chunk that a worker sends in this step; all numbers count from 0."""
    raise NotImplementedError


def judge_ring(chunk_to_send, rng):
    for n in (2, 3, int(rng.integers(4, 9))):
        held = np.eye(n, dtype=int)[:, None].repeat(n, axis=1)    # worker, chunk → times it has each part
        for step in range(n - 1):
            sent = [int(chunk_to_send(step, w, n)) for w in range(n)]
            assert 0 <= min(sent) <= max(sent) < n, f"{n} workers: the chunks sent are {sent}"
            passing = [held[w, c].copy() for w, c in enumerate(sent)]         # all at the same time
            for w, c in enumerate(sent):
                held[(w + 1) % n, c] += passing[w]
        for w in range(n):
            assert (held[w, w] == 1).all(), (
                f"{n} workers: in the end chunk {w} of worker {w} has the workers' parts "
                f"{held[w, w].tolist()} times, expected once each; what has to travel on to the right "
                "neighbour in the step after it came?")


check(2, chunk_to_send, judge_ring)

# %% [markdown]
# ## Where this lives
#
# - `training/workers.py`: `Workers`, over MPI: `gather` before the loss, `reduce_scatter` after
#   it. `core/model.py`: `pick` calls both. `core/losses.py`: `batch_softmax_forward` with `first`.
# - `tests/training/test_workers.py`: real processes; 2, 3 and 4 workers agree with one worker in
#   the loss and in every gradient to ten digits.
# - The paper, §3.1, trains with many workers, 95% of them on conversations.

# %% [markdown]
# ## What you know now
#
# - The workers' sums add up to the batch's gradient. Their means have to be weighted.
# - The backward of a gather is a reduce-scatter: a value that many use gets the sum.
# - The mistakes here train without an error, and their loss falls: check dv across all workers.
#
# To read on: [GradCache](https://arxiv.org/abs/2101.06983) needs the same gather on a single
# machine, for batches that do not fit into memory. Next, also optional: lesson C, on GPUs.
#
# Solutions, for when you have tried: `lessons/solutions/B_many_workers.py`.
