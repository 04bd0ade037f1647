# %% [markdown]
# # 25 · Precision: digits, sums, and how equal is equal
#
# **Needs** NumPy; a model with its loss and gradients (lesson 17). A GPU is welcome and not needed:
# its half of the lesson says so where there is none.
# **Gives** the error of short mantissas and of long sums, derived and measured, and a tolerance for
# "the same result" that is derived instead of tried.
#
# A GPU multiplies with fewer digits if it may, and it adds up in another order than a processor. So
# its results differ. By how much may they differ, and how much would be a bug? Both questions have
# an answer before anything is run.

# %%
import sys

sys.path += [".", "lessons"]
from lesson import check, expect, plt, seed, show

import numpy as np

from convsim_mini.common.cli import UserError
from convsim_mini.config import ModelConfig
from convsim_mini.core.arrays import to_device, to_host
from convsim_mini.core.gradcheck import dense, relative_error
from convsim_mini.core.model import Model, loss_and_gradients
from convsim_mini.core.packed import Packed
from convsim_mini.core.pairs import Batch
from convsim_mini.fast.devices import device_module
from convsim_mini.training.initial import initial_parameters

rng = np.random.default_rng(seed(17))
try:
    cupy = device_module("gpu", "fp32")                       # TF32 would miss the tolerance below
    print("a GPU:", cupy.cuda.runtime.getDeviceProperties(0)["name"].decode())
except UserError as error:
    cupy = None
    print("no GPU here, so its parts are skipped:", str(error)[:100], "…")

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
         title="Three digits and a half with TF32, and each bit halves the error")
show(figure, "25_precision")
expect((errors / (0.30 * 2.0**-bits)).min(), 0.9, 1.05, "the least of measured / derived")
expect((errors / (0.30 * 2.0**-bits)).max(), 0.95, 1.1, "and the most")
expect(float32 / errors[-1], 1, 30, "what adding up in float32 costs on top of rounding to it")

# %% [markdown]
# So a gradient check is out of the question in TF32, and cosines that are sorted to find the
# nearest of a million sentences may change places in the fourth digit. Training needs fewer
# digits: `--device gpu` multiplies in TF32 unless `--precision fp32` says otherwise.
#
# ## Sums
#
# The same numbers, added in another order, round elsewhere. Adding one after the other, each of n
# partial sums is rounded: for numbers of one sign the error can reach n u, u = 2⁻²⁴. Say roundings
# have random signs. Each is even within ± half of the last bit's value, the *spacing* of floats
# there, so its mean square is spacing²/12. The mean squares add up. For a million numbers the root
# of their sum is 224 u, near ¼ √n u; a single sum may be off by 30 u or by 500. In pairs of pairs
# (a GPU's trees) only log₂ n roundings lie on each number's way. NumPy adds blocks of up to 128
# numbers with 8 running sums, and then these in pairs: some 30 roundings here.

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
expect(rms(one_by_one) / rms(derived), 0.65, 1.35, "measured / derived")
expect(max(in_pairs), 0, 30, "in pairs, the worst")

# %% [markdown]
# ### Exercise 1: one by one, and yet right
#
# Kahan's idea: what an addition rounds away can be computed from the total before, the total after
# and the number that was added. Keep it in a second number, and give it back at the next addition.
# Write such a sum with float32 numbers alone, one value after the other.

# %%
def careful_sum(values):
    """The sum, added one by one with a second float32 beside the total.

    values: an iterable of float32 → float32
    """
    raise NotImplementedError


def judge_careful_sum(careful_sum, rng):
    some = rng.random(2**15).astype(np.float32)
    found = careful_sum(iter(some))
    assert isinstance(found, np.float32), f"float32 comes in and {type(found).__name__} goes out"
    error = abs(float(found) / some.astype(np.float64).sum() - 1) / u
    assert error < 3, f"off by {error:.0f} u; what did the last addition round away, and which way?"


check(1, careful_sum, judge_careful_sum)

# %% [markdown]
# ### Exercise 2: sums of segments
#
# An embedding bag adds up rows sentence by sentence. NumPy has `np.add.reduceat`. CuPy's differs:
# it takes a cumulative sum over everything and subtracts at the borders. In float32 that is a trap:
# the running total grows, and *its* rounding, total · u, lands in every segment, however small the
# segment is. Write segment sums that never see a running total. (A hint: `scipy.sparse`. The
# counts of `fast/host.py: sum_into` are such a matrix.)

# %%
def segment_sums(x, offsets):
    """Sum of x[offsets[b]:offsets[b + 1]] for each b.

    x: float32 (N, d), offsets: (B + 1,) → float32 (B, d)
    """
    raise NotImplementedError


def judge_segment_sums(segment_sums, rng):
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 20, 20_000))])
    x = rng.random((offsets[-1], 2), np.float32)
    right = np.add.reduceat(x.astype(np.float64), offsets[:-1], axis=0)
    found = segment_sums(x, offsets)
    assert found.shape == right.shape, f"shape {found.shape}, expected {right.shape}"
    assert found.dtype == np.float32, (
        f"float32 came in and {found.dtype} goes out: the next layers would all be slower")
    worst = np.abs(found - right).max()
    limit = 19 * 20 * 2.0**-24    # 19 additions, each of a total below 20
    assert worst < limit, (
        f"off by up to {worst:.1g}; 19 additions of numbers below 1 are off by {limit:.1g} at most")


check(2, segment_sums, judge_segment_sums)

# %% [markdown]
# ## Parity: how equal is equal?
#
# Two machines that add in different orders do not agree bit by bit, and a test that wants it will
# be weakened until it passes. Derive the tolerance: float32 has u = 6 · 10⁻⁸. Our step goes through
# products of 40 to 60 terms, a softmax with scale 20 (which turns an error δ of a cosine into 20 δ
# of a probability, relatively) and back. So some tens of u, and less than 20 · √60 · u ≈ **10⁻⁵**.
# One millionth is plausible, 10⁻³ is a bug.
#
# The CPU's stand-in for another machine: the same step in float64, whose error is nothing. With a
# GPU, both.

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
    """Loss and gradients of the batch on the host, tables in full."""
    loss, grads = loss_and_gradients(model, batch)
    found = {}
    for name, grad in grads.items():
        like = to_host(model.params[name])
        found[name] = dense(grad if isinstance(grad, list) else to_host(grad), like)
    return float(loss), found


def compare(one, other, title):
    """Assert that two steps agree to float32's tolerance."""
    expect([abs(one[0] / other[0] - 1), *(relative_error(one[1][name], other[1][name])
                                          for name in one[1])], 0, 1e-5,
           f"{title}: loss, {', '.join(one[1])}")


here = step(model)
in_float64 = model._replace(params={name: p.astype(np.float64) for name, p in model.params.items()})
compare(here, step(in_float64), "float32 and float64")
assert all(grad.dtype == np.float32 for grad in here[1].values()), (
    "a function follows the dtype of its inputs")
if cupy:
    compare(here, step(model._replace(params=to_device(model.params, cupy))), "CPU and GPU")

# %% [markdown]
# And does the check see anything? Break it: a scale of 20.02 instead of 20, one part in a thousand.

# %%
off = step(model._replace(config=ModelConfig(embedding_dim=40, layers=[60], scale=20.02)))
worst = max(relative_error(off[1][name], here[1][name]) for name in here[1])
expect(worst, 1e-4, 1e-2,
       "a scale that is off by 0.1%: seen, ten times above the tolerance at least")

# %% [markdown]
# ## Where this lives
#
# - `fast/devices.py: set_precision`, of products; `config.py: precision`. `fast/host.py: sum_into`,
#   segment sums as a sparse matrix. `core/dropout.py: dropout_forward`: bits from a counter, the
#   same on both machines. `core/packed.py: bigram_buckets`: 64-bit products that wrap alike.
# - `tests/gpu/test_gpu.py`, `tests/gpu/test_kernels.py`: parity, on a GPU or on an emulated one
#   (`tests/gpu/vgpu/README.md`). They and this lesson's GPU half have not been run on a GPU yet.
# - The paper says nothing of this. All of it is ours.
#
# ## What you know now
#
# - A bit less doubles a product's error, and the error's size can be derived.
# - A sum errs by its order: one by one like √n, in pairs hardly at all.
# - Derive a tolerance, and break something to see that the check notices.
#
# That was the last lesson (26 is optional). Now ask something of your own, and answer it with a
# run: does your data beat ours (`data_scripts/README.md` makes millions of pairs)? Which part of
# the start is worth most to it? `python -m lessons.yours` lets you write the backwards yourself.
#
# Solutions, for when you have tried: `lessons/solutions/25_precision.py`.
