# %% [markdown]
# # 3 · Linear layers and activations: matrix gradients from shapes
#
# **Needs** the chain rule for one variable, matrix products, and `layer_error` (lesson 2).
# **Gives** the backward of `linear` and of `tanh`, a way never to guess at a transpose again, and
# why a matrix must start at the right size.
# **Time** 50 minutes.
#
# A network computes in two directions. Forward, it goes from x to a loss L. Backward, each layer gets
# dy = ∂L/∂y, how the loss reacts to its output, and returns dx = ∂L/∂x, how the loss reacts to its
# input. It needs nothing else from the network, so we always write `backward(dy, cache) → dx`.
#
# **In thirty seconds.** For y = x W + b, dx = dy Wᵀ, dW = xᵀ dy, and db sums dy over the rows. You
# need not remember that: with all axes of different lengths, only the right product fits.

# %%
import sys
import itertools

sys.path += [".", "lessons"]
from lesson import check, claim, expect, np, plt, seed, show
from convsim_mini.core.gradcheck import layer_error, numeric_gradient, relative_error
from convsim_mini.core.layers import linear_backward, linear_forward, tanh_backward, tanh_forward

rng = np.random.default_rng(seed(3))

# %% [markdown]
# ## Many weights
#
# B sentences with d numbers each become B rows of e numbers: y = x W + b, or with all indices
#
# y_nk = Σ_j x_nj W_jk + b_k
#
# **Write it before you read on:** `python -m lessons.yours` makes a folder `yours`. Its page
# `yours/linear.py` has this forward and an empty backward. Then `python -m lessons.yours check linear`.
#
# First with numbers small enough to do in your head: two sentences of two numbers, and a loss
# L = Σ y dy. Nudge one weight, W₁₀ = 3. Which outputs move? Entry 0 of both rows, by x₀₁ = 2 and by
# x₁₁ = 1. The loss weights them with dy₀₀ = 1 and dy₁₀ = 1. So it should rise by 2 · 1 + 1 · 1 = 3.

# %%
x, weight = np.array([[1, 2], [0, 1]]), np.array([[1, 0, 2], [3, 1, 0]])
dy = np.array([[1, 0, -1], [1, 1, 0]])
nudge = np.array([[0, 0, 0], [1, 0, 0]])
print("y =", (x @ weight).tolist(), "  L =", (x @ weight * dy).sum())
print("y =", (x @ (weight + nudge)).tolist(), "  L =", (x @ (weight + nudge) * dy).sum(), "nudged")
print("all six weights, one after the other:", (x.T @ dy).tolist())

# %% [markdown]
# So it does, from 9 to 12. (y is linear in W: even a step of 1 gives the exact slope.) In general, W_de
# moves entry e of every row, by x_bd each. A weight used B times has B slopes, and they add up:
#
# dW_de = Σ_b x_bd dy_be
#
# Here it is as loops. All three axes have different lengths, and that will matter.

# %%
B, d, e = 4, 3, 5
x, weight, bias = rng.standard_normal((B, d)), rng.standard_normal((d, e)), rng.standard_normal(e)
dy = rng.standard_normal((B, e))
loss = lambda: float(((x @ weight + bias) * dy).sum())  # any loss whose gradient at y is dy will do

dweight = np.zeros((d, e))
for row, i, j in itertools.product(range(B), range(d), range(e)):
    dweight[i, j] += x[row, i] * dy[row, j]
expect(relative_error(dweight, numeric_gradient(loss, weight)), 0, 1e-8,
       "dweight by loops, against differences")

# %% [markdown]
# The sum runs over b, so b must be the inner axis of a product, (d, B) @ (B, e). So x is transposed:
#
# **dweight = xᵀ dy**
#
# In the same way dx_bd = Σ_e dy_be W_de sums over e: (B, e) @ (e, d), **dx = dy Wᵀ**.
#
# ![Boxes: y is x times W; dW is x transposed times dy; dx is dy times W transposed](pictures/03_shapes.svg)

# %%
assert np.allclose(dweight, x.T @ dy)
dx = dy @ weight.T
expect(relative_error(dx, numeric_gradient(loss, x)), 0, 1e-8, "dx = dy Wᵀ, against differences")

# %% [markdown]
# ## Let the shapes decide
#
# You need not remember where the transposes go. Each gradient has the shape of the thing it belongs
# to, and you have only x, W and dy to make it from.
#
# **Predict:** of all products of two of x, xᵀ, W, Wᵀ, dy, dyᵀ, how many have the shape of W?

# %%
def products_of_shape(shape, x, weight, dy):
    """The products of this shape of two of x, weight, dy and their transposes, by name."""
    named = {"x": x, "weight": weight, "dy": dy, "x.T": x.T, "weight.T": weight.T, "dy.T": dy.T}
    return {f"{left} @ {right}": named[left] @ named[right]
            for left, right in itertools.permutations(named, 2)
            if left[0] != right[0] and named[left].shape[1] == named[right].shape[0]
            and (named[left].shape[0], named[right].shape[1]) == shape}


for name, shape in (("dweight", (d, e)), ("dx", (B, d))):
    fitting = products_of_shape(shape, x, weight, dy)
    expect(len(fitting), 1, 1, f"products that fit {name} {shape}: {', '.join(fitting)}")

# %% [markdown]
# One for each, and it is the right one.
#
# Now make everything square, and count again. Choose two of the three arrays (3 ways), their order
# (2), and which are transposed (4): 3 · 2 · 4 = 24 products.

# %%
square = [rng.standard_normal((4, 4)) for _ in range(3)]
fitting = products_of_shape((4, 4), *square)
wrong = [name for name, product in fitting.items()
         if relative_error(product, square[0].T @ square[2]) > 0.1]
expect(len(fitting), 24, 24, "products that fit when all axes are equal")
expect(len(wrong), 23, 23, "of these are wrong")

# %% [markdown]
# This is why the tests of this repository give each axis a length of its own. Then 18 of those 23
# mistakes raise an error, and the other five give an array of the wrong shape.
#
# ## Four gates
#
# The bias has shape (e,), yet it is added to B rows: NumPy copies it B times. Each copy has a
# slope, and the slopes add: db = Σ_b dy_b. It is always so: if the forward uses a number in several
# places, the backward adds up what comes back from them. Much of backpropagation is four such rules:
#
# - **Add copies:** y = a + b hands dy on to both, unchanged.
# - **Multiply swaps:** y = a b gives a the gradient dy b, and b the gradient dy a.
# - **Broadcast sums:** what the forward copied, the backward adds up.
# - **Max routes:** y = max(a, b) gives all of dy to the larger one, and nothing to the other.

# %%
dbias = dy.sum(axis=0)                                        # (B, e) → (e,)
twice = lambda: float(((x + np.tanh(x)) * dy[:, :d]).sum())  # x reaches the loss by two roads
direct, through = dy[:, :d], dy[:, :d] * (1 - np.tanh(x)**2)
expect([relative_error(dbias, numeric_gradient(loss, bias)),
        relative_error(direct + through, numeric_gradient(twice, x))], 0, 1e-8,
       "dbias; two roads to the loss, gradients added: against differences")
_, cache = linear_forward(x, weight, bias)
expect(list(map(relative_error, (dx, dweight, dbias), linear_backward(dy, cache))), 0, 1e-14,
       "these three lines are all of linear_backward: dx, dweight, dbias")

# %% [markdown]
# ## tanh: the answer is in the output
#
# Without a nonlinear function between them two linear layers are one: (x W₀) W₁ = x (W₀W₁). The
# paper does not name its activation; ours is tanh. It acts on each number separately, so its
# backward just multiplies each number by its slope. (First `python -m lessons.yours check tanh`.)
#
# tanh′ = 1 − tanh² = 1 − y²
#
# That takes y but not x, so the cache is the output. The slope is 1 at y = 0 and goes to 0 towards
# ±1: a *saturated* unit lets hardly any gradient through.

# %%
x = rng.standard_normal((4, 3))
expect(layer_error(tanh_forward, tanh_backward, [x], rng), 0, 1e-8, "dy (1 − y²)")
y, cache = tanh_forward(np.array([[0.0, 1.0, 3.0, 10.0]]))
print("x = 0, 1, 3, 10: tanh passes on", tanh_backward(np.ones((1, 4)), cache).round(4))

# %% [markdown]
# ### Exercise 1: softsign
#
# y = x/(1 + |x|) is like tanh, but needs no power of e. Its derivative, too, can be written with
# nothing but the output. Derive it (on each side of 0) and write the backward.

# %%
def softsign_forward(x):
    """y = x/(1 + |x|), elementwise; → y, cache."""
    y = x / (1 + np.abs(x))
    return y, y


def softsign_backward(dy, cache):
    """Forward: y = x/(1 + |x|). cache: y."""
    raise NotImplementedError


def judge_softsign(backward, rng):
    error = max(layer_error(softsign_forward, backward, [rng.standard_normal((rows, 3))], rng)
                for rows in (2, 5))
    assert error < 1e-6, (f"the relative error is {error:.2g}; at x = 1 and at x = −1, "
                          "where y is ½ and −½, the slope is ¼")


check(1, softsign_backward, judge_softsign)

# %% [markdown]
# ## Thirty layers: the size of a start
#
# Stack layers y = tanh(x W). Going back through one of them, dy meets two factors: 1 − y², then Wᵀ.
# Let the entries of W be random with variance s²/n (n × n). Each number of dy Wᵀ is a sum of n random
# terms of either sign. Their squares add up, since the mixed products cancel on average: n times s²/n
# times the mean square of dy. The n's cancel, and from one layer to the one before it
#
# rms(dx) ≈ **s · rms(1 − y²)** · rms(dy)
#
# After thirty layers that is a thirtieth power. Where a layer starts at random, `initial_parameters`
# uses s = 1, as Glorot and Bengio (2010) do: the matrices keep the size, and only tanh takes its toll.
#
# **Predict:** what is left of the gradient after thirty layers at s = ½? (2¹⁰ ≈ 10³.) And at s = 2?

# %%
def gradient_sizes(s, layers=30, n=200, batch=64):
    """rms of the gradient at each layer's output, the last first; measured and derived."""
    x, caches = rng.standard_normal((batch, n)), []
    for _ in range(layers):
        weight = rng.uniform(-1, 1, (n, n)) * s * np.sqrt(3 / n)        # variance s²/n
        x, linear_cache = linear_forward(x, weight, np.zeros(n))
        x, tanh_cache = tanh_forward(x)
        caches.append((linear_cache, tanh_cache))
    dx, measured, derived = rng.standard_normal((batch, n)), [1.0], [1.0]
    for linear_cache, y in reversed(caches):
        before = dx
        dx, _, _ = linear_backward(tanh_backward(dx, y), linear_cache)
        measured.append(measured[-1] * np.sqrt(np.mean(dx**2) / np.mean(before**2)))
        derived.append(derived[-1] * s * np.sqrt(np.mean((1 - y**2)**2)))
    return measured, derived


figure, axes = plt.subplots()
left = {}
for s, color in ((0.5, "C0"), (1, "C2"), (2, "C3")):
    measured, derived = gradient_sizes(s)
    left[s] = measured[-1]
    axes.semilogy(measured, "o", color=color, markersize=4, label=f"s = {s}")
    axes.semilogy(derived, "k-", linewidth=0.8, label="derived: s · rms(1 − y²) a layer" if s == 2 else None)
    expect(measured[-1] / derived[-1], 0.8, 1.25, f"s = {s}: measured / derived in the end")
axes.set(xlabel="layers that the gradient has passed on its way back",
         ylabel="size of the gradient, at the output = 1",
         title="Half the scale leaves a billionth of the gradient, Glorot's a sixth;\n"
               "at twice the scale it grows")
show(figure, "03_linear_layers_and_activations")

claim("s = 0.5: gradient left after thirty layers, in 2⁻³⁰", left[0.5] * 2**30, 0.1, 1.1)
claim("s = 1: what tanh leaves after thirty layers", left[1], 0.1, 0.25)
claim("s = 1: what it leaves after three", gradient_sizes(1, layers=3)[0][-1], 0.4, 0.55)
claim("s = 2: growth for each layer, although tanh saturates", left[2] ** (1 / 30), 1.08)

# %% [markdown]
# At s = ½ less than a billionth is left, which is as good as nothing. At s = 2 the gradient still grows
# by a factor of 1.16 a layer, although tanh saturates. Even at Glorot's scale thirty layers of tanh
# leave only 0.16. (Its curve bends at the end because the first layers have the largest outputs, so
# the smallest slopes.) The paper's DAN has three layers; three like these leave 0.46. Its Transformer has
# twelve sublayers, with residuals (lesson 15).
#
# ### Exercise 2: a matrix between two vectors
#
# A score for each pair of sentences, s_b = Σ_de u_bd W_de v_be, says how well u fits v, seen
# through a matrix. Find all three gradients. Write out the sums; the shapes then tell you the
# products: du (B, d), dW (d, e), dv (B, e), and ds has shape (B,).

# %%
def bilinear_forward(u, weight, v):
    """s_b = u_b W v_bᵀ. u: (B, d), weight: (d, e), v: (B, e) → s: (B,), cache."""
    return ((u @ weight) * v).sum(axis=1), (u, weight, v)


def bilinear_backward(ds, cache):
    """ds: (B,) cache: u, weight, v → du: (B, d), dweight: (d, e), dv: (B, e)."""
    raise NotImplementedError


def judge_bilinear(backward, rng):
    inputs = u, weight, v = [rng.standard_normal(shape) for shape in ((4, 3), (3, 5), (4, 5))]
    ds = rng.standard_normal(4)
    found = backward(ds.copy(), (u.copy(), weight.copy(), v.copy()))
    assert len(found) == 3, f"{len(found)} gradients, expected du, dweight and dv"
    for name, gradient, x in zip(("du", "dweight", "dv"), found, inputs, strict=True):
        assert gradient.shape == x.shape, f"{name} has shape {gradient.shape}, expected {x.shape}"
        numeric = numeric_gradient(lambda: float(bilinear_forward(*inputs)[0] @ ds), x)
        error = relative_error(gradient, numeric)
        hint = "it has the wrong sign" if relative_error(-gradient, numeric) < 1e-6 else (
            "it is a quarter of it; the shares of the four sentences add up, they are not averaged"
            if relative_error(4 * gradient, numeric) < 1e-6 else
            "does each sentence's share carry its ds_b?")
        assert error < 1e-6, f"{name} has a relative error of {error:.2g}; {hint}"


check(2, bilinear_backward, judge_bilinear)

# %% [markdown]
# ## Where this lives
#
# - `core/layers.py`: `linear_forward`, `linear_backward`, `tanh_forward`, `tanh_backward`;
#   `feed_forward` and `feed_forward_backward` below them.
# - `minimal.py`: `loss_and_gradients` holds dx = dz Wᵀ and dW = xᵀ dz.
# - [The paper](https://arxiv.org/abs/1804.07754), §2.3.1 and §3.1: three fully connected layers of
#   300, 300 and 500 after the averaged embeddings. Our default is one layer, which learns more in
#   minutes.
# - To read further: [CS231n on backpropagation](https://cs231n.github.io/optimization-2/), which has
#   more gates, and [Glorot's paper](https://proceedings.mlr.press/v9/glorot10a.html).

# %% [markdown]
# ## What you know now
#
# - dx = dy Wᵀ, dW = xᵀ dy, db = Σ dy. Each gradient has the shape of what it belongs to.
# - What is copied forward is summed backward; what is used twice gets two gradients, added.
# - Thirty layers at Glorot's scale leave a sixth of the gradient, at half the scale a billionth.
#
# Next: lesson 4 turns scores into probabilities, and a probability into a loss.
#
# Solutions, for when you have tried: `lessons/solutions/03_linear_layers_and_activations.py`.
