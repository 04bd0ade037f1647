# %% [markdown]
# # 16 · Optimisers: the bowl, and one rate for all its directions
#
# **Needs** eigenvalues and, for momentum, complex roots: you can take both on trust.
# **Gives** SGD, momentum and Adam: what each assumes, and how many steps it needs at which rate.
# **Time** 50 minutes.
#
# A gradient says which way is down. It does not say how far to go. A loss is steep in some
# directions and flat in others, and one rate has to serve all of them. Each optimiser of this
# lesson makes an assumption, and fails where it is wrong.

# %%
import sys

sys.path += [".", "lessons"]
from lesson import check, claim, expect, plt, show

import numpy as np

from convsim_mini.core.optim import adam

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
# At the best rate both ends shrink equally: 1 − ηλ_min = ηλ_max − 1. So η = 2/(λ_min + λ_max), and
# the factor of a step is
#
# **(κ − 1)/(κ + 1)**
#
# The loss falls by the square of that. To fall to a thousandth it needs ln 1000/(2 ln((κ+1)/(κ−1)))
# steps, about 1.73 κ.
#
# **Predict:** κ = 1000. How many steps is that? And what happens with a rate 0.2% higher?

# %%
def steps_to(fraction, step, A=axes_bowl, x=start, most=2000):
    """The first of `most` steps with `fraction` of the start's loss; the path (most + 1, 2)."""
    path, state = [x], {}
    for t in range(1, most + 1):
        path.append(step(path[-1], bowl(path[-1], A)[1], t, state))
    path = np.array(path)
    loss = np.einsum("ti,ij,tj->t", path, A, path) / (x @ A @ x)
    return int(np.argmax(loss <= fraction)) or most, path


def descent(rate):
    return lambda x, g, t, state: x - rate * g


best = 2 / curvature.sum()
derived = np.log(1000) / (2 * np.log(1001 / 999))
descent_steps, _ = steps_to(1e-3, descent(best))
expect(descent_steps, derived - 1, derived + 1, f"steps of SGD, best rate; derived {derived:.0f}")
_, path = steps_to(1e-3, descent(2.002 / 1000), most=1000)
expect(np.abs(path[-1, 1] / start[1]), 7, 8, "at 2.002/λ_max: how far out after 1000 steps, not 0")

# %% [markdown]
# 1,727 steps. With the higher rate the steep direction grows, sevenfold in 1,000 steps.
#
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
# x_t = qᵗ (1 + a t) x₀ with q = √μ, a = 1 − q at λ_min and 1 + q at λ_max. So the loss rises first,
# about seventyfold.)

# %%
def momentum(rate, mu):
    def step(x, g, t, state):
        state["v"] = mu * state.get("v", 0) - rate * g
        return x + state["v"]
    return step


q = (np.sqrt(1000) - 1) / (np.sqrt(1000) + 1)                 # √μ
mu, eta, t = q * q, (1 + q) ** 2 / 1000, np.arange(500)
derived = np.sum(mu**t * ((1 + (1 - q) * t) ** 2 + (1 + (1 + q) * t) ** 2) / 2 > 1e-3)
momentum_steps, momentum_path = steps_to(1e-3, momentum(eta, mu))
expect(momentum_steps, derived - 1, derived + 1, f"steps of momentum; derived {derived}")
rise = max(bowl(x)[0] for x in momentum_path) / bowl(start)[0]
expect(rise, 60, 80, "times the start's loss, at its highest")
usual_steps, _ = steps_to(1e-3, momentum(3 / 1000, 0.9))
expect(usual_steps, 70, 95, "μ = 0.9, η = 3/λ_max: steps")

# %% [markdown]
# The usual pair μ = 0.9, η = 3/λ_max needs fewer steps than the formula's, which is the best for
# very many steps. The library has momentum as the m of Adam: m ← βm + (1 − β)g is (1 − β) times the
# same sum.
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


t = np.arange(1, 3001)
uncorrected = (1 - 0.9**t) / np.sqrt(1 - 0.999**t)            # m/√s, in rates, for a constant g
step, state = adam_step(1.0), {}
moves = [step(np.zeros(1), np.full(1, 7.0), int(each), state)[0] for each in t]
expect(np.abs(np.array(moves) + 1).max(), 0, 1e-6, "the library, constant g: a step less 1 rate")
expect(uncorrected[0], 3.16, 3.17, "no correction: the first step, 0.1/√0.001")
expect(uncorrected.max(), 6.4, 6.7, f"no correction: the longest, step {uncorrected.argmax() + 1}")

# %% [markdown]
# Too long: s starts at 0 as well, and grows a hundred times more slowly than m.
#
# ## Turn the bowl
#
# Adam's sizes belong to the *axes*. Turn the bowl by 45°. Then each axis sees a mixture of both
# curvatures, and both s are nearly equal. For SGD and momentum a rotation changes nothing.
#
# **Predict:** at its best rate, does Adam need more steps than momentum's 138, or fewer? On the
# bowl along the axes, and on the turned one?

# %%
turn = np.array([[1, -1], [1, 1]]) / np.sqrt(2)
turned = {"A": turn @ axes_bowl @ turn.T, "x": turn @ start}
adam_rates = 0.003, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05
adam_steps, turned_steps, burst = [], [], []
for rate in adam_rates:
    first, path = steps_to(1e-3, adam_step(rate), most=6000)
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

figure, axes = plt.subplots()
for name, step in (("SGD", descent(best)), ("momentum", momentum(eta, mu)),
                   ("Adam, rate 0.03", adam_step(0.03))):
    path = steps_to(1e-3, step, most=4000)[1]
    axes.semilogy([bowl(x)[0] for x in path], label=name)
axes.set(xlabel="step", ylabel="loss", ylim=(1e-6, 200),
         title="Adam is down first, and comes back up again")
show(figure, "16_optimisers")

# %% [markdown]
# At its best rate Adam needs fewer steps than momentum on the bowl along the axes, and more on the
# turned one. How many times as many a rotation costs depends on the rate: 2 to 8.
#
# With a constant rate Adam does not stay down (second figure). s forgets: when g has been small for
# long, √s is small, and a small g makes a large step. The loss rises again, and more at a higher
# rate. So the rate falls to zero in the course of a training.
#
# ## Where this lives
#
# - `core/optim.py`: `SGD`, `sgd`, `adam`. `config.py`: `OptimConfig`.
# - `minimal.py`: `update` is Adam for matrices, and for rows the Adagrad of lesson 17.
# - The paper trains by SGD with a rate of 0.01 for 40 million steps (§3.1). Adam is ours.

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

# %% [markdown]
# ## What you know now
#
# - One rate has to serve all directions: SGD's steps grow in number like κ, momentum's like √κ.
# - Adam gives each number its own rate, along the axes alone.
# - With a constant rate Adam does not settle: let the rate fall to zero.
#
# Next: lesson 17 gives rare words large steps, and makes the first steps small.
#
# Solutions, for when you have tried: `lessons/solutions/16_optimisers.py`.
