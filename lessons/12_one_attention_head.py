# %% [markdown]
# # 12 · One attention head: three products and a softmax, backwards
#
# **Needs** numeric gradients (lesson 2), matrix gradients (lesson 3), softmax (lesson 4).
# **Gives** the backward of an attention head; a head that learns to look; what the √m changes.
# **Time** 60 minutes.
#
# **In thirty seconds.** Each word asks all words a question. The answers are mixed, and
# a softmax decides how much of each. That is three products of matrices. Each gives two products on
# the way back, with the softmax's gradient in the middle. In a wide head without a √m the softmax
# decides too early, and a word that has decided no longer learns whom to ask.
#
# The DAN adds its words up. In "the trophy does not fit into the suitcase, it is too big" a sum
# cannot say what "it" is. The word has to get its meaning from another word, and attention lets it
# ask. The paper's second encoder is six layers of it.

# %%
import sys

sys.path += [".", "lessons"]
from lesson import check, claim, expect, np, plt, seed, show
from convsim_mini.core.attention import attention_backward, attention_forward
from convsim_mini.core.gradcheck import numeric_gradient, relative_error
from convsim_mini.core.layers import linear_backward, linear_forward
from convsim_mini.core.optim import Adaptive

rng = np.random.default_rng(seed(10))

# %% [markdown]
# ## A dictionary that does not have to decide
#
# A Python dictionary compares your query with its keys, finds the one that is equal, and returns
# its value. In attention each word j offers a key k_j and a value v_j. Word i has a query q_i, and
#
# - compares it with all keys: s_ij = q_i · k_j, a score for each word;
# - makes shares of the scores: p_ij = e^s_ij / Σ_l e^s_il, positive, with the sum 1;
# - fetches y_i = Σ_j p_ij v_j, a mixture of the values.
#
# If one key scores Δ above the n − 1 others, its share is **1/(1 + (n − 1) e^−Δ)**.
#
# **Predict:** five words, one score is 5, the others 0. What share does that one word get?

# %%
def softmax(s):
    """Each row of s to shares that sum to 1."""
    p = np.exp(s - np.max(s, axis=-1, keepdims=True))         # the largest is e⁰: nothing overflows
    return p / p.sum(axis=-1, keepdims=True)


expect(softmax([0, 0, 0, 5, 0])[3], 0.9737, 0.9738, "share of the best word: 1/(1 + 4 e⁻⁵)")

# %% [markdown]
# The word gets a share of 97%: the look-up is nearly a decision.
#
# ## Who asks whom: three products
#
# In *self*-attention all words of a sentence ask all words of it, themselves included. Query, key
# and value of a word are linear functions of it: x (n, d) times one matrix of shape (d, 3m) gives
# all three side by side. That is why the parameter is called `qkv`.
#
# [q k v] = x W + b, s = q kᵀ/√m, p = softmax(s), y = p v
#
# n words have n² scores. What the √m is for, the last part of this lesson shows.

# %%
n, d, m = 5, 6, 4                                             # words, their width, the head's width
x, weight = rng.standard_normal((n, d)), rng.standard_normal((d, 3 * m)) / np.sqrt(d)
bias = rng.standard_normal(3 * m)

qkv = x @ weight + bias               # (n, 3m)
q, k, v = np.split(qkv, 3, axis=1)    # (n, m) each
s = q @ k.T / np.sqrt(m)              # (n, n): row i asks, column j is asked
p = softmax(s)                        # (n, n): each row sums to 1
y = p @ v                             # (n, m)

library_y, cache = attention_forward(qkv, [0, n], heads=1)    # words 0 … n − 1: one sentence
expect(relative_error(y, library_y), 0, 1e-14, "y, ours against the library's")

# %% [markdown]
# ## Backwards, with three numbers
#
# Let "it" ask the words "trophy", "suitcase" and "it". To keep it small, m = 1: q = 1, the keys are
# ln 2, 0, 0 and the values 4, 0, 0. So e^s is 2, 1, 1, and the shares are ½, ¼, ¼. Let dy be 1.

# %%
small_k, small_v = np.array([np.log(2), 0, 0]), np.array([4.0, 0, 0])
small_y = lambda scores: softmax(scores) @ small_v
print("shares p:", softmax(small_k), "  y:", small_y(small_k))
for word, nudge in zip(("trophy", "suitcase", "it"), 0.001 * np.eye(3)):
    rise = (small_y(small_k + nudge) - 2) / 0.001
    print(f"nudge the score of “{word}” by 0.001: y rises {rise:.3f} times as much")

# %% [markdown]
# The score of "trophy" has the slope 1, the two others −½: what one gains, the others lose.
#
# **Now write all of it before you read on:** `yours/attention.py`, then `python -m lessons.yours
# check attention`. It judges each step: dp, ds, dq, dk, dv.
#
# Above, y = p · v, so dp is v = (4, 0, 0). Its average with the weights p is 2. "Trophy" helps more
# than that, and p (dp − 2) = (1, −½, −½) are the slopes you saw. For n words, dy (n, m) arrives
# from above, and every pair of words does the same:

# %%
def backward_by_loops(dy, q, k, v, p):
    """dy, q, k, v: (n, m), p: (n, n) → dq, dk, dv: (n, m)"""
    dq, dk, dv = np.zeros((3, *q.shape))
    n, root = len(q), np.sqrt(q.shape[1])
    for i in range(n):                                        # i asks
        dp = [dy[i] @ v[j] for j in range(n)]
        average = sum(p[i, j] * dp[j] for j in range(n))
        for j in range(n):                                    # j is asked
            ds = p[i, j] * (dp[j] - average)
            dv[j] += p[i, j] * dy[i]
            dq[i] += ds * k[j] / root
            dk[j] += ds * q[i] / root                         # the key collects from all who ask
    return dq, dk, dv


# %% [markdown]
# ## The same as products of matrices
#
# Now without loops: the three steps in reverse. Two products of matrices have the gradients of
# lesson 3, the softmax between them that of lesson 4, row by row:
#
# y = p v: **dv = pᵀ dy, dp = dy vᵀ**
#
# p = softmax(s): **ds_ij = p_ij (dp_ij − Σ_l p_il dp_il)**
#
# s = q kᵀ/√m: **dq = ds k/√m, dk = dsᵀ q/√m**
#
# The sum is the average of dp over the words, weighted by p. A word whose value helps more than the
# average gains share, one that helps less loses it. And ds is square, so `ds @ q` has the right
# shape as well: NumPy will not complain, a gradient check will. (To check the gradient of an array
# in the middle, treat it as an input: change p, and look at L = Σ y · dy.)

# %%
dy = rng.standard_normal((n, m))
dv = p.T @ dy                                                 # (n, n) (n, m) → (n, m)
dp = dy @ v.T                                                 # (n, m) (m, n) → (n, n)
ds = p * (dp - (p * dp).sum(axis=1, keepdims=True))           # (n, n)
dq = ds @ k / np.sqrt(m)                                      # (n, n) (n, m) → (n, m)
dk = ds.T @ q / np.sqrt(m)
loss_of_p = lambda: float((p @ v * dy).sum())
loss_of_s = lambda: float((softmax(s) @ v * dy).sum())
loss_of_qk = lambda: float((softmax(q @ k.T / np.sqrt(m)) @ v * dy).sum())
expect([relative_error(found, numeric_gradient(loss, array)) for loss, found, array in (
    (loss_of_p, dv, v), (loss_of_p, dp, p), (loss_of_s, ds, s), (loss_of_qk, dq, q),
    (loss_of_qk, dk, k))], 0, 1e-8, "dv, dp, ds, dq, dk against differences")
expect(relative_error(ds @ q / np.sqrt(m), dk), 0.1, 1, "dk without the transpose")

dqkv = np.concatenate([dq, dk, dv], axis=1)                   # (n, 3m), side by side
expect([relative_error(dqkv, other) for other in (attention_backward(dy, cache),
        np.concatenate(backward_by_loops(dy, q, k, v, p), axis=1))], 0, 1e-13,
       "dqkv, ours against the library's and the loops'")
loss = lambda: float((attention_forward(x @ weight + bias, [0, n], heads=1)[0] * dy).sum())
expect([relative_error(dqkv @ weight.T, numeric_gradient(loss, x)),
        relative_error(x.T @ dqkv, numeric_gradient(loss, weight))], 0, 1e-7, "the whole head")

# %% [markdown]
# ## A head learns to look
#
# Now let one learn. Each sentence has eight words: four *askers*, each with a colour, and four
# *holders*, each with a colour, in random order. Each word carries four random numbers, its load.
# An asker has to return the load of the holder of its colour. In x a word is [asked colour | held
# colour | load], 4 + 4 + 4 numbers.
#
# A head that cannot look takes all eight loads in equal shares a. The right one is off by (1 − a)²,
# the seven wrong ones add a² each. (1 − a)² + 7a² is smallest at a = 1/8, where it is **7/8**. A
# loss below that means looking. One that tells holders from askers and knows no colour shares among
# four: (1 − a)² + 3a² is smallest at a = ¼, where it is **3/4**. One that looks perfectly has 0.
#
# Two other heads train on the same sentences: one with the mistake from above, dk = ds q instead of
# dsᵀ q, and one whose keys get no gradient at all, dk = 0.
#
# **Predict:** which of these two ends up better, the wrong gradient or none?

# %%
COLOURS = 4
WORDS = 2 * COLOURS


def draw_sentences(rng, sentences, held=None):
    """→ x (sentences, 8, 12); the right holder of each asker (sentences, 4); its load (…, 4, 4)."""
    if held is None:                                          # the colour of each holder
        held = rng.permuted(np.tile(np.arange(COLOURS), (sentences, 1)), axis=1)
    x = np.zeros((sentences, WORDS, 2 * COLOURS + m))
    x[:, :COLOURS, :COLOURS] = np.eye(COLOURS)                # askers come first
    x[:, COLOURS:, COLOURS:2 * COLOURS] = np.eye(COLOURS)[held]
    x[:, :, 2 * COLOURS:] = rng.standard_normal((sentences, WORDS, m))
    right = COLOURS + np.argsort(held, axis=1)
    return x, right, np.take_along_axis(x[:, :, 2 * COLOURS:], right[:, :, None], axis=1)


def one_step(params, x, target, kind):
    """kind: "right", "dk = ds q" or "dk = 0" → the askers' loss, gradients, p (sentences, 8, 8)."""
    qkv, linear_cache = linear_forward(x.reshape(-1, x.shape[2]), params["qkv.weight"],
                                       params["qkv.bias"])
    q, k, v = np.split(qkv.reshape(len(x), WORDS, 3 * m), 3, axis=2)
    p = softmax(q @ k.swapaxes(1, 2) / np.sqrt(m))
    error = (p @ v)[:, :COLOURS] - target
    dy = np.zeros_like(q)
    dy[:, :COLOURS] = 2 * error / error.size                  # nobody asks the holders anything
    dp = dy @ v.swapaxes(1, 2)
    ds = p * (dp - (p * dp).sum(axis=2, keepdims=True)) / np.sqrt(m)
    dk = {"right": ds.swapaxes(1, 2), "dk = ds q": ds, "dk = 0": 0 * ds}[kind] @ q
    dqkv = np.concatenate([ds @ k, dk, p.swapaxes(1, 2) @ dy], axis=2)
    _, dweight, dbias = linear_backward(dqkv.reshape(-1, 3 * m), linear_cache)
    return (error**2).mean(), {"qkv.weight": dweight, "qkv.bias": dbias}, p


def train(kind, steps=400):
    """→ losses (steps,); p (8, 8) of the shown sentence before and after; the last share."""
    rng = np.random.default_rng(seed(0))    # the same start and sentences for all
    params = {"qkv.weight": 0.2 * rng.standard_normal((2 * COLOURS + m, 3 * m)),
              "qkv.bias": np.zeros(3 * m)}
    optimizer, losses, looks = Adaptive(params), [], []
    shown, _, load = draw_sentences(np.random.default_rng(seed(1)), 1, np.array([[2, 0, 3, 1]]))
    for step in range(steps):
        if step in (0, steps - 1):
            looks.append(one_step(params, shown, load, kind)[2][0])
        x, right, target = draw_sentences(rng, 64)
        loss, grads, p = one_step(params, x, target, kind)
        losses.append(loss)
        optimizer.step(params, grads, 0.02, 0.02)
    share = np.take_along_axis(p[:, :COLOURS], right[:, :, None], axis=2).mean()
    return np.array(losses), looks, share


runs = {kind: train(kind) for kind in ("right", "dk = ds q", "dk = 0")}
losses, (before, after), share = runs["right"]

figure, (first, last, curve) = plt.subplots(1, 3, figsize=(12, 4), width_ratios=[1, 1, 0.8])
names = ["red", "blue", "green", "gold"]
words = [f"{name}?" for name in names] + [names[k] for k in (2, 0, 3, 1)]
for axes, p, title in ((first, before, "Before: every word is asked nearly equally"),
                       (last, after, "After: the right holder answers")):
    axes.imshow(p[:COLOURS], cmap="Blues", vmin=0, vmax=1, aspect="auto")    # holders ask nothing
    for i, j in np.ndindex(COLOURS, WORDS):
        axes.text(j, i, f"{p[i, j]:.2f}", ha="center", va="center", fontsize=8,
                  color="white" if p[i, j] > 0.5 else "black")
    axes.set(title=title, xlabel="word that is asked", ylabel="word that asks")
    axes.set_xticks(range(WORDS), words, rotation=60)
    axes.set_yticks(range(COLOURS), words[:COLOURS])
for (kind, (some, _, _)), color in zip(runs.items(), ("C0", "C3", "C1")):
    curve.semilogy(some, color=color, label=kind)
curve.axhline(1 - 1 / WORDS, color="k", linestyle=":", label="7/8: no looking")
curve.axhline(1 - 1 / COLOURS, color="k", linestyle="--", label="3/4: holders, no colour")
curve.set(title="The wrong gradient\nlearns no colour", xlabel="step of 64 sentences",
          ylabel="mean squared error")
show(figure, "12_one_attention_head")

claim("share of the right holder after training", share, 0.9)
wrong, none = (runs[kind][0][-20:].mean() for kind in ("dk = ds q", "dk = 0"))
claim("the wrong backward's loss / the right one's", wrong / losses[-20:].mean(), 100)
claim("dk = ds q: its loss / the loss with dk = 0", wrong / none, low=0.9)
claim("dk = ds q: share of the right holder; one in four knows no colour", runs["dk = ds q"][2],
      high=0.4)

# %% [markdown]
# The wrong gradient teaches which words are holders, and nothing about colours: its loss ends near 3/4,
# and the right holder gets one share in four. It buys nothing: in five of six seeds no gradient at all
# does better, in the sixth it is 6% behind. With dk = 0 the keys stay as drawn, and the queries learn to make something
# of them. The wrong gradient keeps moving the keys while the queries adjust to them. There is no
# error message: the loss falls, and stops far from where it could be.
#
# ## Why √m: who gets the gradient
#
# Let the numbers of q, k and v be independent, with mean 0 and variance 1. A score is a sum of m
# products of variance 1, so its size is √m. At m = 64 (the paper's width 512 in 8 heads) scores are
# of size 8, and e⁸ is 3,000: of eight words, two of three give nine tenths to one before any training.
#
# Where one p is nearly 1, all entries of softmax's Jacobian, p_i (δ_ij − p_j), are nearly 0. So it
# is often said that without the √m the gradient vanishes. Not on average! **Only words that
# hesitate between two others get a gradient, and theirs is large.**
#
# Say that a word hesitates if its largest p is below 0.99. Let g = ‖dq‖/√m be the size of each
# number in its dq. Then
#
# 1. Nearly always the two best scores of a word that hesitates are less than ln 99 = 4.6 apart.
# 2. Gaps between scores grow like √m, so the share of such words falls like 1/√m.
# 3. Hesitating between a and b, it gets dq = p (1 − p)(dp_a − dp_b)(k_a − k_b). Each difference
#    grows like √m, so ‖dq‖ grows like m, and g like √m.
# 4. Fewer words, more for each: the *mean* of g stays. The *median*, a typical word's g, does not.
#
# **Predict:** without the √m, from m = 64 to m = 1024: by which factor do the words that hesitate
# become fewer? And the mean of g?

# %%
def word_gradients(width, root, n=8, sentences=300):
    """Scores q kᵀ/root, all at random → g = ‖dq‖/√m, whether a word hesitates: (2400,) each."""
    q, k, v, dy = rng.standard_normal((4, n * sentences, width))
    factor = np.sqrt(width) / root                            # undoes the library's 1/√m
    _, cache = attention_forward(np.concatenate([factor * q, k, v], axis=1),
                                 np.arange(sentences + 1) * n, heads=1)
    dq = factor * attention_backward(dy, cache)[:, :width]
    largest = np.concatenate([p.max(axis=3).ravel() for p in cache.p])
    return np.linalg.norm(dq, axis=1) / np.sqrt(width), largest < 0.99


widths = 4, 16, 64, 256, 1024
without = {width: word_gradients(width, 1) for width in widths}
with_root = {width: word_gradients(width, np.sqrt(width)) for width in widths}

figure, axes = plt.subplots()
for found, style, label in ((without, "o-", "without √m"), (with_root, "s--", "with √m")):
    for statistic, color in ((np.mean, "C0"), (np.median, "C3")):
        axes.loglog(widths, [statistic(found[width][0]) for width in widths], style, color=color,
                    label=f"{label}: {statistic.__name__} of g")
axes.set(xlabel="m, the width of a head", ylabel="g, size of a word's gradient", xticks=widths,
         xticklabels=widths, title="Without √m the mean stays; in wide heads most get nothing")
axes.minorticks_off()
show(figure, "12_who_gets_the_gradient")

(some_g, some), (g, few) = without[64], without[1024]
print("median of g at m = 64: {:.3f}, with √m {:.3f}; at m = 256: {:.3f}".format(*(
    np.median(found[0]) for found in (without[64], with_root[64], without[256]))))
expect(some.mean() / few.mean(), 2.5, 4.6, "without √m: words that hesitate, m = 64 / 1024")
expect(g.mean() / some_g.mean(), 0.6, 1.7, "without √m: mean of g, m = 1024 / 64")
claim("without √m, m = 1024: share of the words that hesitate", few.mean(), 0.1, 0.25)
claim("without √m: median of g, m = 1024 / 64", np.median(g) / np.median(some_g), high=0.01)

# %% [markdown]
# The words that hesitate become three to four times fewer, and the mean of g stays. At m = 64 the
# typical word still gets 0.24, against 0.30 with the √m. At 256 it gets 0.01, and at 1024, where
# one word in five hesitates, nothing: whoever looks at the wrong place with p ≈ 1 stays there. So
# the √m matters more the wider a head is, or the larger its numbers become in training.
#
# ### Exercise 1: one question for all
#
# The paper takes the mean of a sentence's words at the end. One could weight them instead: a
# learned vector w asks all words the same question, s_i = x_i · w, p = softmax(s), y = Σ_i p_i x_i.
# Here x is key *and* value. Write the backward. In how many ways does x reach y?

# %%
def attention_pool_forward(x, w):
    """x: (n, d), w: (d,) → y: (d,), cache."""
    p = softmax(x @ w)                                        # (n,)
    return p @ x, (x, w, p)


def attention_pool_backward(dy, cache):
    """dy: (d,) → dx: (n, d), dw: (d,)."""
    x, w, p = cache
    raise NotImplementedError


def judge_attention_pool(backward, rng):
    x, w, dy = rng.standard_normal((5, 3)), rng.standard_normal(3), rng.standard_normal(3)
    loss = lambda: float(attention_pool_forward(x, w)[0] @ dy)
    dx, dw = backward(dy, attention_pool_forward(x, w)[1])
    assert dx.shape == x.shape and dw.shape == w.shape, (
        f"shapes {dx.shape} and {dw.shape}, expected (5, 3) and (3,)")
    error = relative_error(dw, numeric_gradient(loss, w))
    assert error < 1e-6, f"dw has a relative error of {error:.2g}; does your ds sum to zero?"
    error = relative_error(dx, numeric_gradient(loss, x))
    assert error < 1e-6, f"dx has a relative error of {error:.2g}; x is used twice, where else?"


check(1, attention_pool_backward, judge_attention_pool)

# %% [markdown]
# ### Exercise 2: an input that hides the mistake
#
# A check on the wrong input would miss the transpose. Find four words, m = 2, with ds q = dsᵀ q.

# %%
def hiding_input():
    """→ q, k, v, dy: (4, 2) each."""
    raise NotImplementedError


def judge_hiding_input(hiding_input, rng):
    q, k, v, dy = (np.asarray(x, float).reshape(4, 2) for x in hiding_input())
    p, dp = softmax(q @ k.T / np.sqrt(2)), dy @ v.T
    ds = p * (dp - (p * dp).sum(axis=1, keepdims=True))
    least = np.linalg.norm(ds.T @ q, axis=1).min()
    assert least > 1e-3, f"a key's gradient has a size of {least:.1g}: any check would pass"
    error = relative_error(ds @ q, ds.T @ q)
    assert error < 1e-9, f"they differ by {error:.2g}; what would make s, dp and p symmetric?"


check(2, hiding_input, judge_hiding_input)

# %% [markdown]
# ## Where this lives
#
# - `core/attention.py`: `attention_forward`, `attention_backward`, for many heads and sentences at
#   once. `self_attention_forward` puts the linear layers around them.
# - The paper, §2.3.2, takes the encoder of Vaswani et al. (2017), who introduced the √m.
# - To read: [The Annotated Transformer](https://nlp.seas.harvard.edu/annotated-transformer/).

# %% [markdown]
# ## What you know now
#
# - A head is three products and a softmax; backwards ds = p (dp − Σ p dp), dk = dsᵀ q/√m.
# - One transpose forgotten: no error message, and a gradient that buys nothing over none at all.
# - With the √m all words get a gradient; without it, in a wide head, only the few that hesitate.
#
# Next: lesson 13. So far attention does not know which word comes first.
#
# Solutions, for when you have tried: `lessons/solutions/12_one_attention_head.py`.
