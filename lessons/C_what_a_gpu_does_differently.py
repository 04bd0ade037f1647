# %% [markdown]
# # C · What a GPU does differently: launches, queues, wrong ids, digits
#
# **Needs** NumPy, layer norm (lesson 15), no GPU. Optional.
# **Gives** how to count a layer's calls and time a device; the errors of short mantissas and sums.
# **Time** 50 minutes, in two parts; the second begins at "4. Mantissas".
#
# **In thirty seconds.** On a GPU every call costs microseconds before any work is done,
# returns before the work is done, and, in CuPy, reports no wrong index. Products keep fewer digits,
# and sums are added in another order. All five can be counted, modelled or derived without a GPU.
#
# Most of NumPy's functions exist in CuPy, for arrays that live on a GPU, so you change an import
# and the code runs. This lesson is about the five ways in which it then surprises you.

# %%
import sys

sys.path += [".", "lessons"]
from lesson import check, claim, expect, np, plt, seed, show
from convsim_mini.core.layers import l2_normalize_forward, tanh_backward
from convsim_mini.core.transformer_layers import layer_norm_forward

rng = np.random.default_rng(seed(17))

# %% [markdown]
# ## 1. Counting launches
#
# On a GPU each NumPy call is a *launch*: a small program is sent to the device, which takes some 5
# µs however little there is to do. How many launches does a layer make? An array that records every
# call can count them, no GPU needed. (`.plain` is a function as it is written in `core/`, where
# `fast/` has a faster twin of it.) First an example:
#
#     norm = xp.sqrt((x * x).sum(axis=1, keepdims=True))       # *, sum, sqrt
#     norm = xp.where(norm > 0, norm, 1)                       # >, where
#     y = x / norm                                             # /
#
# **Predict:** these are six. How many does `tanh_backward` make, dy (1 − y²)? And layer norm?

# %%
class Counted(np.ndarray):
    """An array that notes every NumPy call that it takes part in."""

    calls = []

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **options):
        Counted.calls.append(ufunc.__name__ if method == "__call__"
                             else f"{ufunc.__name__}.{method}")
        if out is not None:
            options["out"] = tuple(map(plain, out))
        found = getattr(ufunc, method)(*map(plain, inputs), **options)
        return np.asarray(found).view(Counted)

    def __array_function__(self, function, types, inputs, options):
        Counted.calls.append(function.__name__)
        return np.asarray(function(*map(plain, inputs), **options)).view(Counted)


def plain(a):
    return a.view(np.ndarray) if isinstance(a, Counted) else a


def launches(function, *arrays):
    """The calls that function(*arrays) makes, in order."""
    Counted.calls.clear()
    function(*(array.view(Counted) for array in arrays))
    return list(Counted.calls)


x, dy, y = rng.standard_normal((3, 4, 3))
weight = np.ones(3)
for name, made, number in (
        ("l2_normalize_forward", launches(l2_normalize_forward, x), 6),
        ("tanh_backward", launches(tanh_backward, dy, y), 3),
        ("layer_norm_forward", launches(layer_norm_forward.plain, x, weight, weight), 12)):
    expect(len(made), number, number, f"{name}: {', '.join(made)}")

# %% [markdown]
# `tanh_backward` makes three launches, layer norm twelve. Seven of the twelve go over all of x (the
# others have one number per row) where two would do: read a row, write a row. That is why
# `layer_norm_forward` of `fast/layers.cu` does it in one launch. A step of our Transformer
# with the paper's six layers has 13 norms forwards and 13 backwards. `tanh_backward` needs no CUDA of
# ours: CuPy makes one kernel of core's own function (`cupy.fuse` in `fast/kernels.py`).
#
# ## 2. A device that works ahead
#
# A launch returns as soon as the work is *queued*, and the host carries on. Only where it needs a
# number (`float(loss)`, `x.get()`) does it wait. Here is a model of such a device, with a clock:
# each launch costs the host 5 µs, and the device does one piece of work after the other.
#
# **Predict:** 100 launches of a millisecond each. What does the host's clock show after them?

# %%
class Device:
    """Time in µs. launch costs the host 5; synchronize: it waits for all the work."""

    def __init__(self, compiled=False):
        self.now = self.done = 0.0    # the host's clock; when the queue will be empty
        self.compiled = compiled

    def launch(self, work):
        self.now += 5
        if not self.compiled:    # the first time a kernel is used it is compiled
            self.now += 300_000
            self.compiled = True
        self.done = max(self.done, self.now) + work

    def synchronize(self):
        self.now = max(self.now, self.done)


device = Device(compiled=True)
for _ in range(100):
    device.launch(1000)                                       # a millisecond of work each
naive = device.now
device.synchronize()
print(f"the host's clock: {naive:,.0f} µs; after waiting {device.now:,.0f} µs")
expect(device.now / naive, 199, 202, "100 launches of 1 ms: time with waiting / without")

# %% [markdown]
# The clock shows half a millisecond, the device needs 100. "200 times as fast!" is often just this.
#
# It is also why a training loop must not look at the loss in each step. Say the host needs h = 2 ms
# to prepare a batch and the device d = 3 ms for a step. If nobody waits, the host prepares the next
# batch while the device works, and a step takes max(h, d) = 3 ms. With `float(loss)` in the loop
# the two take turns, and it takes h + d = 5 ms.

# %%
figure, panels = plt.subplots(2, 1, figsize=(9, 4.2), sharex=True)
for axes, waits in zip(panels, (False, True)):
    host = done = 0                                           # ms
    for k in range(5):
        begin = max(done, host + 2)
        axes.broken_barh([(host, 2)], (1, 0.8), color=f"C{k}")
        axes.broken_barh([(begin, 3)], (0, 0.8), color=f"C{k}")
        done = begin + 3
        host = done if waits else host + 2
    axes.set_yticks((0.4, 1.4), ("device: 3 ms", "host: 2 ms"))
    axes.set(title=f"{'float(loss) in each step' if waits else 'Nobody waits'}: five steps take "
             f"{done} ms", xlabel="ms (one colour: one step)", ylabel="who works")
show(figure, "C_what_a_gpu_does_differently")

# %% [markdown]
# ### Exercise 1: time it right
#
# Write a `time_it` that returns how many µs *one* call of `work(device)` takes once it is compiled.
# The device may still be busy with something else when you begin.

# %%
def time_it(device, work, calls=10):
    """µs that one call of work(device) takes, the mean of `calls`."""
    raise NotImplementedError


def judge_time_it(time_it, rng):
    device, takes, made = Device(compiled=True), rng.uniform(600, 800), []

    def work(device):                                         # each call a little longer or shorter
        made.append(takes * (0.9 if len(made) % 2 else 1.1))
        device.launch(made[-1])

    for _ in range(50):
        device.launch(2000)                                   # other work, still in the queue
    found = time_it(device, work, 20)
    assert device.now >= device.done, "you answer while the device still works: nobody waited"
    assert found > 100, f"{found:.0f} µs: that is the price of launching, not of the work"
    assert found < 1000, f"{found:.0f} µs instead of {takes:.0f}: whose work, of how many calls?"
    found = time_it(Device(), work, 20)
    assert found < 1000, f"{found:.0f} µs on a fresh device: the first call compiles"
    right = np.mean(made[-20:]) + 5 / 20                      # one launch is not hidden by work
    assert abs(found - right) < 1, (
        f"{found:.1f} µs instead of {right:.1f}: is it the mean of 20 calls? A wait after every "
        "call adds the price of its launch")


check(1, time_it, judge_time_it)

# %% [markdown]
# ## 3. Silence
#
# An index beyond the end is an error in NumPy, and on a GPU PyTorch stops as well. CuPy wraps it
# around, as `np.take(mode="wrap")` does: you get the embedding of some other word, and nobody will
# ever know. So the host checks both ends in `encoder_forward`, before the ids are sent.
#
# **Predict:** of five rows, 0 to 4, which one is row 7?

# %%
expect(np.take(range(5), 7, mode="wrap"), 2, 2, "row 7 of five, wrapped")

# %% [markdown]
# ## 4. Mantissas
#
# A GPU multiplies matrices much faster if numbers may be short: float32 keeps 23 bits after the
# leading one, TF32 10, bfloat16 7. What does that do to a product? Round both factors to b bits and
# add up exactly. A mantissa m between 1 and 2 moves by up to ± half a last bit, h = ½ · 2⁻ᵇ, and
# any move in between is as likely, so its root mean square is h/√3. The *relative* error is that
# over m. Numbers that spread over several octaves have nearly the density 1/(m ln 2) (Benford's
# law), so √(E[1/m²]) = √(3/(8 ln 2)) = 0.736. There are two factors: times √2. In a dot product of
# random signs errors and terms add up alike, so
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

figure, axes = plt.subplots(figsize=(8, 3.6))
for name, k in (("bfloat16", 7), ("TF32, float16", 10), ("float32", 23)):
    print(f"{name:13} {k:2} bits: relative error {errors[k - 2]:.1e}, derived {0.30 * 2.0**-k:.1e}")
    axes.annotate(name, (k, errors[k - 2]), (6, 6), textcoords="offset points")
claim("22 mantissas: measured / derived less 1, the largest",
      np.abs(errors / (0.30 * 2.0**-bits) - 1).max(), high=0.05)
whole = np.linalg.norm(a.astype(np.float32) @ b.astype(np.float32) - exact) / np.linalg.norm(exact)
expect(whole / errors[-1], 3, 20, "float32, sums rounded as well: error / that with exact sums")
axes.semilogy(bits, 0.30 * 2.0**-bits, "k:", label="derived, 0.30 · 2⁻ᵇ")
axes.semilogy(bits, errors, "o", label="factors rounded, exact sums")
axes.semilogy(23, whole, "x", color="C3", markersize=9, label="float32, sums rounded as well")
axes.set(xlabel="bits after the leading one, b", ylabel="relative error of a product", xlim=(1, 26),
         title="Each bit of its factors halves a product's error")
show(figure, "C_mantissas")

# %% [markdown]
# A TF32 product has three digits, since 0.30 · 2⁻¹⁰ = 0.0003. That is too few for a gradient check,
# but plenty for training: `--device gpu` multiplies in TF32, with `--precision fp32` in float32. In
# float32 the rounding of the sums is the larger part: here it makes the error eight times as large.
#
# ## 5. Sums
#
# The same numbers, added in another order, are rounded differently. If we add them one after the
# other, each of n partial sums is rounded, by anything up to half a *spacing*, the value of the
# last bit there. So a rounding has the mean square spacing²/12, and if their signs are random the
# mean squares add up. The sum is about n/2. While the total doubles for the last time, n/2 roundings have
# a spacing of about u times the final sum, with u = 2⁻²⁴: n/24 · u² relative to it. Each doubling before
# adds an eighth of that, 8/7 in all, and the root is √(n/21) u = 224 u for a million (n = 2²⁰). A GPU adds in pairs of pairs, and then
# each number takes part in only log₂ n roundings. (NumPy's own `sum` works nearly like this, so it
# plays the GPU here.)
#
# **Predict:** a million numbers, added in pairs. Is the error nearer 1 u, 10 u or 100 u?

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
expect(rms(derived), 180, 300, "one by one, in u: derived root mean square; √(n/21) = 223.5")
expect(rms(one_by_one) / rms(derived), 0.65, 1.35, "measured / derived, one by one")
claim("in pairs, the worst of 40 sums, in u", max(in_pairs), high=5)

# %% [markdown]
# The error is nearer 1 u: two orders of magnitude better. (So mistrust a running total: CuPy's
# `add.reduceat` takes each sentence's sum as the difference of two totals, and the rounding of those gets
# into every sentence, however short.)
#
# ## Where this lives
#
# - `core/arrays.py`: `array_module`, `twinned`. `fast/kernels.py`: what runs on a GPU in a
#   function's place; `fast/devices.py`: how a kernel is started; `fast/*.cu`: the kernels.
# - `tests/gpu/test_kernels.py`: parity, on a GPU or on an emulated one
#   (`tests/gpu/vgpu/README.md`).

# %% [markdown]
# ## What you know now
#
# - On a GPU every call is a launch: count launches, and wait before you stop the clock.
# - CuPy wraps a wrong id without an error: check ids before they leave the host.
# - Errors of short mantissas and of long sums can be derived: so a tolerance need not be guessed.
#
# To read on: [Making deep learning go brrrr from first
# principles](https://horace.io/brrr_intro.html). Next: `lessons/book/after.md` has five questions
# for a run of your own.
#
# Solutions, for when you have tried: `lessons/solutions/C_what_a_gpu_does_differently.py`.
