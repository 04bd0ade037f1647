# %% [markdown]
# # 7 · Before the first step: what counting alone can do
#
# **Needs** ids (lesson 4), bags and √n (lesson 6).
# **Gives** the word vectors that training starts from, built from counts alone; the weight
# a/(a + p); the identity start; the reason why the encoder's last layer has no bias.
#
# A network usually starts from random numbers. Training then has to find out which words belong
# together. A corpus can tell that without training: count which words stand near each other. This
# lesson builds the first weights of the default encoder by counting, in small: 200 numbers a word,
# not 500. Each part is measured by the task that training is for: pick the true reply among 100.
# Guessing is right in 1% of the cases.

# %%
import sys

# a notebook or a console may have started in this folder or in the one above
sys.path += [".", "lessons"]
from lesson import check, expect, plt, show
from small_encoder import some_chat

import numpy as np

from convsim_mini.config import ModelConfig
from convsim_mini.data.corpus import Split
from convsim_mini.evaluation.metrics import pearson, pearson_interval, williams_test
from convsim_mini.evaluation.response import draw_candidates, ranks_of_truth
from convsim_mini.evaluation.sts import OWN, read
from convsim_mini.model.gradcheck import numeric_gradient, relative_error
from convsim_mini.model.dan import dan_forward
from convsim_mini.model.embeddings import embedding_bag_forward
from convsim_mini.model.initial import initial_parameters, initial_table
from convsim_mini.model.layers import l2_normalize_forward
from convsim_mini.model.word_vectors import cooccurrences, left_singular_vectors, ppmi_svd

rng = np.random.default_rng(18)
unit = lambda x: l2_normalize_forward(x)[0]

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
# There is a second reason: noise. A count that is expected to be n comes out as n ± √n (Poisson).
# So its logarithm is off by about √n/n = **1/√n**. Words that are drawn independently show it:

# %%
words, N = 30, 50_000
drawn = Split(rng.integers(0, words, 2 * N).astype(np.int32), np.arange(0, 2 * N + 1, 2), None)
noise = pmi_of(cooccurrences(drawn, words)).toarray()[np.triu_indices(words, 1)]      # 435 pairs
n = 2 * N / words**2
expect(noise.mean(), -0.02, 0.02, "PMI of independent words, mean; derived 0")
expect(noise.std() * np.sqrt(n), 0.85, 1.15, "its scatter · √n; derived 1 ± 4/√870")

# %% [markdown]
# ### What ¾ does to rare words
#
# If c is the only neighbour of w, then PMI(w, c) = −ln p(c): the rarer c, the larger, on less
# evidence. So the library puts p(c)^¾/Z in the place of p(c), with Z = Σ p^¾. That adds
#
# ln p(c) − ln (p(c)^¾/Z) = **¼ ln p(c) + ln Z**
#
# A context that is e⁴ = 55 times as rare as another loses one nat more.

# %%
smoothed = pmi_of(counts, 0.75)
p = np.asarray(counts.sum(axis=0)).ravel() / 24               # (6,)
for w, c in ((TEA, WARM), (WARM, TEA)):
    derived = np.log(p[c]) / 4 + np.log((p**0.75).sum())
    expect(smoothed[w, c] - pmi[w, c], derived - 1e-6, derived + 1e-6,
           f"what smoothing adds at a context of p = {p[c]:.3f}")

u, _, _ = np.linalg.svd(smoothed.maximum(0).toarray())
by_hand, library = unit(u[1:, :4]), unit(ppmi_svd(tiny, 6, 4, rng)[1:])       # (5, 4) each
expect(np.abs(by_hand @ by_hand.T - library @ library.T).max(), 0, 1e-4,
       "all cosines: numpy's SVD of our PPMI against the library's ppmi_svd")
expect(library[HOT - 1] @ library[WARM - 1], 1 - 1e-4, 1 + 1e-4, "cosine of “hot” and “warm”")

# %% [markdown]
# "Hot" and "warm" never met, but they met the same word. The vectors do not say who stands beside
# whom. They say who stands in the same places.
#
# ## A truncated SVD, from random columns
#
# The SVD writes M = U Σ Vᵀ, with σ₁ ≥ σ₂ ≥ …. The truncated one keeps the first k columns of U. No
# other k orthonormal columns Q keep more of M (Eckart and Young 1936). The proof has one line:
# ‖QᵀM‖² = Σ σᵢ² sᵢ with sᵢ = ‖Qᵀuᵢ‖² ≤ 1 and Σ sᵢ ≤ k, which is largest if the first k sᵢ are 1.
#
# A full SVD of W words takes about W³ operations. The **randomised SVD** (Halko et al. 2011) only
# multiplies by M. From a random matrix Ω with k columns it makes
#
# (M Mᵀ)^q M Ω = U Σ^(2q+1) VᵀΩ
#
# Each product makes the directions with large σ stronger. Call the first k rows of VᵀΩ Ω₁, the
# others Ω₂, and θ the largest angle between our columns and the first k of U. Then
#
# tan θ ≤ **(σ_{k+1}/σ_k)^(2q+1)** ‖Ω₂ Ω₁⁻¹‖
#
# It is an equality if the spectrum has two values alone, so it can be checked to many digits.

# %%
def random_range(matrix, omega, powers):
    """k orthonormal columns near the first k left singular vectors: (n, m), (m, k) → (n, k)."""
    basis, _ = np.linalg.qr(matrix @ omega)
    for _ in range(powers):
        basis, _ = np.linalg.qr(matrix.T @ basis)             # QR: or all columns turn into u₁
        basis, _ = np.linalg.qr(matrix @ basis)
    return basis


k, ratio = 5, 0.6
U, V = (np.linalg.qr(rng.standard_normal((size, 40)))[0] for size in (60, 50))
two_values = (U * np.where(np.arange(40) < k, 1, ratio)) @ V.T
omega = rng.standard_normal((50, k))
start = np.linalg.norm((V.T @ omega)[k:] @ np.linalg.inv((V.T @ omega)[:k]), 2)
for q in (0, 1, 2):
    inside, outside = np.split(U.T @ random_range(two_values, omega, q), [k])
    tangent = np.linalg.norm(outside @ np.linalg.inv(inside), 2)
    expect(tangent / start / ratio ** (2 * q + 1), 1 - 1e-9, 1 + 1e-9,
           f"{q} power iterations: tan θ falls to {tangent / start:.3f}; over 0.6^(2q + 1)")

falling = (U * ratio ** np.arange(40)) @ V.T
exact, found = np.linalg.svd(falling)[0][:, :k], random_range(falling, omega, 8)
expect(np.abs(found @ found.T - exact @ exact.T).max(), 0, start * ratio**17,
       "q = 8, σᵢ = 0.6^i: projection against numpy.linalg.svd, at most tan θ")

# %% [markdown]
# ### Exercise 1: how many power iterations?
#
# Return the smallest q with (σ_{k+1}/σ_k)^(2q+1) ≤ `wanted`.

# %%
def powers_needed(ratio, wanted):
    """The number q ≥ 0 of power iterations; ratio = σ_{k+1}/σ_k and wanted are below 1."""
    raise NotImplementedError


def judge_powers(powers_needed):
    for ratio, wanted in ((0.6, 0.7), (0.6, 0.01), (0.9, 0.001), (0.5, 1e-6)):
        q = powers_needed(ratio, wanted)
        assert ratio ** (2 * q + 1) <= wanted, (
            f"ratio {ratio}, q = {q}: the factor is {ratio ** (2 * q + 1):.3g}, above {wanted}")
        assert q == 0 or ratio ** (2 * q - 1) > wanted, (
            f"ratio {ratio}: q = {q - 1} would do for {wanted}; how many products with the matrix "
            "has one power iteration?")


check(1, powers_needed, judge_powers)

# %% [markdown]
# ## Real chat
#
# Now 80,000 pairs of `chitchat-dataset` that pass the filters (`small_encoder.py`, beside this
# lesson, reads them). Words are counted on train alone. P@1 is measured on dev, whose inputs do not
# occur in train.

# %%
WORDS, D, A = 8_000, 200, 3e-4
corpus = some_chat(80_000, WORDS)
vocabulary, dev = corpus.vocabulary, corpus.dev
counts = cooccurrences(corpus.train, 1 + WORDS)               # CSR (8001, 8001)
pmi = pmi_of(counts, 0.75)
ppmi = pmi.maximum(0)
print(f"{counts.nnz:,} pairs of words were seen, {(pmi.data < 0).mean():.0%} of them with PMI < 0")

row = np.asarray(counts.sum(axis=1)).ravel()
w, c = rng.integers(1, 1 + WORDS, (2, 100_000))               # random pairs of words
w, c = w[(w != c) & (row[w] * row[c] > 0)], c[(w != c) & (row[w] * row[c] > 0)]
unseen = np.asarray(counts[w, c]).ravel() == 0
expect((row[w] * row[c] / row.sum() < 1)[unseen].mean(), 0.9, 1,
       "unseen pairs that chance alone would not show even once")

# %% [markdown]
# So "never seen" is what chance predicts for nearly all unseen pairs. Their zeros lose little.
#
# This spectrum falls slowly: σ_{k+1}/σ_k is nearly 1, and the last of the k directions are mixed
# with the next ones. What counts is the share of ‖M‖² that is kept, over what the best k keep.

# %%
block = ppmi[1:1001, 1:1001].toarray()                        # of the 1,000 most frequent words
values = np.linalg.svd(block, compute_uv=False)
best = (values[:100] ** 2).sum()
expect(values[100] / values[99], 0.97, 1, "σ_{k+1}/σ_k at k = 100")
omega = rng.standard_normal((1000, 100)).astype(np.float32)
kept = [0]
for q in (0, 1, 2):                                           # 2 is the library's choice
    kept.append(np.linalg.norm(random_range(block, omega, q).T @ block) ** 2 / best)
    expect(kept[-1], kept[-2], 1, f"kept with q = {q}: more than before, at most 1")

draw = np.random.Generator(np.random.Philox(1))               # as the library draws
random_rows = draw.standard_normal((vocabulary.size, D), np.float32)
U = left_singular_vectors(ppmi, D, draw)                      # (8001, 200)
sigma = np.linalg.norm(ppmi.T @ U, axis=0)                    # (200,)

# %% [markdown]
# ## What σ does to a cosine
#
# Word vectors are often the rows of U Σ (p = 1) or of U √Σ (p = ½). Under U Σ^p
#
# x · y = Σᵢ **σᵢ^{2p}** u_xi u_yi
#
# All columns of U have length 1. So direction i has the share σᵢ^{2p}/Σⱼ σⱼ^{2p} of the squared
# length of all rows. With p = 0 each direction has 1/D.
#
# M has no negative number, so u₁ has none either (Perron and Frobenius). It adds something positive
# to *every* product. If all rows have about as much of it, and all else averages out, then the mean
# cosine of two words is the share of u₁.
#
# **Predict:** which share do the first 10 of 200 directions have with p = 1? And with p = 0?

# %%
def rows_of(p):
    """Rows of U Σ^p, each of unit length: (8001, 200)."""
    return unit(U * sigma**p)


first, frequency = U[1:, 0] * np.sign(U[1:, 0].sum()), np.array(vocabulary.counts)
expect(first.min(), -1e-5, 1, "the least number of u₁, with the sign of most; derived: 0 or more")
expect(np.corrcoef(first, np.log(frequency))[0, 1], 0.5, 1, "correlation of u₁ with ln frequency")
typical = {}                                                  # p → how frequent neighbours are
for p, low, high in ((1, 0.28, 0.4), (0.5, 0.08, 0.16), (0, 0.0499, 0.0501)):
    share, x = sigma ** (2 * p) / (sigma ** (2 * p)).sum(), rows_of(p)
    near = x[1:1001] @ x[1:].T                                # of the 1,000 most frequent words
    np.fill_diagonal(near, -1)
    typical[p] = np.median(frequency[np.argpartition(-near, 10, axis=1)[:, :10]])
    expect(share[:10].sum(), low, high, f"p = {p}: share of the first 10 directions")
    print(f"    a neighbour stands {typical[p]:.0f} times in train (median)")
    for word in ("monday", "pizza", "mother"):
        order = np.argsort(-x @ x[vocabulary.id(word)])[1:6]  # the first is the word itself
        print(f"    {word}:", *map(vocabulary.token, order))
    expect((x[w] * x[c]).sum(axis=1).mean(), share[0] - 0.01, share[0] + 0.01,
           f"    mean cosine of two random words; derived {share[0]:.3f}")
expect(typical[0] / typical[1], 0, 0.5, "frequency of a neighbour, p = 0 over p = 1")

# %% [markdown]
# With p = 1 ten directions have a third of the length, and neighbours are frequent words. With
# p = 0 neighbours are rarer. To the eye they are not better: a rare word beside "mother" may come
# from a single conversation. So let the task decide.
#
# ## P@1 without training
#
# A sentence is the bag of its words (lesson 6). Two numbers judge it: P@1 on dev, and Pearson's r
# of the cosine with the scores of the project's own 120 pairs of sentences (STS). All tables see
# the same inputs, so only those on which two tables disagree make the error of their difference.

# %%
pairs, candidates = draw_candidates(dev, 4_000)               # 100 replies for each input
own = read(OWN)
texts = [dev.sentences(2 * pairs), dev.sentences(2 * pairs + 1),
         *(vocabulary.encode(side) for side in own[2:4])]     # inputs, replies, STS left, right
weight = (A / (A + vocabulary.probabilities())).astype(np.float32)[:, None]   # see below


def table_of(rows):
    """The table with these rows for the first words, of the same size as the random others."""
    table = random_rows.copy()
    table[:len(rows)] = rows * np.sqrt(D * len(rows) / (rows * rows).sum())
    return table


def bags(table):
    """The four sides of `texts`: (B, 200) each."""
    return [embedding_bag_forward(table, packed, packed.lengths)[0] for packed in texts]


def score(name, sides):
    """Print P@1 and r × 100 of four sides of any length; → bool (B,) hits, (120,) cosines."""
    inputs, replies, left, right = map(unit, sides)
    hits, cosine = ranks_of_truth(inputs, replies, candidates) == 1, (left * right).sum(axis=1)
    print(f"{name:36} P@1 {hits.mean():6.1%}   STS {100 * pearson(cosine, own.labels):.1f}")
    return hits, cosine


def points_over(a, b, low, high, what):
    """Expect P@1 of a less that of b, in points. A range above 0 means: by 3 standard errors."""
    points = 100 * (a[0].astype(float) - b[0])
    error = points.std() / np.sqrt(len(points))
    expect(points.mean(), max(low, 3 * error) if low > 0 else low, high,
           f"{what}, points; standard error {error:.2f}")


by_p = {p: score(f"p = {p}", bags(table_of(rows_of(p)) * weight)) for p in (1, 0.5, 0.25, 0)}
no_first = unit(U * np.where(np.arange(D) == 0, 0, sigma))
no_first = score("p = 1, without u₁", bags(table_of(no_first) * weight))
low, high = pearson_interval(by_p[0][1], own.labels)
expect(100 * (high - low), 15, 30, "width of the 95% interval of STS, p = 0")
expect(100 * by_p[0][0].mean(), 18, 23, "P@1 of the default start, per cent; guessing has 1")
points_over(by_p[0], by_p[1], 3, 6, "p = 0 over p = 1")
points_over(no_first, by_p[1], 1, 3, "p = 1 without u₁ over p = 1")
points_over(by_p[0], by_p[0.5], 0.5, 3, "p = 0 over p = ½")
points_over(by_p[0], by_p[0.25], -1, 1, "p = 0 over p = ¼")

# %% [markdown]
# P@1 rises from p = 1 to p = ½ and to p = 0; p = ¼ and 0 are not told apart. Nearly half of what
# p = 1 loses comes from u₁ alone. On STS p = ½ is ahead of p = 0 and both of p = 1, but 120 pairs
# are too few to tell them apart.
#
# ## a/(a + p): what a frequent word is worth
#
# Where does `weight` come from? Arora et al. (2017) let a sentence have a topic c. A word is drawn
# either by its frequency or by the topic:
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

ladder = {"random rows": score("random rows", bags(random_rows)),
          "co-occurrences": score("p = 0, no weights", bags(table_of(rows_of(0)))),
          "random rows,\nweights": score("random rows, weights", bags(random_rows * weight)),
          "co-occurrences,\nweights": by_p[0]}
raw = [score(f"p = 0, lengths as in U, {what}", bags(table_of(U) * factor))
       for what, factor in (("no weights", 1), ("weights", weight))]
points_over(by_p[0], ladder["co-occurrences"], 11, 15, "weights over none")
points_over(by_p[0], ladder["random rows,\nweights"], 3, 7, "co-occurrences over random rows")
points_over(raw[0], ladder["co-occurrences"], 4, 9, "no weights: U's lengths over unit rows")
points_over(raw[1], by_p[0], -1, 1, "weights: U's lengths over unit rows")
length = np.linalg.norm(U[1:], axis=1)                        # by falling frequency
expect(length[:10].mean() / length.mean(), 0.2, 0.5, "rows of U: ten most frequent words over all")
t, p = williams_test(by_p[0][1], ladder["random rows,\nweights"][1], own.labels)
expect(p, 0.05, 1, "STS, co-occurrences over random rows: p of Williams' test")

# %% [markdown]
# The weights are the largest step: 13 points. Without them "the" and "you" count as much as the
# words that matter. Co-occurrences bring 5 points over random rows, which only know whether two
# sentences share a word. On STS that step cannot be seen with 120 pairs.
#
# And unit rows by themselves are a *loss*. In U the ten most frequent words have rows a third as
# long as the mean, so U's own lengths do a part of what the weights do. With weights there is no
# difference. So unit rows leave the length to one formula; P@1 does not ask for them.
#
# ## The identity start
#
# The default encoder is u = normalise(x W), x the bag. With W = I, u is the weighted bag itself:

# %%
config = ModelConfig(embedding_dim=D, layers=[D])
table = initial_table(corpus, 10, config, np.random.Generator(np.random.Philox(1)))
ours = bags(table_of(rows_of(0)) * weight)                    # four sides, (B, 200) each
u, _ = dan_forward(initial_parameters(config, table, rng), texts[2], vocabulary.size)
expect(np.abs(u - unit(ours[2])).max(), 0, 1e-4, "the library's first encoder against our bags")

# %% [markdown]
# The usual start is a random W (Glorot), d × e. Take one column w of it. Over random w, the numbers
# x · w and y · w have mean 0 and the correlation cos(x, y). The e columns give e such pairs of
# numbers, and the cosine of x W and y W is their sample correlation. A correlation ρ estimated from
# e pairs has the standard error
#
# **(1 − ρ²)/√e**
#
# So a random matrix nearly keeps all cosines (Johnson and Lindenstrauss 1984).
#
# **Predict:** with e = 200 the error of a small cosine is 0.07. How much P@1 does that cost?

# %%
def cosines(sides):
    """Cosines of each input and its 99 wrong replies: (B, 99)."""
    return np.take_along_axis(unit(sides[0]) @ unit(sides[1]).T, candidates[:, 1:], axis=1)


before = cosines(ours)
expect(before.std(), 0.09, 0.13, "scatter of the cosines of wrong replies")
small = np.abs(before) < 0.5
for e in (50, 200, 800):
    W = (rng.uniform(-1, 1, (D, e)) * np.sqrt(6 / (D + e))).astype(np.float32)
    turned = [side @ W for side in ours]
    error = (cosines(turned) - before)[small] / (1 - before[small] ** 2)
    expect(error.std() * np.sqrt(e), 0.9, 1.1, f"e = {e}: error · √e")
    random_matrix = score(f"a random matrix, {D} × {e}", turned)
    if e == D:
        ladder["… and a\nrandom matrix"] = random_matrix
        points_over(by_p[0], random_matrix, 1, 5, "identity over random 200 × 200")

# %% [markdown]
# The wrong replies' cosines scatter by 0.11 themselves. An error of 0.07 in each of 99 lifts some
# of them above the true one.
#
# ## What a bias does to a cosine
#
# The bias b of a last layer is added to all sentence vectors x. It starts at 0, but training moves
# it. Let all x have length 1, let b be unrelated to them (x · b ≈ 0), and r = ‖b‖². Then
#
# cos(x + b, y + b) = (x · y + r)/(1 + r), with the mean (c̄ + r)/(1 + r), c̄ being the mean before.
#
# For c̄ ≈ 0 and vectors of any one length that mean is **‖b‖²/(‖b‖² + E‖x‖²)**. All cosines are
# squeezed towards 1 by one straight line. It changes no ranking, nor Pearson's r of the cosine.
#
# But bags have *different* lengths, and then each pair has a line of its own. For a large b two
# vectors are nearly parallel, and the angle between them is their distance over ‖b‖:
#
# 1 − cos(x + b, y + b) ≈ **‖x − y‖²/(2 ‖b‖²)**
#
# The ranking becomes that by Euclidean distance, in which short vectors are near to everything.
#
# **Predict:** P@1 with a huge b, for vectors of length 1, and for bags of their own lengths.

# %%
b = unit(rng.standard_normal((1, D))).astype(np.float32)
size = np.sqrt((ours[0] ** 2).sum(axis=1).mean())
shapes = {"length 1": [unit(side) for side in ours], "own length": [side / size for side in ours]}
ratios, curve, shifted = (0.1, 0.5, 2, 10, 100), {name: [] for name in shapes}, {}
for name, sides in shapes.items():
    for r in ratios:
        shifted[name, r] = [side + np.sqrt(r) * b for side in sides]
        curve[name].append(score(f"‖b‖² = {r}, {name}", shifted[name, r]))
for r in (0.1, 2, 10):
    mean = (before.mean() + r) / (1 + r)
    luck = 6 * np.sqrt(r * before.mean() / D) / (1 + r)       # b · (mean of x + mean of y), 3 times
    expect(cosines(shifted["length 1", r]).mean(), mean - luck, mean + luck,
           f"mean cosine, ‖b‖² = {r}; derived {mean:.3f}")

x, y = shapes["own length"][:2]
distance = (y * y).sum(axis=1) - 2 * x @ y.T                  # but for ‖x‖², the same in a row
nearest = np.take_along_axis(distance, candidates, axis=1).argmin(axis=1) == 0
points_over(curve["length 1"][-1], by_p[0], -1, 1, "length 1, ‖b‖² = 100 over no bias")
expect(curve["own length"][-1][0].mean() - nearest.mean(), -0.01, 0.01,
       f"own length, ‖b‖² = 100: P@1 less that by distance, {nearest.mean():.1%}")
t, p = williams_test(curve["own length"][-1][1], by_p[0][1], own.labels)
expect(t, -9, -2, f"STS, the same over no bias: Williams' t, p = {p:.1g}")

# %% [markdown]
# ### Finding the bias again
#
# Scale the shifted sentences to unit vectors u. Then mean u uᵀ = (C + b bᵀ)/(1 + r), where C is the
# mean of x xᵀ. If r is well above the largest eigenvalue of C, the first eigenvector is b. Project
# it out and make the length 1 again: x + b becomes x, less its part along b. One of 200 directions
# is lost.

# %%
def without_first(sides):
    """→ the sides less their part along the first eigenvector of mean u uᵀ; that vector."""
    sides = [unit(side) for side in sides]
    _, vectors = np.linalg.eigh(sum(side.T @ side for side in sides))         # by rising eigenvalue
    first = vectors[:, -1]
    return [side - np.outer(side @ first, first) for side in sides], first


repaired, first = without_first(shifted["own length", 100])
expect(abs(first @ b[0]), 0.99, 1.0001, "cosine of b and the first direction")
repaired = score("‖b‖² = 100, first direction removed", repaired)
points_over(repaired, by_p[0], -1, 3, "that over no bias")

# %%
figure, (left, middle, right) = plt.subplots(1, 3, figsize=(14, 4.5))
figure.get_layout_engine().set(wspace=0.05)
for p, color in ((1, "C3"), (0.5, "C1"), (0, "C2")):
    share = np.cumsum(sigma ** (2 * p)) / (sigma ** (2 * p)).sum()
    left.semilogx(np.arange(1, D + 1), 100 * share, color=color, label=f"p = {p}")
left.axvline(10, color="k", linestyle=":", linewidth=1)
left.set(xticks=[1, 10, 100], xticklabels=["1", "10", "100"], xlabel="directions, largest σ first",
         ylabel="share of the squared length, per cent",
         title="U Σ^p: with p = 1, ten of 200\ndirections have a third of the length")
left.legend()
rate = np.array([hits.mean() for hits, _ in ladder.values()])
middle.barh(list(ladder), 100 * rate, xerr=196 * np.sqrt(rate * (1 - rate) / len(pairs)),
            color=["C2" if scores is by_p[0] else "C7" for scores in ladder.values()])
middle.axvline(1, color="k", linestyle=":", linewidth=1)
middle.invert_yaxis()
middle.set(xlabel="P@1, per cent; dotted: guessing", ylabel="the encoder before training",
           title="No gradient so far: the default\nstart is right in one of five")
for (name, scores), marker in zip(curve.items(), "os"):
    right.semilogx(ratios, [100 * hits.mean() for hits, _ in scores], f"-{marker}", label=name)
right.axhline(100 * nearest.mean(), color="k", linestyle=":", label="by distance")
right.set(xticks=[0.1, 1, 10, 100], xticklabels=["0.1", "1", "10", "100"],
          xlabel="‖b‖² / mean ‖x‖²", ylabel="P@1, per cent", ylim=(0, None),
          title="A bias harms vectors of different\nlengths: cosine becomes distance")
right.legend()
show(figure, "07_before_the_first_step")

# %% [markdown]
# ### Exercise 2: break a ranking by a bias
#
# Find x, two replies y1 and y2, and a bias b, orthogonal to all three. By cosine y1 has to be
# nearer to x than y2, by 0.2 or more. After b has been added to all of them, y2 has to be nearer.

# %%
def harmful_bias():
    """→ x, y1, y2, b: (5,) each."""
    raise NotImplementedError


def judge_harmful(harmful_bias):
    *vectors, b = map(np.asarray, harmful_bias())
    cosine = lambda x, y: x @ y / (np.linalg.norm(x) * np.linalg.norm(y))
    assert max(abs(cosine(vector, b)) for vector in vectors) < 1e-9, "b is not orthogonal to them"
    x, y1, y2 = vectors
    gap = cosine(x, y1) - cosine(x, y2)
    assert gap >= 0.2, f"without b, y1 is ahead by {gap:.2f} only"
    gap = cosine(x + b, y1 + b) - cosine(x + b, y2 + b)
    assert gap < 0, (f"with b, y1 is still ahead, by {gap:.2g}; what do the formulas above say of "
                     "vectors of one length?")


check(2, harmful_bias, judge_harmful)

# %% [markdown]
# ## Where this lives
#
# - `model/word_vectors.py`: `cooccurrences`, `ppmi_svd`, `left_singular_vectors`.
#   `model/initial.py`: `initial_table`, `initial_parameters`.
# - `config.py`: `svd_share`, `frequency_weight`, `identity_start`, `encoder_bias`.
#   `evaluation/baselines.py`: SIF, which removes the first direction too.
#   `model/projection.py`: `all_but_the_top`, which does it for `encode` after training.
# - The paper does not say how its embeddings start. All of this is ours, after Levy, Goldberg and
#   Dagan (2015), Halko et al. (2011) and Arora et al. (2017). The README's table of results shows
#   P@1 before and after training: more than half of it is there before the first step.
#
# Next: lessons 8 and 9 derive the loss that teaches this encoder the rest.
#
# Solutions, for when you have tried: `lessons/solutions/07_before_the_first_step.py`.
