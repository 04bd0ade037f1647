# %% [markdown]
# # 15 · Layer norm, residuals, depth: what keeps a gradient alive
#
# **Needs** what many layers do to a gradient (lesson 3), that of a unit vector (lesson 9); in the end 12 to 14.
# **Gives** the backward of layer norm in one line; residuals; pre-norm against post-norm; a
# Transformer that reads chat.
# **Time** 70 minutes, in two parts; the second begins at "Residuals".
#
# **In thirty seconds.** A residual, x + f(x), hands the gradient past every layer
# unchanged. A norm keeps what a layer sees at one size. Put the norm on the branch (pre-norm) and
# each layer's gradient is independent of how many layers follow; put it on the stream (post-norm)
# and it is even. But a random change of all weights moves 48 sublayers with post-norm twice as far.
#
# A Transformer of six layers has twelve sublayers in a row. In lesson 3 such a stack of plain
# layers lost its gradient. Two small additions keep it alive, and their *order* decides how well.

# %%
import math
import sys

sys.path += [".", "lessons"]
from lesson import check, claim, expect, np, plt, seed, show
from small_encoder import p_at_1, small_config, some_chat, train
from convsim_mini.config import ModelConfig
from convsim_mini.core import transformer
from convsim_mini.core.gradcheck import layer_error, numeric_gradient, relative_error
from convsim_mini.core.layers import linear_backward, linear_forward
from convsim_mini.core.transformer_layers import (
    EPSILON, layer_norm_backward, layer_norm_forward, relu_backward, relu_forward)
from convsim_mini.training.start import initial_model

rng = np.random.default_rng(seed(13))

# %% [markdown]
# ## Layer norm, forwards
#
# Each row of x is one word's d numbers. Subtract their mean, divide by their spread, then let two
# learned vectors scale and shift each feature:
#
# z = x − mean(x), σ² = mean(z²), s = 1/√(σ² + ε), x̂ = z s, y = x̂ w + b
#
# ε is 10⁻⁶. With it a row of equal numbers is not divided by zero. Every other row of x̂ has mean 0
# and variance 1, whatever the size of x, as long as σ² is far above ε.

# %%
N, d = 4, 6
x, weight, bias = rng.standard_normal((N, d)), rng.standard_normal(d), rng.standard_normal(d)
dy = rng.standard_normal((N, d))

centred = x - x.mean(axis=1, keepdims=True)                   # (N, d)
variance = (centred**2).mean(axis=1, keepdims=True)           # (N, 1)
scale = 1 / np.sqrt(variance + EPSILON)                       # (N, 1)
normal = centred * scale                                      # (N, d): x̂
y = normal * weight + bias

library_y, cache = layer_norm_forward(x, weight, bias)
expect(relative_error(y, library_y), 0, 1e-14, "y, ours against the library's")

# %% [markdown]
# ## Backwards, with four numbers
#
# x = (1, 1, 5, 5) has the mean 3 and the spread 2, so x̂ = (−1, −1, 1, 1). Leave w, b and ε out.
# Let dy = (4, 0, 0, 0): the loss grows with the first number of y.

# %%
few, few_dy = np.array([1.0, 1, 5, 5]), np.array([4.0, 0, 0, 0])
hat_of = lambda x: (x - x.mean()) / x.std()
hat = hat_of(few)
for i, nudge in enumerate(0.001 * np.eye(4), start=1):
    rise = few_dy @ (hat_of(few + nudge) - hat) / 0.001
    print(f"nudge x{i} by 0.001: dy · y rises {rise:.2f} times as much")

# %% [markdown]
# The first slope is 1, not 4/2 = 2: raising x₁ raises the mean, too, and changes the spread.
#
# **Now write it yourself, before you read on:** `yours/layer_norm.py`, then
# `python -m lessons.yours check layer_norm`.
#
# As a loop: x_j is in every z_i through the mean (−1/d), in z_j itself (1), and in σ, which grows
# by x̂_j/d. So ∂x̂_i/∂x_j = s (δ_ij − 1/d − x̂_i x̂_j/d).

# %%
by_loops = np.zeros(4)
for i, j in np.ndindex(4, 4):
    by_loops[j] += few_dy[i] * ((i == j) - 1 / 4 - hat[i] * hat[j] / 4) / few.std()
expect(np.abs(by_loops - [1, -1, 0, 0]).max(), 0, 1e-15, "the loop, for x = (1, 1, 5, 5)")

# %% [markdown]
# ## The same in one line
#
# Two changes of x leave y as it is: one number is added to a whole row (the mean takes it away), or
# a row is stretched along x̂ (the division by the spread undoes it). No gradient points where
# nothing changes. So dx has no part along (1, 1, …, 1) and none along x̂. These two parts are
# projected out of dx̂, and the rest is scaled, as lesson 9 did with one direction:
#
# dx = s (dx̂ − **mean(dx̂)** − x̂ **mean(dx̂ x̂)**)
#
# In the example the means are 1 and −1, so dx = ½ ((4, 0, 0, 0) − 1 + x̂) = (1, −1, 0, 0).

# %%
dnormal = dy * weight                                         # (N, d): y = x̂ w + b
along = (dnormal * normal).mean(axis=1, keepdims=True)        # (N, 1)
dx = scale * (dnormal - dnormal.mean(axis=1, keepdims=True) - normal * along)
expect(relative_error(dx, layer_norm_backward(dy, cache)[0]), 0, 1e-13, "dx against the library's")
expect(layer_error(layer_norm_forward, layer_norm_backward, [x, weight, bias], rng), 0, 1e-7,
       "all three gradients")

# %% [markdown]
# **Predict:** x becomes ten times as large. What happens to y? And to dx?

# %%
large_y, large_cache = layer_norm_forward(10 * x, weight, bias)
large_dx = layer_norm_backward(dy, large_cache)[0]
expect(np.abs(large_y - y).max(), 0, 1e-4, "y moves by")
expect(np.linalg.norm(dx) / np.linalg.norm(large_dx), 9.999, 10.001, "dx shrinks by a factor of")

# %% [markdown]
# y does not change, so the slope must shrink: dx is a tenth. **The gradient of layer norm is
# divided by the size of its input.** Everything that follows depends on that.
#
# ### Exercise 1: without the mean
#
# Many newer models leave out the mean (RMS norm, Zhang and Sennrich 2019): y = x s w,
# s = 1/√(mean(x²) + ε). Derive dx and dw. Which of the two projections remains, and onto what?

# %%
def rms_norm_forward(x, weight):
    """x: (N, d), weight: (d,) → y: (N, d), cache."""
    scale = 1 / np.sqrt((x**2).mean(axis=1, keepdims=True) + EPSILON)
    normal = x * scale
    return normal * weight, (normal, scale, weight)


def rms_norm_backward(dy, cache):
    """dy: (N, d) → dx: (N, d), dweight: (d,)."""
    normal, scale, weight = cache
    raise NotImplementedError


def judge_rms_norm(backward, rng):
    x, weight = 1 + rng.standard_normal((4, 6)), rng.standard_normal(6)
    dy = rng.standard_normal((4, 6))
    loss = lambda: float((rms_norm_forward(x, weight)[0] * dy).sum())
    dx, dweight = backward(dy, rms_norm_forward(x, weight)[1])
    error = relative_error(dweight, numeric_gradient(loss, weight))
    assert error < 1e-6, f"dweight has a relative error of {error:.2g}; a weight serves all rows"
    error = relative_error(dx, numeric_gradient(loss, x))
    assert error < 1e-6, (
        f"dx has a relative error of {error:.2g}; does y stay where it is if you add 1 to a row? "
        "And where do w and s enter?")


check(1, rms_norm_backward, judge_rms_norm)

# %% [markdown]
# ## Residuals: a way past every layer
#
# y = x + f(x). x is used twice, so two gradients add up: **dx = dy + (what f sends back)**.
# Whatever f does, dy itself arrives below, unchanged.
#
# How large is f(x)? Take the feed-forward network: d → 4d, relu, 4d → d, with Glorot's variance 2/(d + 4d) = 2/(5d)
# in both matrices. (The stacks below leave out the attention sublayers.) Start with numbers of mean square 1:
#
# - after the first matrix: d · 2/(5d) = 2/5;
# - relu keeps half of it: 1/5;
# - after the second: 4d · 1/5 · 2/(5d) = **8/25 = 0.32**.
#
# On the way back the same factors come in the other order: 8/25 again. Call it c.

# %%
WIDTH, HIDDEN, C = 128, 512, 8 / 25


def draw_layers(layers, rng):
    """Glorot's matrices of so many feed-forward networks."""
    bound, shapes = math.sqrt(6 / (WIDTH + HIDDEN)), ((WIDTH, HIDDEN), (HIDDEN, WIDTH))
    return [tuple(rng.uniform(-bound, bound, shape) for shape in shapes) for _ in range(layers)]


def inner_forward(x, matrices):
    """f(x) = relu(x W₀) W₁: (N, d) → (N, d), cache."""
    h, first = linear_forward(x, matrices[0], np.zeros(HIDDEN))
    h, relu_cache = relu_forward(h)
    h, second = linear_forward(h, matrices[1], np.zeros(WIDTH))
    return h, (first, relu_cache, second)


def inner_backward(dy, cache):
    first, relu_cache, second = cache
    return linear_backward(relu_backward(linear_backward(dy, second)[0], relu_cache), first)[0]


mean_square = lambda x: float(np.mean(x**2))
words = rng.standard_normal((200, WIDTH))
out, _ = inner_forward(words, draw_layers(1, rng)[0])
expect(mean_square(out) / mean_square(words), 0.27, 0.37, "mean square of f(x) / of x: 0.32")

# %% [markdown]
# ## Four stacks, on paper
#
# Stack L sublayers, f with gain c forwards and backwards. V_l is the mean square of the stream
# after l of them, G_l that of the gradient there. V_0 = 1, and the loss sends G = 1 into the end.
#
# - **Plain**, x ← f(x). Each gives a factor c, as in lesson 3: G_l = c^(L − l).
# - **Residual**, x ← x + f(x). f(x) is unrelated to x, so the squares add: each V is 1 + c times
#   the one below, and backwards likewise. G_l = (1 + c)^(L − l): it *explodes*.
# - **Post-norm**, x ← norm(x + f(x)), the original Transformer. Going back, norm divides by
#   √(1 + c), the spread of its input; then the residual multiplies by √(1 + c): G_l = 1.
# - **Pre-norm**, x ← x + f(norm(x)), and one norm at the end. f sees a stream of size 1 and
#   always adds c: V_l = 1 + c l. Backwards, what comes through f is divided by the stream's size,
#   so going down one sublayer multiplies G by 1 + c/V_l = V_{l+1}/V_l. From the end down to l
#
# G_l = G_L · (V_L/V_{L−1}) · (V_{L−1}/V_{L−2}) · … · (V_{l+1}/V_l) = G_L · V_L/V_l
#
# The norm at the end gives G_L = 1/V_L, so G_l = **1/V_l = 1/(1 + c l)**. L has cancelled: a
# sublayer's gradient does not depend on how many come after it.
#
# ![One sublayer of each of the four stacks](pictures/15_four_stacks.svg)
#
# **Predict:** 24 sublayers, c = 0.32. What is the size (root of G) at the input of each stack?

# %%
ONES, ZEROS = np.ones(WIDTH), np.zeros(WIDTH)


def stack_forward(kind, x, layers):
    """kind: "plain", "residual", "post" or "pre"; x: (N, d) → y: (N, d), cache."""
    caches = []
    for matrices in layers:
        inner_input, norm_cache = layer_norm_forward(x, ONES, ZEROS) if kind == "pre" else (x, None)
        inner_output, inner_cache = inner_forward(inner_input, matrices)
        x = inner_output if kind == "plain" else x + inner_output
        if kind == "post":
            x, norm_cache = layer_norm_forward(x, ONES, ZEROS)
        caches.append((norm_cache, inner_cache))
    x, last_cache = layer_norm_forward(x, ONES, ZEROS) if kind == "pre" else (x, None)
    return x, (kind, caches, last_cache)


def stack_backward(dy, cache):
    """→ the stream's gradient at every height, the input's first: L + 1 arrays (N, d)."""
    kind, caches, last_cache = cache
    dx = layer_norm_backward(dy, last_cache)[0] if kind == "pre" else dy
    seen = [dx]
    for norm_cache, inner_cache in reversed(caches):
        if kind == "post":
            dx = layer_norm_backward(dx, norm_cache)[0]
        dinner = inner_backward(dx, inner_cache)
        if kind == "pre":
            dinner = layer_norm_backward(dinner, norm_cache)[0]
        dx = dinner if kind == "plain" else dx + dinner
        seen.append(dx)
    return seen[::-1]


L = 24
height = np.arange(L + 1)
derived = {"plain": C ** ((L - height) / 2), "residual": (1 + C) ** ((L - height) / 2),
           "post": np.ones(L + 1), "pre": 1 / np.sqrt(1 + C * height)}
measured = {}
layers = draw_layers(L, rng)
words, up = rng.standard_normal((100, WIDTH)), rng.standard_normal((100, WIDTH))
for kind in derived:
    _, cache = stack_forward(kind, words, layers)
    measured[kind] = np.sqrt([mean_square(dx) for dx in stack_backward(up, cache)])
    ratios = measured[kind] / derived[kind]
    expect([abs(r - 1) for r in ratios], 0, 0.4,
           f"{kind}: {derived[kind][0]:.2g} at the input, derived; |measured / derived − 1|")

figure, axes = plt.subplots()
for kind, color in zip(derived, ("C7", "C3", "C1", "C0")):
    axes.semilogy(height, measured[kind], "o", color=color, markersize=4, label=kind)
    axes.semilogy(height, derived[kind], "k:", label="derived" if kind == "pre" else None)
axes.set(title="Of these four stacks, only those with norms keep the gradient's size",
         xlabel="sublayers below (0: the input)",
         ylabel="size of the gradient there (root mean square)", ylim=(1e-7, 1e3))
show(figure, "15_layer_norm_residuals_depth")

# %% [markdown]
# The size at the input: 10⁻⁶ in the plain stack, 28 in the residual one, 1 in both with norms.
#
# ## What is wrong with post-norm?
#
# Post-norm's gradients are even. But look at a *step*. First change all matrices at random by a
# small relative amount δ. How far does the output move? Each f has two matrices, so f(x) changes by
# 2cδ² (mean square), and the layers above pass this change on.
#
# - Post-norm: the change is divided by 1 + c at once, and from then on passed unchanged. The sum
#   over L sublayers is **2cδ² L/(1 + c)**.
# - Pre-norm: the change made at height l grows by V_L/V_l, as the gradient does. The last norm
#   divides by V_L: 2cδ²/V_l is left. The sum over l is nearly an integral: **2δ² ln(1 + c L)**.
#
# So a random change grows like √L in post-norm, like √ln L in pre-norm (Liu et al. 2020). (A step of training
# is not random: all its changes point downhill, so they cancel less, and it moves both stacks further than this.)
#
# **Predict:** 48 sublayers instead of 1. How many times as far does a random change move the output of each stack?

# %%
def moved(kind, depth, delta=1e-6):
    """Root mean square change of the output, divided by delta, the matrices' relative change."""
    layers, noise = draw_layers(depth, np.random.default_rng(seed(1))), np.random.default_rng(seed(2))
    before, _ = stack_forward(kind, words, layers)
    changed = [tuple(w + delta * w.std() * noise.standard_normal(w.shape) for w in pair) for pair in layers]
    return math.sqrt(mean_square(stack_forward(kind, words, changed)[0] - before)) / delta


depths = np.array([1, 3, 12, 48])
steps = {kind: [moved(kind, depth) for depth in depths] for kind in ("post", "pre")}
claim("random change, pre-norm: 48 sublayers / 1; derived 3.2",
      steps["pre"][-1] / steps["pre"][0], 2.2, 4.5)
claim("random change, post-norm: 48 / 1; derived 6.9", steps["post"][-1] / steps["post"][0], 4.5,
      12)

figure, axes = plt.subplots()
for kind, color in (("post", "C1"), ("pre", "C0")):
    axes.loglog(depths, steps[kind], "o", color=color, label=f"{kind}-norm")
axes.loglog(depths, np.sqrt(2 * C * depths / (1 + C)), "k:", label="derived, ∝ √L and √ln(1 + cL)")
axes.loglog(depths, np.sqrt(2 * np.log(1 + C * depths)), "k:")
axes.set(title="A random change of all matrices: the deeper, the more post-norm moves",
         xlabel="sublayers, L", ylabel="move of the output / relative change δ", xticks=depths,
         xticklabels=depths, yticks=[1, 2, 4], yticklabels=[1, 2, 4])
axes.minorticks_off()
show(figure, "15_steps")

# %% [markdown]
# It moves the pre-norm stack 3 times as far at 48 sublayers as at one, and the post-norm stack 7 times.
#
# ## A Transformer reads chat
#
# Now all of it at once, on real pairs: words plus the timing signal (lesson 13), two layers of attention
# (12, 14) and feed-forward networks, each on a branch with its norm, a last norm, the mean. It is the
# library's, 64 numbers wide with four heads, and trains for 20 seconds: 138 steps of 256 pairs.
#
# **Predict:** which words of "do you have any pets ?" will its heads ask? And P@1: guessing has 1, a bag
# from counted vectors 15, and 18 after these steps.

# %%
def asked(model, text):
    """Which share of all questions goes to each word, mean over eight heads and all words: (n,)."""
    layers = transformer.attention_weights(model, corpus.vocabulary.encode([text]))
    return np.concatenate([p[0][0] for p in layers]).mean(axis=(0, 1))


corpus, config = some_chat(40_000, 8_000), small_config(8_000, ModelConfig(
    encoder="transformer", embedding_dim=64, layers=[64], transformer_layers=2, heads=4, hidden=256,
    dropout=0.0))
texts = "what do you do for a living ?", "do you have any pets ?"
model = initial_model(config, corpus)
before = p_at_1(model, corpus.dev)
looks = {"before training": [asked(model, text) for text in texts]}
losses, P = train(model, config, corpus), p_at_1(model, corpus.dev)
looks["after"] = [asked(model, text) for text in texts]
print(f"loss {losses[0]:.2f} → {np.mean(losses[-10:]):.2f}, P@1 {before:.1f} → {P:.1f}")
claim("a Transformer's P@1 after 138 steps, points more than before", P - before, low=3)
living, pets = ([shares[-2] for shares in pair] for pair in zip(*looks.values()))
claim("share of the questions that go to “living” and “pets”, after / before",
      (living[1] + pets[1]) / (living[0] + pets[0]), low=1.2)

figure, panels = plt.subplots(1, 2, figsize=(11, 4.3))
for axes, text, *shares in zip(panels, texts, *looks.values()):
    place, words = np.arange(len(text.split())), text.split()
    for when, share, shift, color in zip(looks, shares, (-0.2, 0.2), ("C1", "C0")):
        axes.bar(place + shift, share, 0.4, color=color, label=when)
    axes.set(title=f"How often “{words[-2]}” and the others are asked", xlabel="word", ylim=(0, 0.5),
             ylabel="share of the questions that it gets")
    axes.set_xticks(place, words, rotation=60)
show(figure, "15_transformer")

# %% [markdown]
# In twenty seconds P@1 rises from 4 to 12. The heads, which asked all words nearly alike, now ask for "living"
# and "pets" 2.5 times as much (1.5 to 2.9 over five seeds), "pets" above all: rare words that tell what the
# sentence is about. A bag is *given* that, by its weights (lesson A), and gets 18 in a twentieth of the time. The
# paper's Transformer passes its DAN, with 600 million pairs.
#
# ## Where this lives
#
# - `core/transformer_layers.py`: `layer_norm_forward`, `layer_norm_backward`.
# - `core/transformer.py`: `sublayer_forward` is x + dropout(f(norm(x))), pre-norm, and
#   `sublayer_backward` adds the two gradients.
# - The paper, §3.1: six layers, 512 wide, 2048 inside. It does not say which order it used.
# - To read further: [layer norm itself](https://arxiv.org/abs/1607.06450); [pre-norm against
#   post-norm](https://arxiv.org/abs/2002.04745), with what warm-up has to do with it.

# %% [markdown]
# ## What you know now
#
# - Layer norm divides the gradient by the size of its input.
# - In pre-norm a layer's gradient depends on the layers before it, not on how many follow.
# - A random change moves the output in proportion to √L in post-norm and to √ln L in pre-norm.
#
# Next: lessons 16 and 17 compare optimisers; lesson 18 puts all of it to work and trains.
#
# Solutions, for when you have tried: `lessons/solutions/15_layer_norm_residuals_depth.py`.
