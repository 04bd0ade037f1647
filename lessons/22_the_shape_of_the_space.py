# %% [markdown]
# # 22 · The shape of the space: directions, hubs, and the one that all share
#
# **Needs** the batch softmax (lessons 4 and 5), unit vectors and the scale (lesson 9), P@1 (lesson
# 18); what an eigenvector of a symmetric matrix is.
# **Gives** three numbers for a cloud of vectors: the participation ratio, the share of the first
# direction, the largest hub. Why training makes a first direction, and what removing it does.
# **Time** 75 minutes, in two parts; the second begins at "Hubs".
#
# **In thirty seconds.** Trained at scale 40, an encoder of 200 directions puts half of
# the squared length of its vectors into one that all sentences share. The softmax rewards it, since
# it turns down a scale that is too high. The price is hubs, sentences near to everything. Taking
# that direction away makes a search better, but a sensible scale, such as 15, does as much.
#
# An encoder gives 200 numbers for each sentence. Are all 200 directions in use? Are cosines of
# unrelated sentences near 0? Does a search sometimes give the same answer to every question?

# %%
import sys
from itertools import islice

sys.path += [".", "lessons"]
from lesson import check, claim, expect, np, plt, seed, show
from small_encoder import some_chat
from convsim_mini.config import Config, ModelConfig, OptimConfig, TextConfig
from convsim_mini.core.layers import l2_normalize_forward
from convsim_mini.core.loop import train_steps
from convsim_mini.core.model import embed, respond
from convsim_mini.core.optim import Adaptive
from convsim_mini.core.ranking import draw_candidates
from convsim_mini.core.batches import batches
from convsim_mini.training.measures import ranks_of_truth
from convsim_mini.inference.sentence_encoder import with_matrix
from convsim_mini.training.start import initial_model

rng = np.random.default_rng(seed(23))
unit = lambda x: l2_normalize_forward(x)[0]

# %% [markdown]
# ## How many directions are in use?
#
# Take n unit vectors u_i, the rows of U, and C = UᵀU/n, the mean of u uᵀ. Its eigenvalues λ₁ ≥ λ₂ ≥ … ≥ 0 say how
# much of the squared length lies along each eigenvector, and they sum to 1, because each u has length 1. Now suppose
# k of them are equal and the others 0. Then k directions are in use, and Σ λ² = k · (1/k)² = 1/k. So we take
#
# **PR = 1/Σ λ²**
#
# as an effective number of directions, the participation ratio. It lies between 1 and D. With half of the vectors
# along (1, 0) and half along (0, 1), λ = ½, ½ and PR = 2. With three of four along the first, PR = 1/(9/16 + 1/16) =
# 1.6. But one large λ decides it almost alone: PR = 4 may mean four equal directions, or one with half of the squared
# length and the other half spread over a hundred. Σ λ² is also the sum of the squares of all entries of C, and
#
# ‖C‖² = (1/n²) Σ_ij (u_i · u_j)²
#
# So **1/PR is the mean squared cosine of two vectors.** (With i = j among the pairs, 1/n of them.)

# %%
def shape(u):
    """PR, the eigenvalues λ (D,) by falling size, the eigenvectors (D, D) as columns: u (n, D)."""
    values, vectors = np.linalg.eigh(u.T.astype(float) @ u / len(u))
    return 1 / (values**2).sum(), values[::-1], vectors[:, ::-1]


sphere = unit(rng.standard_normal((2_000, 200)))              # any direction is as likely as any
ratio, _, _ = shape(sphere)
cosines = sphere @ sphere.T
expect(ratio * (cosines**2).mean(), 1 - 1e-9, 1 + 1e-9, "PR times the mean squared cosine")
expect(1 / (1 / ratio - 1 / 2_000), 195, 207,
       "random directions: PR without the n self-pairs; derived 200")

# %% [markdown]
# For random directions the mean of cos² is 1/D by symmetry (Σ over the D axes is 1), so PR = D.
#
# ### Exercise 1: the mean cosine, without cosines
#
# How large is the mean cosine of two *different* sentences? A million sentences have half a trillion pairs, so find
# it in one pass over the rows. (Start from the sum of all u_i · u_j. Which pairs do not belong to it?)

# %%
def mean_cosine(u):
    """u: (n, D), rows of length 1 → the mean of u_i · u_j over all pairs with i ≠ j."""
    raise NotImplementedError


def judge_mean_cosine(mean_cosine, rng):
    class Counted(np.ndarray):
        def __array_finalize__(self, other):                  # of each array that u turns into
            numbers.append(self.size)

    for n, shift in ((4, 0.0), (500, 0.4)):
        u, numbers = unit(rng.standard_normal((n, 6)) + shift), []
        found, right = float(mean_cosine(u.view(Counted))), (u @ u.T)[~np.eye(n, dtype=bool)].mean()
        assert abs(found - right) < 1e-9, (
            f"{n} vectors: {found:.4f}, expected {right:.4f}; is the cosine of a vector with "
            "itself among yours, and how many pairs are left?")
        assert n < 500 or sum(numbers) < n * n / 2, (
            "right, but it makes n² products; the sum of all u_i · u_j is the square of one vector")


check(1, mean_cosine, judge_mean_cosine)

# %% [markdown]
# ## Real sentences
#
# We train the default encoder with 200 numbers on 35,566 of 42,888 pairs of `chitchat-dataset`, in up to 140 steps of
# 256, from the counted start (lesson A): at our scale of 15, and at 40, to see the effect enlarged. All vectors below
# are those of sentences of dev, each text once.

# %%
PAIRS, PIECES, D = 40_000, 8_000, 200
corpus = some_chat(PAIRS, PIECES)
vocabulary, dev = corpus.vocabulary, corpus.dev
_, once = np.unique(dev.keys.reshape(-1), return_index=True)
texts = dev.sentences(np.sort(once)[:2_500])
text = lambda i: " ".join(map(vocabulary.token, texts.part(i, i + 1).ids)).replace(" ##", "")


def training(scale, steps):
    """From the counted start, batches of 256 pairs: yields the step and a Model at MARKS."""
    config = Config(text=TextConfig(PIECES), steps=140, seed=seed(23),
                    model=ModelConfig(embedding_dim=D, layers=[D], scale=scale),
                    optim=OptimConfig(batch_size=256, learning_rate=1e-3))
    model = started._replace(config=config.model, params=copy(started.params))
    optimizer = Adaptive(model.params)
    yield 0, started._replace(config=config.model)
    of_steps = islice(batches(config, corpus.train), steps)
    for done, _ in train_steps(model, optimizer, config, of_steps):
        if done in MARKS:
            yield done, model._replace(params=copy(model.params))


MARKS = 10, 20, 40, 80, 140
copy = lambda params: {name: p.copy() for name, p in params.items()}
started = initial_model(Config(text=TextConfig(PIECES), seed=seed(23),
                               model=ModelConfig(embedding_dim=D, layers=[D])), corpus)
at_15, at_40 = (dict(training(scale, steps)) for scale, steps in ((15.0, 80), (40.0, 140)))
usual, model = at_15[80], at_40[80]

# %% [markdown]
# **Predict:** what is PR at the start? After 80 steps at 15, more? And at 40?

# %%
u_start, u_15, u = (embed(each, texts) for each in (started, usual, model))    # (2500, 200) each
figure, axes = plt.subplots()
for name, x, low, high, color in (
        ("counted start", u_start, 40, 75, "C0"), ("80 steps at 15", u_15, 45, 85, "C2"),
        ("80 steps at 40", u, 3, 7, "C3")):
    ratio, values, vectors = shape(x)
    mean = x.mean(axis=0)
    expect(ratio, low, high, f"{name}: PR of 200 directions")
    expect(values[0], mean @ mean, 1, "    λ₁; at least ‖mean‖², which is the mean cosine")
    expect(abs(vectors[:, 0] @ unit(mean[None])[0]), 0.9, 1.0001, "    cosine of e₁ and the mean")
    axes.loglog(np.arange(1, D + 1), values, color=color, label=f"{name}: PR {ratio:.0f}")
even = 1 / (values[0] ** 2 + (1 - values[0]) ** 2 / (D - 1))  # of the last one, at 40
expect(even, 3, 7, "PR at 40, if the other 199 directions were perfectly even")
claim("scale 15: PR after 80 steps / at the start", shape(u_15)[0] / shape(u_start)[0], low=1)
claim("scale 40: PR after 80 steps / at the start", shape(u)[0] / shape(u_start)[0], high=0.5)
axes.axhline(1 / D, color="k", linestyle=":", label=f"random: PR {D}")
axes.set(xlabel="direction, largest first", ylabel="share of the squared length, λ", ylim=(1e-4, 1),
         title="At scale 40 one direction gets half of the squared length")
show(figure, "22_the_shape_of_the_space")

# %% [markdown]
# PR is 53 at the start; at scale 15 it rises to 60, and at 40 it falls to 3.9. That does not mean that 196 directions
# lie idle, because λ₁ = 0.50 gives this PR however even the others are. The vectors have **one direction that all
# sentences share**, and at scale 40 training makes it stronger. e₁ is nearly the direction of the mean, and ‖mean‖²
# is nearly λ₁. (It is never above λ₁, the largest mean of (u · d)² over all directions d.)
#
# ## Why does training make it?
#
# Softmax does not see a number that is added to all scores of a row (lesson 4). Let m be the mean of all replies, and
# write each reply as v′ = m + ṽ. Its score is s u · m + s u · ṽ. The first part is the same for all replies to u, so
# softmax is blind to it. What counts is the second, and it is small for two reasons. ṽ is short: the mean of ‖ṽ‖² is
# 1 − ‖m‖². And ṽ is nearly at a right angle to m (m + ṽ keeps its length), so of u, too, only the part at a right
# angle to m counts. Softmax behaves as if the scale were the **effective scale**
#
# **s √(1 − ‖m‖²) √(1 − mean((u · m/‖m‖)²))**
#
# At s = 15 and above the scores are too far apart at the start: the loss is above ln K (lesson 18),
# and a smaller scale would lower it. But the scale is a constant, and nobody may change it. There
# is a way around that: if all replies move towards one m, the *effective* scale falls. The common
# direction is the knob of a thermostat, and training turns it until the softmax is no longer too
# sure. At s = 10 the loss is not above ln K, so a good thermostat would turn the other way.
#
# **Predict:** train 80 steps with s = 10, 15, 20, 40. Where will λ₁ of u be the largest? And the
# effective scale? And for s = 40, what if training continues?

# %%
drawn = rng.choice(dev.pairs, 500, replace=False)    # in order they would be of few conversations


def direction(model):
    """λ₁ of u, ‖m‖², spread of the wrong scores, effective scale, loss − ln K: 500 pairs of dev."""
    messages, replies = (embed(model, dev.sentences(2 * drawn + side)) for side in (0, 1))
    v_prime = respond(model, replies)
    m = v_prime.mean(axis=0)
    scores = model.config.scale * messages @ v_prime.T
    wrong = scores[~np.eye(500, dtype=bool)].reshape(500, 499)
    along = messages @ unit(m[None])[0]                       # u · m/‖m‖
    left_over = np.sqrt((1 - m @ m) * (1 - (along**2).mean()))
    spread, loss = wrong.std(axis=1).mean(), np.log(np.exp(scores).mean(axis=1)) - scores.diagonal()
    return shape(messages)[1][0], m @ m, spread, model.config.scale * left_over, loss.mean()


print("counted start: λ₁ {:.2f}, ‖m‖² {:.2f}".format(*direction(started)))
history = {s: {step: direction(then) for step, then in some} for s, some in (
    (10.0, training(10.0, 80)), (15.0, at_15.items()), (20.0, training(20.0, 80)),
    (40.0, at_40.items()))}
figure, axes = plt.subplots()
for (s, by_step), color in zip(history.items(), ("C4", "C0", "C3", "C1")):
    print(f"scale {s:2.0f}: loss − ln K {by_step[0][4]:+.2f}, effective scale {by_step[0][3]:.1f}, "
          "after 80 steps {3:.1f}, λ₁ {0:.2f}, ‖m‖² {1:.2f}, spread {2:.2f}".format(*by_step[80]))
    axes.plot(list(by_step), [scale for *_, scale, _ in by_step.values()], "o-", color=color,
              label=f"s = {s:.0f}")
axes.set(xlabel="step", ylabel="effective scale", ylim=(0, None),
         title="A scale that is too high comes down; all four end at 9 to 12")
show(figure, "22_thermostat")
expect(history[40.0][80][0] / history[10.0][80][0], 4, 20, "λ₁ at scale 40 / at scale 10")
claim("effective scale, 40 / 10; the scales themselves: 4",
      history[40.0][80][3] / history[10.0][80][3], 0.6, 1.6)
per_scale = [spread / scale for _, _, spread, scale, _ in (
    direction(started), *(by_step[80] for by_step in history.values()))]
print("spread / effective scale, start, 10, 15, 20, 40:", *np.round(per_scale, 3))
expect(max(per_scale) / min(per_scale), 1, 2, "the largest of these / the least")
expect(history[40.0][140][3] - history[40.0][80][3], -1, 3, "effective scale: 140 steps less 80")

# %% [markdown]
# λ₁ is the largest at s = 40. From 10 to 40 the scale grows fourfold, and so does the effective scale at the start,
# from 9 to 36; after 80 steps it is 9 to 12 for all four. At 10, where the loss begins at ln K, it *rises*, from 8.9
# to 9.5. The layers of the reply turn the knob first: at s = 15 they do so alone (‖m‖² is 0.39, and λ₁ of u has not
# risen). At s = 40 that is not enough, and u moves as well. With 60 more steps it rises by 0.4 to 0.7.
#
# At 10 and 15 λ₁ stays near that of the start or below. So frequent words by themselves are not the
# reason: they are the same at every scale. The spread of the wrong scores is 0.10 to 0.15 times the
# effective scale, before training and after, so the formula holds within a factor of 1.6.
#
# ## Hubs
#
# A common direction has a price. Let every sentence have the cosine c with it, u = c d + √(1 − c²) w, where the w are
# unrelated. Two such sentences have the cosine **c²**. But a vector that points along d itself has the cosine **c**
# with every one of them: for c = 0.7 that is 0.7 against 0.49. Whatever the question, a search answers with it. Such
# a vector is called a **hub** (Radovanović et al. 2010).
#
# Let N(x) be the number of sentences that have x among their ten nearest. Its mean is always 10.
#
# **Predict:** how large is the largest N of 2,500 sentences, at the start and after training: 15, 50, or above 100?

# %%
def hub_counts(u, k=10):
    """N of each row: how many others have it among their k nearest; u (n, D) → (n,)."""
    cosines = u @ u.T
    np.fill_diagonal(cosines, -2)
    nearest = np.argpartition(-cosines, k, axis=1)[:, :k]
    return np.bincount(nearest.ravel(), minlength=len(u))


counts = {"random directions": hub_counts(unit(rng.standard_normal((2_500, 200)))),
          "counted start": hub_counts(u_start), "80 steps at 15": hub_counts(u_15),
          "80 steps at 40": hub_counts(u)}
for name, N in counts.items():
    print(f"{name}: the largest N is {N.max()}, {(N == 0).sum()} sentences have N = 0")
worst, to_mean = np.argsort(-N)[:20], u @ u.mean(axis=0)      # of the last one, at 40
rank = 1 + (to_mean > to_mean[worst[:10], None]).sum(axis=1)  # 1: the nearest to the mean
for i, place in zip(worst[:4], rank):
    print(f"    N = {N[i]}, place {place}, {texts.lengths[i]} tokens: {text(i)[:60]}")
print(f"tokens: the 20 worst {texts.lengths[worst].mean():.0f}, all {texts.lengths.mean():.0f}")
claim("largest N after 80 steps at 40; random directions: some 23", N.max(), low=250)
claim("ten largest hubs: the last place by the cosine to the mean, of 2,500", rank.max(), high=250)

# %% [markdown]
# At scale 40 the largest hub is the neighbour of 403 sentences, forty times the mean; at 15 of 76,
# half as many as at the start. As derived, the hubs lie along d: ordered by the cosine to the mean,
# the ten largest are among the first 71 of 2,500. Most of the worst are long, rambling turns.
#
# ## Removing it
#
# Let d be the first eigenvector. The matrix I − d dᵀ removes it, `with_matrix` multiplies that into
# the encoder's last layer, and then each vector gets length 1 again. What will PR be? λ₁ is gone,
# and the others, if all lengths shrink alike, grow by 1/(1 − λ₁):
#
# **PR = (1 − λ₁)²/(Σ λ² − λ₁²)**

# %%
ratio, values, vectors = shape(u)
d = vectors[:, :1]
by_hand = unit(u - (u @ d) @ d.T)
freed = embed(with_matrix(model, np.eye(D) - d @ d.T), texts)
expect(np.abs(by_hand - freed).max(), 0, 1e-4, "the library's vectors less ours")
derived = (1 - values[0]) ** 2 / ((values**2).sum() - values[0] ** 2)
expect(shape(freed)[0] / derived, 0.85, 1.15, f"PR without e₁ over the derived {derived:.0f}")
largest = hub_counts(freed).max()
expect(largest / counts["80 steps at 40"].max(), 0.05, 0.5,
       f"the largest hub, {largest}, over that before")

# %% [markdown]
# The largest hub is far smaller now. Does that help a *search* by cosine: is the true reply the
# nearest of 100 to its message more often? (Both sides are plain vectors u here.)
#
# **Predict:** remove the first k directions, k = 0, 1, 2, 5, 10, 20, 50. Which k makes the search
# best? And at scale 15, is one direction less better than none?

# %%
pairs, candidates = draw_candidates(dev, 1_500)


def hits_without(k, model, vectors):
    """Where the true reply is first, without the first k directions: 0 or 100 each."""
    keep = vectors[:, k:].astype(np.float32)                  # orthonormal: cosines stay
    both = (unit(embed(model, dev.sentences(2 * pairs + side)) @ keep) for side in (0, 1))
    return 100.0 * (ranks_of_truth(*both, candidates) == 1)


hits = {k: hits_without(k, model, vectors) for k in (0, 1, 2, 5, 10, 20, 50)}
hits_15 = [hits_without(k, usual, shape(u_15)[2]) for k in (0, 1)]
for k in hits:
    print(f"P@1 at 40 without the first {k:2}: {hits[k].mean():.1f}",
          f"  at 15: {hits_15[k].mean():.1f}" if k < 2 else "")
error = (hits[1] - hits[0]).std() / np.sqrt(len(pairs))
print(f"one direction less: standard error of the difference {error:.1f} points")
claim("P@1 without the first direction, points more", (hits[1] - hits[0]).mean(), low=0.5)
claim("P@1 at 15, all directions, over 40 without the first", (hits_15[0] - hits[1]).mean(), low=-1)
expect(hits[1].mean() - hits[20].mean(), 1, 8, "P@1 lost if 20 are removed instead of one")

# %% [markdown]
# At scale 40 removing one direction gives back three points, 15.9 → 19.2 (4.5 to 5.5 in other seeds). One
# or two are best. Removing twenty loses most of that again, because later directions tell sentences apart.
# A training at scale 15 has 20.7 with nothing removed (in five seeds 0.3 to 1.4 points more than 40
# without its first direction), and removing a direction there changes it by −0.4 to 0.9: choose the scale first.
#
# ## Where this lives
#
# - `inference/sentence_encoder.py`: `with_matrix`. `config.py`: `scale` (ours: 15; the paper: 1,
#   with v′ of any length). At 15 the library removes no direction.
# - Removing common directions: Arora et al. (2017) for bags, Mu and Viswanath (2018) for words.

# %% [markdown]
# ## What you know now
#
# - 1/PR is the mean squared cosine: a direction that all share lowers PR.
# - Too high a scale makes one: it lowers the effective scale, and vectors along it become hubs.
# - Removing that one helps a search; a sensible scale helps as much, and from the start.
#
# To read on: [Understanding contrastive representation learning through alignment and
# uniformity](https://arxiv.org/abs/2005.10242). Next: lesson 23, a good number that was wrong.
#
# Solutions, for when you have tried: `lessons/solutions/22_the_shape_of_the_space.py`.
