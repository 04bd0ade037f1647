# %% [markdown]
# # 9 · Unit vectors and the response network
#
# **Needs** the batch softmax loss (lesson 5), linear layers (lesson 3).
# **Gives** `l2_normalize` and `response_forward` with their gradients; why scores need a scale; and
# why the reply passes layers that the input does not.
# **Time** 75 minutes, in two parts; the second begins at "The echo".
#
# Two small pieces stand between the encoder and the loss. The first makes each vector's length 1.
# The second gives the reply layers of its own. Without the second, the reply with the highest score
# to "How old are you?" is always "How old are you?".

# %%
import sys

sys.path += [".", "lessons"]
from lesson import check, claim, expect, plt, seed, show

import numpy as np

from convsim_mini.config import ModelConfig
from convsim_mini.core.gradcheck import layer_error, numeric_gradient, relative_error
from convsim_mini.core.layers import l2_normalize_backward, l2_normalize_forward
from convsim_mini.core.losses import batch_softmax_backward, batch_softmax_forward
from convsim_mini.core.model import Model, response_backward, response_forward
from convsim_mini.core.optim import Adaptive

rng = np.random.default_rng(seed(9))

# %% [markdown]
# ## Length 1
#
# y = x/n with n = ‖x‖.
#
# **Write its backward before you read on:** `yours/l2_normalize.py`, then
# `python -m lessons.yours check l2_normalize`.
#
# Move one number x_j a little. The numerator moves at place j alone. The length moves too, by
# ∂n/∂x_j = x_j/n = y_j, and shrinks *all* numbers:
#
# ∂y_i/∂x_j = δ_ij/n − x_i y_j/n² = **(δ_ij − y_i y_j)/n**
#
# As a matrix, (I − y yᵀ)/n. Multiply it with dy:
#
# **dx = (dy − (dy · y) y)/n**
#
# (dy · y) y is the part of dy that points along y. It is taken away, and what is left is at a right
# angle to y: moving a vector along itself does not turn it, and y can only turn. The division by n
# says that a long vector turns less for the same step.

# %%
def normalize_backward(dy, cache):
    """Forward: y = x/‖x‖. dy: (B, d) → dx: (B, d)"""
    y, norm = cache
    return (dy - (dy * y).sum(axis=1, keepdims=True) * y) / norm


x = 3 * rng.standard_normal((4, 3))    # lengths other than 1: lesson 2 says why
dy = rng.standard_normal((4, 3))
y, cache = l2_normalize_forward(x)
dx = normalize_backward(dy, cache)
expect(layer_error(l2_normalize_forward, normalize_backward, [x], rng), 0, 1e-8,
       "against differences, random dy")
twice = l2_normalize_backward(dy, l2_normalize_forward(2 * x)[1])
expect([relative_error(dx, l2_normalize_backward(dy, cache)), relative_error(twice, dx / 2),
        np.abs((dx * x).sum(axis=1)).max()], 0, 1e-14,
       "the library's dx; twice the length, half the gradient; dx · x, a right angle")

# %% [markdown]
# At x = 0 the formula says 0/0. The library leaves a zero row as it is. Otherwise an empty sentence
# could make every parameter nan.
#
# ## A length that nothing pulls on
#
# The loss does not depend on ‖x‖. Train x by plain gradient descent, with a random dy in each step.
# The step −η dx is at a right angle to x.
#
# **Predict:** does the length of x shrink, stay, or grow?

# %%
x, errors = rng.standard_normal((4, 3)), []
for step in range(3):
    y, cache = l2_normalize_forward(x)
    dx = l2_normalize_backward(rng.standard_normal(y.shape), cache)
    before, x = x, x - 0.5 * dx
    grown = (x * x).sum(axis=1) - (before * before).sum(axis=1)
    errors.append(relative_error(grown, 0.25 * (dx * dx).sum(axis=1)))
expect(errors, 0, 1e-12, "three steps: growth against η² ‖dx‖²")

# %% [markdown]
# It can *only* grow, by Pythagoras: ‖x − η dx‖² = ‖x‖² + η² ‖dx‖². The gradient falls like 1/‖x‖,
# so the vector turns more slowly from step to step.
#
# ### Exercise 1: how long after t steps?
#
# A vector starts at length `norm` and makes steps of the rate η. For each step you know g, the
# length of dy − (dy · y) y, *before* the division by ‖x‖. How long is the vector in the end?

# %%
def length_after(norm, rate, sideways):
    """norm: ‖x‖ at the start; sideways: ‖dy − (dy · y) y‖ of each step, a list → ‖x‖ at the end."""
    raise NotImplementedError


def judge_length_after(length_after, rng):
    for norm, rate in ((1.0, 0.5), (0.3, 0.2)):
        x = rng.standard_normal((1, 4))
        x *= norm / np.linalg.norm(x)
        sideways = []
        for dy in rng.standard_normal((5, 1, 4)):
            y, cache = l2_normalize_forward(x)
            sideways.append(float(np.linalg.norm(dy - (dy * y).sum() * y)))
            x = x - rate * l2_normalize_backward(dy, cache)
        found, measured = length_after(norm, rate, sideways), np.linalg.norm(x)
        assert abs(found / measured - 1) < 1e-9, (f"from {norm} with η = {rate}: {found:.4f}, "
                                                  f"measured {measured:.4f}; is each step divided "
                                                  "by the length that the vector has by then?")


check(1, length_after, judge_length_after)

# %% [markdown]
# ## Cosines are too short
#
# With unit vectors and scale 1 a score is a cosine, at most 1. So the softmax of lesson 5 cannot be
# sure. p(true) is largest when the true cosine is 1 and the others are as low as K vectors can all
# be at once. How low? Let ū, v̄ be the means. A true cosine, less the mean of the others in its
# row, is on average over the rows
#
# (1/(K − 1)) Σ_i (u_i − ū) · (v_i − v̄) ≤ K/(K − 1)
#
# by Cauchy and Schwarz, because Σ ‖u_i − ū‖² is at most K for K unit vectors, and so for v. The
# loss of a row is a convex function of such differences, so its mean over the rows is at least its
# value at the mean difference:
#
# loss ≥ **ln(1 + (K − 1) e^{−scale · K/(K − 1)})**
#
# **Predict:** K = 1024, ln K = 6.93. How far down can the loss go with a scale of 1: to 0, 3, 6?

# %%
def lowest_loss(scale, K):
    return np.log1p((K - 1) * np.exp(-scale * K / (K - 1)))


for scale in (1, 5, 15):
    print(f"K = 1024, scale {scale:2}: the loss can fall from {np.log(1024):.2f} to "
          f"{lowest_loss(scale, 1024):.6f}")

# %% [markdown]
# To 5.93, one nat less than knowing nothing. The bound holds with equality if each input lies at
# its own reply and all different replies have the cosine −1/(K − 1). Those are the corners of a
# simplex, and K corners need K − 1 dimensions.
#
# There are two ways to a lower loss. The paper's: u has unit length, v′ may have any length, and
# the scale is 1. Ours: both have unit length and the scale is 15. On the default corpus the default's
# 210 steps brought P@1 on dev to 33.3, and the paper's way (with v′ = layers(v)) to 12.3.
#
# ## The echo
#
# The encoder is tied: inputs and replies pass the same parameters. So the score of reply j to input
# i is the cosine of two outputs of one function, and
#
# s_ij = s_ji, and s_ii = 1, the highest there is.
#
# Conversation is not like that. "I am 20" answers "How old are you?" and not the other way round,
# and hardly any sentence is its own answer. Here is a small world with this problem: twelve
# sentences in a circle, each is answered by the next. Each has a free vector of length 1.
#
# **Predict:** without a response network, in how many of the twelve rows will the true reply have
# the highest score after training?

# %%
sentences, width, scale = 12, 16, 20.0
reply = (np.arange(sentences) + 1) % sentences                # sentence i is answered by i + 1

# %% [markdown]
# In none: the sentence itself is among the candidates (it answers the one before), with a cosine of
# 1. Each row holds the true reply, the sentence before, and the sentence itself. By symmetry the
# true replies have on average the same score as the sentences before, and less than the sentences
# themselves. So, with the convex loss of above, no arrangement gets below ln 3 = 1.0986.
#
# ## Layers for the reply alone
#
# The paper puts fully connected layers on v only: v′ = layers(v), score = u · v′. A matrix W
# between u and v is not symmetric, so s_ij and s_ji are two things now. It can also turn every
# sentence away from itself. Ours is residual and scaled to length 1, v′ = normalise(v + v W + b):
# it starts near v, where shared words already rank replies. Going back, v is used twice, so two
# gradients add (lesson 3):

# %%
config = ModelConfig()    # residual_response and unit_response are on
W, b = rng.standard_normal((4, 4)), rng.standard_normal(4)
params = {"response.linear0.weight": W, "response.linear0.bias": b}
v, dy = rng.standard_normal((2, 5, 4))

z = v + v @ W + b                                             # (B, e)
v_prime, unit_cache = l2_normalize_forward(z)
dz = l2_normalize_backward(dy, unit_cache)                    # (B, e)
dv = dz + dz @ W.T                                            # directly, and through the layer
dweight, dbias = v.T @ dz, dz.sum(axis=0)

model = Model(params, config, 0)
loss = lambda: float((response_forward(model, v)[0] * dy).sum())
expect([relative_error(gradient, numeric_gradient(loss, array))
        for gradient, array in ((dv, v), (dweight, W), (dbias, b))], 0, 1e-8,
       "dv, dW, db, against differences")
library_v_prime, cache = response_forward(model, v)
library_dv, grads = response_backward(dy, cache)
assert np.allclose(v_prime, library_v_prime)
expect([relative_error(dv, library_dv), relative_error(dweight, grads["response.linear0.weight"])],
       0, 1e-13, "dv, dW, the library's")

# %% [markdown]
# Now the circle, with and without. At the start both have the echo: the sentence itself scores
# about 20, the true reply about ±5. So the loss begins near 20, far above ln 12 = 2.48.

# %%
def train_circle(network, steps=600):
    """→ losses, scores (12, 12), unit vectors u (12, 16) after training the circle."""
    rng = np.random.default_rng(seed(9))
    params = {"x": rng.standard_normal((sentences, width))}
    if network:
        params |= {"response.linear0.weight": 0.03 * rng.standard_normal((width, width)),
                   "response.linear0.bias": np.zeros(width)}
    optimizer, losses = Adaptive(params), []                  # a box until lesson 16
    model = Model(params, config, 0)
    for _ in range(steps):
        u, unit_cache = l2_normalize_forward(params["x"])
        v = u[reply]                                          # tied: the same vectors
        v_prime, response_cache = response_forward(model, v) if network else (v, None)
        loss, loss_cache = batch_softmax_forward(u, v_prime, scale)
        losses.append(float(loss))
        du, dv = batch_softmax_backward(1.0, loss_cache)
        dv, grads = response_backward(dv, response_cache) if network else (dv, {})
        np.add.at(du, reply, dv)    # each sentence is an input and a reply
        optimizer.step(params, {"x": l2_normalize_backward(du, unit_cache), **grads}, 0.02, 0.02)
    return losses, scale * u @ v_prime.T, u


runs = {network: train_circle(network) for network in (False, True)}

figure, axes = plt.subplots()
for network, color, label in ((False, "C3", "v itself: no response network"),
                              (True, "C2", "v′: response network")):
    axes.semilogy(runs[network][0], color=color, linewidth=2, label=label)
axes.axhline(np.log(3), color="black", linestyle=":", label="ln 3: never below it without")
axes.axhline(np.log(12), color="black", linestyle="--", label="ln 12: knows nothing")
axes.set(xlabel="step", ylabel="batch softmax loss",
          title="A circle of twelve replies: without layers for\n"
                "the reply it cannot be learned, with them it can")
show(figure, "09_unit_vectors_and_response_network")

own, other = runs[False], runs[True]
expect(own[0][0], scale - 6, scale + 6, "loss at the start: 20, give or take 4 · 5/√12")
claim("without a response network: loss in the end; ln 3 is 1.099", own[0][-1], np.log(3),
      1.6)
expect((own[1].argmax(axis=1) == np.arange(12)).sum(), 0, 0,
       "without: rows of 12 with the true reply first")
claim("with one: loss in the end", other[0][-1], 0, 0.02)
expect((other[1].argmax(axis=1) == np.arange(12)).sum(), 12, 12,
       "with: rows of 12 with the true reply first")

# %% [markdown]
# With the network the circle is learned. Without it no row is right. A second fault matters more to
# us. We want the *meaning* of sentences: cosines between u's. What is the cosine of a sentence and
# its reply in the two models?

# %%
between = {network: float((u * u[reply]).sum(axis=1).mean()) for network, (_, _, u) in runs.items()}
claim("without: cosine of sentence and reply", between[False], 0.9, 1)
claim("with: cosine of sentence and reply; unrelated 0 ± 2/√16", between[True], -0.5, 0.5)

# %% [markdown]
# Without the network a question and its answer have to become neighbours in this world, or the loss
# does not fall: "How old are you?" would *mean* "I am 20". With it, the extra layers turn the reply
# towards its question, and the two u's may lie apart. (v′ starts near v, so a little is left.)
#
# These are twelve free vectors in one batch. In real chat an input is rarely a reply of the same
# batch. How much the network is worth there is not shown here.
#
# ## Where this lives
#
# - `core/layers.py`: `l2_normalize_forward`, `l2_normalize_backward`. `core/model.py`:
#   `response_forward`, `response_backward`.
# - `minimal.py`: the same functions; `loss_and_gradients` holds the response network (y, dy, R, b).
# - The paper, §2.2 with figure 3 and footnote 1 (extra layers on one side are enough), §3.1 (unit
#   length). Ours: residual, unit length of v′ and the scale that this asks for.

# %% [markdown]
# ## Claims
#
# Over five seeds, as `python -m lessons.claims 9` prints it. The last column says which values would refute the claim.
#
# | claim | mean ± sd | least to most | refuted |
# | --- | --- | --- | --- |
# | without a response network: loss in the end; ln 3 is 1.099 | 1.45 ± 3e-05 | 1.45 to 1.45 | below 1.1, above 1.6 |
# | with one: loss in the end | 0.00053 ± 7e-05 | 0.000425 to 0.000602 | below 0, above 0.02 |
# | without: cosine of sentence and reply | 0.973 ± 1e-05 | 0.973 to 0.973 | below 0.9, above 1 |
# | with: cosine of sentence and reply; unrelated 0 ± 2/√16 | 0.253 ± 0.06 | 0.19 to 0.319 | below -0.5, above 0.5 |

# %% [markdown]
# ## What you know now
#
# - Unit length lets through only what turns a vector, and a length that nothing pulls on grows.
# - Cosines alone are worth one nat. The scale decides how sure a softmax can be.
# - Without layers for the reply alone, a circle of replies makes neighbours of question and answer.
#
# Next: lesson 10 lets a program derive all gradients of this encoder.
#
# Solutions, for when you have tried: `lessons/solutions/09_unit_vectors_and_response_network.py`.
