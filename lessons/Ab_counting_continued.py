# %% [markdown]
# # A · Counting, continued: singular values, and a bias
#
# **Needs** lesson A. Optional, best after lesson 22; nothing builds on it.
# **Gives** what singular values do to a cosine; why the encoder's last layer has no bias.
# **Time** 35 minutes.
#
# The default encoder starts from the rows of U, and its last layer has no bias (lessons 8 and A).
# Here both are compared with the usual choice. Lesson 22 found a direction that all sentences
# share, and it made a search worse. Each of the usual choices adds such a direction. Read this
# lesson if all cosines of your vectors are large.

# %%
import sys

sys.path += [".", "lessons"]
from lesson import check, claim, expect, plt, seed, show
from before_training import D, Untrained, points_over, unit

import numpy as np

from convsim_mini.training.word_vectors import cooccurrences, left_singular_vectors

rng = np.random.default_rng(seed(18))

# %% [markdown]
# ## What σ does to a cosine
#
# The SVD writes M = U Σ Vᵀ, here of lesson A's PPMI with the ¾. (The library's
# `left_singular_vectors` finds the first columns of U from random ones, by a few products with M:
# Halko et al. 2011.) Word vectors are often the rows of U Σ (p = 1) or of U √Σ (p = ½). Under U Σ^p
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
world = Untrained()
vocabulary, weight = world.corpus.vocabulary, world.weight
bags, score, table_of = world.bags, world.score, world.table_of
ppmi = cooccurrences(world.corpus.train, 1 + len(vocabulary.words)).tocoo()     # (8001, 8001)
total = np.bincount(ppmi.row, ppmi.data, minlength=ppmi.shape[0])             # it is symmetric
smooth = total**0.75 / (total**0.75).sum()
ppmi.data = np.maximum(np.log(ppmi.data / (total[ppmi.row] * smooth[ppmi.col])), 0)
ppmi = ppmi.tocsr().astype(np.float32)

U = left_singular_vectors(ppmi, D, world.draw)                # (8001, 200)
sigma = np.linalg.norm(ppmi.T @ U, axis=0)                    # (200,)
w, c = rng.integers(1, ppmi.shape[0], (2, 100_000))           # random pairs of words
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

# %%
figure, axes = plt.subplots()
for p, color in ((1, "C3"), (0.5, "C1"), (0, "C2")):
    share = np.cumsum(sigma ** (2 * p)) / (sigma ** (2 * p)).sum()
    axes.semilogx(np.arange(1, D + 1), 100 * share, color=color, label=f"p = {p}")
axes.axvline(10, color="k", linestyle=":", linewidth=1)
axes.set(xticks=[1, 10, 100], xticklabels=["1", "10", "100"], xlabel="directions, largest σ first",
         ylabel="share of the squared length, per cent",
         title="U Σ^p: with p = 1, ten of 200 directions have a third of the length")
axes.legend()
show(figure, "Ab_counting_continued")

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
ours = bags(table_of(rows_of(0)) * weight)                    # four sides, (B, 200) each
b = 10 * unit(rng.standard_normal((1, D))).astype(np.float32)             # ‖b‖² = 100
size = np.sqrt((ours[0] ** 2).sum(axis=1).mean())
shapes = {"length 1": [unit(side) for side in ours], "own length": [side / size for side in ours]}
shifted = {name: [side + b for side in sides] for name, sides in shapes.items()}
found = {name: score(f"‖b‖² = 100, {name}", sides) for name, sides in shifted.items()}
points_over(found["length 1"], by_p[0], -1, 1, "length 1, ‖b‖² = 100 over no bias")
points_over(by_p[0], found["own length"], 7, 14, "no bias over ‖b‖² = 100, own length")
claim("P@1 without a bias, points over ‖b‖² = 100, own length", lead(by_p[0], found["own length"]),
      low=5)

# %% [markdown]
# For vectors of length 1 a bias changes the size of the cosines and nothing else. With their own
# lengths P@1 falls by half: it is that of the distance now.
#
# ### Exercise 1: undo a bias
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


check(1, without_bias, judge_without_bias)

# %% [markdown]
# ### Exercise 2: break a ranking by a bias
#
# Find x, two replies y1 and y2, and a bias b, orthogonal to all three. By cosine y1 has to be
# nearer to x than y2, by 0.2 or more. After b has been added to all of them, y2 has to be nearer.

# %%
def harmful_bias():
    """→ x, y1, y2, b: (5,) each."""
    raise NotImplementedError


def judge_harmful(harmful_bias, rng):
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
# - `training/word_vectors.py`: `left_singular_vectors`. `config.py`: `encoder_bias`.
#   `evaluation/baselines.py`: SIF, which removes the first direction too.
#   `inference/projection.py`: `all_but_the_top`, which does it for `encode` after training.
# - After Levy, Goldberg and Dagan (2015) and Halko et al. (2011).

# %% [markdown]
# ## Claims
#
# Over five seeds, as `python -m lessons.claims 26` prints it. The last column says which values would refute the claim.
#
# | claim | mean ± sd | least to most | refuted |
# | --- | --- | --- | --- |
# | P@1 of p = 0, points over p = 1 | 3.82 ± 0.4 | 3.3 to 4.29 | below 1.5 |
# | P@1 without a bias, points over ‖b‖² = 100, own length | 10.4 ± 0.5 | 9.84 to 11.1 | below 5 |

# %% [markdown]
# ## What you know now
#
# - The larger p in U Σ^p, the larger is the part of u₁ in all cosines.
# - A bias moves the cosines of vectors of length 1 towards 1, and changes no ranking.
# - With different lengths a large bias turns cosine into distance: short vectors are near to all.
#
# Solutions, for when you have tried: `lessons/solutions/Ab_counting_continued.py`.
