# %% [markdown]
# # C · Precision: digits, sums, and how equal is equal
#
# **Needs** NumPy; a model with its loss and gradients (lesson 18). No GPU.
# **Gives** the error of short mantissas and of long sums, derived and measured, and a tolerance for
# "the same result" that is derived instead of tried.
# **Time** 45 minutes.
#
# A GPU multiplies with fewer digits if it may, and it adds up in another order than a processor. So
# its results differ. By how much may they differ, and how much would be a bug? Both can be answered
# before anything is run.

# %%
import sys

sys.path += [".", "lessons"]
from lesson import check, claim, expect, plt, seed, show

import numpy as np

from convsim_mini.config import ModelConfig
from convsim_mini.core.gradcheck import dense, relative_error
from convsim_mini.core.model import Model, loss_and_gradients
from convsim_mini.core.packed import Packed
from convsim_mini.core.pairs import Batch
from convsim_mini.training.initial import initial_parameters

rng = np.random.default_rng(seed(17))

# %% [markdown]
# ## Mantissas
#
# A GPU multiplies matrices much faster if numbers may be short: float32 keeps 23 bits after the
# leading one, TF32 10, bfloat16 7. Round both factors to b bits. A mantissa m between 1 and 2 moves
# by up to ± half a last bit, h = ½ · 2⁻ᵇ, evenly, with the root mean square h/√3. Relative to m,
# where leading digits are spread as they are in nature (density 1/(m ln 2)), √(E[1/m²]) =
# √(3/(8 ln 2)) = 0.736. Two factors: times √2. In a dot product of random signs errors and terms
# add up alike, so
#
# relative error ≈ √2 · 0.736/√3 · ½ · 2⁻ᵇ = **0.30 · 2⁻ᵇ**
#
# **Predict** from it: how many digits does a TF32 product have?

# %%
def round_mantissa(x, bits):
    """float64 with its mantissa rounded to so many bits after the leading one."""
    mantissa, exponent = np.frexp(x)                          # ½ ≤ mantissa < 1
    return np.ldexp(np.round(np.ldexp(mantissa, bits + 1)), exponent - bits - 1)


a, b = rng.standard_normal((200, 500)), rng.standard_normal((500, 200))
exact = a @ b
bits = np.arange(2, 24)
errors = np.array([np.linalg.norm(round_mantissa(a, k) @ round_mantissa(b, k) - exact)
                   for k in bits])
errors /= np.linalg.norm(exact)
float32 = np.linalg.norm(a.astype(np.float32) @ b.astype(np.float32) - exact)
float32 /= np.linalg.norm(exact)

figure, axes = plt.subplots()
axes.semilogy(bits, errors, "o", label="both factors rounded, summed in float64")
axes.semilogy(bits, 0.30 * 2.0**-bits, "k:", label="derived: 0.30 · 2⁻ᵇ")
for name, k in (("bfloat16", 7), ("TF32, float16", 10), ("float32", 23)):
    axes.annotate(name, (k, errors[k - 2]), (8, 8), textcoords="offset points")
axes.plot(23, float32, "s", color="C3", label="a float32 product, which also adds in float32")
axes.set(xlabel="bits b of the mantissa", ylabel="relative error of a matrix product",
         title="Each bit of the mantissa halves the error")
show(figure, "Cb_precision")
claim("22 mantissas: measured / derived less 1, the largest",
      np.abs(errors / (0.30 * 2.0**-bits) - 1).max(), high=0.05)
expect(float32 / errors[-1], 1, 30, "what adding up in float32 costs on top of rounding to it")

# %% [markdown]
# So a gradient check cannot work in TF32, and cosines that differ in the fourth digit may change
# their order. Training needs fewer digits: `--device gpu` multiplies in TF32 unless
# `--precision fp32` says otherwise.
#
# ## Sums
#
# The same numbers, added in another order, are rounded differently. If they are added one after the
# other, each of n partial sums is rounded: for numbers of one sign the error can reach n u,
# u = 2⁻²⁴. Say roundings have random signs. Each is even within ± half of the last bit's value, the
# *spacing* of floats there, so its mean square is spacing²/12. The mean squares add up. For a
# million numbers the root of their sum is 224 u, near ¼ √n u; a single sum may be off by 30 u or by
# 500. In pairs of pairs (a GPU's trees) each number takes part in only log₂ n roundings. NumPy adds
# blocks of up to 128 numbers with 8 running sums, and then these in pairs: some 30 roundings here.
# (Subtracting two nearly equal sums is far worse: lesson B, exercise 2.)

# %%
u = 2.0**-24
one_by_one, in_pairs, derived = [], [], []
for _ in range(40):
    values = rng.random(2**20).astype(np.float32)
    true, partial = values.astype(np.float64).sum(), np.cumsum(values)
    one_by_one.append(abs(float(partial[-1]) - true) / true / u)
    in_pairs.append(abs(float(values.sum()) - true) / true / u)
    derived.append(np.sqrt((np.spacing(partial).astype(float)**2).sum() / 12) / true / u)
rms = lambda x: np.sqrt(np.mean(np.square(x)))
print(f"40 sums of a million numbers, one by one: off by {min(one_by_one):.0f} to "
      f"{max(one_by_one):.0f} u")
expect(rms(derived), 180, 300, "one by one, in u: derived root mean square; ¼ √n = 256")
claim("measured / derived, one by one", rms(one_by_one) / rms(derived), 0.65, 1.35)
claim("in pairs, the worst of 40 sums, in u", max(in_pairs), high=5)

# %% [markdown]
# ### Exercise 1: one by one, and yet right
#
# Kahan's idea: what an addition rounds away can be computed from the total before, the total after
# and the number that was added. Keep it in a second number, and add it at the next addition. Write
# such a sum with float32 numbers alone, one value after the other. (The judge's values count what
# is done with them.)

# %%
def careful_sum(values):
    """The sum, added one by one with a second float32 beside the total.

    values: an iterable of float32 → float32
    """
    raise NotImplementedError


class Single(np.float32):
    """A float32 that counts its additions and subtractions, and refuses float64."""

    done = 0

    def of(operation):
        def counted(self, other):
            assert not isinstance(other, np.float64), "a float64 takes part"
            Single.done += 1
            return Single(operation(np.float32(self), other))
        return counted

    __add__, __sub__ = of(np.float32.__add__), of(np.float32.__sub__)
    __radd__, __rsub__ = of(np.float32.__radd__), of(np.float32.__rsub__)

    def __float__(self):
        raise AssertionError("a value is made a float64")


def judge_careful_sum(careful_sum, rng):
    some = rng.random(2**15).astype(np.float32)
    Single.done = 0
    found = careful_sum(map(Single, some))
    assert Single.done >= 2 * len(some), (
        f"{Single.done} float32 additions and subtractions for {len(some)} values: take one after "
        "the other, in float32 alone")
    assert isinstance(found, np.float32), f"float32 comes in and {type(found).__name__} goes out"
    found = np.float32(found).item()
    error = abs(found / some.astype(np.float64).sum() - 1) / u
    assert error < 3, f"off by {error:.0f} u; what did the last addition round away, and which way?"


check(1, careful_sum, judge_careful_sum)

# %% [markdown]
# ### Exercise 2: sums of segments
#
# An embedding bag adds up rows sentence by sentence. NumPy has `np.add.reduceat`, which gives a
# wrong value for a segment without rows. CuPy's takes a cumulative sum over everything and
# subtracts at the borders. The running total grows, and *its* rounding, total · u, gets into every
# segment, however small the segment is. Write segment sums without a running total, where a segment
# may be empty. (A hint: `scipy.sparse`. The counts of `fast/host.py: sum_into` are such a matrix.)

# %%
def segment_sums(x, offsets):
    """Sum of x[offsets[b]:offsets[b + 1]] for each b.

    x: float32 (N, d), offsets: (B + 1,) → float32 (B, d)
    """
    raise NotImplementedError


def judge_segment_sums(segment_sums, rng):
    lengths = rng.integers(0, 20, 20_000)
    lengths[-1] = 5
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    x = rng.random((offsets[-1], 2), np.float32)
    running = np.concatenate([np.zeros((1, 2)), np.cumsum(x.astype(np.float64), axis=0)])
    right = np.diff(running[offsets], axis=0)
    found = segment_sums(x, offsets)
    assert found.shape == right.shape, f"shape {found.shape}, expected {right.shape}"
    assert found.dtype == np.float32, (
        f"float32 came in and {found.dtype} goes out: the next layers would all be slower")
    assert not found[lengths == 0].any(), "the sum of a segment without rows is 0"
    worst = np.abs(found - right).max()
    limit = 19 * 20 * 2.0**-24    # 19 additions, each of a total below 20
    assert worst < limit, (
        f"off by up to {worst:.1g}; 19 additions of numbers below 1 are off by {limit:.1g} at most")
    x[0] = 1e25
    assert np.abs(segment_sums(x, offsets) - found)[offsets[:-1] > 0].max() == 0, (
        "a large number in the first segment changes the others: that is a running total")


check(2, segment_sums, judge_segment_sums)

# %% [markdown]
# ## Parity: how equal is equal?
#
# Two machines that add in different orders do not agree bit by bit, so a test needs a tolerance.
# Derive it: float32 has u = 6 · 10⁻⁸. Our step goes through
# products of 40 to 60 terms, a softmax with scale 20 (which turns an error δ of a cosine into 20 δ
# of a probability, relatively) and back. So some tens of u, and less than 20 · √60 · u ≈ **10⁻⁵**.
# That is an upper bound: one millionth is plausible, 10⁻³ is a bug.
#
# In the place of another machine we take the same step in float64, whose error is far smaller.

# %%
config = ModelConfig(embedding_dim=40, layers=[60])
WORDS, BIGRAMS = 300, 200
table = rng.standard_normal((WORDS + BIGRAMS, config.embedding_dim)).astype(np.float32)
model = Model(initial_parameters(config, table, rng), config, WORDS)
lengths = rng.integers(1, 12, 2 * 50)
sentences = Packed(rng.integers(0, WORDS, lengths.sum()).astype(np.int32),
                   np.concatenate([[0], np.cumsum(lengths)]))
batch = Batch(sentences, None)


def step(model):
    """Gradients of the batch, tables in full."""
    _, grads = loss_and_gradients(model, batch)
    return {name: dense(grad, model.params[name]) for name, grad in grads.items()}


def apart(one, other):
    """The largest relative difference of the gradients."""
    return max(relative_error(one[name], other[name]) for name in one)


here = step(model)
in_float64 = model._replace(params={name: p.astype(np.float64) for name, p in model.params.items()})
claim("gradients in float32 and in float64: the largest relative difference",
      apart(here, step(in_float64)), high=1e-5)

# %% [markdown]
# Does the check see anything? Break it: a scale of 20.02 instead of 20, one part in a thousand.

# %%
off = step(model._replace(config=ModelConfig(embedding_dim=40, layers=[60], scale=20.02)))
claim("the same with a scale that is off by 0.1%", apart(off, here), low=1e-4)

# %% [markdown]
# It is seen. The smallest error of the scale that the tolerance shows is about 2 in 100,000.
#
# ## Where this lives
#
# - `fast/devices.py: set_precision`, of products; `config.py: precision`. `fast/host.py: sum_into`,
#   segment sums as a sparse matrix. `core/dropout.py: dropout_forward`: bits from a counter, the
#   same on both machines. `core/packed.py: bigram_buckets`: 64-bit products that wrap alike.
# - `tests/gpu/test_gpu.py`, `tests/gpu/test_kernels.py`: parity, on a GPU or on an emulated one
#   (`tests/gpu/vgpu/README.md`). They have not been run on a GPU yet.

# %% [markdown]
# ## Claims
#
# Over five seeds, as `python -m lessons.claims 25` prints it. The last column says which values would refute the claim.
#
# | claim | mean ± sd | least to most | refuted |
# | --- | --- | --- | --- |
# | 22 mantissas: measured / derived less 1, the largest | 0.012 ± 0.003 | 0.00915 to 0.0157 | above 0.05 |
# | measured / derived, one by one | 0.943 ± 0.05 | 0.865 to 1.01 | below 0.65, above 1.35 |
# | in pairs, the worst of 40 sums, in u | 1.94 ± 0.5 | 1.33 to 2.69 | above 5 |
# | gradients in float32 and in float64: the largest relative difference | 2.25e-07 ± 3e-08 | 1.79e-07 to 2.55e-07 | above 1e-05 |
# | the same with a scale that is off by 0.1% | 0.00063 ± 3e-05 | 0.000599 to 0.000677 | below 0.0001 |

# %% [markdown]
# ## What you know now
#
# - A bit less doubles a product's error, and the error's size can be derived.
# - The error of a sum depends on the order: one by one it grows like √n, in pairs it stays small.
# - Derive a tolerance, and break something to see that the check notices.
#
# That was the last lesson (26 is optional). Now ask something of your own, and answer it with a
# run: does your data beat ours (`data_scripts/README.md` makes millions of pairs)? Which part of
# the start is worth most to it? `python -m lessons.yours` lets you write the backwards yourself.
#
# Solutions, for when you have tried: `lessons/solutions/Cb_precision.py`.
