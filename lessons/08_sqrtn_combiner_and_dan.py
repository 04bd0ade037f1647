# %% [markdown]
# # 8 · The √n combiner: sentences of any length, and the DAN assembled
#
# **Needs** linear layers and tanh (lesson 3), ids and bigrams (lesson 6), embeddings (lesson 7).
# **Gives** `embedding_bag`, forward and backward (PyTorch's `EmbeddingBag` has the sum and the mean
# but no √n); the paper's first encoder, put together; when the √n does nothing at all.
# **Time** 75 minutes.
#
# A sentence has two words or sixty; the layers above want one vector of one size. The simplest way
# is to add up the words' vectors. But a sum of sixty is longer than a sum of two, and the next
# layer has a tanh that saturates. The paper "divides by sqrt(n)". Where does this factor
# decide what the layers see, and where not?

# %%
import sys

sys.path += [".", "lessons"]
from lesson import check, claim, expect, plt, seed, show

from collections import Counter

import numpy as np

from convsim_mini.core.dan import dan_backward, dan_forward
from convsim_mini.core.embeddings import embedding_bag_backward, embedding_bag_forward
from convsim_mini.core.gradcheck import dense, layer_error, numeric_gradient, relative_error
from convsim_mini.core.layers import (
    l2_normalize_backward, l2_normalize_forward, linear_backward, linear_forward, tanh_backward,
    tanh_forward)
from convsim_mini.core.model import Model
from convsim_mini.core.packed import Packed, words_and_bigrams
from convsim_mini.core.text import Vocabulary, tokenize
from convsim_mini.data.pairs import read_rows
from convsim_mini.data.tables_and_logs import default_corpus

rng = np.random.default_rng(seed(6))

# %% [markdown]
# ## How long is a sum of vectors?
#
# Take n vectors e₁ … eₙ in d dimensions whose numbers are drawn at random with mean 0 and variance
# 1. Each has ‖e‖² ≈ d. For the sum, multiply out:
#
# ‖Σ eᵢ‖² = Σᵢ ‖eᵢ‖² + Σ_{i≠j} eᵢ · eⱼ
#
# The second sum holds unrelated directions: its products have mean 0. So E‖Σ eᵢ‖² = n d, and
#
# - the **sum** has length √n · √d,
# - the **mean** has length √d / √n,
# - the sum **divided by √n** has length √d, whatever n is.
#
# The DAN adds up more than words: each neighbouring pair has a row of its own, so n words bring
# 2n − 1 rows (lesson 6). In the paper n is "the sentence length"; we take the number of words.
# So ‖y‖²/d is (2n − 1)/n, 1 to 2. Repeated words make real sentences somewhat longer.
#
# ## What a layer with tanh sees
#
# In the paper's DAN the bag goes into a linear layer, with Glorot's variance 2/(d + e) = 1/300 for
# each weight, and then into tanh. Each number z = Σ x W is then normal with variance ‖x‖²/300: its
# size is the bag's length over √d. tanh passes 1 − tanh² z of the gradient. The mean of that over z
# can be computed beforehand. We compare it with fifty thousand turns of the default corpus.
#
# **Predict:** of the gradient that arrives at a 50-word sentence, how much passes tanh under a sum:
# most of it, half, or a tenth?

# %%
d = 300
turns = [pair.response for _, chunk in zip(range(10), read_rows(default_corpus()))
         for pair in chunk.pairs]
tokens = [tokens for tokens in map(tokenize, turns) if tokens]
vocabulary = Vocabulary.of_words(Counter(word for turn in tokens for word in turn))
packed = vocabulary.pack(tokens)
rows = words_and_bigrams(packed, vocabulary.size, 20_000)
table = rng.standard_normal((vocabulary.size + 20_000, d), np.float32)
y, _ = embedding_bag_forward(table, rows, packed.lengths)     # (B, d)
n = packed.lengths
expect((y[n == 1] ** 2).sum(axis=1).mean() / d, 0.97, 1.03, "one word: ‖y‖²/d")


def passes_tanh(size):
    """What tanh lets through of the gradient: E[1 − tanh² z], z normal of this size."""
    z = np.linspace(-8, 8, 4001)
    density = np.exp(-z * z / 2)
    return ((1 - np.tanh(size * z)**2) * density).sum() / density.sum()


weight = rng.uniform(-1, 1, (d, 300)) * np.sqrt(6 / (d + 300))          # Glorot: variance 2/(d + e)
bins = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64]
let_through = {}
figure, (left, right) = plt.subplots(1, 2)
for name, power, color in (("sum", 0.0, "C3"), ("sum / √n", 0.5, "C2"), ("mean", 1.0, "C0")):
    x = y * (n ** (0.5 - power))[:, None]                     # y was divided by √n
    norms = np.linalg.norm(x, axis=1) / np.sqrt(d)
    slopes = 1 - np.tanh(x @ weight)**2                       # (B, 300)
    let_through[name] = [slopes[n == k].mean() for k in bins]
    k = np.arange(1, 65)
    unrepeated = np.sqrt(2 * k - 1) / k**power
    left.loglog(bins, [norms[n == k].mean() for k in bins], "o", color=color, label=name)
    left.loglog(k, unrepeated, "k:", label="derived, no repetition" if name == "mean" else None)
    right.semilogx(k, [passes_tanh(size) for size in unrepeated], "k:")
    right.semilogx(bins, let_through[name], "o", color=color)
for axes in (left, right):
    axes.set(xticks=[1, 4, 16, 64], xticklabels=[1, 4, 16, 64], xlabel="words in the sentence, n")
left.set(ylabel="norm of the bag / √d",
         title="√n nearly gives one size for all;\nreal long sentences repeat words")
right.set(ylabel="mean of 1 − tanh²", ylim=(0, 1),
          title="A sum shuts tanh for long sentences,\na mean of 16 words hardly bends it")
show(figure, "08_sqrtn_combiner_and_dan")

of_sum, of_root, of_mean = (shares[bins.index(48)] for shares in let_through.values())
claim("sum, 48 words: share of the gradient that passes tanh", of_sum, 0.03,
      passes_tanh(np.sqrt(95)))
claim("the same under the mean", of_mean, 0.9, passes_tanh(np.sqrt(95) / 48))
claim("the same under sum/√n", of_root, 0.3, passes_tanh(np.sqrt(95 / 48)))

# %% [markdown]
# Under a sum, long sentences are stuck: their units are near ±1, and nine tenths of the gradient
# are lost. Under a mean they are so short that tanh is nearly a straight line, and two linear
# layers in a row are nearly one. With √n the layers see every sentence at about one size. The green
# dots on the left rise a little. The paper wants the vectors "to be sensitive to length".
#
# ## The way back
#
# y_b = (1/√n_b) Σ_r count_br E_r. If row r moves, y_b moves count_br/√n_b times as far. And row r
# may stand in many sentences. (**Write the backward before you read on:** `yours/embedding_bag.py`,
# then `python -m lessons.yours check embedding_bag`.) The gradients from all these places add up:
#
# dE_r = Σ_b count_br dy_b / √n_b
#
# The forward as loops, on a batch with a word twice in one sentence, a word in two sentences,
# sentences of different lengths, and a row that nobody uses:

# %%
# 3 1 3 4 | 1 | 0; row 2 unused
ids = Packed(np.array([3, 1, 3, 4, 1, 0], np.int32), np.array([0, 4, 5, 6]))
table = rng.standard_normal((5, 3))                           # (R, d)


def bag(table, ids):
    """Each sentence's sum, divided by √n: table: (R, d), ids: Packed of B sentences → (B, d)."""
    y = np.zeros((len(ids.lengths), table.shape[1]))
    for b, (begin, end) in enumerate(zip(ids.offsets, ids.offsets[1:])):
        for row in ids.ids[begin:end]:
            y[b] += table[row]
        y[b] /= np.sqrt(end - begin)
    return y


def counts_of(ids, table_rows):
    """How often each row stands in each sentence: (B, R)."""
    counts = np.zeros((len(ids.lengths), table_rows))
    np.add.at(counts, (ids.sentence_numbers, ids.ids), 1)
    return counts


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
# Below are three backwards as people write them. One forgets the 1/√n. One looks at *which* words a
# sentence has and not how often. One lets the last sentence with a word win instead of adding. Each
# passes on *some* data. Find a batch of **three words in all** on which the check catches each.

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
# Bigrams have their rows after the words' in the same table, and the output is scaled to length 1
# (lesson 9 looks into that). In the order of the paper's figure 4a:

# %%
word_rows, bigram_rows = 9, 30
names = "embedding.weight", "linear0.weight", "linear0.bias", "linear1.weight", "linear1.bias"
names = [f"encoder.{name}" for name in names]
E, W0, b0, W1, b1 = (rng.standard_normal(size) for size in ((39, 4), (4, 5), 5, (5, 6), 6))
params = dict(zip(names, (E, W0, b0, W1, b1)))
# 123 | 321 | 5 | 888
batch = Packed(np.array([1, 2, 3, 3, 2, 1, 5, 8, 8, 8], np.int32), np.array([0, 3, 6, 7, 10]))

rows = words_and_bigrams(batch, word_rows, bigram_rows)       # Packed of 2N − B rows
x, bag_cache = embedding_bag_forward(E, rows, batch.lengths)  # (B, 4)
h, cache0 = linear_forward(x, W0, b0)                         # (B, 5)
h, tanh_cache = tanh_forward(h)
h, cache1 = linear_forward(h, W1, b1)                         # (B, 6)
u, unit_cache = l2_normalize_forward(h)

du = rng.standard_normal(u.shape)                             # from whatever loss stands above
dh = l2_normalize_backward(du, unit_cache)                    # (B, 6)
dh, dW1, db1 = linear_backward(dh, cache1)
dh = tanh_backward(dh, tanh_cache)                            # (B, 5)
dx, dW0, db0 = linear_backward(dh, cache0)
grads = dict(zip(names, (embedding_bag_backward(dx, bag_cache), dW0, db0, dW1, db1)))

model = Model(params, None, word_rows)                        # as the library packs them
loss = lambda: float((dan_forward(model, batch)[0] * du).sum())
expect(max(relative_error(dense(grads[name], p), numeric_gradient(loss, p))
           for name, p in params.items()), 0, 1e-7, "five gradients against differences, the worst")
library_grads = dan_backward(du, dan_forward(model, batch)[1])
expect(max(relative_error(dense(grads[name], p), dense(library_grads[name], p))
           for name, p in params.items()), 0, 1e-13, "and against dan_backward, the worst")

# %% [markdown]
# ## Where the √n does nothing
#
# Our default encoder is shorter: one linear layer without a bias, then unit length. For one
# sentence, u = x W/‖x W‖. Put c x in the place of x, for any c > 0: c is in the numerator and in
# the denominator, and cancels. So a sum, a mean and a sum/√n give the same u.
#
# **Predict:** the gradient of the table is multiplied by c on its way through the bag. Does at
# least the gradient depend on the combiner?

# %%
def outputs(power, with_tanh):
    """u if a bag is divided by n^power: unit(x W), or unit(tanh(x W₀) W₁)."""
    x, _ = embedding_bag_forward(E, rows, batch.lengths)      # divided by √n
    h = x * (batch.lengths ** (0.5 - power))[:, None] @ W0
    return l2_normalize_forward(np.tanh(h) @ W1 if with_tanh else h)[0]


def u_and_gradients(*how):
    """u, and the gradients of the table and of the first layer, by differences."""
    u = outputs(*how)
    loss = lambda: float((outputs(*how) * du[:, :u.shape[1]]).sum())
    return u, numeric_gradient(loss, E), numeric_gradient(loss, W0)


for name, with_tanh, worst, low, high in (("one linear layer", False, max, 0, 1e-8),
                                          ("with tanh", True, min, 0.01, 1)):
    for combiner, power in (("sum", 0), ("mean", 1)):
        differences = map(relative_error, u_and_gradients(power, with_tanh),
                          u_and_gradients(0.5, with_tanh))
        expect(worst(differences), low, high,
               f"{name}: u, dtable, dW under {combiner} against √n")

# %% [markdown]
# Not even the gradient. Unit length divides dx by the length of x W, which has the factor c. The
# bag multiplies by c again; dW multiplies by x, which has the factor c. So with the default
# settings the √n changes nothing: not the output, not a gradient, in no step. The lengths of
# *words* inside one sentence do count: they decide its direction (lesson A).
#
# ### Exercise 2: bring it back
#
# Write an encoder that ends with unit length and in which the √n counts: for which u changes when
# its input becomes three times as long. One more layer is enough. Which kinds do, which do not?

# %%
def encoder_that_sees_length(x):
    """x: (B, 4) → u: (B, 5) unit vectors; `params` has weights of the right shapes."""
    raise NotImplementedError


def judge_sees_length(encoder, rng):
    x = rng.standard_normal((6, 4))
    short, long = encoder(x), encoder(3 * x)
    assert np.allclose(np.linalg.norm(short, axis=1), 1), "the rows have to have length 1"
    assert not np.allclose(short, short[0]), "u has to depend on x"
    change = np.abs(long - short).max()
    assert change > 1e-3, (f"u changes by {change:.1g}: these layers give c times as much for c "
                           "times their input, and unit length takes the c away; which does not?")


check(2, encoder_that_sees_length, judge_sees_length)

# %% [markdown]
# ## Where this lives
#
# - `core/embeddings.py`: `embedding_bag_forward`, `embedding_bag_backward`; `core/optim.py`:
#   `update_rows` adds up the places. `core/dan.py`: `dan_forward`, `dan_backward`.
# - `minimal.py`: `bag_forward` and `bag_backward` are this bag, `encode` is the default encoder.
# - The paper, §2.3.1 with footnote 3 (√n) and §3.1 (unit length). Ours: tanh between the layers, n
#   as the number of words; by default one layer without a bias instead of three.

# %% [markdown]
# ## Claims
#
# Over five seeds, as `python -m lessons.claims 8` prints it. The last column says which values would refute the claim.
#
# | claim | mean ± sd | least to most | refuted |
# | --- | --- | --- | --- |
# | sum, 48 words: share of the gradient that passes tanh | 0.0705 ± 0.0008 | 0.0692 to 0.0715 | below 0.03, above 0.0815 |
# | the same under the mean | 0.947 ± 0.0006 | 0.946 to 0.947 | below 0.9, above 0.962 |
# | the same under sum/√n | 0.427 ± 0.002 | 0.424 to 0.429 | below 0.3, above 0.482 |

# %% [markdown]
# ## What you know now
#
# - A sum of n unrelated vectors grows like √n. Divided by √n it keeps one size, and tanh its slope.
# - The way back carries the same factor, and a row's gradients from all its places add up.
# - One linear layer and unit length cancel any factor: in our default encoder the √n does nothing.
#
# Next: lesson 9 gives all vectors length 1, and the replies layers of their own. Optional: lesson A
# fills the table and the layers before the first step.
#
# Solutions, for when you have tried: `lessons/solutions/08_sqrtn_combiner_and_dan.py`.
