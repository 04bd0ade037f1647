# %% [markdown]
# # 2 · Finite differences: what a gradient check can know
#
# **Needs** derivatives, the first terms of a Taylor series, and NumPy.
# **Gives** the instrument of every later lesson, `numeric_gradient` and `layer_error`: what it
# sees, what it misses, and when it lies.
# **Time** 60 minutes.
#
# All of convsim_mini's gradients are derived by hand. A wrong one rarely crashes; the model just
# learns a little worse, and nobody knows why. So we compare every backward pass with a method that
# needs no calculus: change an input a little and see how far the output moves.
#
# **In thirty seconds.** Step ε to both sides and divide the rise by 2ε. In float64 take ε = 10⁻⁵: with
# a larger step the curve bends too much, with a smaller one rounding takes over. A right backward
# then agrees to ten or eleven digits. Four things can still fool you, and one of them fooled us.

# %%
import sys

sys.path += [".", "lessons"]
from lesson import check, claim, expect, np, plt, seed, show
from convsim_mini.core.gradcheck import layer_error, numeric_gradient, relative_error
from convsim_mini.core.layers import l2_normalize_forward, tanh_backward, tanh_forward
from convsim_mini.core.transformer_layers import relu_forward

rng = np.random.default_rng(seed(2))

# %% [markdown]
# ## One slope
#
# Take tanh at x = 1, a step ε = 0.001 to the right, and divide the rise by the step. By Taylor,
#
# (f(x + ε) − f(x)) / ε = f′ + **ε f″/2** + …
#
# The curve bends within the step, so the error is ε times half the second derivative. With y = tanh x,
# f′ = 1 − y², f″ = −2y f′ and f‴ = (6y² − 2) f′. So we can compute the error *before* we measure it.

# %%
x, epsilon = 1.0, 1e-3
y = np.tanh(x)
slope, bend, third = 1 - y**2, -2 * y * (1 - y**2), (6 * y**2 - 2) * (1 - y**2)

one_sided = (np.tanh(x + epsilon) - np.tanh(x)) / epsilon
print(f"one-sided {one_sided:.9f}\nexact     {slope:.9f}")
expect((one_sided - slope) / (epsilon * bend / 2), 0.99, 1.01,
       "error of the one-sided slope / (ε f″/2)")

# %% [markdown]
# ## A step to each side
#
# Now step to the left as well. For x³ at 1, with a step of 1, the rise to the right is 8 − 1 = 7, and
# from left to right (8 − 0)/2 = 4. The true slope is 3. The f″ term is the same on both sides, so
# subtracting removes it, and what is left comes from the third derivative:
#
# (f(x + ε) − f(x − ε)) / 2ε = f′ + **ε² f‴/6** + …
#
# **Predict:** ε is 0.001. How many more digits will be right, one, three or six?

# %%
central = (np.tanh(x + epsilon) - np.tanh(x - epsilon)) / (2 * epsilon)
print(f"central   {central:.9f}\nexact     {slope:.9f}")
expect((central - slope) / (epsilon**2 * third / 6), 0.99, 1.01,
       "error of the central slope / (ε² f‴/6)")
print(f"{abs(one_sided - slope) / abs(central - slope):.0f} times as accurate as one-sided")

figure, axes = plt.subplots(figsize=(8, 4))
t = np.linspace(-0.15, 2.1)
axes.plot(t, t**3, "k", linewidth=2, label="x³")
axes.plot([0.4, 1.9], [-0.8, 3.7], "k:", label="its slope at 1: 3")
axes.plot([1, 2], [1, 8], "C3o-", label="to the right: 7/1 = 7")
axes.plot([0, 2], [0, 8], "C0o-", label="to both sides: 8/2 = 4")
axes.plot([0.5, 1.5], [-1, 3], "C0:", label="a slope of 4 at 1")
axes.set(xlabel="x", ylabel="x³", title="The secant over both sides comes nearer to the slope at 1")
show(figure, "02_two_secants")

# %% [markdown]
# Three and a half: the error is 3086 times smaller. The factor is 3 f″/(ε f‴), of the size 1/ε. For one
# slope this costs nothing: two evaluations either way. For a gradient of n numbers it costs 2n instead
# of n + 1, and at this step it doubles the number of right digits. So gradient checks step both ways.
#
# ## Why not ε = 10⁻¹²?
#
# If the error falls with ε, why not take ε as small as we can? Because a float64 keeps only 53
# binary digits: f(x + ε) is rounded by up to u |f| with u = 2⁻⁵³ ≈ 10⁻¹⁶. Before that, x + ε itself
# is rounded by up to u |x|, which changes f by u |x f′|. Both are tiny, but we divide them by ε:
#
# error ≤ **ε² |f‴|/6** + **u (|f| + |x f′|)/ε**, to first order
#
# As ε shrinks, the first term falls and the second rises. So there is a best step, and a smaller one
# makes things *worse*. In float32, u is 2⁻²⁴ ≈ 6 · 10⁻⁸, and the best step is larger.
#
# **Predict:** where is the best ε in float64, 10⁻³, 10⁻⁵ or 10⁻⁸? How many digits can float32 confirm?

# %%
points = rng.uniform(0.3, 1.2, 2000)    # many x, so that rounding shows its size, not its luck
steps = np.logspace(-13, -0.5, 76)


def root_mean_square(values):
    return np.sqrt(np.mean(values**2, axis=-1))


def errors(dtype):
    """The error of the central slope, for each of the steps and points: (76, 2000)."""
    at = points.astype(dtype)
    slopes = [(np.tanh(at + step) - np.tanh(at - step)) / (2 * step)
              for step in steps.astype(dtype)]
    return slopes - (1 - np.tanh(at.astype(np.float64))**2)


f = np.tanh(points)
# what is rounded, and the third derivative: (2000,) each
rounded, f3 = np.abs(f) + np.abs(points * (1 - f**2)), np.abs((6 * f**2 - 2) * (1 - f**2))
bending = steps**2 * f3.max() / 6                             # at the worst point
all_errors = {dtype: errors(dtype) for dtype in (np.float64, np.float32)}
measured = {dtype: root_mean_square(found) for dtype, found in all_errors.items()}

figure, axes = plt.subplots()
for dtype, color, u in ((np.float64, "C0", 2.0**-53), (np.float32, "C3", 2.0**-24)):
    rounding = u * rounded.max() / steps
    axes.loglog(steps, measured[dtype], color=color, linewidth=2.5, label=np.dtype(dtype).name)
    axes.loglog(steps, np.abs(all_errors[dtype]).max(axis=1), ".", color=color, markersize=4,
                label="its worst point")
    axes.loglog(steps, bending + rounding, "k:", linewidth=1.2,
                label="derived, at most: ε² f‴/6 + u (f + x f′)/ε" if dtype is np.float32 else None)
    best = np.argmin(bending + rounding)
    lowest = steps[best], (bending + rounding)[best]
    axes.plot(*lowest, "ko")
    axes.annotate(f"best ε ≈ {lowest[0]:.0e}", lowest, (10, -14), textcoords="offset points")
axes.set(xlabel="step ε (rounding dominates on the left, curvature on the right)", ylim=(1e-16, 10),
         ylabel="error of the slope of tanh (root mean square)",
         title="A smaller step bends less and rounds more: "
               "float64 gives eleven digits, float32 five")
show(figure, "02_finite_differences")

step = steps[:, None]
ratio = np.abs(all_errors[np.float64]) / (step**2 * f3 / 6 + 2.0**-53 * rounded / step)
expect(1 - ratio[steps <= 1e-3].max(), 0, 0.1, "1 − measured / derived, the worst of all points")
claim("measured / derived, the worst at steps up to 10⁻⁶", ratio[steps <= 1e-6].max(), 0.7, 1)
expect(steps[np.argmin(measured[np.float64])], 1e-6, 1e-4, "best central step in float64")
claim("error of the best central step in float64", measured[np.float64].min(), 1e-12, 1e-10)
expect(steps[np.argmin(measured[np.float32])], 1e-3, 4e-2, "best central step in float32")
claim("error of the best central step in float32", measured[np.float32].min(), 1e-6, 1e-4)

# %% [markdown]
# In float64 the best step is near 10⁻⁵, and float32 can confirm five digits. We computed the bound from
# f, f′ and f‴ before we measured anything, and up to ε = 10⁻³ not one of 2,000 points breaks it. (Beyond,
# Taylor's next term counts, too.) Nor is it generous: where rounding dominates, the unluckiest point
# reaches 0.86 of it. In float32 the smallest steps have an error of 0.6: there x + ε = x, the
# slope found is 0, and the error is the slope.
#
# So `core/gradcheck.py` takes ε = 10⁻⁵ and wants float64. The tests ask for an error below 10⁻⁶.
# Rounding stays far below that; nearly every bug lands far above.
#
# ### Exercise 1: the best step
#
# Write F for |f| + |x f′|. The two terms are ε² f‴/6 + u F/ε. Where is their sum smallest? Set its
# derivative with respect to ε to zero and return that ε.

# %%
def best_step(u, F, f3):
    """The ε > 0 at which ε² f3/6 + u F/ε is smallest."""
    raise NotImplementedError


def judge_best_step(best_step, rng):
    for u in (2.0**-53, 2.0**-24):
        F, f3 = rng.uniform(0.1, 10, 2)
        best = best_step(u, F, f3)
        assert best > 0, "a step is positive"
        falling, rising = best * f3 / 3, u * F / best**2      # the derivative is their difference
        assert abs(falling - rising) < 1e-6 * rising, (
            f"for u = {u:.1e} a slightly {'smaller' if falling > rising else 'larger'} step than "
            f"{best:.6g} has a smaller error; what is d/dε of u F/ε?")


check(1, best_step, judge_best_step)

# %% [markdown]
# ## From a number to a matrix
#
# A layer turns arrays into arrays, but a slope needs a single number that moves. So we weight the
# outputs with random numbers dy and add them up, as if that were the loss: L = Σ y · dy. Then ∂L/∂x
# has the shape of x. To measure one of its entries we nudge only that entry of x, up and down.
#
# We compare with `tanh_backward`, which multiplies dy by the slope of tanh (lesson 3). The distance
# is `relative_error`, ‖a − n‖ / (‖a‖ + ‖n‖): 0 if both are equal, 1 if one is zero. How far apart may
# they be? L is a sum of twelve numbers of size 1, rounded to about 10⁻¹⁶, divided by ε: 10⁻¹¹.

# %%
x = rng.standard_normal((4, 3))                               # (B, d)
dy = rng.standard_normal((4, 3))                              # the gradient that arrives from above
loss = lambda: float((np.tanh(x) * dy).sum())

by_hand = np.zeros_like(x)
for place in np.ndindex(x.shape):
    kept = x[place]
    x[place] = kept + 1e-5
    above = loss()
    x[place] = kept - 1e-5
    by_hand[place] = (above - loss()) / 2e-5
    x[place] = kept

assert np.array_equal(by_hand, numeric_gradient(loss, x))     # gradcheck.py does just this
y, cache = tanh_forward(x)
dx = tanh_backward(dy, cache)
expect(relative_error(dx, by_hand), 1e-13, 1e-9, "tanh_backward against finite differences")
expect(layer_error(tanh_forward, tanh_backward, [x], rng), 1e-13, 1e-9,
       "layer_error: the same, with a dy of its own")

# %% [markdown]
# ## When the check lies
#
# It lies in four ways: it fails two backwards that are right, and passes two that are wrong.
#
# **1. A correct backward fails in float32.** Nothing else has changed. Rounding is now up to 6 ·
# 10⁻⁸/10⁻⁵, or 0.006, next to slopes of size 1. `relative_error` divides by the sum of both lengths: 0.3%.

# %%
x32, dy32 = x.astype(np.float32), dy.astype(np.float32)
y, cache = tanh_forward(x32)
noisy = numeric_gradient(lambda: float((np.tanh(x32) * dy32).sum()), x32)
expect(relative_error(tanh_backward(dy32, cache), noisy), 1e-3, 1e-2,
       "a right backward, checked in float32")

# %% [markdown]
# **2. A correct backward fails at a kink.** relu's slope is 0 on the left of zero and 1 on the
# right. If an input is closer to zero than ε, we step from one side to the other.
#
# **Predict:** relu's input is ε/2. What slope do differences find? f(x + ε) = 3ε/2, f(x − ε) = 0.

# %%
near = np.array([[5e-6]])
expect(numeric_gradient(lambda: float(relu_forward(near)[0].sum()), near)[0, 0], 0.7499, 0.7501,
       "relu's slope at ε/2")

# %% [markdown]
# It is ¾. relu has this slope nowhere, so a right backward fails. Keep inputs away from kinks.
#
# **3. A wrong backward passes, because it writes into dy.** Here the check and the backward share
# one array. The backward wipes it; the check then weights the outputs with zeros, and agrees.

# %%
wiping_backward = lambda dy, cache: np.multiply(dy, 0, out=dy)
wiped = wiping_backward(dy, None)    # dy itself is 0 now, and so is the loss above
expect(relative_error(wiped, numeric_gradient(loss, x)), 0, 0, "a backward that wipes dy")
expect(layer_error(tanh_forward, wiping_backward, [x], rng), 1, 1,
       "the same by layer_error, which takes the differences first")

# %% [markdown]
# An error of exactly 0 is suspicious, not excellent: rounding almost always leaves something. Our own
# `layer_error` once shared its dy like this, and was happy with those zeros.
#
# **4. A wrong backward passes, because the inputs are too simple.** This is the dangerous case. A
# check sees only the inputs it is given. Rows of length 1, square matrices, sorted ids or a dy of
# ones each hide some mistakes. Take the unit length layer, y = x/‖x‖, whose backward ends with a
# division by ‖x‖: `l2_normalize_backward` in `core/layers.py` (lesson 9 derives it).
#
# ### Exercise 2: fool the check
#
# Write a *wrong* backward that the check passes if the rows of x have length 1, and only then.

# %%
def fooling_backward(dy, cache):
    """Like l2_normalize_backward, but wrong. cache: y (B, d), norm (B, 1) of x."""
    raise NotImplementedError


def judge_fooling(backward, rng):
    any_rows = 3 * rng.standard_normal((4, 3))
    unit_rows, _ = l2_normalize_forward(any_rows)
    kind = layer_error(l2_normalize_forward, backward, [unit_rows], rng)
    cruel = layer_error(l2_normalize_forward, backward, [any_rows], rng)
    assert kind < 1e-6, f"with rows of length 1 the check must pass; its error is {kind:.1e}"
    assert cruel > 1e-2, f"with other rows it should be wrong; its error is only {cruel:.1e}"


check(2, fooling_backward, judge_fooling)

# %% [markdown]
# ## A whole model in two evaluations
#
# The paper's Transformer has tens of millions of parameters: two evaluations for each would take years.
# So `directional_error` moves *all* at once, along a random r of length 1. With the gradient g,
#
# (L(p + εr) − L(p − εr)) / 2ε ≈ g · r
#
# A random direction almost never misses a mistake completely. But a small mistake in a few of many
# parameters changes g · r so little that one direction can overlook it.
#
# ## Where this lives
#
# - `core/gradcheck.py`: `numeric_gradient`, `relative_error`, `layer_error` (random dy, every input
#   of a layer), `directional_error` (a whole model).
# - `tests/core/test_gradients.py`: every backward of the project under these checks, and every
#   check under *mutants*, backwards made wrong on purpose, all of which must fail.
# - To read further: [CS231n on gradient checks](https://cs231n.github.io/neural-networks-3/#gradcheck),
#   with more that can go wrong.

# %% [markdown]
# ## What you know now
#
# - Central differences are off by ε² f‴/6, and by rounding over ε: ε = 10⁻⁵ in float64 suits both.
# - A check can call a right backward wrong: in float32, or near a kink.
# - It can call a wrong one right: if that writes into dy, or if inputs or dy are too simple.
#
# Next: lesson 3 derives the gradient of a matrix product, and that of tanh.
#
# Solutions, for when you have tried: `lessons/solutions/02_finite_differences.py`.
