# %% [markdown]
# # A · Counting: what is known before the first step
#
# **Needs** bags and √n (lesson 8), the logarithm of a probability. Optional, best after lesson 22.
# **Gives** word vectors from counts alone; the weight a/(a + p); what σ does to a cosine.
# **Time** 55 minutes.
#
# **In thirty seconds.** Count which words occur near each other, compress the table, and
# give frequent words less weight: without a single gradient that picks the true reply among 100 in
# more than one case of six. Random rows do so in one of eighteen; the weights alone bring most of the rest.
#
# A network usually starts from random numbers, and training has to find out which words belong
# together. But a corpus can tell that before training: we only need to count which words occur near
# each other. This lesson builds the first weights of the default encoder that way, with 200 numbers
# a word. We score each ingredient on the real task: pick the true reply among 100 (guessing: 1%).

# %%
import sys

sys.path += [".", "lessons"]
from lesson import check, claim, expect, np, plt, seed, show
from before_training import D, Untrained, unit
from convsim_mini.core.gradcheck import numeric_gradient, relative_error
from convsim_mini.core.batches import Split
from convsim_mini.evaluation.sts import lead as lead_in_r
from convsim_mini.training.start import cooccurrences, left_singular_vectors, ppmi_svd

rng = np.random.default_rng(seed(18))

# %% [markdown]
# ## Pointwise mutual information, by hand
#
# n_wc counts how often the words w and c stand within five places of each other in a sentence. Each
# meeting counts twice: for (w, c) and for (c, w). T is the sum of all counts, n_w the sum of row w,
# p(w, c) = n_wc/T and p(w) = n_w/T. PMI compares p(w, c) with what it would be by chance:
#
# PMI(w, c) = ln p(w, c)/(p(w) p(c)) = ln n_wc T/(n_w n_c)
#
# It is **0 under independence**, and positive for words that meet more often than by chance. Twelve
# sentences of two words make T = 24:
#
# | sentence | times | n_wc T/(n_w n_c) | PMI |
# | --- | --- | --- | --- |
# | hot tea | 3 | 3 · 24/(3 · 7) = 24/7 | 1.23 |
# | warm tea | 3 | the same | 1.23 |
# | cold ice | 5 | 5 · 24/(6 · 5) = 4 | 1.39 |
# | cold tea | 1 | 1 · 24/(6 · 7) = 4/7 | −0.56 |
#
# **Predict:** "hot" and "warm" never meet. What cosine will their vectors have?

# %%
HOT, WARM, TEA, COLD, ICE = range(1, 6)                       # id 0 is the unknown word
sentences = 3 * [HOT, TEA] + 3 * [WARM, TEA] + 5 * [COLD, ICE] + [COLD, TEA]
tiny = Split(np.array(sentences, np.int32), np.arange(0, 25, 2), None)


def pmi_of(counts, smoothing=1.0):
    """PMI of each pair that was seen, CSR (W, W); smoothing: the power of p(c)."""
    row, column = (np.asarray(counts.sum(axis=axis)).ravel() for axis in (1, 0))
    context = column**smoothing / (column**smoothing).sum()
    pmi = counts.tocoo()
    pmi.data = np.log(pmi.data / (row[pmi.row] * context[pmi.col]))
    return pmi.tocsr()


counts = cooccurrences(tiny, 6)                               # (6, 6), symmetric
pmi = pmi_of(counts)
for w, c, by_hand in ((HOT, TEA, 24 / 7), (COLD, ICE, 4), (COLD, TEA, 4 / 7)):
    expect(pmi[w, c] - np.log(by_hand), -1e-6, 1e-6, f"PMI less ln {by_hand:.3g}, by hand")

# %% [markdown]
# ### Three repairs
#
# First we cut negative values. Most pairs are never seen, and a sparse table stores 0 for them. So
# (hot, ice), which was never seen, has 0, while (cold, tea), which was seen once, has −0.56: the
# order is wrong. **PPMI** = max(0, PMI) gives both 0.
#
# Then we take rare neighbours down. If c is the only neighbour of w, then PMI(w, c) = −ln p(c): the
# rarer c, the larger, although there is less evidence. So the library replaces p(c) by
# p(c)^(3/4)/Z, with Z = Σ p^(3/4). That adds ¼ ln p(c) + ln Z: a context of a tenth of the
# frequency loses 0.58 nats more. (From here on the table is no longer symmetric.)
#
# Last, we compress the rows. The singular value decomposition finds a few numbers for each word
# from which the rows can best be rebuilt. A table of two rows, (3, 3) and (4, 4), needs only one
# number a row: both rows are multiples of (1, 1)/√2, so
#
# (3, 3) = **0.6** · 5√2 · (1, 1)/√2 and (4, 4) = **0.8** · 5√2 · (1, 1)/√2
#
# 0.6 and 0.8 are the column of U, 5√2 is the singular value. The rows of U are our word vectors:
# similar rows of the table give similar vectors.

# %%
u, _, _ = np.linalg.svd(pmi_of(counts, 0.75).maximum(0).toarray())
by_hand, library = unit(u[1:, :4]), unit(ppmi_svd(tiny, 6, 4, rng)[1:])       # (5, 4) each
expect(np.abs(by_hand @ by_hand.T - library @ library.T).max(), 0, 1e-4,
       "all cosines: numpy's SVD of our PPMI against the library's ppmi_svd")
expect(library[HOT - 1] @ library[WARM - 1], 1 - 1e-4, 1 + 1e-4, "cosine of “hot” and “warm”")

# %% [markdown]
# "Hot" and "warm" never met, but they met the same word, so their cosine is 1. The vectors say
# which words are used in the same places.
#
# ### Exercise 1: strangers alike, companions not
#
# Write sentences in which "a" and "b" meet although their rows of the PPMI are unlike (cosine below
# 0.1), while "c" and "d" never meet and are alike (above 0.9). Other words are yours to choose.

# %%
def little_corpus():
    """→ a list of sentences, words with spaces between them."""
    raise NotImplementedError


def judge_little_corpus(little_corpus, rng):
    some = [sentence.split() for sentence in little_corpus()]
    ids = {word: k for k, word in enumerate(sorted({"a", "b", "c", "d"}.union(*some)), start=1)}
    meet = lambda one, other: any({one, other} <= {*words} for words in some)
    assert meet("a", "b") and not meet("c", "d"), "a and b have to meet, c and d must not"
    flat = np.array([ids[word] for words in some for word in words], np.int32)
    ends = np.cumsum([0, *map(len, some)])
    x = unit(pmi_of(cooccurrences(Split(flat, ends, None), len(ids) + 1)).maximum(0).toarray())
    for one, other, low, high in (("a", "b", -1, 0.1), ("c", "d", 0.9, 2)):
        cosine = x[ids[one]] @ x[ids[other]]
        assert low <= cosine <= high, (f"the cosine of {one} and {other} is {cosine:.2f}; which "
                                       "words do both of them meet?")


check(1, little_corpus, judge_little_corpus)

# %% [markdown]
# ## Real chat
#
# Now we count the 67,373 pairs of train, of 80,736 of `chitchat-dataset` (the code is in
# `before_training.py`). Some of the words are pieces, such as "##ing" (lesson 6). P@1 is measured on
# dev, whose conversations do not occur in train.

# %%
world = Untrained()
vocabulary, weight = world.corpus.vocabulary, world.weight
known = vocabulary.size                                       # the unknown word is row 0
counts = cooccurrences(world.corpus.train, known)             # CSR
pmi = pmi_of(counts, 0.75)
print(f"{counts.nnz:,} pairs of words were seen, {(pmi.data < 0).mean():.0%} of them with PMI < 0")

U = left_singular_vectors(pmi.maximum(0), D, world.draw)      # (words, 200)
x = unit(U)
for word in ("monday", "pizza", "guitar"):
    order = np.argsort(-x @ x[vocabulary.ids[word]])[1:6]     # the first is the word itself
    print(f"{word}:", *map(vocabulary.token, order))

# %% [markdown]
# ## P@1 without training
#
# A sentence is the bag of its words (lesson 8). We judge it by two numbers: P@1 on dev, and
# Pearson's r of the cosine with the scores of the project's own 120 pairs of sentences (STS).
#
# **Predict:** bags of *random* rows can tell only whether two sentences share a word. Is P@1 then
# 1%, 6% or 15%? What do co-occurrences add?

# %%
def lead(a, b):
    """P@1 of a less that of b, in points."""
    return 100 * (a[0].mean() - b[0].mean())


bags, score, table_of = world.bags, world.score, world.table_of
counted = table_of(x)
ladder = {"random rows": score("random rows", bags(world.random_rows)),
          "co-occurrences": score("co-occurrences", bags(counted))}
# %% [markdown]
# Random rows get 6%, and co-occurrences add next to nothing: "the" counts as much as words that
# matter.
#
# ## a/(a + p): what a frequent word is worth
#
# Suppose, with Arora et al. (2017), that a sentence has a topic, a vector c, and that each word is
# drawn either because it is frequent or because it fits the topic (Z hardly depends on c):
#
# p(w | c) = α p(w) + (1 − α) e^{v_w · c}/Z
#
# Which topic makes the words of a sentence most likely? Start at c = 0 and go uphill. The gradient
# of ln p(w | c) there is
#
# v_w · ((1 − α)/Z)/(α p(w) + (1 − α)/Z) = v_w · **a/(a + p(w))**,   a = (1 − α)/(α Z)
#
# So the best direction, to first order, is the sum of the vectors, each times a/(a + p). The factor
# is the probability that the word was drawn by the topic and not by its frequency. (Here a =
# 0.0003, the library's, chosen on dev; lesson 21 has Arora et al.'s 0.001.)

# %%
v, p = rng.standard_normal((6, 4)), np.array([0.3, 0.1, 0.05, 0.01, 1e-3, 1e-4])
alpha, Z, topic = 0.5, 40.0, np.zeros(4)
a = (1 - alpha) / (alpha * Z)
likelihood = lambda: float(np.log(alpha * p + (1 - alpha) * np.exp(v @ topic) / Z).sum())
expect(relative_error((a / (a + p)) @ v, numeric_gradient(likelihood, topic)), 0, 1e-8,
       "Σ a/(a + p) v, against differences")
ladder["random rows,\nweights"] = score("random rows, weights", bags(world.random_rows * weight))
default = ladder["co-occurrences,\nweights"] = score("co-occurrences, weights",
                                                     bags(counted * weight))
claim("P@1 of the default start, per cent; guessing gets 1", 100 * default[0].mean(), low=16)
neither, one, other, both = (100 * hits.astype(float) for hits, _ in ladder.values())    # (4000,)
print("P@1             no weights   weights\n"
      f"random rows     {neither.mean():10.1f}   {other.mean():7.1f}\n"
      f"co-occurrences  {one.mean():10.1f}   {both.mean():7.1f}")
claim("weights without co-occurrences, points", (other - neither).mean(), low=7)
expect((both - other).mean(), 1.5, 6, "co-occurrences, given weights, points")
expect((both - other - one + neither).mean(), 0, 6, "they help each other by, points")
(_, without), _, (_, with_weights), _ = ladder.values()
more, low, high = lead_in_r(world.own, with_weights, without)
print(f"STS: to random rows the weights bring {more:+.1f} [{low:+.1f}, {high:+.1f}], in pairs")
claim("STS: what the weights bring to random rows, in half-widths of the paired interval",
      2 * more / (high - low), low=0.7)

# %% [markdown]
# The weights bring 9.3 points and co-occurrences 0.3, but both together 12.4: they help each other.
# With the 120 pairs of STS only a large step can be seen, and only in pairs (lesson 21): the weights
# bring 11.6 points to random rows, with a 95% interval from 0.7 to 23. (For other random rows it may
# just reach 0: the gain is 0.9 to 1.4 of its half-widths in five seeds.)
#
# ## The identity start
#
# The default encoder is u = normalise(x W), where x is the bag. It starts with W = I, so u is the
# weighted bag itself. What would the usual start, a random matrix, do to it?

# %%
ours = bags(counted * weight)                                 # four sides, (B, 200) each

glorot = (rng.uniform(-1, 1, (D, D)) * np.sqrt(6 / (2 * D))).astype(np.float32)
ladder["… and a\nrandom matrix"] = score("and a random matrix", [side @ glorot for side in ours])
expect(lead(default, ladder["… and a\nrandom matrix"]), 1, 5, "identity over it, points")

# %% [markdown]
# The random W changes each small cosine by about 1/√200 = 0.07, and that is enough to lift some
# wrong replies above the true one.

# %%
figure, (*heats, axes) = plt.subplots(1, 4, figsize=(15, 4.2), width_ratios=[1, 1, 1, 1.7])
tables = cooccurrences(tiny, 6).toarray()[1:, 1:], pmi_of(
    cooccurrences(tiny, 6), 0.75).maximum(0).toarray()[1:, 1:], library @ library.T
for heat, table, title in zip(heats, tables, ("Counts", "PPMI, smoothed", "Cosines of U's rows")):
    heat.imshow(table, vmin=-2 * table.max(), vmax=2 * table.max())
    for i, j in zip(*np.nonzero(np.round(table, 1))):
        heat.text(j, i, f"{table[i, j]:.2g}", ha="center", va="center")
    heat.set(title=title, xlabel="word", ylabel="word")
    for put in (heat.set_xticks, heat.set_yticks):
        put(range(5), ("hot", "warm", "tea", "cold", "ice"))
rate = np.array([hits.mean() for hits, _ in ladder.values()])
axes.barh(list(ladder), 100 * rate, xerr=196 * np.sqrt(rate * (1 - rate) / len(default[0])),
          color=["C2" if scores is default else "C7" for scores in ladder.values()])
axes.axvline(1, color="k", linestyle=":", linewidth=1)
axes.invert_yaxis()
axes.set(xlabel="P@1, per cent; dotted: guessing", ylabel="the encoder before training",
         title="No gradient so far,\nand right in 18 of 100")
show(figure, "A_counting")

# %% [markdown]
# ## What σ does to a cosine
#
# The SVD writes M = U Σ Vᵀ. We took the rows of U (p = 0). Often one takes the rows of U Σ (p = 1)
# or of U √Σ (p = ½) instead. With U Σ^p
#
# x · y = Σᵢ **σᵢ^{2p}** u_xi u_yi
#
# All columns of U have length 1, so direction i has the share σᵢ^{2p}/Σⱼ σⱼ^{2p} of the squared
# length of all rows. With p = 0 each direction has 1/D. And the first direction is a nuisance: M
# has no negative number, so u₁ has none either (Perron, Frobenius): it adds to *every* dot product.
#
# **Predict:** what share do the first 10 of 200 directions have with p = 1? Which p is better for
# P@1?

# %%
sigma = np.linalg.norm(pmi.maximum(0).T @ U, axis=0)          # (200,)
by_p = {}
for p, low, high in ((1, 0.28, 0.4), (0.5, 0.08, 0.16), (0, 0.0499, 0.0501)):
    share = sigma ** (2 * p) / (sigma ** (2 * p)).sum()
    expect(share[:10].sum(), low, high, f"p = {p}: share of the first 10 directions")
    by_p[p] = score(f"p = {p}", bags(table_of(unit(U * sigma**p)) * weight))
claim("P@1 of p = 0, points over p = 1", lead(by_p[0], by_p[1]), low=1.5)

# %% [markdown]
# With p = 1 ten directions have more than a third of the squared length, with p = 0 a twentieth. By P@1 p = 0
# is 5 points better than p = 1, and 2 better than p = ½. (120 pairs, the second column, cannot
# tell these apart: lesson 21.)
#
# ### Exercise 2: U from products alone
#
# A table of 8,000 × 8,000 words is too large for `np.linalg.svd`, but a product with it is cheap. M Mᵀ
# stretches a vector along u_i by σ_i², so after many products what is left of any vector lies along the
# u_i of the largest σ. Find the first k columns of U (up to their signs) with `@` and `np.linalg.qr` alone.

# %%
def first_directions(M, k, rng):
    """M: (n, m), its σ all different → U: (n, k), the left singular vectors of the k largest σ."""
    raise NotImplementedError


def judge_first_directions(first_directions, rng):
    left, right = (np.linalg.qr(rng.standard_normal((n, 6)))[0] for n in (20, 15))
    M = left * [8.0, 5.0, 3.0, 1.0, 0.6, 0.2] @ right.T
    U = np.asarray(first_directions(M, 3, rng))
    assert U.shape == (20, 3), f"shape {U.shape}, expected (20, 3)"
    overlap = np.abs(U.T @ left[:, :3])                       # the identity, if all is right
    assert np.abs(overlap - np.eye(3)).max() < 1e-6, (
        f"|Uᵀ U*| is {overlap.round(3).tolist()}, expected the identity; what keeps the second "
        "column from turning into the first, and do you multiply often enough?")


check(2, first_directions, judge_first_directions)

# %% [markdown]
# ## Where this lives
#
# - `training/start.py`: `cooccurrences`, `ppmi_svd`, `left_singular_vectors` (Halko et al. 2011),
#   `initial_table`.
# - `minimal.py`: `initial_values` has the weights and the identity, on random rows.
# - The paper does not say how its embeddings start. All of this is ours, after Levy, Goldberg and
#   Dagan (2015) and Arora et al. (2017).

# %% [markdown]
# ## What you know now
#
# - Words that are used in the same places end up with similar vectors, from counts and an SVD.
# - This start has a P@1 of 18%, random rows with weights 15%: show it next to every training's.
# - A direction in which all vectors have one sign, such as u₁, adds to all of their dot products.
#
# To read on: [Vector semantics and embeddings](https://web.stanford.edu/~jurafsky/slp3/), a chapter
# of Jurafsky and Martin's book. Next: lesson B trains with many workers.
#
# Solutions, for when you have tried: `lessons/solutions/A_counting.py`.
