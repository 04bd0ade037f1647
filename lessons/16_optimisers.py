# %% [markdown]
# # 16 · Optimisers: one rate does not fit all directions
#
# **Needs** finite differences (lesson 2), sparse rows of a table (lesson 7). Eigenvalues and, for
# momentum, a quadratic with complex roots: you can take both on trust.
# **Gives** SGD, momentum, Adam, row-wise Adagrad and warm-up: each repairs a fault of the one
# before. What each assumes, and what happens where that is wrong.
# **Time** 90 minutes.
#
# A gradient says which way is down. It does not say how far to go. A loss is steep in some
# directions and flat in others, and one number, the rate, has to serve all of them. Each optimiser
# of this lesson solves that under an assumption, and fails where this assumption is wrong.

# %%
import sys

sys.path += [".", "lessons"]
from lesson import check, claim, expect, plt, seed, show

import numpy as np

from convsim_mini.config import OptimConfig
from convsim_mini.core.embeddings import SparseRows
from convsim_mini.core.gradcheck import dense
from convsim_mini.core.optim import Adaptive, adam, update_rows
from convsim_mini.core.schedule import rates

rng = np.random.default_rng(seed(16))

# %% [markdown]
# ## The bowl
#
# Near its lowest point any smooth loss looks like L = ½ xᵀ A x. Choose axes along the eigenvectors
# of A. Then L = ½ Σ λᵢ xᵢ², each direction has its own curvature λᵢ, and the gradient is λᵢ xᵢ.
# SGD, p ← p − η g, makes of it
#
# x_i ← **(1 − η λ_i)** x_i
#
# Each direction shrinks by a factor of its own. It *grows* where |1 − ηλ| > 1, that is for
# **η > 2/λ**. So the steepest direction limits the rate for all, and the flattest one is slow.

# %%
curvature = np.array([1.0, 1000.0])                           # κ = λ_max/λ_min = 1000
start = 1 / np.sqrt(curvature)                                # both directions have half the loss
axes_bowl = np.diag(curvature)


def bowl(x, A=axes_bowl):
    """½ xᵀ A x and its gradient."""
    return float(x @ A @ x) / 2, A @ x


# %% [markdown]
# The best rate makes the largest |1 − ηλᵢ| as small as possible. At it both ends shrink equally:
# 1 − ηλ_min = ηλ_max − 1, so η = 2/(λ_min + λ_max), and the factor of a step is
#
# **(κ − 1)/(κ + 1)**
#
# The loss falls by the square of that. To fall to a thousandth it needs ln 1000/(2 ln((κ+1)/(κ−1)))
# steps, about 1.73 κ.
#
# **Predict:** κ = 1000. How many steps is that? And what happens with a rate 0.2% higher?

# %%
def steps_to(fraction, step, A=axes_bowl, x=start, most=2000):
    """The first step with a loss of `fraction` of the start's; the step from which it stays there.

    most: the number of steps that are made → first, stays, path (most + 1, 2)
    """
    path, state = [x], {}
    for t in range(1, most + 1):
        path.append(step(path[-1], bowl(path[-1], A)[1], t, state))
    path = np.array(path)
    loss = np.einsum("ti,ij,tj->t", path, A, path) / (x @ A @ x)
    above = np.append(True, loss[1:] > fraction)
    return int(np.argmin(above)) or most, int(np.flatnonzero(above)[-1]) + 1, path


def descent(rate):
    return lambda x, g, t, state: x - rate * g


best = 2 / curvature.sum()
derived = np.log(1000) / (2 * np.log(1001 / 999))
descent_steps, *_ = steps_to(1e-3, descent(best))
expect(descent_steps, derived - 1, derived + 1, f"steps of SGD, best rate; derived {derived:.0f}")
*_, path = steps_to(1e-3, descent(2.002 / 1000), most=1000)
expect(np.abs(path[-1, 1] / start[1]), 7, 8, "at 2.002/λ_max: how far out after 1000 steps, not 0")

# %% [markdown]
# ## Momentum: add up what the steps agree on
#
# In the steep direction the steps go to and fro. In the flat one they all point the same way. So
# keep a running sum in which the first cancel and the second add up (Polyak 1964):
#
# v ← μ v − η g,  x ← x + v
#
# A steady g gives v = −η g (1 + μ + μ² + …) = −η g/(1 − μ): with μ = 0.9 a ten times higher rate,
# but only for what is steady. In a direction of curvature λ, put v_t = x_t − x_{t−1} in:
#
# x_{t+1} = (1 + μ − ηλ) x_t − μ x_{t−1}
#
# It is solved by x_t = z^t with **z² − (1 + μ − ηλ) z + μ = 0**. The product of the two roots is μ.
# If they are complex they have the same modulus, and it is **√μ, whatever λ is**. They are complex
# where (1 + μ − ηλ)² < 4μ, that is for (1 − √μ)² < ηλ < (1 + √μ)². If λ_min and λ_max both lie in
# this range, all directions shrink at the same speed:
#
# √κ = (1 + √μ)/(1 − √μ), so **√μ = (√κ − 1)/(√κ + 1)**,  η = (1 + √μ)²/λ_max
#
# It is SGD's factor with √κ in the place of κ. (At both ends the two roots are equal, and then
# x_t = qᵗ (1 + a t) x₀ with q = √μ, a = 1 − q at λ_min and 1 + q at λ_max. Because of 1 + a t the
# loss rises first, about seventyfold.)

# %%
def momentum(rate, mu):
    def step(x, g, t, state):
        state["v"] = mu * state.get("v", 0) - rate * g
        return x + state["v"]
    return step


q = (np.sqrt(1000) - 1) / (np.sqrt(1000) + 1)                 # √μ
mu, eta, t = q * q, (1 + q) ** 2 / 1000, np.arange(500)
derived = np.sum(mu**t * ((1 + (1 - q) * t) ** 2 + (1 + (1 + q) * t) ** 2) / 2 > 1e-3)
momentum_steps, _, momentum_path = steps_to(1e-3, momentum(eta, mu))
expect(momentum_steps, derived - 1, derived + 1, f"steps of momentum; derived {derived}")
rise = max(bowl(x)[0] for x in momentum_path) / bowl(start)[0]
expect(rise, 60, 80, "times the start's loss, at its highest")
_, usual_steps, _ = steps_to(1e-3, momentum(3 / 1000, 0.9))
expect(usual_steps, 70, 95, "μ = 0.9, η = 3/λ_max: steps")

# %% [markdown]
# The usual pair μ = 0.9, η = 3/λ_max needs fewer steps than the formula's. The formula is the best
# for very many steps, not for the first thousandth. The library has no momentum of its own: it is
# the m of Adam. m ← βm + (1 − β)g is (1 − β) times the same sum.
#
# ### Exercise 1: how high may the rate be?
#
# SGD grows for η > 2/λ. Momentum has another limit. Find the largest η for which no direction of
# curvature up to λ grows. (At the limit one of the two roots z reaches −1.)

# %%
def largest_rate(curvature, mu):
    """The η above which momentum with 0 ≤ μ < 1 grows in a direction of this curvature."""
    raise NotImplementedError


def judge_largest_rate(largest_rate, rng):
    for curve, mu in ((1.0, 0.0), (rng.integers(2, 50), 0.9),
                      (50.0, rng.choice([0.3, 0.6]))):
        rate = largest_rate(curve, mu)
        for part, grows in ((0.99, False), (1.01, True)):
            size = np.abs(np.roots([1, -(1 + mu - part * rate * curve), mu])).max()
            assert (size > 1) == grows, (
                f"λ = {curve}, μ = {mu}: at {part} times your rate |z| is {size:.3f}; put z = −1 "
                "into the equation of the roots")


check(1, largest_rate, judge_largest_rate)

# %% [markdown]
# ## Adam: a rate for each number
#
# Momentum needs λ_min and λ_max, and nobody knows them. **Adam** (Kingma and Ba 2015) takes the
# size of each number's gradient in place of its curvature: with s a running mean of g², the step
# is m/√s. Make a loss a thousand times steeper along one axis: g and √s grow alike, and the step
# stays as it is. So the rate says how far x moves, whatever the size of the loss.
#
# m and s start at 0. After t steps of a constant g, m = (1 − β₁ᵗ) g and s = (1 − β₂ᵗ) g². Both are
# too small, and the library divides each by its factor.
#
# **Predict:** leave both corrections out. β₁ = 0.9, β₂ = 0.999. Are the first steps too short or
# too long?

# %%
def adam_step(rate, beta1=0.9, beta2=0.999, epsilon=1e-8):
    def step(x, g, t, state):
        x = x.copy()
        m, s = (state.setdefault(name, np.zeros_like(x)) for name in "ms")
        adam([x], [g], [m], [s], t, rate, beta1, beta2, epsilon)
        return x
    return step


def adam_moves(gradients, first=1):
    """The library's Adam, rate 1: by how much each step increases x. gradients: (T, …) → (T, …)"""
    x, m, s = np.zeros((3, *np.shape(gradients)[1:], 1))
    places = [x.copy()]
    for t, g in enumerate(gradients, start=first):
        adam([x], [np.asarray(g, float)[..., None]], [m], [s], t, 1.0, 0.9, 0.999, 1e-12)
        places.append(x.copy())
    return np.diff(places, axis=0)[..., 0]


t = np.arange(1, 3001)
uncorrected = (1 - 0.9**t) / np.sqrt(1 - 0.999**t)            # m/√s, in rates, for a constant g
lengths = -adam_moves(np.full(3000, 7.0))
expect(np.abs(lengths - 1).max(), 0, 1e-6, "the library, constant g: a step less 1 rate")
expect(uncorrected[0], 3.16, 3.17, "no correction: the first step, 0.1/√0.001")
expect(uncorrected.max(), 6.4, 6.7, f"no correction: the longest, step {uncorrected.argmax() + 1}")

# %% [markdown]
# Too long: s starts at 0 as well, and grows a hundred times more slowly than m. Even after 1000
# steps they are a quarter too long.
#
# ## Turn the bowl
#
# That was a mistake of the code. Now a loss that breaks Adam itself. Adam's sizes belong to the
# *axes*. Turn the bowl by 45°. Then each axis sees a mixture of both curvatures, and both s are
# nearly equal. For SGD and momentum a rotation changes nothing.
#
# **Predict:** at its best rate, does Adam need more steps than momentum's 138, or fewer? On the
# bowl along the axes, and on the turned one?

# %%
turn = np.array([[1, -1], [1, 1]]) / np.sqrt(2)
turned_bowl = turn @ axes_bowl @ turn.T
turned = {"A": turned_bowl, "x": turn @ start}
adam_rates = 0.003, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05
adam_steps, turned_steps, burst = [], [], []
for rate in adam_rates:
    first, _, path = steps_to(1e-3, adam_step(rate), most=6000)
    adam_steps.append(first)
    turned_steps.append(steps_to(1e-3, adam_step(rate), **turned)[0])
    burst.append(max(bowl(x)[0] for x in path[first:]) / bowl(start)[0])
    print(f"Adam, rate {rate:5}: {first:3} steps, turned {turned_steps[-1]:5,}; "
          f"later back at {burst[-1]:.3f} of the start's loss")
claim("the best of seven rates of Adam: steps / momentum's by the formula",
      min(adam_steps) / momentum_steps, high=1)
claim("Adam at this rate: the highest loss later / the thousandth",
      burst[np.argmin(adam_steps)] / 1e-3, low=10)
claim("the bowl turned by 45°: Adam's steps / along the axes, the least of seven rates",
      np.min(np.divide(turned_steps, adam_steps)), low=2)
for name, step, steps in (("SGD", descent(best), descent_steps),
                          ("momentum", momentum(eta, mu), momentum_steps)):
    expect(steps_to(1e-3, step, **turned)[0], steps - 1, steps + 1, f"{name}, turned: the same")

# %%
figure, count = plt.subplots()
shares = np.array([0.15, 0.3, 0.5, 0.7, 0.8, 0.95])           # of the largest rate
for name, step, rate, style in (
        ("SGD", descent, 2e-3 * shares[2:], "C0o-"),
        ("momentum, μ by the formula", lambda rate: momentum(rate, mu), eta * shares, "C1o-"),
        ("momentum, μ = 0.9", lambda rate: momentum(rate, 0.9), 3.8e-3 * shares, "C1s--")):
    count.loglog(rate, [steps_to(1e-3, step(each), most=4000)[0] for each in rate], style,
                 label=name, markersize=4)
count.loglog(adam_rates, adam_steps, "C2o-", label="Adam", markersize=4)
count.loglog(adam_rates, turned_steps, "C3o-", label="Adam, bowl turned by 45°", markersize=4)
count.set(xlabel="rate", ylabel="first step at a thousandth of the loss",
          title="κ = 1000: each optimiser at several rates")
show(figure, "16_bowl")

# %% [markdown]
# At its best rate Adam needs fewer steps than momentum on the bowl along the axes, and more on the
# turned one. How many times as many a rotation costs depends on the rate: 2 to 8.
#
# But with a constant rate Adam does not stay there. s forgets: when g has been small for long, √s
# is small, and a small g makes a large step. The loss then rises again, and more at a higher rate.
# So the rate falls to zero in the course of a training. β₂ = 0.99 forgets ten times faster. With it
# the loss rises again after some hundred steps.
#
# ### Exercise 2: make Adam climb
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


check(2, climbing_gradients, judge_climbing)

# %% [markdown]
# ## A table of words is a bowl
#
# In a batch drawn from text, word r occurs with frequency p_r. Its row has a gradient only then. So
# its curvature, averaged over batches, is proportional to p_r, and κ = p_1/p_R. For a thousand
# words by Zipf's law, p_r ∝ 1/r, κ is a thousand. Each row has a target, which it sees with noise:

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
# With a constant rate 2/p_1 = 15 is the limit for SGD. A rate of 5 leaves half of the way to the
# target for the words 101 to 1000 after 500 steps: (1 − ηp)^500. Adam would help, but it has two
# faults here. **First**, it is dense: m and s are two more tables (1,004 MB for the default one;
# one sum a row has 1 MB), and every step goes through all rows. **Second**, it keeps moving rows
# that are *not* in the batch. A word occurs once, after many steps, with a gradient g: m = 0.1 g, s
# = 0.001 g². Its row makes a step of 3.16 rates. Then m and √s shrink by 0.9 and √0.999 a step, and
# the row moves on:
#
# 0.1/√0.001 · Σ_k (0.9/√0.999)^k = **31.8 rates, for one occurrence.**

# %%
way = -adam_moves(np.append(0.02, np.zeros(200)), first=10_000).sum()
expect(way, 31, 32, "Adam, one occurrence: the way that the row goes, in rates")

# %% [markdown]
# **Adagrad** (Duchi et al. 2011) divides by the root of the *sum* of all squares so far. Then the
# k-th update of a row is as long as 1/√k, however many steps lie between two updates. A row that is
# not in the batch stays. Ours keeps one sum for a row, of the mean square
# of its gradient:
#
# s_r ← s_r + mean(g_r²),  E_r ← E_r − rate · g_r/√s_r
#
# So the first update of a row has the rms **rate**, however small the gradient. After k gradients
# of one size it has gone rate · (1 + 1/√2 + … + 1/√k) ≈ 2 rate √k.

# %% [markdown]
# **Predict** which rows are better with Adagrad than with SGD: the frequent or the rare ones?

# %%
def trained(kind, rate):
    """Mean squared error of each row after `steps` batches; the rate falls to zero."""
    table, draw = np.zeros((words, d)), np.random.default_rng(seed(1))
    (m, s), squares = np.zeros((2, words, d)), np.full(words, Adaptive.FIRST_SQUARE)
    for t in range(1, steps + 1):
        grad = gradient_of(table, draw)
        now = rate * (1 - (t - 1) / steps)
        if kind == "Adam":
            adam([table], [dense(grad, table)], [m], [s], t, now, 0.9, 0.999, 1e-8)
        else:
            update_rows(table, grad, now, squares if kind == "Adagrad" else None)
    return ((table - target) ** 2).mean(axis=1)


chosen = {}
for kind, some in (("SGD", (3, 7, 14)), ("Adam", (0.03, 0.1, 0.2)),
                   ("Adagrad", (0.3, 0.7, 1.5))):
    errors = [trained(kind, rate) for rate in some]
    chosen[kind] = min(errors, key=np.mean)
    for rate, error in zip(some, errors):
        print(f"{kind:8} rate {rate:<5} error, words 1 to 10: {error[:10].mean():.4f}   "
              f"101 to 1000: {error[100:].mean():.3f}")
claim("words 101 to 1000: error of SGD, rate 14 / of Adagrad, best rate",
      chosen["SGD"][100:].mean() / chosen["Adagrad"][100:].mean(), low=2)
claim("… of Adam / of Adagrad", chosen["Adam"][100:].mean() / chosen["Adagrad"][100:].mean(), low=1)

figure, axes = plt.subplots()
edges = np.unique(np.geomspace(1, words, 13).astype(int))
for kind, color in (("SGD", "C0"), ("Adam", "C2"), ("Adagrad", "C1")):
    means = [chosen[kind][a - 1:b - 1].mean() for a, b in zip(edges, edges[1:])]
    axes.loglog(np.sqrt(edges[:-1] * edges[1:]), means, "o-", color=color, label=kind)
axes.set(xlabel="a word's rank by frequency", ylabel="mean squared error of its row",
         title=f"{words:,} words after {steps:,} batches: the rare ones differ most")
show(figure, "16_optimisers")

# %% [markdown]
# The rare ones. The frequent ones are near their targets with all three. (With a rate of 20 SGD is
# at 0.12 for the rare words. But then the frequent rows first grow without limit, and come back
# only because the rate falls to zero.) Adam is close behind Adagrad: its price is
# mostly two more tables and the time to go through them.
#
# Adagrad never forgets. After ten gradients of size 100, one of size 1 moves its row by rate/316 at
# most. So the library uses Adagrad for rows, most of which are in few batches, and Adam for
# matrices, which are in all.
#
# ## Warm-up: the first steps
#
# At step 1 Adam's m̂/√ŝ is g/|g| = ±1 for every number, signal or noise. Later m averages noise
# away. For pure noise of variance 1, m̂ has the variance
#
# **(1 − β₁)/(1 + β₁) · (1 + β₁ᵗ)/(1 − β₁ᵗ)**
#
# which is 1 at t = 1 and 0.23² for large t. So the first steps are up to 4.4 times as noisy as the
# later ones, and can spoil a good start. **Warm-up** makes them short: rate · t/warmup.

# %%
moves, optim = adam_moves(rng.standard_normal((20, 20_000))), OptimConfig()   # of 20,000 numbers
warming = np.array([rates(optim, step, 1000, 1)[0] / optim.rate for step in range(20)])
expect(np.abs(warming - np.arange(1, 21) / 50).max(), 0, 1e-12, "rates less rate · t/50")
noisy = moves.std(axis=1)
derived = np.sqrt(0.1 / 1.9 * (1 + 0.9**20) / (1 - 0.9**20))
expect(noisy[0], 0.99, 1.01, "pure noise: rms of step 1, in rates")
expect(noisy[19] / derived, 0.9, 1.1, f"… of step 20, over the derived {derived:.2f}")
expect(moves.sum(axis=0).std() / (warming[:, None] * moves).sum(axis=0).std(), 3, 8,
       "20 steps of noise: without warm-up x moves so many times as far")

# %% [markdown]
# | | remembers | assumes | fails where |
# | --- | --- | --- | --- |
# | SGD | nothing | all directions are equally steep | κ is large; a word is rare |
# | momentum | a sum of steps | that κ is known | μ does not fit κ |
# | Adam | two means for each number | axes are the directions; sizes stay | the bowl is turned; rows are rare; the rate is constant |
# | row-wise Adagrad | one sum for each row | gradients keep their size | the first ones were large |
#
# ## Where this lives
#
# - `core/optim.py`: `SGD`, `Adaptive` (Adam for matrices, row-wise Adagrad for tables), `sgd`,
#   `adam`, `update_rows`. `core/schedule.py`: `rates`. `config.py`: `OptimConfig`.
# - `update` of `minimal.py` is Adam and the row-wise Adagrad of this lesson.
# - The paper trains by SGD with a rate of 0.01 for 40 million steps (§3.1). "adaptive" is ours; it
#   needs fewer steps.

# %% [markdown]
# ## Claims
#
# Over five seeds, as `python -m lessons.claims 16` prints it. The last column says which values would refute the claim.
#
# | claim | mean ± sd | least to most | refuted |
# | --- | --- | --- | --- |
# | the best of seven rates of Adam: steps / momentum's by the formula | 0.326 ± 0 | 0.326 to 0.326 | above 1 |
# | Adam at this rate: the highest loss later / the thousandth | 121 ± 0 | 121 to 121 | below 10 |
# | the bowl turned by 45°: Adam's steps / along the axes, the least of seven rates | 2.46 ± 0 | 2.46 to 2.46 | below 2 |
# | words 101 to 1000: error of SGD, rate 14 / of Adagrad, best rate | 5.01 ± 0.3 | 4.81 to 5.47 | below 2 |
# | … of Adam / of Adagrad | 1.35 ± 0.02 | 1.32 to 1.37 | below 1 |

# %% [markdown]
# ## What you know now
#
# - One rate has to serve all directions: SGD's steps grow in number like κ, momentum's like √κ.
# - Adam gives each number its own rate, along the axes alone, and does not settle by itself.
# - Row-wise Adagrad leaves rows at rest, and slows each by its own use.
#
# Next: lesson 18 trains the encoder, and looks at the first steps of a real run.
#
# Solutions, for when you have tried: `lessons/solutions/16_optimisers.py`.
