# %% [markdown]
# # 13 · Timing signal: which word came first
#
# **Needs** attention (lesson 12), unit vectors (lesson 9).
# **Gives** why positions are needed, what sines add, how similar two positions are.
# **Time** 50 minutes.
#
# **In thirty seconds.** Attention sees a bag of words, not a sequence. So we add to each
# word a vector that says where it is: the hands of a clock with many speeds, as sines and cosines.
# Then one matrix can say "three words back", wherever you are.
#
# A sum of words cannot tell "dog bites man" from "man bites dog". Attention relates words to each
# other, so you might expect it to manage. It does not.

# %%
import math
import sys
from contextlib import contextmanager

sys.path += [".", "lessons"]
from lesson import check, claim, expect, np, plt, seed, show
from scipy.special import sici
from convsim_mini.config import ModelConfig
from convsim_mini.core import transformer
from convsim_mini.core.attention import attention_forward, timing_signal
from convsim_mini.core.losses import cross_entropy_backward, cross_entropy_forward
from convsim_mini.core.model import Model
from convsim_mini.core.optim import Adaptive
from convsim_mini.core.packed import Packed
from convsim_mini.core.transformer import transformer_backward, transformer_forward
from convsim_mini.core.initial import initial_parameters

rng = np.random.default_rng(seed(12))

# %% [markdown]
# ## Attention has no order
#
# y_i = Σ_j p_ij v_j, where p_ij is the softmax of q_i · k_j/√m over j. Only the words' own vectors
# enter, and a sum does not depend on the order of its terms. If you change the order of the words,
# the outputs change their order in the same way:
#
# attention(x[order]) = attention(x)[order]
#
# Linear layers, relu and layer norm (lesson 15) treat each row separately, so it holds for them,
# too. At the end the mean over the words is the same for every order.
#
# **Predict:** what is the cosine between "dog bites man" and "man bites dog", after two layers of
# attention with random weights, when nothing tells positions apart? And with the timing signal?

# %%
qkv, order = rng.standard_normal((7, 36)), rng.permutation(7)
whole = [0, 7]
permuted = attention_forward(qkv[order], whole, 3)[0]
expect(np.abs(permuted - attention_forward(qkv, whole, 3)[0][order]).max(), 0, 1e-14,
       "attention: permuted in, out")


@contextmanager
def signal_as(rows):
    """The library's Transformer with rows(length, width) instead of its timing signal."""
    kept = transformer.timing_signal
    transformer.timing_signal = lambda length, width, dtype, xp: rows(length, width).astype(dtype)
    try:
        yield
    finally:
        transformer.timing_signal = kept


def no_signal(length, width):
    return np.zeros((length, width))


def random_signal(length, width):
    return np.random.default_rng(seed(1)).choice([-0.7, 0.7], (length, width))


def pack(sentences):
    """Sentences of equal length: ids (B, n) → Packed."""
    return Packed(sentences.astype(np.int32).ravel(),
                  np.arange(len(sentences) + 1) * sentences.shape[1])


d = 64
config = ModelConfig(encoder="transformer", embedding_dim=d, layers=[d], heads=4, hidden=128,
                     transformer_layers=2)
table = rng.standard_normal((5000, d)) / math.sqrt(d)         # rows of length about 1
params = {name: p.astype(np.float64) for name, p in initial_parameters(config, table, rng).items()}
model = Model(params, config, len(table))

dog, bites, man = 17, 4, 99
both = pack(np.array([[dog, bites, man], [man, bites, dog]]))
with signal_as(no_signal):
    u, _ = transformer_forward(model, both)
expect(1 - u[0] @ u[1], -1e-14, 1e-14, "1 − cosine without the signal")
u, _ = transformer_forward(model, both)
expect(1 - u[0] @ u[1], 1e-6, 0.1, "1 − cosine with it")

# %% [markdown]
# Without the signal both sentences have exactly the same vector, whatever the parameters are. So no
# training can separate them. With the signal they differ, though only slightly before training.
#
# ## A clock with many hands
#
# Each position needs a vector of its own, which is added to the word's. One could learn a table of
# them, but then positions beyond the longest sentence of the training have no vector. Think of a
# clock instead. A hand that turns once in 2π · t positions points at the angle p/t at position p;
# write down its sine and cosine. A fast hand tells neighbours apart, but is soon back where it
# was. A slow one hardly moves from word to word. So take d/2 hands, from t = 1 to t = 10,000, each
# a fixed factor slower than the one before:
#
# t_k = 10,000^(k/(d/2 − 1)), signal(p) = [sin(p/t_0) … sin(p/t_K), cos(p/t_0) … cos(p/t_K)], K = d/2 − 1
#
# With two hands, t = 1 and 10,000, position 0 is (0, 0, 1, 1) and 1 is (0.84, 0.0001, 0.54, 1).

# %%
def signal_by_hand(length, width):
    half = width // 2
    timescales = 10_000 ** (np.arange(half) / (half - 1))     # (half,)
    angles = np.arange(length)[:, None] / timescales          # (length, half)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


width = 512                                                   # the paper's
signal = timing_signal(1500, width, np.float64)
expect(np.abs(signal - signal_by_hand(1500, width)).max(), 0, 1e-9, "ours against the library's")

# %% [markdown]
# ## How far apart are two positions?
#
# One hand contributes sin a sin b + cos a cos b = cos(a − b) to the product of two signals. So
#
# signal(p) · signal(p + Δ) = Σ_k **cos(Δ/t_k)**
#
# p has cancelled: the product depends on the distance only. Each signal has length √(d/2) (put
# Δ = 0), so the cosine is the mean of cos(Δ/t_k).
#
# That mean has a closed form. ln t_k is spread evenly from 0 to ln 10,000. So with many hands the
# mean is the integral of cos(Δ/t) over ln t, divided by ln 10,000. With u = Δ/t it becomes
#
# (Ci(Δ) − Ci(Δ/10,000))/ln 10,000 ≈ **1 − (0.577 + ln Δ)/9.21**
#
# (Ci is the cosine integral. It is about 0.577 + ln x for a small x, and about 0 for a large one.
# The short form holds from about 3 words on.) Similarity falls with the *logarithm* of the
# distance: from 10 to 100 it loses as much as from 100 to 1,000, namely 0.25.
#
# **Predict** the cosine at distance 100, where ln Δ = 4.605: 1 − (0.577 + 4.605)/9.21 is …

# %%
def derived_cosine(distance):
    return (sici(distance)[1] - sici(distance / 10_000)[1]) / math.log(10_000)


distances = np.unique(np.logspace(0, 3, 40).astype(int))
starts = (0, 37, 400)
measured = np.array([[signal[p] @ signal[p + distance] / (width / 2) for distance in distances]
                     for p in starts])

figure, (heat, curve) = plt.subplots(1, 2, figsize=(11, 4.6))
image = heat.imshow(signal[:60].T, aspect="auto", vmin=-1, vmax=1, interpolation="nearest")
heat.axhline(width / 2 - 0.5, color="k", linewidth=0.8)
heat.set(title="Each hand is a little slower than the one above it", xlabel="position of the word",
         ylabel="channel (upper half sines, lower half cosines)")
figure.colorbar(image, ax=heat, label="signal")
for p, row, marker in zip(starts, measured, "ox+"):
    curve.semilogx(distances, row, marker, color=f"C{starts.index(p)}", markersize=7,
                   fillstyle="none", label=f"measured from position {p}")
curve.semilogx(distances, derived_cosine(distances), "k:",
               label="derived: (Ci(Δ) − Ci(Δ/10⁴))/ln 10⁴")
curve.set(title="On average, similarity falls with ln Δ", xlabel="distance Δ in words",
          ylabel="cosine of two positions", ylim=(0, 1.02), xticks=[1, 10, 100, 1000],
          xticklabels=["1", "10", "100", "1,000"])
show(figure, "13_timing_signal")

off = np.abs(measured[0] - derived_cosine(distances))
expect(off[distances <= 100].max(), 0, 0.01, "measured − derived up to distance 100, at most")
expect(derived_cosine(100), 0.43, 0.45, "at distance 100: 1 − 5.18/9.21 = 0.44")

# %% [markdown]
# The cosine is 0.44. Beyond 100 words the measured cosine goes up and down around the derived line:
# 0.20 at 700, 0.23 at 1,000.
#
# ## What sines add: "three words back"
#
# signal(p + Δ) follows from signal(p) if each hand is turned by Δ/t_k, whatever p is. That is a
# linear map, so one matrix of queries can ask for "the word three before me" at every position.
# Below, a matrix is fitted by least squares at the positions 0 to 199. Then each position asks for
# its third predecessor, as a head does: by the largest product.
#
# **Predict** how often the right position is found from 203 on: with sines? With a random vector
# for each position, as a learned table starts?

# %%
def found_three_back(rows):
    """Share of positions whose third predecessor gets the largest product: fitted, unseen ones."""
    matrix = np.linalg.lstsq(rows[3:200], rows[:197], rcond=1e-10)[0]
    scores = rows[3:] @ matrix @ rows.T                       # (397, 400): queries times keys
    found = scores.argmax(axis=1) == np.arange(397)
    return found[:197].mean(), found[200:].mean()


by_sines = found_three_back(signal_by_hand(400, d))
by_random = found_three_back(random_signal(400, d))
claim("three words back, at positions not seen: found with sines", by_sines[1], low=0.9)
claim("… found with random vectors, where the matrix was fitted", by_random[0], low=0.8)
expect(by_random[1], 0, 0.1, "… at positions not seen")

# %% [markdown]
# With sines the right position is always found. With random vectors it is found at 96% of the
# positions that the matrix was fitted to, and never elsewhere, as nothing links an unseen
# random row to the others. What it learns about sines holds at unseen positions.
#
# ### Exercise 1: wind the clock forward
#
# Write this map down. Use sin(a + b) = sin a cos b + cos a sin b and
# cos(a + b) = cos a cos b − sin a sin b. Look up in which columns one hand's sine and cosine are.
# The judge's positions are not whole numbers, so a lookup table will not help.

# %%
def wind(rows, steps):
    """rows of a timing signal, (n, width), to the rows `steps` positions later: (n, width)."""
    raise NotImplementedError


def judge_wind(wind, rng):
    for width, steps in ((8, 1), (64, int(rng.integers(2, 20))), (64, -2)):
        places = rng.uniform(0, 300, (10, 1))
        timescales = 10_000 ** np.linspace(0, 1, width // 2)
        rows, wanted = (np.hstack([np.sin(angles), np.cos(angles)]) for angles in (
            places / timescales, (places + steps) / timescales))
        found = wind(rows, steps)
        assert found.shape == rows.shape, f"shape {found.shape}, expected {rows.shape}"
        error = np.abs(found - wanted).max()
        assert error < 1e-9, (f"width {width}, {steps} steps: off by {error:.2g}; does each sine "
                              "meet its own cosine, with its own t_k? (All sines, then all "
                              "cosines.) No position is looked up: p is not a whole number")


check(1, wind, judge_wind)

# %% [markdown]
# ### Exercise 2: break the clock
#
# Find the timescales of two hands with which the encoder takes the word at position 35 for the one
# at position 0, while positions 0 to 34 are all far apart (0.5 or more).

# %%
def broken_timescales():
    """→ array of two positive timescales t_k."""
    raise NotImplementedError


def judge_broken_timescales(broken_timescales, rng):
    timescales = np.asarray(broken_timescales(), float)
    assert timescales.shape == (2,) and (timescales > 0).all(), "an array of two positive numbers"
    angles = np.arange(36)[:, None] / timescales
    signal = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    apart = np.linalg.norm(signal[:, None] - signal, axis=2)  # (36, 36)
    assert apart[0, 35] < 1e-9, (f"positions 0 and 35 are {apart[0, 35]:.2g} apart; after how many "
                                 "positions is a hand back?")
    nearest = (apart + 9 * np.eye(36))[:35, :35].min()
    assert nearest > 0.5, (f"two of the positions 0 to 34 are only {nearest:.2g} apart; a hand alone "
                           "is back too early or moves too little: what can two do together?")


check(2, broken_timescales, judge_broken_timescales)

# %% [markdown]
# ## Who beats whom
#
# Now with training. There are twelve players. A sentence is "a beats b", for all 132 ordered pairs.
# The task is to name the winner. Without the signal "a beats b" and "b beats a" are one vector.
# With one vector for two answers the best is a probability of ½ for each: a loss of **ln 2 =
# 0.693**. No width, depth or length of training gets below. Before training the loss is ln 12.
#
# **Predict:** is a random vector for each position enough for this task, or are sines needed?

# %%
PLAYERS = 12                                                  # and word 12 is "beats"
games = np.array([(a, PLAYERS, b) for a in range(PLAYERS) for b in range(PLAYERS) if a != b])
winners = games[:, 0]
small = ModelConfig(encoder="transformer", embedding_dim=16, layers=[16], heads=2, hidden=32,
                    transformer_layers=1)


def train(steps=250, scale=10):
    rng = np.random.default_rng(seed(0))
    table = rng.standard_normal((PLAYERS + 1, 16)) / 4
    params = {name: p.astype(np.float64)
              for name, p in initial_parameters(small, table, rng).items()}
    params["winner.weight"] = np.zeros((16, PLAYERS))
    optimizer, losses = Adaptive(params), []
    for _ in range(steps):
        u, cache = transformer_forward(Model(params, small, len(table)), pack(games))
        loss, loss_cache = cross_entropy_forward(scale * u @ params["winner.weight"], winners)
        dlogits = scale * cross_entropy_backward(1.0, loss_cache)
        grads = transformer_backward(dlogits @ params["winner.weight"].T, cache)
        grads["winner.weight"] = u.T @ dlogits
        optimizer.step(params, grads, 0.01, 0.01)
        losses.append(float(loss))
    return np.array(losses)


with_losses = train()
with signal_as(no_signal):
    without_losses = train()
with signal_as(random_signal):
    random_losses = train()

expect(with_losses[0], math.log(12) - 1e-9, math.log(12) + 1e-9, "loss at the start: ln 12")
claim("who won, without the signal: the least loss; ln 2 = 0.693", without_losses.min(),
      math.log(2) - 1e-9, math.log(2) + 0.02)
claim("… with the signal: loss at the end", with_losses[-1], high=0.02)
claim("… with random vectors: loss at the end", random_losses[-1], high=0.02)

# %% [markdown]
# For this task random vectors are enough, too. What sines add is the previous experiment: one
# matrix that works at unseen positions.
#
# ## Where this lives
#
# - `core/attention.py`: `timing_signal`. `core/transformer.py`:
#   `transformer_forward` multiplies by √d and adds this constant at the words' positions.
# - The paper, §2.3.2: a "timing signal" of sines and cosines, as in
#   [tensor2tensor](https://github.com/tensorflow/tensor2tensor): all sines, then all cosines.
#   Vaswani et al. (2017) interleave them.
# - To read further: [RoFormer](https://arxiv.org/abs/2104.09864), which turns queries and keys by
#   these angles instead of adding them, as most large models do today.

# %% [markdown]
# ## What you know now
#
# - Attention by itself has no order: words in any order give one vector. The loss stays at ln 2.
# - A random vector for each position fixes that. With sines one matrix can ask for "three words
#   back", also at positions that it has not seen.
# - On average the similarity of two positions falls with the logarithm of their distance.
#
# Next: lesson 14 runs many heads on many sentences of different lengths, without any padding.
#
# Solutions, for when you have tried: `lessons/solutions/13_timing_signal.py`.
