# %% [markdown]
# # 4 · Softmax and cross-entropy: a check that lets bugs through
#
# **Needs** gradient checks (lesson 2) and matrix gradients (lesson 3).
# **Gives** the backward of softmax and of cross-entropy, why they are written as one, and the
# difference between a check that ran and a check that could have failed.
# **Time** 50 minutes.
#
# A softmax turns scores into probabilities. This project has one in the loss (which reply?), one in
# the NLI classifier (which of three classes?) and one in attention (which word?). A softmax also
# has a property that makes a common gradient check, `y.sum().backward()`, nearly blind.
#
# **In thirty seconds.** Backward through a softmax, subtract the p-weighted average of dp and multiply
# by p. Joined with the logarithm of the loss, all of it shrinks to p − truth. And never check a
# gradient with a dy of ones.

# %%
import sys

sys.path += [".", "lessons"]
from lesson import check, claim, expect, np, plt, seed, show
from convsim_mini.core.gradcheck import layer_error, numeric_gradient, relative_error
from convsim_mini.core.losses import cross_entropy_backward, cross_entropy_forward

rng = np.random.default_rng(seed(7))

# %% [markdown]
# ## Scores to probabilities
#
# Any scores s₁ … s_c become positive by exp and sum to 1 by division:
#
# p_j = e^{s_j} / Σ_k e^{s_k}
#
# Add the same number t to all scores: e^t appears above and below the line and cancels. A softmax
# only sees *differences* between scores. Much below follows from that.
#
# **Predict:** the softmax of (0, 1, 2) is about (0.09, 0.24, 0.67). What is that of (1000, 1001, 1002),
# by exactly this formula, in float64?

# %%
with np.errstate(over="ignore", invalid="ignore"):    # NumPy would warn here; listen when it does
    for s in (np.array([0.0, 1, 2]), np.array([1000.0, 1001, 1002])):
        print("by the formula:", s, "→", (np.exp(s) / np.exp(s).sum()).round(3))

# %% [markdown]
# e¹⁰⁰⁰ is inf and inf/inf is nan. But only differences count, so we may subtract the largest score from
# all of them. Then the largest power is e⁰ = 1, and nothing overflows.

# %%
def softmax_forward(s):
    """p = e^s / Σ e^s over the last axis. s: (B, c) → p: (B, c), cache."""
    p = np.exp(s - s.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    return p, p


small, _ = softmax_forward(np.array([[0.0, 1, 2]]))
large, _ = softmax_forward(np.array([[1000.0, 1001, 1002]]))
expect(np.abs(large - small).max(), 0, 1e-15, "(1000, 1001, 1002) against (0, 1, 2)")

# %% [markdown]
# ## The Jacobian
#
# With Z = Σ e^{s_k} the quotient rule gives, for i = j and for i ≠ j,
#
# ∂p_i/∂s_i = e^{s_i}/Z − e^{2 s_i}/Z² = p_i − p_i², ∂p_i/∂s_j = −e^{s_i} e^{s_j}/Z² = −p_i p_j
#
# or **∂p_i/∂s_j = p_i (δ_ij − p_j)**. Raising a score raises its own p and lowers all others. An
# example: the scores ln 2, 0, 0 give p = ½, ¼, ¼.

# %%
s = np.array([np.log(2), 0, 0])
p = np.exp(s) / np.exp(s).sum()
jacobian = p[:, None] * (np.eye(3) - p)
dp = np.array([4, 0, 0])    # the loss cares only about p₀
print(jacobian, "\nrows sum to", jacobian.sum(axis=1).round(12), "  ds =", dp @ jacobian)
print(f"average of dp, weighted by p: {p @ dp:.0f}   p (dp − 2) =", p * (dp - p @ dp))

# %% [markdown]
# The rows and the columns of this matrix sum to zero. A row: raising all scores by the same amount
# changes no p. A column: if one score changes, the p's still sum to 1, so what one wins the others
# lose. And the last line gets the same ds with no matrix at all. That works in general. Put the
# Jacobian into ds_j = Σ_i dp_i ∂p_i/∂s_j:
#
# ds_j = Σ_i dp_i p_i (δ_ij − p_j) = **p_j (dp_j − Σ_i dp_i p_i)**
#
# In words: subtract the p-weighted average of dp, then multiply by p_j.

# %%
def softmax_backward(dp, p):
    """Forward: p_j = e^{s_j}/Σ e^{s_k}. dp: (B, c) → ds: (B, c)"""
    return p * (dp - (dp * p).sum(axis=-1, keepdims=True))


s = rng.standard_normal((4, 6))
expect(layer_error(softmax_forward, softmax_backward, [s], rng), 0, 1e-8,
       "softmax_backward, random dp")

# %% [markdown]
# ## The check that hardly sees anything
#
# A gradient check needs a number to differentiate, and the shortest way from an array to a number is
# `y.sum()`. Its upstream gradient is dp = 1 everywhere. Here are seven backwards, one right and six
# broken. We check each with dp = 1 and with a random dp, and note its largest distance from finite
# differences. An absolute tolerance like `allclose(…, atol=1e-6)` is common.
#
# **Predict:** what is the gradient of `softmax(s).sum()`? (What is `softmax(s).sum()`?) How many of
# the six broken ones pass with dp = 1, and how many with a random dp?

# %%
backwards = {
    "right": softmax_backward,
    "returns zeros": lambda dp, p: 0 * dp,
    "3 × too large": lambda dp, p: 3 * softmax_backward(dp, p),
    "wrong sign": lambda dp, p: -softmax_backward(dp, p),
    "forgets the factor p": lambda dp, p: dp - (dp * p).sum(axis=-1, keepdims=True),
    "plain mean instead of Σ dp p": lambda dp, p: p * (dp - dp.mean(axis=-1, keepdims=True)),
    "forgets − Σ dp p": lambda dp, p: p * dp}


def distance(backward, dp):
    """The largest |analytic − numeric| over the entries of ds."""
    _, cache = softmax_forward(s)
    numeric = numeric_gradient(lambda: float((softmax_forward(s)[0] * dp).sum()), s)
    return np.abs(backward(dp, cache) - numeric).max()


ones, random = np.ones_like(s), rng.standard_normal(s.shape)
seen = {name: (distance(backward, ones), distance(backward, random))
        for name, backward in backwards.items()}

figure, axes = plt.subplots(figsize=(8, 4))
for row, (name, distances) in enumerate(seen.items()):
    color = "C2" if name == "right" else "C3"
    by_ones, by_random = np.maximum(distances, 1e-13)
    axes.plot([by_ones, by_random], [row, row], color=color, alpha=0.25, linewidth=3)
    axes.plot(by_ones, row, "s", color=color, markersize=8, markerfacecolor="white",
              markeredgewidth=2, label="dp of ones" if row == 1 else None)
    axes.plot(by_random, row, "o", color=color, label="random dp" if row == 1 else None)
axes.axvline(1e-6, color="black", linestyle=":", label="tolerance 10⁻⁶")
axes.set(xscale="log", xlim=(1e-14, 20), ylim=(6.6, -1), yticks=range(7), yticklabels=seen,
         xlabel="largest |analytic − numeric| (at least 10⁻¹³)", ylabel="backward",
         title="With a dp of ones, five of six broken backwards\nlook as right as the right one")
axes.text(6e-7, -0.6, "passes", ha="right")
axes.text(1.6e-6, -0.6, "is caught")
show(figure, "04_softmax_and_cross_entropy")

distances = np.array(list(seen.values()))                     # (7, 2), the right backward first
expect((distances[:, 0] < 1e-6).sum(), 6, 6, "backwards of seven that pass with ones")
claim("with a random dp: the nearest that one of six broken backwards comes",
      distances[1:, 1].min(), 1e-2)

# %% [markdown]
# With a dp of ones, five of the broken backwards pass; with a random dp, none. Each row of a softmax
# sums to 1, whatever s is. So the gradient of the sum is p_j (1 − Σ p_i) = 0, and any backward that
# turns ones into zeros "agrees". A relative error does not help: with ones, right and wrong gradients
# are both rounding noise, and their ratio may be anything.
#
# Other layers have their blind spots, too. Layer norm (lesson 15), before its weights, cannot see
# ones, because its rows have mean 0 whatever x is. Unit length (lesson 9) cannot see dy = y.
#
# A random dy has a part in every direction, so a mistake that is linear in dy hides with probability 0.
# (Lesson 2's exercise 2 hides in the inputs.) That is why `layer_error` draws its dy.
#
# ### Exercise 1: break it so that two checks pass
#
# A colleague checks a softmax backward twice. With dp = 1 it must return (nearly) zero. With a
# random dp each row of ds must sum to zero, since p's sum cannot change. Both are true of the right
# backward. Write a *wrong* one that passes both. With a random dp it must be far off and not zero,
# and at least one row must not be a multiple of the correct row.

# %%
def well_dressed_backward(dp, cache):
    """Passes both of the colleague's checks and is wrong. dp: (B, c) → ds: (B, c)"""
    raise NotImplementedError    # cache: p


def judge_well_dressed(backward, rng):
    s = rng.standard_normal((4, 6))
    p, cache = softmax_forward(s)
    dp = rng.standard_normal(s.shape)
    ds = backward(dp.copy(), cache.copy())
    assert ds.shape == s.shape, f"ds has shape {ds.shape}, expected {s.shape}"
    assert np.abs(backward(np.ones_like(s), cache.copy())).max() < 1e-9, (
        "with dp = 1 it does not return zero")
    assert np.abs(ds.sum(axis=1)).max() < 1e-9, "with a random dp its rows do not sum to zero"
    right = softmax_backward(dp, cache)
    error = relative_error(ds, right)
    assert np.linalg.norm(ds) > 1e-3, "zeros are too easily seen"
    assert error > 0.1, f"it should be wrong; its relative error is only {error:.2g}"
    along, lengths = (ds * right).sum(axis=1), np.sqrt((ds**2).sum(axis=1) * (right**2).sum(axis=1))
    assert (np.abs(along) < 0.9999 * lengths).any(), (
        "each of its rows is a multiple of the right one's, as in the list above; find another one")


check(1, well_dressed_backward, judge_well_dressed)

# %% [markdown]
# ## Cross-entropy
#
# Row b has the right class l_b. The loss is the surprise at it, in nats, averaged over the rows:
#
# L = −(1/B) Σ_b log p_{b,l_b}
#
# We go back in two steps. dp is −1/(B p) at the label and 0 elsewhere. Put it into the softmax's
# backward: Σ dp p = −1/B, so ds_j = p_j dp_j + p_j/B. At the label p · (−1/(B p)) = −1/B. Together
#
# **ds = (p − onehot)/B**
#
# The 1/p and the p have cancelled, and what is left could hardly be simpler: what the model said,
# less what was true. For p = (½, ¼, ¼) and the first class that is (−½, ¼, ¼).

# %%
logits, labels = rng.standard_normal((5, 3)), np.array([2, 0, 1, 1, 0])
p, _ = softmax_forward(logits)
onehot = np.eye(3)[labels]                                    # (B, c)

two_steps = softmax_backward(-onehot / p / 5, p)
one_step = (p - onehot) / 5
loss = lambda: float(-np.log(softmax_forward(logits)[0][range(5), labels]).mean())
expect(relative_error(one_step, numeric_gradient(loss, logits)), 0, 1e-8,
       "(p − onehot)/B, against differences")
library_loss, cache = cross_entropy_forward(logits, labels)
expect([relative_error(one_step, two_steps), abs(library_loss - loss()),
        relative_error(cross_entropy_backward(1.0, cache), one_step)], 0, 1e-14,
       "the same in two steps; cross_entropy_forward; cross_entropy_backward")

# %% [markdown]
# ## Why one function and not two
#
# Now a confident mistake: the score of the right class is 800 below that of the other. The loss is
# 800, since log p = s_l − log Σ e^s. But in two steps p becomes 0 first, and then we ask for log 0.
#
# **Predict:** loss and gradient in two steps, and by the library.

# %%
confident, wrong_label = np.array([[800.0, 0.0]]), np.array([1])
p, _ = softmax_forward(confident)
with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
    two_step_loss = -np.log(p[0, 1])
    two_step_gradient = softmax_backward(np.array([[0, -1 / p[0, 1]]]), p)
print("two steps:  loss", two_step_loss, " gradient", two_step_gradient[0])
assert np.isinf(two_step_loss) and np.isnan(two_step_gradient).any()
library_loss, cache = cross_entropy_forward(confident, wrong_label)
print("as one:  gradient", cross_entropy_backward(1.0, cache)[0])
expect(library_loss, 800 - 1e-9, 800 + 1e-9, "as one:  loss")

# %% [markdown]
# In two steps the loss is inf and the gradient nan. One nan infects every parameter it touches. The
# library computes log p itself, as s − log Σ e^s, with the largest score taken out of the sum.
#
# ### Exercise 2: log-softmax
#
# y_j = s_j − log Σ_k e^{s_k}. Derive its backward for *any* dy. (Here a dy of ones is not blind. Why?)

# %%
def log_softmax_forward(s):
    """s: (B, c) → y: (B, c), cache."""
    shifted = s - s.max(axis=1, keepdims=True)
    y = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return y, y


def log_softmax_backward(dy, cache):
    """dy: (B, c) → ds: (B, c)"""
    raise NotImplementedError    # cache: y


def judge_log_softmax(backward, rng):
    s = rng.standard_normal((4, 6))
    error = layer_error(log_softmax_forward, backward, [s], rng)
    assert error < 1e-6, (f"the relative error is {error:.2g}; "
                          "log Σ e^s is in every y_k of its row, so what sums?")


check(2, log_softmax_backward, judge_log_softmax)

# %% [markdown]
# ## Where this lives
#
# - `core/losses.py`: `cross_entropy_forward`, `cross_entropy_backward`. A softmax without a logarithm:
#   `core/attention.py`: `attention_backward`.
# - `minimal.py`: `batch_softmax` holds ds = (p − δ)/B, this lesson's one-step gradient.
# - [The paper](https://arxiv.org/abs/1804.07754), §2.2 (a softmax over replies) and §2.4 (three
#   classes of NLI).
# - To read further: [CS231n on softmax](https://cs231n.github.io/linear-classify/), with the same
#   shift of scores.

# %% [markdown]
# ## What you know now
#
# - ds = p (dp − Σ dp p), because a softmax only sees differences between scores.
# - So a check with a dy of ones passes five broken backwards of six. Draw dy at random.
# - Softmax and log as one function: ds = (p − onehot)/B, and no nan.
#
# Next: lesson 5 puts a softmax over the replies of a whole batch.
#
# Solutions, for when you have tried: `lessons/solutions/04_softmax_and_cross_entropy.py`.
