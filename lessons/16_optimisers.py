# %% [markdown]
# # 16 · Optimisers: the bowl, and one rate for all its directions
#
# **Needs** eigenvalues and, for momentum, complex roots: you can take both on trust.
# **Gives** SGD, momentum and Adam: what each assumes, and how many steps it needs.
# **Time** 50 minutes.
#
# **In thirty seconds.** A gradient says which way is down, but not how far to go. A loss
# is steep in some directions and flat in others, so the steep ones limit the rate and the flat ones
# take forever. Momentum adds up what successive steps agree on. Adam divides each number's step by
# the size of its gradient, which works as long as the directions are the axes. Each optimiser makes
# an assumption, and fails where it is wrong.

# %%
import sys

sys.path += [".", "lessons"]
from lesson import check, claim, expect, np, plt, seed, show
from convsim_mini.core.optim import adam

# %% [markdown]
# ## The bowl
#
# Near its lowest point almost any smooth loss looks, up to a constant, like L = ½ xᵀ A x. Choose
# axes along the eigenvectors of A. Then L = ½ Σ λᵢ xᵢ², each direction has its own curvature λᵢ,
# and the gradient is λᵢ xᵢ. One step of SGD, p ← p − η g, turns x_i into
#
# x_i ← **(1 − η λ_i)** x_i
#
# Each direction shrinks by a factor of its own: with λ = 1 and 10 and η = 0.1 by 0.9 and 0, with
# η = 0.2 by 0.8 and −1. It *grows* where |1 − ηλ| > 1, that is for **η > 2/λ**. So the steepest
# direction limits the rate for all, and the flattest one is slow.

# %%
curvature = np.array([1.0, 1000.0])                           # κ = λ_max/λ_min = 1000
start = 1 / np.sqrt(curvature)                                # both directions have half the loss
axes_bowl = np.diag(curvature)


def bowl(x, A=axes_bowl):
    """½ xᵀ A x and its gradient."""
    return float(x @ A @ x) / 2, A @ x


# %% [markdown]
# At the best rate both ends shrink equally: 1 − η λ_min = η λ_max − 1. So η = 2/(λ_min + λ_max),
# and a step has the factor **(κ − 1)/(κ + 1)**.
#
# The loss falls by its square: to a thousandth in ln 1000/(2 ln((κ+1)/(κ−1))) ≈ 1.73 κ steps.
#
# **Predict:** κ = 1000. How many steps is that? And what happens with a rate 0.2% higher?

# %%
def steps_to(fraction, step, A=axes_bowl, x=start, most=2000):
    """The step from which 100 losses are below `fraction` of the start's; the path (…, 2)."""
    path, state = [x], {}
    for t in range(1, most + 100):
        path.append(step(path[-1], bowl(path[-1], A)[1], t, state))
    path = np.array(path)
    loss = np.einsum("ti,ij,tj->t", path, A, path) / (x @ A @ x)
    stays = np.convolve(loss <= fraction, np.ones(100), "valid") == 100   # no lucky crossing
    return int(np.argmax(stays)) or most, path


def descent(rate):
    return lambda x, g, t, state: x - rate * g


best = 2 / curvature.sum()
derived = np.log(1000) / (2 * np.log(1001 / 999))
descent_steps, _ = steps_to(1e-3, descent(best))
expect(descent_steps, derived - 1, derived + 1, f"steps of SGD, best rate; derived {derived:.0f}")
_, path = steps_to(1e-3, descent(2.002 / 1000), most=1000)
expect(np.abs(path[1000, 1] / start[1]), 7, 8, "at 2.002/λ_max: how far out after 1000 steps")

# %% [markdown]
# It is 1,727 steps. At the higher rate the steep direction grows instead: sevenfold in 1,000 steps.
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
# It is SGD's factor with √κ instead of κ. (At both ends the two roots are equal. With q = √μ,
# x_t = qᵗ (1 + (1 − q) t) x₀ at λ_min and (−q)ᵗ (1 + (1 + q) t) x₀ at λ_max. So the loss rises
# first, about seventyfold.)

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
shares = np.array([0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95])       # of 3.8/λ_max, where μ = 0.9 grows
usual_steps = [steps_to(1e-3, momentum(3.8e-3 * share, 0.9))[0] for share in shares]
expect(min(usual_steps), 70, 95, "μ = 0.9 at the best of seven rates: steps")

# %% [markdown]
# The usual μ = 0.9 at its best rate needs fewer steps than the formula's pair, which is optimal
# only in the long run. The library has momentum as the m of Adam, (1 − β) times this sum.
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
    for curve, mu in ((1.0, 0.0), (rng.integers(2, 50), 0.9), (50.0, rng.choice([0.3, 0.6]))):
        rate = largest_rate(curve, mu)
        for part, grows in ((0.999, False), (1.001, True)):
            size = np.abs(np.roots([1, -(1 + mu - part * rate * curve), mu])).max()
            assert (size > 1) == grows, (
                f"λ = {curve}, μ = {mu}: at {part} times your rate |z| is {size:.4f}; put z = −1 "
                "into the equation of the roots")


check(1, largest_rate, judge_largest_rate)

# %% [markdown]
# ## Adam: a rate for each number
#
# Momentum needs λ_min and λ_max, and nobody knows them. **Adam** (Kingma and Ba 2015) uses the size
# of each number's gradient instead of its curvature, since g = λx grows with λ. With s a running
# mean of g², the step is m/√s. Make a loss a thousand times steeper along one axis: g and √s grow
# alike, and the step stays as it is. So the rate says how far x moves, however large the loss is.
#
# m and s start at 0. After t steps of a constant g, m = (1 − β₁ᵗ) g and s = (1 − β₂ᵗ) g². Both
# start too small; dividing by 1 − βᵗ corrects that.
#
# **Predict:** leave both out, with β₁ = 0.9, β₂ = 0.999. Are the first steps too short or too long?

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
# The first steps are too long: s starts at 0 as well, and grows a hundred times more slowly than m.
#
# ## Turn the bowl
#
# Adam's sizes belong to the *axes*. Turn the bowl by 45°. Then each axis sees a mixture of both
# curvatures, and both s are nearly equal. For SGD and momentum a rotation changes nothing.
#
# Adam gets what momentum got: a memory of 0.9 and seven rates. And we count the steps until the
# loss *stays* below a thousandth for 100 steps: to shoot through the bottom proves nothing.
#
# **Predict:** does Adam at its best rate need fewer steps than momentum's 80, or more? On the bowl
# along the axes, and on the turned one?

# %%
turn = np.array([[1, -1], [1, 1]]) / np.sqrt(2)
turned = {"A": turn @ axes_bowl @ turn.T, "x": turn @ start}
adam_rates = 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2
adam_steps, turned_steps, burst = [], [], []
for rate in adam_rates:
    steps, path = steps_to(1e-3, adam_step(rate), most=6000)
    adam_steps.append(steps)
    turned_steps.append(steps_to(1e-3, adam_step(rate), **turned)[0])
    burst.append(max(bowl(x)[0] for x in path[steps:]) / bowl(start)[0])
    print(f"Adam, rate {rate:5}: {steps:3} steps, turned {turned_steps[-1]:5,}; "
          f"later back at {burst[-1]:.3f} of the start's loss")
expect(min(adam_steps), 55, 70, "Adam at its best rate: steps")
expect(min(turned_steps), 250, 350, "on the turned bowl")
expect(burst[np.argmin(adam_steps)], 0.05, 1, "Adam's loss later, of the start's")
expect(steps_to(1e-3, momentum(eta, mu), **turned)[0], momentum_steps - 1, momentum_steps + 1,
       "momentum on the turned bowl: as before")

# %% [markdown]
# On the bowl along the axes Adam needs fewer steps than momentum, 61 against 80, though its loss
# comes back to 0.22 of the start's. On the turned one it needs 290: a rotation costs it three to
# six times as many, depending on the rate.
#
# Two directions and one start are a small world. So once more with twenty directions, curvatures
# from 1 to 1,000, another start and a rotation, all drawn at random; again seven rates each. The
# rotation costs Adam about twofold there: over five seeds it needs 0.9 times momentum's steps along
# the axes, and 1.6 to 2.4 times as many once the bowl is turned.

# %%
rng = np.random.default_rng(seed(15))
curvatures = 10 ** np.array([0, 3, *rng.uniform(0, 3, 18)])
start20 = rng.standard_normal(20) / np.sqrt(curvatures)
turn20, A20 = np.linalg.qr(rng.standard_normal((20, 20)))[0], np.diag(curvatures)
fewest = lambda steps, A, x: min(steps_to(1e-3, step, A, x, 500)[0] for step in steps)
by_momentum = fewest((momentum(3.8e-3 * share, 0.9) for share in shares), A20, start20)
for how, Q, ends in (("along the axes", np.eye(20), {"high": 1}),
                     ("turned at random", turn20, {"low": 1.2})):
    by_adam = fewest(map(adam_step, adam_rates), Q @ A20 @ Q.T, Q @ start20)
    claim(f"20 directions {how}: Adam's steps / momentum's", by_adam / by_momentum, **ends)

# %%
figure, panels = plt.subplots(1, 3, figsize=(14, 4.4))
small, line = np.diag([1.0, 30.0]), np.linspace(-1.3, 1.3, 101)    # κ = 30, to see its shape
grid = np.stack(np.meshgrid(line, line), axis=2)
for axes, Q, title in zip(panels, (np.eye(2), turn), ("κ = 30, along the axes", "Turned by 45°")):
    A, x = Q @ small @ Q.T, Q @ [-1.1, 0.6]
    axes.contour(line, line, np.einsum("abi,ij,abj->ab", grid, A, grid), 2.0 ** np.arange(-3, 7),
                 colors="0.8")
    for name, step in (("SGD", descent(2 / 31)), ("momentum", momentum(0.06, 0.5)),
                       ("Adam", adam_step(0.05))):
        steps, path = steps_to(1e-3, step, A, x)
        axes.plot(*path[:41].T, "o-", markersize=3, label=f"{name}: {steps} steps")
    axes.set(title=f"{title}: the first 40 steps", xlabel="x₁", ylabel="x₂")
for name, step in (("SGD", descent(best)), ("momentum, μ = 0.9", momentum(0.8 * 3.8e-3, 0.9)),
                   ("Adam, rate 0.05", adam_step(0.05))):
    panels[2].loglog([bowl(x)[0] for x in steps_to(1e-3, step)[1]], label=name)
panels[2].axhline(1e-3, color="k", linestyle=":", label="a thousandth")
panels[2].annotate(f"back at {burst[4]:.2f}", (1500, burst[4]), (4, 30),
                   arrowprops={"arrowstyle": "->"})
panels[2].set(xlabel="step", ylabel="loss", ylim=(1e-6, 200),
              title="κ = 1000: Adam is first, and bounces back")
show(figure, "16_optimisers")

# %% [markdown]
# On the small bowl SGD goes to and fro for 52 steps and momentum for 17, whichever way the bowl
# lies. Adam starts with equal steps along both axes, and after the turn it takes 133 steps instead
# of 53. Nor does it stay down with a constant rate (right). s forgets: when g has been small for
# long, √s is small, and a small g makes a large step. So the loss rises again, the more the higher
# the rate: let the rate fall to zero in the course of a training.
#
# ### Exercise 2: the longest step
#
# How long can that step get, in rates? A constant g makes it 1. Choose 5,000 gradients after which
# Adam's last step is at least 7.2 rates long. (As the corrections are 1 by then, it is m/√s. In m the
# gradient of k steps ago has the weight 0.1 · 0.9ᵏ, in s its square has 0.001 · 0.999ᵏ.)

# %%
def long_step():
    """→ the gradients of 5,000 steps of one number: (5000,)."""
    raise NotImplementedError


def judge_long_step(long_step, rng):
    gradients = np.asarray(long_step(), float)
    assert gradients.shape == (5000,) and np.isfinite(gradients).all(), (
        f"shape {gradients.shape}, expected (5000,), all finite")
    step, state = adam_step(1.0), {}
    for t, g in enumerate(gradients, start=1):
        moved = abs(step(np.zeros(1), np.full(1, g), t, state)[0])
    assert moved >= 7.2, (f"the last step is {moved:.2f} rates long; m is a scalar product of the "
                          "gradients with the weights 0.9ᵏ: which direction makes it largest, if s "
                          "is to stay the same?")


check(2, long_step, judge_long_step)

# %% [markdown]
# ## Where this lives
#
# - `core/optim.py`: `SGD`, `sgd`, `adam`. `config.py`: `OptimConfig`.
# - `minimal.py`: `update` is Adam for matrices, and for rows the Adagrad of lesson 17.
# - The paper trains by SGD with a rate of 0.01 for 40 million steps (§3.1). Adam is ours.
# - To read further: [Why momentum really works](https://distill.pub/2017/momentum/), with figures
#   to play with; Kingma and Ba (2015), section 2.

# %% [markdown]
# ## What you know now
#
# - One rate has to serve all directions: SGD's steps grow in number like κ, momentum's like √κ.
# - Adam gives each number its own rate. That helps along the axes, and not across them.
# - With a constant rate Adam does not settle: let the rate fall to zero.
#
# Next: lesson 17 gives rare words large steps, and makes the first steps small.
#
# Solutions, for when you have tried: `lessons/solutions/16_optimisers.py`.
