# %% [markdown]
# # A · Counting: what is known before the first step
#
# **Needs** bags and √n (lesson 8), the logarithm of a probability. Optional, best after lesson 22.
# **Gives** the word vectors that training starts from, built from counts alone; the weight
# a/(a + p); the identity start; what singular values and a bias do to a cosine.
# **Time** 70 minutes, in two parts; the second begins at "What σ does to a cosine".
#
# A network usually starts from random numbers. Training then has to find out which words belong
# together. A corpus can tell that without training: count which words stand near each other. This
# lesson builds the first weights of the default encoder by counting, in small: 200 numbers a word,
# not 500. Each part is measured by the task that training is for: pick the true reply among 100.
# Guessing is right in 1% of the cases.

# %%
import sys

sys.path += [".", "lessons"]
from lesson import check, claim, expect, plt, seed, show
from before_training import D, Untrained, points_over, unit

import numpy as np

from convsim_mini.config import ModelConfig
from convsim_mini.core.dan import dan_forward
from convsim_mini.core.gradcheck import numeric_gradient, relative_error
from convsim_mini.core.pairs import Split
from convsim_mini.evaluation.metrics import pearson_interval
from convsim_mini.training.initial import initial_parameters, initial_table
from convsim_mini.training.word_vectors import cooccurrences, left_singular_vectors, ppmi_svd

rng = np.random.default_rng(seed(18))

# %% [markdown]
# ## Pointwise mutual information, by hand
#
# n_wc counts how often the words w and c stand within five places of each other in a sentence. Each
# meeting counts twice: for (w, c) and for (c, w). T is the sum of all counts, n_w the sum of row w,
# p(w, c) = n_wc/T and p(w) = n_w/T. If w and c had nothing to do with each other, p(w, c) would be
# p(w) p(c). PMI compares the two:
#
# PMI(w, c) = ln p(w, c)/(p(w) p(c)) = ln n_wc T/(n_w n_c)
#
# It is **0 under independence**, for ln 1 = 0, and positive for words that meet more often than by
# chance. Twelve sentences of two words make T = 24:
#
# | sentence | times | n_wc T/(n_w n_c) | PMI |
# | --- | --- | --- | --- |
# | hot tea | 3 | 3 · 24/(3 · 7) = 24/7 | 1.23 |
# | warm tea | 3 | the same | 1.23 |
# | cold ice | 5 | 5 · 24/(6 · 5) = 4 | 1.39 |
# | cold tea | 1 | 1 · 24/(6 · 7) = 4/7 | −0.56 |
#
# **Predict:** "hot" and "warm" never meet. Which cosine will their vectors have?

# %%
HOT, WARM, TEA, COLD, ICE = range(1, 6)                       # id 0 is the unknown word
sentences = 3 * [HOT, TEA] + 3 * [WARM, TEA] + 5 * [COLD, ICE] + [COLD, TEA]
tiny = Split(np.array(sentences, np.int32), np.arange(0, 25, 2), None)


def pmi_of(counts, smoothing=1.0):
    """PMI of each pair that was seen: CSR (W, W) → CSR (W, W)."""
    row, column = (np.asarray(counts.sum(axis=axis)).ravel() for axis in (1, 0))
    context = column**smoothing / (column**smoothing).sum()   # p(c), or its smoothed version
    pmi = counts.tocoo()
    pmi.data = np.log(pmi.data / (row[pmi.row] * context[pmi.col]))
    return pmi.tocsr()


counts = cooccurrences(tiny, 6)                               # (6, 6), symmetric
pmi = pmi_of(counts)
for w, c, by_hand in ((HOT, TEA, 24 / 7), (COLD, ICE, 4), (COLD, TEA, 4 / 7)):
    expect(pmi[w, c] - np.log(by_hand), -1e-6, 1e-6, f"PMI less ln {by_hand:.3g}, by hand")

# %% [markdown]
# ### Why negative values are cut
#
# Most pairs are never seen. Their PMI is −∞, and a sparse table stores 0 for them. But then (hot,
# ice), which was never seen, has 0 and (cold, tea), which was seen once, has −0.56: the order is
# wrong. **PPMI** = max(0, PMI) gives both 0.
#
# ### What ¾ does to rare words
#
# If c is the only neighbour of w, then PMI(w, c) = −ln p(c): the rarer c, the larger, on less
# evidence. So the library puts p(c)^¾/Z in the place of p(c), with Z = Σ p^¾. That adds
#
# ln p(c) − ln (p(c)^¾/Z) = **¼ ln p(c) + ln Z**
#
# In the table "tea" comes 7/3 times as often as "warm". So PMI at "warm" loses ¼ ln(7/3) = 0.21
# nats more than PMI at "tea".

# %%
smoothed = pmi_of(counts, 0.75)
p = np.asarray(counts.sum(axis=0)).ravel() / 24               # (6,)
for w, c in ((TEA, WARM), (WARM, TEA)):
    derived = np.log(p[c]) / 4 + np.log((p**0.75).sum())
    expect(smoothed[w, c] - pmi[w, c], derived - 1e-6, derived + 1e-6,
           f"what smoothing adds at a context of p = {p[c]:.3f}")

# %% [markdown]
# ### What the SVD does
#
# A row of the PPMI table has as many numbers as there are words. The singular value decomposition
# finds a few numbers for each word from which the rows can best be rebuilt. A table of two rows,
# (3, 3) and (4, 4), needs one number a row: both rows are multiples of (1, 1)/√2, so
#
# (3, 3) = **0.6** · 5√2 · (1, 1)/√2 and (4, 4) = **0.8** · 5√2 · (1, 1)/√2
#
# 0.6 and 0.8 are the column of U, 5√2 is the singular value. The rows of U are our word vectors:
# words with like rows in the table get like rows of U.

# %%
u, sizes, _ = np.linalg.svd(np.array([[3.0, 3], [4, 4]]))
expect([abs(abs(u[0, 0]) - 0.6), abs(abs(u[1, 0]) - 0.8), abs(sizes[0] - 5 * np.sqrt(2)),
        sizes[1]], 0, 1e-12, "0.6, 0.8, 5√2, and no second direction")
u, _, _ = np.linalg.svd(smoothed.maximum(0).toarray())
by_hand, library = unit(u[1:, :4]), unit(ppmi_svd(tiny, 6, 4, rng)[1:])       # (5, 4) each
expect(np.abs(by_hand @ by_hand.T - library @ library.T).max(), 0, 1e-4,
       "all cosines: numpy's SVD of our PPMI against the library's ppmi_svd")
expect(library[HOT - 1] @ library[WARM - 1], 1 - 1e-4, 1 + 1e-4, "cosine of “hot” and “warm”")

# %% [markdown]
# "Hot" and "warm" never met, but they met the same word. The vectors do not say which words stand
# beside each other. They say which words stand in the same places.
#
# ## Real chat
#
# Now 80,000 pairs of `chitchat-dataset` that pass the filters (`before_training.py`, beside this
# lesson, reads them). Words are counted on train alone. P@1 is measured on dev, whose inputs do not
# occur in train.

# %%
world = Untrained()
vocabulary, weight = world.corpus.vocabulary, world.weight
known = 1 + len(vocabulary.words)                             # the unknown word is row 0
counts = cooccurrences(world.corpus.train, known)             # CSR (8001, 8001)
pmi = pmi_of(counts, 0.75)
print(f"{counts.nnz:,} pairs of words were seen, {(pmi.data < 0).mean():.0%} of them with PMI < 0")

U = left_singular_vectors(pmi.maximum(0), D, world.draw)      # (8001, 200)
x = unit(U)
for word in ("monday", "pizza", "mother"):
    order = np.argsort(-x @ x[vocabulary.id(word)])[1:6]      # the first is the word itself
    print(f"{word}:", *map(vocabulary.token, order))

# %% [markdown]
# ## P@1 without training
#
# A sentence is the bag of its words (lesson 8). Two numbers judge it: P@1 on dev, and Pearson's r
# of the cosine with the scores of the project's own 120 pairs of sentences (STS). All tables see
# the same inputs, so only those on which two tables disagree make the error of their difference.
#
# **Predict:** bags of *random* rows show only whether two sentences share a word. Is P@1 then 1%,
# 6% or 15%? What do co-occurrences add?

# %%
bags, score, table_of = world.bags, world.score, world.table_of
counted = table_of(x)
ladder = {"random rows": score("random rows", bags(world.random_rows)),
          "co-occurrences": score("co-occurrences", bags(counted))}
points_over(ladder["co-occurrences"], ladder["random rows"], -1, 3, "that over random rows")

# %% [markdown]
# About one point. What is wrong? "The" and "you" count as much as the words that matter.
#
# ## a/(a + p): what a frequent word is worth
#
# How much should a frequent word be worth? Arora et al. (2017) let a sentence have a topic, a
# vector c. A word is drawn by its frequency or by the topic:
#
# p(w | c) = α p(w) + (1 − α) e^{v_w · c}/Z
#
# Which topic makes the words of a sentence most likely? The gradient of ln p(w | c) at c = 0 is
#
# v_w · ((1 − α)/Z)/(α p(w) + (1 − α)/Z) = v_w · **a/(a + p(w))**,   a = (1 − α)/(α Z)
#
# So the best direction, to first order, is the sum of the vectors, each times a/(a + p). The factor
# is the probability that the word was drawn by the topic.

# %%
v, p = rng.standard_normal((6, 4)), np.array([0.3, 0.1, 0.05, 0.01, 1e-3, 1e-4])
alpha, Z, topic = 0.5, 40.0, np.zeros(4)
a = (1 - alpha) / (alpha * Z)
likelihood = lambda: float(np.log(alpha * p + (1 - alpha) * np.exp(v @ topic) / Z).sum())
expect(relative_error((a / (a + p)) @ v, numeric_gradient(likelihood, topic)), 0, 1e-8,
       "Σ a/(a + p) v, against differences")
print("weights:", *(f"{word} {weight[vocabulary.id(word), 0]:.3f}" for word in ("the", "mother")))
ladder["random rows,\nweights"] = score("random rows, weights", bags(world.random_rows * weight))
default = ladder["co-occurrences,\nweights"] = score("co-occurrences, weights",
                                                     bags(counted * weight))
claim("P@1 of the default start, per cent; guessing has 1", 100 * default[0].mean(), 18, 23)
neither, one, other, both = (100 * hits.astype(float) for hits, _ in ladder.values())    # (4000,)
print("P@1             no weights   weights\n"
      f"random rows     {neither.mean():10.1f}   {other.mean():7.1f}\n"
      f"co-occurrences  {one.mean():10.1f}   {both.mean():7.1f}")
claim("weights alone, points", (other - neither).mean(), 7, 12)
expect((both - other).mean(), 2.5, 6, "co-occurrences, given weights, points")
expect((both - other - one + neither).mean(), 0, 6, "they help each other by, points")
low, high = pearson_interval(default[1], world.own.labels)
expect(100 * (high - low), 15, 30, "width of the 95% interval of STS")

# %% [markdown]
# Both together bring 13 points over random rows. The weights alone bring 10, co-occurrences alone
# 1. Together they bring 2 to 4 points more than that: they help each other. On 120 pairs steps of 4
# points cannot be seen: the interval is 23 points wide.
#
# ## The identity start
#
# The default encoder is u = normalise(x W), x the bag. With W = I, u is the weighted bag itself:

# %%
config = ModelConfig(embedding_dim=D, layers=[D])
table = initial_table(world.corpus, 10, config, np.random.Generator(np.random.Philox(seed(1))))
ours = bags(counted * weight)                                 # four sides, (B, 200) each
u, _ = dan_forward(initial_parameters(config, table, rng), world.texts[2], vocabulary.size)
expect(np.abs(u - unit(ours[2])).max(), 0, 1e-4, "the library's first encoder against our bags")

glorot = (rng.uniform(-1, 1, (D, D)) * np.sqrt(6 / (2 * D))).astype(np.float32)
ladder["… and a\nrandom matrix"] = score("and a random matrix", [side @ glorot for side in ours])
points_over(default, ladder["… and a\nrandom matrix"], 1, 5, "identity over a random matrix")

# %% [markdown]
# The usual random W changes each cosine by about 1/√200 = 0.07. That lifts some of 99 wrong replies
# above the true one.

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5))
share = vocabulary.probabilities()[1:known]
left.loglog(share, weight[1:known, 0], ".", color="C0", markersize=3)
for word in ("the", "movie", "mother"):
    left.annotate(word, (share[vocabulary.id(word) - 1], weight[vocabulary.id(word), 0]), (6, 4),
                  textcoords="offset points")
left.set(xlabel="p, share of a word in the text", ylabel="a/(a + p)",
         xlim=(None, 0.2), ylim=(None, 2), title="A word counts less\nif it comes more often")
rate = np.array([hits.mean() for hits, _ in ladder.values()])
right.barh(list(ladder), 100 * rate, xerr=196 * np.sqrt(rate * (1 - rate) / len(default[0])),
           color=["C2" if scores is default else "C7" for scores in ladder.values()])
right.axvline(1, color="k", linestyle=":", linewidth=1)
right.invert_yaxis()
right.set(xlabel="P@1, per cent; dotted: guessing", ylabel="the encoder before training",
          title="No gradient so far: the default\nstart is right in one of five")
show(figure, "A_counting")

# %% [markdown]
# ### Exercise 1: fooled by small words
#
# Find two sentences of four words or more, all of the vocabulary, which bags without weights call
# alike (cosine above 0.5) and bags with weights do not (below 0.2).

# %%
def alike_by_small_words():
    """→ two sentences."""
    raise NotImplementedError


def judge_small_words(alike_by_small_words, rng):
    packed = vocabulary.encode(list(alike_by_small_words()))
    assert packed.lengths.min() >= 4, f"{packed.lengths.min()} words, expected four or more"
    assert (packed.ids > 0).all() and packed.ids.max() < known, "a word is not in the vocabulary"
    starts = packed.offsets[:-1]
    for factor, low, high, what in ((1, 0.5, 1, "without"), (weight, -1, 0.2, "with")):
        a, b = unit(np.add.reduceat((world.random_rows * factor)[packed.ids], starts))
        assert low <= a @ b <= high, (f"{what} weights the cosine is {a @ b:.2f}; which words may "
                                      "the two share?")


check(1, alike_by_small_words, judge_small_words)

# %% [markdown]
# ## What σ does to a cosine
#
# The SVD writes M = U Σ Vᵀ, here of the PPMI with the ¾. Ours are the rows of U (p = 0). Word
# vectors are often the rows of U Σ (p = 1) or of U √Σ (p = ½). Under U Σ^p
#
# x · y = Σᵢ **σᵢ^{2p}** u_xi u_yi
#
# All columns of U have length 1. So direction i has the share σᵢ^{2p}/Σⱼ σⱼ^{2p} of the squared
# length of all rows. With p = 0 each direction has 1/D.
#
# M has no negative number, so u₁ has none either (Perron and Frobenius). It adds something positive
# to *every* product. If u₁ has about the same share in all rows, and the rest is 0 on average, then
# the mean cosine of two words is the share of u₁.
#
# **Predict:** which share do the first 10 of 200 directions have with p = 1? And with p = 0?

# %%
sigma = np.linalg.norm(pmi.maximum(0).T @ U, axis=0)          # (200,)
total = np.asarray(counts.sum(axis=1)).ravel()
w, c = rng.integers(1, known, (2, 100_000))                   # random pairs of words
w, c = w[(w != c) & (total[w] * total[c] > 0)], c[(w != c) & (total[w] * total[c] > 0)]


def rows_of(p):
    """Rows of U Σ^p, each of unit length: (8001, 200)."""
    return unit(U * sigma**p)


first, frequency = U[1:, 0] * np.sign(U[1:, 0].sum()), np.array(vocabulary.counts)
expect(first.min(), -1e-5, 1, "the least number of u₁, with the sign of most; derived: 0 or more")
typical = {}                                                  # p → how frequent neighbours are
for p, low, high in ((1, 0.28, 0.4), (0.5, 0.08, 0.16), (0, 0.0499, 0.0501)):
    share, x = sigma ** (2 * p) / (sigma ** (2 * p)).sum(), rows_of(p)
    near = x[1:1001] @ x[1:].T                                # of the 1,000 most frequent words
    np.fill_diagonal(near, -1)
    typical[p] = np.median(frequency[np.argpartition(-near, 10, axis=1)[:, :10]])
    expect(share[:10].sum(), low, high, f"p = {p}: share of the first 10 directions")
    print(f"    a neighbour occurs {typical[p]:.0f} times in train (median)")
    expect((x[w] * x[c]).sum(axis=1).mean(), share[0] - 0.01, share[0] + 0.01,
           f"    mean cosine of two random words; derived {share[0]:.3f}")
expect(typical[0] / typical[1], 0, 0.5, "frequency of a neighbour, p = 0 over p = 1")

# %% [markdown]
# With p = 1 ten directions have a third of the length, and neighbours are frequent words. With
# p = 0 neighbours are rarer. Which is better for picking replies?

# %%
def lead(a, b):
    """P@1 of a less that of b, in points."""
    return 100 * (a[0].mean() - b[0].mean())


by_p = {p: score(f"p = {p}", bags(table_of(rows_of(p)) * weight)) for p in (1, 0.5, 0)}
claim("P@1 of p = 0, points over p = 1", lead(by_p[0], by_p[1]), low=1.5)

# %% [markdown]
# By P@1 p = 0 is better than p = 1 by 3 to 4 points, and than p = ½ by about one. By r on the 120
# pairs (the second column) p = ½ is ahead. But 120 pairs separate none of these (lesson 21).
#
# ## What a bias does to a cosine
#
# The bias b of a last layer is added to all sentence vectors x. It starts at 0, but training moves
# it. Let all x have length 1, and let b be unrelated to them: x · b ≈ 0. Then
#
# cos(x + b, y + b) = (x · y + ‖b‖²)/(1 + ‖b‖²)
#
# and their mean is (c̄ + ‖b‖²)/(1 + ‖b‖²), c̄ being the mean before.
#
# One straight line moves all cosines towards 1. It changes no ranking, and not Pearson's r of the
# cosine.
#
# But bags have *different* lengths, and then the line differs from pair to pair. For a large b two
# vectors are nearly parallel, and the angle between them is their distance over ‖b‖:
#
# 1 − cos(x + b, y + b) ≈ **‖x − y‖²/(2 ‖b‖²)**
#
# The ranking becomes that by Euclidean distance, in which short vectors are near to everything.
#
# **Predict:** P@1 with a huge b, for vectors of length 1, and for bags of their own lengths.

# %%
b = 10 * unit(rng.standard_normal((1, D))).astype(np.float32)             # ‖b‖² = 100
size = np.sqrt((ours[0] ** 2).sum(axis=1).mean())
shapes = {"length 1": [unit(side) for side in ours], "own length": [side / size for side in ours]}
shifted = {name: [side + b for side in sides] for name, sides in shapes.items()}
found = {name: score(f"‖b‖² = 100, {name}", sides) for name, sides in shifted.items()}
points_over(found["length 1"], by_p[0], -1, 1, "length 1, ‖b‖² = 100 over no bias")
claim("P@1 without a bias, points over ‖b‖² = 100, own length", lead(by_p[0], found["own length"]),
      low=5)

# %% [markdown]
# For vectors of length 1 a bias changes the size of the cosines and nothing else. With their own
# lengths P@1 falls by half: it is that of the distance now.
#
# ### Exercise 2: undo a bias
#
# All vectors had length 1 and were orthogonal to a bias b, which has been added to them. Only the
# cosines that they have now are known, and ‖b‖². Give those without the bias.

# %%
def without_bias(cosines, squared):
    """cosines: (n,) with the bias; squared: ‖b‖² → (n,) without it."""
    raise NotImplementedError


def judge_without_bias(without_bias, rng):
    for squared in (0.0, float(rng.uniform(0.2, 5))):
        x, y = unit(rng.standard_normal((9, 4))), unit(rng.standard_normal((9, 4)))
        b = np.full((9, 1), np.sqrt(squared))                 # a fifth coordinate
        now = (unit(np.hstack([x, b])) * unit(np.hstack([y, b]))).sum(axis=1)
        assert np.abs(without_bias(now, squared) - (x * y).sum(axis=1)).max() < 1e-9, (
            f"‖b‖² = {squared:.2f}: not the cosines from before; how long is x + b?")


check(2, without_bias, judge_without_bias)

# %% [markdown]
# ## Where this lives
#
# - `training/word_vectors.py`: `cooccurrences`, `ppmi_svd`, `left_singular_vectors` (Halko et al.
#   2011). `training/initial.py`: `initial_table`, `initial_parameters`.
# - `minimal.py`: `first_values` has the weights and the identity, on random rows.
# - `config.py`: `svd_share`, `frequency_weight`, `identity_start`, `encoder_bias`.
#   `evaluation/baselines.py`: SIF, which weights like this and removes the first direction too.
# - The paper does not say how its embeddings start. All of this is ours, after Levy, Goldberg and
#   Dagan (2015) and Arora et al. (2017).

# %% [markdown]
# ## Claims
#
# Over five seeds, as `python -m lessons.claims A` prints it. The last column says which values would refute the claim.
#
# | claim | mean ± sd | least to most | refuted |
# | --- | --- | --- | --- |
# | P@1 of the default start, per cent; guessing has 1 | 19.9 ± 0.3 | 19.6 to 20.2 | below 18, above 23 |
# | weights alone, points | 9.41 ± 0.4 | 8.7 to 9.62 | below 7, above 12 |
# | P@1 of p = 0, points over p = 1 | 3.82 ± 0.4 | 3.3 to 4.29 | below 1.5 |
# | P@1 without a bias, points over ‖b‖² = 100, own length | 10.4 ± 0.5 | 9.94 to 11.1 | below 5 |

# %% [markdown]
# ## What you know now
#
# - Words that stand in the same places get near vectors, from counts and an SVD alone.
# - This start has a P@1 of 19%, the weights alone 16%: show it beside every result of training.
# - A direction that all vectors share makes cosines large: u₁ under U Σ^p, or a bias.
#
# Next: lesson B trains with many workers.
#
# Solutions, for when you have tried: `lessons/solutions/A_counting.py`.
