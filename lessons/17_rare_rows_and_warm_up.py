# %% [markdown]
# # 17 · Rare rows and warm-up: large steps for rare words, small ones at first
#
# **Needs** Adam (lesson 16), sparse rows of a table (lesson 7).
# **Gives** row-wise Adagrad and warm-up, and why the library uses Adam only for matrices.
# **Time** 45 minutes.
#
# **In thirty seconds.** Rare words need large steps and frequent ones small steps, which
# no single rate can give. Adagrad gives each row a rate that falls with its own use. Adam comes
# close, but its means go through all rows in every step, and take two more tables of memory. And
# because the first steps of both are a full rate long, be the gradient signal or noise, the rate
# starts near zero: warm-up.

# %%
import sys

sys.path += [".", "lessons"]
from lesson import check, claim, expect, np, plt, seed, show
from convsim_mini.config import OptimConfig
from convsim_mini.core.embeddings import SparseRows
from convsim_mini.core.gradcheck import dense
from convsim_mini.core.optim import Adaptive, adam, update_rows
from convsim_mini.core.loop import rates

rng = np.random.default_rng(seed(16))


def adam_moves(gradients, first=1):
    """The library's Adam, rate 1: what each step adds to x. gradients: (T, …) → (T, …)"""
    x, m, s = np.zeros((3, *np.shape(gradients)[1:], 1))
    places = [x.copy()]
    for t, g in enumerate(gradients, start=first):
        adam([x], [np.asarray(g, float)[..., None]], [m], [s], t, 1.0, 0.9, 0.999, 1e-12)
        places.append(x.copy())
    return np.diff(places, axis=0)[..., 0]


# %% [markdown]
# ## A table of words is a bowl
#
# Word r occurs in a text with frequency p_r, and its row has a gradient only then. So its
# curvature, averaged over batches, is proportional to p_r, and κ = p_1/p_R. For a thousand words by
# Zipf's law, p_r ∝ 1/r, κ is a thousand. Each row is pulled towards a target, seen through noise:

# %%
words, d, batch, steps = 1000, 8, 256, 500
p = 1 / np.arange(1, words + 1)
p /= p.sum()
target = rng.standard_normal((words, d))


def gradient_of(table, draw, noise=1.0):
    """The gradient of ½ mean ‖E_w − target_w − noise‖² over a batch of words."""
    rows, count = np.unique(draw.choice(words, batch, p=p), return_counts=True)
    pull = count[:, None] * (table[rows] - target[rows])
    pull += np.sqrt(count)[:, None] * noise * draw.standard_normal((len(rows), d))
    return [SparseRows(rows, pull / batch, np.arange(len(rows)))]


# %% [markdown]
# With a constant rate 2/p_1 = 15 is the limit for SGD. Adam helps, but it has two faults here.
#
# - It is dense: m and s are two more tables (71 MB for the default one of 17,635 rows; one sum per
#   row takes 0.07 MB), and every step goes through all rows.
# - It keeps moving rows that are *not* in the batch. A word occurs once, after many steps, with a
#   gradient g: m = 0.1 g, s = 0.001 g². Its row jumps by 3.16 rates. Then m and √s shrink by
#   0.9 and √0.999 a step, and the row moves on:
#
# 0.1/√0.001 · Σ_k (0.9/√0.999)^k = **31.8 rates, for one occurrence.**

# %%
after_one = -adam_moves(np.append(0.02, np.zeros(200)), first=10_000)
expect(after_one.sum(), 31, 32, "Adam, one occurrence: how far the row travels, in rates")

# %% [markdown]
# **Adagrad** (Duchi et al. 2011) divides by the root of the *sum* of all squares so far. If a row's
# gradients all have one size, its k-th update is 1/√k of the first, however many steps lie between
# two updates. A row that is not in the batch stays. Ours keeps one sum for a row, of the mean
# square of its gradient:
#
# s_r ← s_r + mean(g_r²),  E_r ← E_r − rate · g_r/√s_r
#
# So the first update of a row has the rms **rate**, however small the gradient. After k updates of
# one size and direction it has gone rate · (1 + 1/√2 + … + 1/√k) ≈ 2 rate √k.
#
# **Predict:** SGD's error over Adagrad's, at the best of three rates: for frequent words? Rare
# ones?

# %%
def trained(kind, rate):
    """Each row's mean squared error after `steps` batches, and a rare row's path.

    The rate falls to zero.
    """
    path, table, draw = [], np.zeros((words, d)), np.random.default_rng(seed(1))
    (m, s), squares = np.zeros((2, words, d)), np.full(words, Adaptive.FIRST_SQUARE)
    for t in range(1, steps + 1):
        grad = gradient_of(table, draw)
        now = rate * (1 - (t - 1) / steps)
        if kind == "Adam":
            adam([table], [dense(grad, table)], [m], [s], t, now, 0.9, 0.999, 1e-8)
        else:
            update_rows(table, grad, now, squares if kind == "Adagrad" else None)
        path.append(table[RARE, 0])
    return ((table - target) ** 2).mean(axis=1), path


RARE, chosen, paths = 600 + np.abs(target[600:700, 0]).argmax(), {}, {}    # it has far to go
for kind, some in (("SGD", (3, 7, 14)), ("Adam", (0.03, 0.1, 0.2)), ("Adagrad", (0.3, 0.7, 1.5))):
    errors = [trained(kind, rate) for rate in some]
    chosen[kind], paths[kind] = min(errors, key=lambda each: each[0].mean())
    for rate, (error, _) in zip(some, errors):
        print(f"{kind:8} rate {rate:<5} error, words 1 to 10: {error[:10].mean():.4f}   "
              f"101 to 1000: {error[100:].mean():.3f}")
claim("words 101 to 1000: error of SGD, rate 14 / of Adagrad, best rate",
      chosen["SGD"][100:].mean() / chosen["Adagrad"][100:].mean(), low=2)
claim("… of Adam / of Adagrad", chosen["Adam"][100:].mean() / chosen["Adagrad"][100:].mean(), low=1)
claim("words 1 to 10: error of SGD / of Adagrad, at those rates",
      chosen["SGD"][:10].mean() / chosen["Adagrad"][:10].mean(), low=1)
claim("share of SGD's error in words 101 to 1000", chosen["SGD"][100:].sum() / chosen["SGD"].sum(),
      low=0.95)

figure, (axes, rare) = plt.subplots(1, 2, figsize=(12, 4.4), width_ratios=[1.2, 1])
edges = np.unique(np.geomspace(1, words, 13).astype(int))
for kind, color in (("SGD", "C0"), ("Adam", "C2"), ("Adagrad", "C1")):
    means = [chosen[kind][a - 1:b - 1].mean() for a, b in zip(edges, edges[1:])]
    axes.loglog(np.sqrt(edges[:-1] * edges[1:]), means, "o-", color=color, label=kind)
    rare.plot(paths[kind], color=color, label=kind)
rare.axhline(target[RARE, 0], color="k", linestyle=":", label="its target")
axes.set(xlabel="a word's rank by frequency", ylabel="mean squared error of its row",
         title=f"{words:,} words, {steps:,} batches: nearly all the error is in rare rows")
rare.set(xlabel=f"step; one batch in {1 / (batch * p[RARE]):.0f} has the row",
         ylabel="its first value", title="A rare row: SGD creeps, Adam coasts, Adagrad jumps")
show(figure, "17_rare_rows_and_warm_up")

# %% [markdown]
# The factor is about five for rare words, and about two for frequent ones. But nearly all the error
# is in the rare rows, and no rate helps SGD there: its best, 14, is already next to the limit of
# 15, and with it the frequent words have 2.5 times the error that rate 3 would leave them. Adam has a
# third more error in rare rows than Adagrad; its price is two more tables and the time for them.
#
# Adagrad never forgets. After ten gradients of size 100, one of size 1 moves its row by rate/316 at
# most. So the library uses Adagrad for rows, most of which are in few batches, and Adam for the
# matrices, which every batch uses.
#
# ### Exercise 1: make Adam climb
#
# Adam's step is a quotient of two means: m is over about 10 steps, s over about 1000. Find a list
# of gradients with a *positive* sum for which the library's Adam increases x when it sees the list
# twice. (SGD would decrease x.)

# %%
def climbing_gradients():
    """→ a list of up to 5000 numbers whose sum is positive."""
    raise NotImplementedError


def judge_climbing(climbing_gradients, rng):
    gradients = np.asarray(climbing_gradients(), float)
    assert gradients.ndim == 1 and len(gradients) <= 5000, "a list of up to 5000 numbers"
    assert gradients.sum() > 0.001 * np.abs(gradients).sum(), "their sum has to be positive"
    way = adam_moves(np.tile(gradients, 2)).sum()
    assert way > 10, (f"x went to {way:.3g} rates, expected above 10; for how many steps does s "
                      "remember a large gradient, and when is it the largest?")


check(1, climbing_gradients, judge_climbing)

# %% [markdown]
# ## Warm-up: the first steps
#
# At step 1 Adam's m̂/√ŝ is g/|g| = ±1 for every number, signal or noise. Later m averages noise
# away. For pure noise of variance 1, m̂ has the variance
#
# **(1 − β₁)/(1 + β₁) · (1 + β₁ᵗ)/(1 − β₁ᵗ)**
#
# which is 1 at t = 1 and 0.23² for large t. So the first steps are up to 4.4 times as noisy as the
# later ones. **Warm-up**: the rate rises from 0 in a tenth of all steps.
#
# **Predict:** 20 steps of pure noise: how many times as far does x travel without a warm-up?

# %%
moves, optim = adam_moves(rng.standard_normal((20, 20_000))), OptimConfig()   # of 20,000 numbers
warming = np.array([rates(optim, step, 1000, 1)[0] / optim.learning_rate for step in range(20)])
expect(np.abs(warming - np.arange(1, 21) / 100).max(), 0, 1e-12, "rates less rate · t/100")
noisy = moves.std(axis=1)
derived = np.sqrt(0.1 / 1.9 * (1 + 0.9**20) / (1 - 0.9**20))
expect(noisy[0], 0.99, 1.01, "pure noise: rms of step 1, in rates")
expect(noisy[19] / derived, 0.9, 1.1, f"… of step 20, over the derived {derived:.2f}")
expect(moves.sum(axis=0).std() / (warming[:, None] * moves).sum(axis=0).std(), 6, 16,
       "20 steps of noise: x travels this many times as far without warm-up")

# %% [markdown]
# Eleven times as far. Adagrad's first step of each row has full length as well, and in lesson 18's
# training the tables' warm-up is the one that counts.
#
# | | remembers | assumes | fails where |
# | --- | --- | --- | --- |
# | SGD | nothing | all directions are equally steep | κ is large; a word is rare |
# | momentum | a sum of steps | that κ is known | μ does not fit κ |
# | Adam | two means for each number | axes are the directions; sizes stay | the bowl is turned; rows are rare; the rate is constant |
# | row-wise Adagrad | one sum for each row | gradients keep their size | the first ones were large |
#
# ## Where this lives
#
# - `core/optim.py`: `Adaptive`, `update_rows`. `core/loop.py`: `rates`. All of this is ours.
# - To read further: Duchi et al. (2011), section 1, on rare features; PyTorch's SparseAdam.

# %% [markdown]
# ## What you know now
#
# - A table of words is a bowl with a large κ: the rate that frequent rows allow is too small for
#   rare ones, which hold nearly all the error.
# - Row-wise Adagrad moves only rows that are in the batch, and slows each by its own use.
# - The first steps of both are a full rate long, signal or noise: warm-up makes them short.
#
# Next: lesson 18 trains the encoder, and looks at the first steps of a real run.
#
# Solutions, for when you have tried: `lessons/solutions/17_rare_rows_and_warm_up.py`.
