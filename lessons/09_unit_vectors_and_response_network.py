# %% [markdown]
# # 9 · Unit vectors and the response network
#
# **Needs** the batch softmax loss (lesson 5), linear layers (lesson 3).
# **Gives** `l2_normalize` and `response_forward` with their gradients; why scores need a scale; and
# why the reply goes through layers that the input does not.
# **Time** 75 minutes, in two parts; the second begins at "Part two".
#
# **In thirty seconds.** Sentences are compared by angle, so every vector gets length 1.
# On the way back only what *turns* a vector gets through. But if the sentence itself is among the
# candidates, nothing beats its cosine of 1 with itself: the best reply to "How old are you?" would
# always be "How old are you?". Extra layers that only the reply goes through break that symmetry.

# %%
import sys

sys.path += [".", "lessons"]
from lesson import check, claim, expect, np, plt, seed, show
from convsim_mini.config import ModelConfig
from convsim_mini.core.gradcheck import layer_error, numeric_gradient, relative_error
from convsim_mini.core.layers import l2_normalize_backward, l2_normalize_forward
from convsim_mini.core.losses import batch_softmax_backward, batch_softmax_forward
from convsim_mini.core.model import Model, response_backward, response_forward
from convsim_mini.core.optim import Adaptive

rng = np.random.default_rng(seed(9))

# %% [markdown]
# ## Part one: the length that the loss cannot feel
#
# The layer is y = x/n with n = ‖x‖. Try it with numbers first: x = (3, 4) has length 5, so
# y = (0.6, 0.8). Let dy = (1, 0): the loss is y₁. How does it move with each number of x?

# %%
x, dy = np.array([3.0, 4.0]), np.array([1.0, 0.0])
n = np.linalg.norm(x)
y = x / n
for what, nudge in (("x₁", [0.001, 0]), ("x₂", [0, 0.001]), ("x along itself", 0.001 * y)):
    moved = ((x + nudge) / np.linalg.norm(x + nudge) - y) @ dy
    print(f"nudge {what} by 0.001: y₁ moves by {moved / 0.001:.3f} times as much")

# %% [markdown]
# **Now write it:** `yours/l2_normalize.py`, then `python -m lessons.yours check l2_normalize`.
#
# Nudge one number x_j. The numerator changes only at place j. The length changes too, by
# ∂n/∂x_j = x_j/n = y_j, and that shrinks *all* the numbers:
#
# ∂y_i/∂x_j = δ_ij/n − x_i y_j/n² = **(δ_ij − y_i y_j)/n**
#
# dx_j adds up what each y_i contributes, dy_i times this slope. As a loop, and as one line:
#
# **dx = (dy − (dy · y) y)/n**
#
# (dy · y) y is the part of dy that points along y. Moving a vector along itself does not turn it,
# and y can only turn, so that part has no effect and is removed. The division by n says that a long
# vector turns less for the same step. Here that leaves (0.64, −0.48)/5 = (0.128, −0.096), as nudged.
#
# ![On the circle only the part of dy across y is left](pictures/09_unit_circle.svg)

# %%
by_loops = np.zeros(2)                                        # for x = (3, 4), dy = (1, 0)
for i, j in np.ndindex(2, 2):
    by_loops[j] += dy[i] * ((i == j) - y[i] * y[j]) / n


def normalize_backward(dy, cache):
    """Forward: y = x/‖x‖. dy: (B, d) → dx: (B, d)"""
    y, norm = cache
    return (dy - (dy * y).sum(axis=1, keepdims=True) * y) / norm


expect(np.abs(by_loops - (dy - (dy @ y) * y) / n).max(), 0, 1e-15, "the loop, for x = (3, 4)")
x = 3 * rng.standard_normal((4, 3))    # lengths other than 1: lesson 2 says why
dy = rng.standard_normal((4, 3))
y, cache = l2_normalize_forward(x)
dx = normalize_backward(dy, cache)
expect(layer_error(l2_normalize_forward, normalize_backward, [x], rng), 0, 1e-8,
       "the formula against differences, random dy")
twice = l2_normalize_backward(dy, l2_normalize_forward(2 * x)[1])
expect([relative_error(dx, l2_normalize_backward(dy, cache)), relative_error(twice, dx / 2),
        np.abs((dx * x).sum(axis=1)).max()], 0, 1e-14,
       "the library's dx; twice the length, half the gradient; dx · x, a right angle")

# %% [markdown]
# At x = 0 that is 0/0. The library leaves a zero row as it is, or one such row could turn all into nan.
#
# ## What happens to the length
#
# The loss does not depend on ‖x‖, so you might expect that training leaves it alone. Take one
# step of plain gradient descent, with a random dy. The step, −η dx, is at a right angle to x.
#
# **Predict:** does the length of x shrink, stay, or grow?

# %%
x = rng.standard_normal((4, 3))
y, cache = l2_normalize_forward(x)
dx = l2_normalize_backward(rng.standard_normal(y.shape), cache)
grown = ((x - 0.5 * dx) ** 2).sum(axis=1) - (x * x).sum(axis=1)
expect(relative_error(grown, 0.25 * (dx * dx).sum(axis=1)), 0, 1e-12, "growth against η² ‖dx‖²")

# %% [markdown]
# The length can *only* grow. Pythagoras says so: ‖x − η dx‖² = ‖x‖² + η² ‖dx‖². And since the
# gradient falls like 1/‖x‖, the vector turns more and more slowly.
#
# ## A cosine is too small a score
#
# With unit vectors and scale 1 a score is a cosine, at most 1, so the softmax of lesson 5 can never
# be sure. The best case is a true cosine of 1 and all others as low as possible. But K vectors
# cannot all point away from each other. Two can: their cosine is −1. Three form a triangle, with
# −½, four a tetrahedron, with −⅓. K form a simplex:
#
# ![Two, three and four unit vectors, as far apart as they can be](pictures/09_corners.svg)
#
# mean cosine ≥ **−1/(K − 1)**, since 0 ≤ ‖Σ v_i‖² = K + K (K − 1) · mean cosine
#
# So the true score lies at most 1 + 1/(K − 1) = K/(K − 1) above the others, times the scale, and
#
# loss ≥ **ln(1 + (K − 1) e^{−scale · K/(K − 1)})**
#
# (That is for replies that sit exactly on their inputs. Other unit vectors do no better: no average
# gap is larger, and equal gaps are best, because the loss is convex in them.)
#
# **Predict:** K = 1024, ln K = 6.93. How far down can the loss go with a scale of 1: to 0, 3, 6?

# %%
for scale in (1, 5, 15):
    lowest = np.log1p(1023 * np.exp(-scale * 1024 / 1023))
    print(f"K = 1024, scale {scale:2}: the loss starts at {np.log(1024):.2f}, not below {lowest:.6f}")

# %% [markdown]
# At scale 1 the loss cannot fall below 5.93: a perfect model is only one nat better than knowing
# nothing. (K corners that are equally far apart need K − 1 dimensions, and ours are 500. So 1,024
# replies come near these bounds, but do not reach them.)
#
# There are two remedies. In the paper v′ may have any length, so it needs no scale. Ours has
# unit length, as u has, and the scale is 15. (`convsim_mini/RESULTS.md` compares the two.)
#
# ## Part two: the echo
#
# The encoder is tied: inputs and replies share its parameters. So the score of reply j to input
# i is the cosine of two outputs of one function, and
#
# s_ij = s_ji, and s_ii = 1, the highest there is.
#
# Conversation is not like that. "I am 20" answers "How old are you?" and not the other way round,
# and hardly any sentence is its own answer. Here is a small world with this problem: twelve
# sentences in a circle, each answered by the next. Each has a free vector of length 1.
#
# **Predict:** the score is the cosine. In how many of the twelve rows will the true reply win?

# %%
sentences, width, scale = 12, 16, 20.0
reply = (np.arange(sentences) + 1) % sentences                # sentence i is answered by i + 1

# %% [markdown]
# In none: each sentence is a candidate itself (it answers the one before), and nothing beats its 1.
#
# **How low can the loss get?** Around the circle the scores of i + 1 and of i − 1 add up to the
# same, since s_ij = s_ji, and the sentence itself scores at least as much. At best the true reply
# ties with two others, so by convexity the loss never gets below **ln 3 = 1.0986**. Nor does it get
# that far: tied in all rows, the twelve would be one vector. Put them on the rim of a cone instead,
# at even steps of 30°. With a rim of radius r, the sentence k places on has the cosine
# 1 − r² (1 − cos 30° k). Which opening is best?

# %%
step = np.cos(2 * np.pi * np.arange(sentences) / sentences)   # cos 30° k
of_cones = [(np.log(np.exp(scale * r**2 * (step - step[1])).sum()), 1 - r**2 * (1 - step[1]))
            for r in np.linspace(0, 1, 1_001)]
cone, cosine_on_cone = min(of_cones)
print(f"the best cone: loss {cone:.4f}, cosine of neighbours {cosine_on_cone:.4f}")

# %% [markdown]
# ## Layers that only the reply goes through
#
# The paper puts fully connected layers on v only: v′ = layers(v), score = u · v′. What does that
# buy? Take the simplest, v′ = v W, in two steps. A *symmetric* W can already turn every sentence
# away from itself. But s_ij = s_ji still holds, so the reply ties with the sentence before, and the
# loss stays above **ln 2**. A W that need not be symmetric breaks this tie as well.
#
# Ours is residual and scaled to length 1, v′ = normalise(v + v W + b): it starts near v, where
# shared words already rank replies. Going back, v is used twice, so two gradients add (lesson 3):

# %%
config = ModelConfig()    # residual_response and unit_response are on
W, b = rng.standard_normal((4, 4)), rng.standard_normal(4)
params = {"response.linear0.weight": W, "response.linear0.bias": b}
v, dy = rng.standard_normal((2, 5, 4))

z = v + v @ W + b                                             # (B, e)
_, unit_cache = l2_normalize_forward(z)
dz = l2_normalize_backward(dy, unit_cache)                    # (B, e)
dv = dz + dz @ W.T                                            # directly, and through the layer
dweight, dbias = v.T @ dz, dz.sum(axis=0)

model = Model(params, config, 0)
loss = lambda: float((response_forward(model, v)[0] * dy).sum())
expect([relative_error(gradient, numeric_gradient(loss, array))
        for gradient, array in ((dv, v), (dweight, W), (dbias, b))], 0, 1e-8,
       "dv, dW, db, against differences")
library_dv, grads = response_backward(dy, response_forward(model, v)[1])
expect([relative_error(dv, library_dv), relative_error(dweight, grads["response.linear0.weight"])],
       0, 1e-13, "dv, dW, the library's")

# %% [markdown]
# Now the circle, four times. Without layers it starts with the echo: the sentence itself scores 20,
# the true reply about ±5. So the loss begins near 20, far above ln 12 = 2.48.
#
# **Predict:** a symmetric W gets no lower than ln 2. How many of its twelve rows will be right?

# %%
def train_circle(kind, steps=600):
    """→ losses, scores (12, 12), unit vectors u (12, 16) after training the circle."""
    rng = np.random.default_rng(seed(9))
    x = rng.standard_normal((sentences, width))
    params = {"x": x, "response.linear0.weight": 0.03 * rng.standard_normal((width, width)),
              "response.linear0.bias": np.zeros(width)}
    optimizer, losses = Adaptive(params), []                  # a box until lesson 16
    model = Model(params, config, 0)
    for _ in range(steps):
        u, unit_cache = l2_normalize_forward(params["x"])
        v = u[reply]                                          # tied: the same vectors
        R = params["response.linear0.weight"]
        W = {"no layers": np.eye(width), "symmetric W": (R + R.T) / 2}.get(kind, R)
        v_prime, cache = response_forward(model, v) if kind == "ours" else (v @ W, None)
        loss, loss_cache = batch_softmax_forward(u, v_prime, scale)
        losses.append(float(loss))
        du, dv_prime = batch_softmax_backward(1.0, loss_cache)
        dW, dv, grads = v.T @ dv_prime, dv_prime @ W.T, {}
        if kind == "ours":
            dv, grads = response_backward(dv_prime, cache)
        elif kind != "no layers":
            grads = {"response.linear0.weight": (dW + dW.T) / 2 if kind == "symmetric W" else dW}
        np.add.at(du, reply, dv)    # each sentence is an input and a reply
        optimizer.step(params, {"x": l2_normalize_backward(du, unit_cache), **grads}, 0.02, 0.02)
    return losses, scale * u @ v_prime.T, u


runs = {kind: train_circle(kind) for kind in ("no layers", "symmetric W", "any W", "ours")}

figure, axes = plt.subplots()
for (kind, (losses, _, _)), color in zip(runs.items(), ("C3", "C1", "C0", "C2")):
    axes.semilogx(range(1, 601), losses, color=color, linewidth=2, label=kind)
for level, style, label in ((cone, "-.", f"{cone:.3f}, the best cone"),
                            (np.log(2), ":", "ln 2, the bound for a symmetric W")):
    axes.axhline(level, color="black", linestyle=style, linewidth=1, label=label)
axes.set(xlabel="step", ylabel="batch softmax loss", ylim=(-0.05, 4), xticks=[1, 10, 100, 600],
         xticklabels=[1, 10, 100, 600],
         title="A ladder: turning away from oneself reaches ln 2,\n"
               "a score that is not symmetric reaches 0")
show(figure, "09_unit_vectors_and_response_network")

own, symmetric, free, other = runs.values()
right = [int((scores.argmax(axis=1) == np.arange(12)).sum()) for _, scores, _ in runs.values()]
print("rows of 12 with the true reply first:", *right)
expect(own[0][0], scale - 6, scale + 6, "no layers: loss at the start: 20, give or take 4 · 5/√12")
claim("no layers: loss in the end − that of the best cone", own[0][-1] - cone, -0.001, 0.02)
claim("symmetric W: loss in the end minus the bound, ln 2", symmetric[0][-1] - np.log(2), 0, 0.03)
claim("any W: loss in the end", free[0][-1], high=0.001)
claim("ours: loss in the end", other[0][-1], high=0.02)
expect([right[0], 12 - right[2], 12 - right[3]], 0, 0,
       "rows right without layers; rows wrong with any W and with ours")

# %% [markdown]
# About half of the rows, six here: each tie falls one way or the other. Without layers, training finds
# the best cone. So the ladder is 1.45 → ln 2 → 0. The first step takes a W that turns each sentence
# away from itself, the second a score that is not symmetric.
#
# Worse, we compare meanings by cosines between u's. What is the cosine of a sentence and its reply?

# %%
between = {kind: float((u * u[reply]).sum(axis=1).mean()) for kind, (_, _, u) in runs.items()}
expect(between["no layers"], 0.9, 1, "no layers: cosine of sentence and reply")
claim("ours: cosine of sentence and reply; unrelated 0 ± 2/√16", between["ours"], high=0.5)

# %% [markdown]
# Without a response network a question and its answer have to become neighbours, or the loss does
# not fall: "How old are you?" would *mean* "I am 20". With one, the extra layers turn the reply
# towards its question, and the two u's are free. (v′ starts near v: probably some of it remains.)
#
# These are twelve free vectors in one batch. In real chat an input is rarely a reply of the same batch,
# and the network is worth less, about one point of P@1 (the same report).
#
# ### Exercise 1: turn each reply towards its question
#
# Now without training: the u of some sentences are given, and sentence i is answered by `reply[i]`. Write
# the W with which the reply lands exactly on its question, u[reply] W = u. (On a circle it is a rotation.)

# %%
def towards_question(u, reply):
    """u: (n, d) unit vectors, reply: (n,) → W: (d, d), for the scores u (u W)ᵀ."""
    raise NotImplementedError


def judge_towards(towards_question, rng):
    angles = 2 * np.pi * np.arange(7) / 7
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    at_random = l2_normalize_forward(rng.standard_normal((5, 8)))[0]
    for what, u in (("seven on a circle", circle), ("five at random", at_random)):
        reply = np.roll(np.arange(len(u)), -1)                # i is answered by i + 1
        W = towards_question(u, reply)
        assert np.shape(W) == 2 * u.shape[1:], f"W has shape {np.shape(W)}"
        scores = u @ (u @ W).T
        won = (scores.argmax(axis=1) == reply).sum()
        assert won == len(u), (f"{what}: {won} rows of {len(u)} have the true reply first; a "
                               "symmetric W ties, and its transpose answers with the one before")
        assert np.allclose(u[reply] @ W, u), f"{what}: a reply does not land on its question"


check(1, towards_question, judge_towards)

# %% [markdown]
# ### Exercise 2: turned away
#
# Even W = −I, so v′ = −v, beats the echo. Place n sentences so that the true reply i + 1 scores clearly
# more than all others but one. That one ties, and at scale 100 the loss is ln 2. (n dimensions suffice.)

# %%
def turned_away(n):
    """→ u: (n, d) unit vectors, of which only neighbours on the circle are far apart."""
    raise NotImplementedError


def judge_turned_away(turned_away, rng):
    for n in (5, 12):
        u = turned_away(n)
        assert np.allclose((u * u).sum(axis=1), np.ones(n)), "n vectors of length 1 are needed"
        loss, _ = batch_softmax_forward(u, -np.roll(u, -1, axis=0), 100.0)
        assert abs(loss - np.log(2)) < 1e-3, (f"n = {n}: the loss is {loss:.3f}, not ln 2; which "
                                              "cosines have to be lowest, and which are lowest?")


check(2, turned_away, judge_turned_away)

# %% [markdown]
# ## Where this lives
#
# - `core/layers.py`: `l2_normalize_forward`, `l2_normalize_backward`. `core/model.py`:
#   `response_forward`, `response_backward`.
# - `minimal.py`: the same functions; `loss_and_gradients` holds the response network (y, dy, R, b).
# - The paper (Yang et al. 2018), §2.2 with figure 3 and footnote 1 (extra layers on one side are
#   enough), §3.1 (unit length). Ours: residual, unit length of v′ and the scale that this asks for.
# - To read further: [Alignment and uniformity](https://arxiv.org/abs/2005.10242), on what this
#   loss does to points of a sphere.

# %% [markdown]
# ## What you know now
#
# - Unit length lets through only what turns a vector; plain gradient descent can only lengthen it.
# - At scale 1 a perfect model gains one nat. The scale decides how sure a softmax can be.
# - A tied cosine prefers the echo. Layers for the reply turn it away and break the symmetry.
#
# Next: lesson 10 lets a program derive all gradients of this encoder.
#
# Solutions, for when you have tried: `lessons/solutions/09_unit_vectors_and_response_network.py`.
