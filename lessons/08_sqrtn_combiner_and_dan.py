# %% [markdown]
# # 8 · The √n combiner: sentences of any length, and the DAN assembled
#
# **Needs** linear layers and tanh (lesson 3), ids and bigrams (lesson 6), embeddings (lesson 7).
# **Gives** `embedding_bag`, forward and backward; the paper's first encoder, put together; when the
# √n does nothing at all.
# **Time** 75 minutes.
#
# A sentence has two words or sixty, but the layers above want one vector of one size. The simplest
# way is to add up the words' vectors. Then a sum of sixty is longer than a sum of two. The paper
# "divides by sqrt(n)". When does this factor matter? In our default encoder it changes nothing. In
# the paper's DAN, which we build with tanh between its layers, it does.
#
# **In thirty seconds.** A long sentence should not outweigh a short one in training. A sum of n
# unrelated vectors has the length √n, so dividing by √n gives all sentences nearly one size, and nearly
# the same gradient in the weights of the next layer. Under a sum, long sentences have a larger one.
# Under a mean they would have a smaller one, but unit length at the end makes up for it. Without a
# tanh in between, unit length cancels the factor altogether.

# %%
import sys
from collections import Counter

sys.path += [".", "lessons"]
from lesson import check, claim, expect, np, plt, seed, show
from convsim_mini.core.dan import dan_backward, dan_forward
from convsim_mini.core.embeddings import embedding_bag_backward, embedding_bag_forward
from convsim_mini.core.gradcheck import dense, layer_error, numeric_gradient, relative_error
from convsim_mini.core.layers import (
    l2_normalize_backward, l2_normalize_forward, linear_backward, linear_forward, tanh_backward,
    tanh_forward)
from convsim_mini.core.model import Model
from convsim_mini.core.packed import Packed, frequent_bigrams, words_and_bigrams
from convsim_mini.core.text import Vocabulary, tokenize
from convsim_mini.data.pairs import read_rows
from convsim_mini.data.formats import default_corpus

rng = np.random.default_rng(seed(6))

# %% [markdown]
# ## How long is a sum of vectors?
#
# Take n vectors e₁ … eₙ in d dimensions whose numbers are drawn at random with mean 0 and variance
# 1. Each has ‖e‖² ≈ d. For the sum, multiply out:
#
# ‖Σ eᵢ‖² = Σᵢ ‖eᵢ‖² + Σ_{i≠j} eᵢ · eⱼ
#
# Unrelated directions are nearly at right angles (3 steps east and 4 steps north make 5, not 7), so
# the products in the second sum have mean 0. That leaves E‖Σ eᵢ‖² = n d, and
#
# - the **sum** has length √n · √d,
# - the **mean** has length √d / √n,
# - the sum **divided by √n** has length √d, whatever n is.
#
# The DAN adds up more than words (lesson 6). If each pair of neighbours has a row, as here, n words
# bring 2n − 1 rows. In the paper n is "the sentence length"; we take the number of words.
# So ‖y‖²/d is (2n − 1)/n, 1 to 2. We try it with real turns and random rows.
#
# **Predict:** real sentences repeat words. Will the measured lengths lie above the derived, or below?

# %%
d = 300
turns = [pair.response for _, chunk in zip(range(10), read_rows(default_corpus()))
         for pair in chunk.pairs]
tokens = [tokens for tokens in map(tokenize, turns) if tokens]
vocabulary = Vocabulary.of_words(Counter(word for turn in tokens for word in turn))
packed = vocabulary.pack(tokens)
bigrams = frequent_bigrams(packed, vocabulary.size, len(packed.ids))      # all of them
rows = words_and_bigrams(packed, vocabulary.size, bigrams)
table = rng.standard_normal((vocabulary.size + len(bigrams), d), np.float32)
y, _ = embedding_bag_forward(table, rows, packed.lengths)     # (B, d)
n = packed.lengths
expect((y[n == 1] ** 2).sum(axis=1).mean() / d, 0.97, 1.03, "one word: ‖y‖²/d")

bins = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48]
y, n = y[np.isin(n, bins)], n[np.isin(n, bins)]
combiners = (("sum", 0.0, "C3"), ("sum / √n", 0.5, "C2"), ("mean", 1.0, "C0"))
bags = {name: y * (n ** (0.5 - power))[:, None].astype(np.float32)        # y was divided by √n
        for name, power, _ in combiners}
k = np.arange(1, 49)
derived_size = {name: np.sqrt(2 * k - 1) / k**power for name, power, _ in combiners}   # ‖x‖/√d

figure, axes = plt.subplots(figsize=(8, 4.2))
for name, _, color in combiners:
    sizes = np.linalg.norm(bags[name], axis=1) / np.sqrt(d)
    axes.loglog(bins, [sizes[n == b].mean() for b in bins], "o", color=color)
    axes.loglog(k, derived_size[name], "k:", label="derived, no repetition" if name == "sum" else None)
    axes.text(53, sizes[n == 48].mean(), f"{name}: {sizes[n == 48].mean():.2g}", color=color, va="center")
axes.set(xlabel="words in the sentence, n", ylabel="length of the bag / √d", xticks=[1, 4, 16, 48],
         xticklabels=[1, 4, 16, 48], yticks=[0.25, 1, 4], yticklabels=["¼", 1, 4], xlim=(0.9, 150),
         title="Divided by √n, sizes are between 1 and 1.7")
axes.minorticks_off()
show(figure, "08_lengths")

# %% [markdown]
# They lie above, because two copies of a word are not at right angles. The green dots rise to 1.7 times
# the length of one word, which the paper wants: the vectors ought "to be sensitive to length".
#
# ## The way back
#
# y_b = (1/√n_b) Σ_r count_br E_r. Take two sentences of four words and of one (their roots are 2 and
# 1), with the ids 3 1 3 4 and 1, and rows of a single number. dy is 2 at the first sentence and 5 at
# the second. What should row 3 collect, which the first uses twice? And row 1, which both use?

# %%
counts = np.array([[0, 1, 0, 2, 1], [0, 1, 0, 0, 0]])         # of rows 0 to 4
for r in (3, 1):
    rise = np.array([2, 5]) @ (counts @ (0.001 * np.eye(5)[r]) / [2, 1])
    print(f"row {r} higher by 0.001: the loss rises by {rise:.3f}")

# %% [markdown]
# **Now write it:** `yours/embedding_bag.py`, then `python -m lessons.yours check embedding_bag`.
#
# If row r moves, y_b moves count_br/√n_b times as far. So row 3 collects 2 · 2/√4 = 2, as measured. Row
# 1 is in both sentences, and its gradients from all places add up: 2/√4 + 5/√1 = 6.
#
# dE_r = Σ_b count_br dy_b / √n_b
#
# The same by matrices. The batch has a repeated word, a shared word, two lengths, and an unused row:

# %%
# 3 1 3 4 | 1 | 0; row 2 unused
ids = Packed(np.array([3, 1, 3, 4, 1, 0], np.int32), np.array([0, 4, 5, 6]))
table = rng.standard_normal((5, 3))                           # (R, d)


def counts_of(ids, table_rows):
    """How often each row is in each sentence: (B, R)."""
    counts = np.zeros((len(ids.lengths), table_rows))
    np.add.at(counts, (ids.sentence_numbers, ids.ids), 1)
    return counts


def bag(table, ids):
    """Each sentence's sum, divided by √n: table: (R, d), ids: Packed of B sentences → (B, d)."""
    return counts_of(ids, len(table)) @ table / np.sqrt(ids.lengths)[:, None]


dy = rng.standard_normal((3, 3))
dtable = counts_of(ids, 5).T @ (dy / np.sqrt(ids.lengths)[:, None])               # (R, B) (B, d)
numeric = numeric_gradient(lambda: float((bag(table, ids) * dy).sum()), table)
library_y, cache = embedding_bag_forward(table, ids, ids.lengths)
assert np.allclose(bag(table, ids), library_y)
expect(relative_error(dtable, numeric), 0, 1e-8, "dtable against differences")
library = dense(embedding_bag_backward(dy, cache), table)
expect(relative_error(dtable, library), 0, 1e-14, "the library's, as SparseRows")

# %% [markdown]
# ### Exercise 1: the smallest batch that finds three bugs
#
# Here are three wrong backwards. One forgets the 1/√n. One looks at *which* words a sentence has and
# not how often. One lets the last sentence with a word win instead of adding. Each passes on *some*
# data. Find a batch of **three words in all** on which the check catches each of them.

# %%
def no_root(dy, counts):
    return counts.T @ dy


def once_a_sentence(dy, counts):
    return (counts > 0).T @ (dy / np.sqrt(counts.sum(axis=1, keepdims=True)))


def last_one_wins(dy, counts):
    dtable = np.zeros((counts.shape[1], dy.shape[1]))
    for b, scaled in enumerate(dy / np.sqrt(counts.sum(axis=1, keepdims=True))):
        for row in np.flatnonzero(counts[b]):
            dtable[row] = counts[b, row] * scaled
    return dtable


def revealing_batch():
    """→ a list of sentences, each a list of word ids 0 … 4; three words in all."""
    raise NotImplementedError


def judge_revealing(revealing_batch, rng):
    sentences = revealing_batch()
    batch = Packed(np.concatenate(sentences).astype(np.int32), np.cumsum([0, *map(len, sentences)]))
    assert len(batch.ids) == 3 and batch.lengths.min() > 0, (
        f"{len(batch.ids)} words in all, expected 3, and none empty")
    table = rng.standard_normal((5, 3))
    for backward in (no_root, once_a_sentence, last_one_wins):
        error = layer_error(lambda table: (bag(table, batch), counts_of(batch, 5)), backward,
                            [table], rng)
        assert error > 1e-3, f"{backward.__name__} passes on it, with an error of {error:.1e}"


check(1, revealing_batch, judge_revealing)

# %% [markdown]
# ## The DAN, assembled
#
# We now have every part of the paper's first encoder. Frequent bigrams have their rows after the words'
# in the same table, and the output is scaled to length 1 (lesson 9 looks into that). As in its figure 4a:

# %%
names = "embedding.weight", "linear0.weight", "linear0.bias", "linear1.weight", "linear1.bias"
names = [f"encoder.{name}" for name in names]
E, W0, b0, W1, b1 = (rng.standard_normal(size) for size in ((13, 4), (4, 5), 5, (5, 6), 6))
params = dict(zip(names, (E, W0, b0, W1, b1)))
# 123 | 321 | 5 | 888
batch = Packed(np.array([1, 2, 3, 3, 2, 1, 5, 8, 8, 8], np.int32), np.array([0, 3, 6, 7, 10]))

bigrams = frequent_bigrams(batch, 9, 4)                       # 9 words; of 5 bigrams "32" has no row
rows = words_and_bigrams(batch, 9, bigrams)
x, bag_cache = embedding_bag_forward(E, rows, batch.lengths)  # (B, 4)
h, cache0 = linear_forward(x, W0, b0)                         # (B, 5)
h, tanh_cache = tanh_forward(h)
h, cache1 = linear_forward(h, W1, b1)                         # (B, 6)
u, unit_cache = l2_normalize_forward(h)

du = rng.standard_normal(u.shape)                             # from whatever loss comes next
dh = l2_normalize_backward(du, unit_cache)                    # (B, 6)
dh, dW1, db1 = linear_backward(dh, cache1)
dh = tanh_backward(dh, tanh_cache)                            # (B, 5)
dx, dW0, db0 = linear_backward(dh, cache0)
grads = dict(zip(names, (embedding_bag_backward(dx, bag_cache), dW0, db0, dW1, db1)))

model = Model(params, None, 9, bigrams)                       # as the library packs them
loss = lambda: float((dan_forward(model, batch)[0] * du).sum())
expect(max(relative_error(dense(grads[name], p), numeric_gradient(loss, p))
           for name, p in params.items()), 0, 1e-7, "five gradients against differences, the worst")
library_grads = dan_backward(du, dan_forward(model, batch)[1])
expect(max(relative_error(dense(grads[name], p), dense(library_grads[name], p))
           for name, p in params.items()), 0, 1e-13, "and against dan_backward, the worst")

# %% [markdown]
# ## How much a sentence moves W
#
# In our form of the paper's DAN the bag x goes into a linear layer, with Glorot's variance 2/(d + e) = 1/300 for
# each weight, then into tanh and into the next layer. By the *influence* of a sentence we mean the norm
# of its part of W's gradient, xᵀ dz (lesson 3). This product of a column and a row has the norm
# ‖x‖ · ‖dz‖. A long x drives tanh into saturation, so dz is smaller, but x itself is longer. Since
# dz is what arrives times tanh's slope, we get, up to a factor that all share,
#
# ‖dW‖ ≈ **‖x‖ · rms(1 − tanh² z)**
#
# At the end the DAN scales its output h to length 1. Going back, that divides by ‖h‖, because a short
# h turns further for the same step (lesson 9). And ‖h‖ grows with tanh z. So, with unit length,
#
# ‖dW‖ ≈ **‖x‖ · rms(1 − tanh² z) / rms(tanh z)**
#
# Each z = Σ x W is normal, and its size is the bag's length over √d, so we can compute both curves in
# advance. Then we measure dW, with random weights and a random gradient at the output.
#
# **Predict:** a sentence of 48 words against one of a single word: how many times as large is its
# influence, under a sum, under a sum divided by √n, and under a mean? And with unit length?

# %%
first, second = (rng.uniform(-1, 1, (2, d, d)) * np.sqrt(6 / (d + d))).astype(np.float32)    # Glorot
dy = rng.standard_normal(y.shape, np.float32)
normal = rng.standard_normal(10_000)


def derived_influence(size, unit_length):
    """The two formulas above; size: ‖x‖/√d of 1 to 48 words → (48,), relative to one word."""
    tanh = np.tanh(np.outer(size, normal))                    # (48, 10,000)
    rms = lambda values: np.sqrt((values**2).mean(axis=1))
    influence = size * rms(1 - tanh**2) / (rms(tanh) if unit_length else 1)
    return influence / influence[0]


def norms_of_gradients(x, unit_length):
    """Of each sentence: at W, ‖xᵀ dz‖, and at its bag, ‖dx‖: x: (B, d) → (B,), (B,)."""
    h, tanh_cache = tanh_forward(x @ first)
    dh = l2_normalize_backward(dy, l2_normalize_forward(h @ second)[1]) if unit_length else dy
    dz = tanh_backward(dh @ second.T, tanh_cache)             # (B, d)
    return [np.linalg.norm(x, axis=1) * np.linalg.norm(dz, axis=1),
            np.linalg.norm(dz @ first.T, axis=1)]


influence, of_one = {}, lambda norms, b: norms[n == b].mean() / norms[n == 1].mean()
print("gradient of 48 words / that of one word   at W   at a word's row   at its 95 rows together")
figure, both = plt.subplots(1, 2, figsize=(11, 4.4), sharey=True)
for axes, ends, title in zip(both, ("no unit length", "unit length"), (
        "Without unit length: a sum gives long\nsentences more influence, a mean less",
        "With it, only under a sum do long\nsentences have much more influence")):
    for name, power, color in combiners:
        at_W, at_bag = norms_of_gradients(bags[name], ends == "unit length")
        more, at_row = of_one(at_W, 48), of_one(at_bag, 48) / 48**power
        influence[name, ends] = more
        print(f"{name:15} {ends:24} {more:5.2f} {at_row:17.2f} {at_row * 95**0.5:16.2f}")
        axes.loglog(bins, [of_one(at_W, b) for b in bins], "o", color=color)
        axes.loglog(k, derived_influence(derived_size[name], ends == "unit length"), "k:")
        axes.text(53, more, f"{name}: {more:.2g} ×", color=color, va="center")
    axes.set(xticks=[1, 4, 16, 48], xticklabels=[1, 4, 16, 48], xlabel="words in the sentence, n",
             yticks=[0.25, 0.5, 1, 2, 4], yticklabels=["¼", "½", 1, 2, 4], xlim=(0.9, 240),
             title=title, ylabel="gradient at W / that of one word")
    axes.minorticks_off()
show(figure, "08_sqrtn_combiner_and_dan")

claim("sum, 48 words: gradient at W / that of one word", influence["sum", "unit length"], 1.8)
claim("the same under the mean", influence["mean", "unit length"], 0.85, 1.05)
claim("the same under sum/√n", influence["sum / √n", "unit length"], 0.95, 1.3)
claim("the mean without unit length", influence["mean", "no unit length"], high=0.5)

# %% [markdown]
# Without unit length 48 words have 3.6 times the influence of one under a sum, and a third under a
# mean. But the DAN has unit length, which divides the gradient by the length of the output. Under a
# mean that output is short, so nearly all that the mean took comes back: 0.93. Under a sum, a long
# sentence still has 2.3 times the influence. Divided by √n, all have nearly the same, 1.1.
#
# And a *word*? In a sentence of 48 words its row gets a tenth of the gradient that it gets alone,
# because the bag divides by √48 and dx is smaller, too. There are 95 such rows, and √95 · 0.1 is about 1:
# divided by √n, a sentence of any length moves the table about equally far, and its rows share that.
#
# ## Where the √n does nothing
#
# Our default encoder is shorter: one linear layer without a bias, then unit length. For one
# sentence, u = x W/‖x W‖. Replace x by c x, for any c > 0: c appears above and below the line, and
# cancels. So a sum, a mean and a sum/√n give the same u.
#
# **Predict:** the table's gradient is multiplied by c in the bag. So does it depend on the combiner?

# %%
def u_and_gradients(power, with_tanh):
    """u = unit(x W₀) or unit(tanh(x W₀) W₁) of a bag divided by n^power; gradients of E and W₀."""
    def u():
        x, _ = embedding_bag_forward(E, rows, batch.lengths)  # divided by √n
        h = x * (batch.lengths ** (0.5 - power))[:, None] @ W0
        return l2_normalize_forward(np.tanh(h) @ W1 if with_tanh else h)[0]

    loss = lambda: float((u() * du[:, :u().shape[1]]).sum())
    return u(), numeric_gradient(loss, E), numeric_gradient(loss, W0)


for name, with_tanh, worst, low, high in (("one linear layer", False, max, 0, 1e-8),
                                          ("with tanh", True, min, 0.01, 1)):
    for combiner, power in (("sum", 0), ("mean", 1)):
        differences = map(relative_error, u_and_gradients(power, with_tanh),
                          u_and_gradients(0.5, with_tanh))
        expect(worst(differences), low, high,
               f"{name}: u, dtable, dW under {combiner} against √n")

# %% [markdown]
# Not even the gradient. Unit length divides dx by the length of x W, which has the factor c. The bag multiplies by c
# again; dW multiplies by x, which has the factor c. So with the default settings the √n changes nothing, neither the
# output nor a gradient, and the influence of a sentence does not depend on the length of its bag. A second linear
# layer or a leaky ReLU, without biases, would not bring it back, since they, too, give c times as much for c times
# their input. A tanh does. And the lengths of *words* inside one sentence always count: they decide its direction
# (lesson A).
#
# ## Where this lives
#
# - `core/embeddings.py`: `embedding_bag_forward`, `embedding_bag_backward`; `core/optim.py`:
#   `update_rows` adds up the places. `core/dan.py`: `dan_forward`, `dan_backward`.
# - `minimal.py`: `bag_forward` and `bag_backward` are this bag, `encode` is the default encoder.
# - [The paper](https://arxiv.org/abs/1804.07754), §2.3.1 with footnote 3 (√n) and §3.1 (unit length).
#   Ours: tanh between the layers, n as the number of words; by default one layer without a bias
#   instead of three. To read further: [Iyyer et al.](https://aclanthology.org/P15-1162/), the first
#   DAN. PyTorch's `EmbeddingBag` has the sum and the mean, but no √n.

# %% [markdown]
# ## What you know now
#
# - A sum of n unrelated vectors grows like √n. Divided by √n it has nearly one size and influence on W.
#   Unit length gives that to a mean as well, but not to a sum.
# - The way back carries the same factor, and a row's gradients from all its places add up.
# - One linear layer and unit length cancel any factor: in our default encoder the √n does nothing.
#
# Next: lesson 9 gives all vectors length 1. Optional: lesson A fills the table before the first step.
#
# Solutions, for when you have tried: `lessons/solutions/08_sqrtn_combiner_and_dan.py`.
