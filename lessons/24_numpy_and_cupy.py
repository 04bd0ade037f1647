# %% [markdown]
# # 24 · NumPy and CuPy: launches, queues, silence
#
# **Needs** NumPy; lessons 5 (embeddings) and 6 (the DAN) help. A GPU is welcome and not needed: its
# half of the lesson says so where there is none.
# **Gives** a model of what a step costs, the right way to time a device that works ahead, and what
# a device does not complain about.
#
# Most of NumPy's functions exist in CuPy, for arrays that live on a GPU. But a GPU behaves in
# another way than a processor. This lesson shows how, and why convsim_mini has CUDA kernels beside
# the functions that a training step spends its time in (`fast/*.cu`). A GPU starts work and comes
# back before it is done, it charges for every call, and it wraps around where NumPy complains. Each
# of these can be seen, or computed, on the CPU. (It also adds up in another order: lesson 25.)

# %%
import sys

sys.path += [".", "lessons"]
from lesson import check, expect, plt, seed, show

import time

import numpy as np

from convsim_mini.common.cli import UserError
from convsim_mini.config import ModelConfig
from convsim_mini.core.arrays import array_module
from convsim_mini.core.layers import l2_normalize_backward, l2_normalize_forward, tanh_backward
from convsim_mini.core.model import Model, encoder_forward
from convsim_mini.core.packed import Packed
from convsim_mini.core.transformer_layers import layer_norm_forward
from convsim_mini.fast.devices import device_module
from convsim_mini.training.initial import initial_parameters

rng = np.random.default_rng(seed(17))
try:
    cupy = device_module("gpu", "fp32")
    print("a GPU:", cupy.cuda.runtime.getDeviceProperties(0)["name"].decode())
except UserError as error:
    cupy = None
    print("no GPU here, so its parts are skipped:", str(error)[:100], "…")

# %% [markdown]
# ## The arrays decide
#
# There is no switch. A function asks the array that it is given: `xp = array_module(x)`, and calls
# `xp.sqrt`. Operators and methods (`x * x`, `x.sum()`, `x @ y`) need not even ask. So the same line
# runs wherever x lives, and nobody passes a device along. A function marked `@twinned` looks at its
# first array, too. `fast/` may hold a faster twin for that type, for CuPy's a kernel of the same
# name. `.plain` is the function as it stands in `core/`.

# %%
assert array_module(np.ones(3)) is np

# %% [markdown]
# ## Counting launches
#
# On a GPU each of these calls is a *launch*: a small program is sent to the device. One costs some
# 5 µs, however little there is to do. How many does a layer make? An array that keeps a list of
# what is called on it tells, without any GPU. Count by eye first:
#
#     norm = xp.sqrt((x * x).sum(axis=1, keepdims=True))       # *, sum, sqrt
#     norm = xp.where(norm > 0, norm, 1)                       # >, where
#     y = x / norm                                             # /
#
# **Predict:** six here. How many for `tanh_backward`, dy (1 − y²)? For `l2_normalize_backward`,
# (dy − along · y)/norm with along = Σ dy y? For layer norm?

# %%
class Counted(np.ndarray):
    """An array that notes every NumPy call that it takes part in."""

    calls = []

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **options):
        Counted.calls.append(ufunc.__name__ if method == "__call__"
                             else f"{ufunc.__name__}.{method}")
        plain = lambda a: a.view(np.ndarray) if isinstance(a, Counted) else a
        if out is not None:
            options["out"] = tuple(map(plain, out))
        found = getattr(ufunc, method)(*map(plain, inputs), **options)
        return np.asarray(found).view(Counted)

    def __array_function__(self, function, types, inputs, options):
        Counted.calls.append(function.__name__)
        plain = lambda a: a.view(np.ndarray) if isinstance(a, Counted) else a
        return np.asarray(function(*map(plain, inputs), **options)).view(Counted)


def launches(function, *arrays):
    """The calls that function(*arrays) makes, in order."""
    Counted.calls.clear()
    function(*(array.view(Counted) if isinstance(array, np.ndarray) else array for array in arrays))
    return list(Counted.calls)


x, dy, y = rng.standard_normal((3, 4, 3))
norm, weight = np.ones((4, 1)), np.ones(3)
for name, made, number in (
        ("l2_normalize_forward", launches(l2_normalize_forward.plain, x), 6),
        ("tanh_backward", launches(tanh_backward, dy, y), 3),
        ("l2_normalize_backward",
         launches(lambda dy, y, norm: l2_normalize_backward.plain(dy, (y, norm)), dy, y, norm), 5),
        ("layer_norm_forward", launches(layer_norm_forward.plain, x, weight, weight), 12)):
    print(f"{name}: {', '.join(made)}")
    expect(len(made), number, number, "calls")

# %% [markdown]
# (NumPy's mean is a sum and a division; CuPy's is one launch.) So a layer norm is a dozen trips
# through memory for what could be two: read a row, write a row. That is why fused kernels exist,
# and why they change nothing but the time: `fast/layers.cu: add_norm_forward` is layer norm and
# the residual connection before it in one launch. Counted on an emulated device, a step of the
# paper's Transformer on 128 pairs takes CuPy alone 20,915 launches; with the kernels it takes 250,
# 84 of them matrix products.
#
# ## What a call costs
#
# A call has a fixed price t₀ and a price per number: an addition of n float64 in cache-sized or
# larger arrays reads 8n bytes and writes 8n, at the memory's bandwidth β:
#
# t(n) ≈ **t₀ + 16 n/β**
#
# The two are equal at n½ = t₀ β/16. Below that you pay for the call, above it for the work. With a
# GPU's 5 µs and 2,000 GB/s, n½ is 600,000: a matrix of 1,000 × 600. **Predict** the CPU's, with a
# t₀ of half a microsecond and the 100 GB/s that a cache gives.

# %%
def seconds(function, wait=lambda: None, repeat=5, at_least=2e-3):
    """Time of one call: the best of `repeat` rounds of as many calls as take `at_least` seconds."""
    function()
    wait()
    calls, best = 1, np.inf
    while True:
        begin = time.perf_counter()
        for _ in range(calls):
            function()
        wait()
        taken = time.perf_counter() - begin
        if taken >= at_least:
            break
        calls *= 2
    for _ in range(repeat):
        begin = time.perf_counter()
        for _ in range(calls):
            function()
        wait()
        best = min(best, (time.perf_counter() - begin) / calls)
    return best


sizes = [4**k for k in range(12)]


def curve(xp, wait=lambda: None):
    """Seconds of one addition, in place of an array made before, for each of the sizes."""
    found = []
    for n in sizes:
        x, out = xp.ones(n), xp.ones(n)
        found.append(seconds(lambda: xp.add(x, 1.0, out=out), wait))
    return np.array(found)


cpu = curve(np)
curves = {"NumPy, this CPU": cpu}
if cupy:
    curves["CuPy, this GPU"] = curve(cupy, cupy.cuda.Device().synchronize)

figure, axes = plt.subplots()
for k, (name, times) in enumerate(curves.items()):
    start = times[0]
    axes.loglog(sizes, 1e6 * times, "o-", color=f"C{3 * k}", label=name)
    for place, at, style in (("cache", 7, "k--"), ("memory", -1, "k:")):
        bandwidth = 16 * sizes[at] / (times[at] - start)
        half = start * bandwidth / 16
        print(f"{name}: t₀ = {1e6 * start:.2f} µs, β = {bandwidth / 1e9:.0f} GB/s ({place}, "
              f"{16 * sizes[at] / 2**20:.2g} MiB), n½ = {half:,.0f} numbers")
        axes.loglog(sizes, 1e6 * (start + 16 * np.array(sizes) / bandwidth), style, linewidth=1,
                    label=None if k else f"t₀ + 16 n/β, β of the {place}")
axes.set(xlabel="numbers in the array", ylabel="time of one addition (µs)",
         title="Up to a thousand numbers or so cost as much as one: the call")
show(figure, "24_numpy_and_cupy")
expect(cpu[sizes.index(1024)] / cpu[0], 0.3, 4, "time of 1,024 numbers / of one number: not 1,024")
expect(cpu[-1] / cpu[0], 20, 1e7, "time of 4 million numbers / of one number: not 4 million")

# %% [markdown]
# A GPU's curve is flat for much longer. So one gives it large batches and asks how many launches a
# step makes; of a CPU one asks how many bytes it moves.
#
# ## A device that works ahead
#
# A launch comes back as soon as the work is *queued*. The host runs on, and only a wish to see a
# number (`float(loss)`, `x.get()`) makes it wait. Here is a device with a clock of its own, so that
# every figure can be computed: a launch costs the host 5 µs, the work takes as long as it takes,
# one piece after the other.

# %%
class Device:
    """Time in µs.

    launch(work): the host pays 5 and goes on; synchronize(): it waits for all the work.
    """

    def __init__(self):
        self.now = self.done = 0.0    # the host's clock; when the queue will be empty
        self.compiled = False

    def launch(self, work):
        self.now += 5
        if not self.compiled:    # the first time a kernel is used it is compiled
            self.now += 300_000
            self.compiled = True
        self.done = max(self.done, self.now) + work

    def synchronize(self):
        self.now = max(self.now, self.done)


device = Device()
device.launch(1)
device.synchronize()
begin = device.now
for _ in range(100):
    device.launch(1000)                                       # a millisecond of work each
naive = device.now - begin
device.synchronize()
print(f"100 launches of 1 ms: {naive / 1000:.1f} ms without waiting, "
      f"{(device.now - begin) / 1000:.1f} ms with")
expect(naive, 500, 500, "µs without waiting: 100 · 5")
expect(device.now - begin, 100_005, 100_005, "µs with: 5 + 100 · 1,000")

# %% [markdown]
# "My GPU is 200 times as fast!" is usually this.
#
# Working ahead is also why a training loop must not look at the loss in each step. Say the host
# needs h = 2 ms to prepare a batch and the device d = 3 ms for a step. If nobody waits, the host
# prepares the next batch while the device works: max(h, d) a step. With `float(loss)` in the loop
# they take turns: h + d.
#
# ![Host and device, with a queue and in turns](pictures/24_host_and_queue.svg)
#
# **Predict:** 100 steps, both ways.

# %%
def run(steps, look):
    """ms of so many steps; look: see the loss, and so wait for it, in every one."""
    device = Device()
    device.compiled = True
    for _ in range(steps):
        device.now += 2000                                    # the host prepares a batch
        device.launch(3000)
        if look:
            device.synchronize()
    device.synchronize()
    return device.now / 1000


expect(run(100, look=False), 302, 302.1,
       "ms if nobody looks: 100 · max(h, d), after the first batch is ready")
expect(run(100, look=True), 500, 501, "ms if the loss is looked at: 100 · (h + d)")

# %% [markdown]
# ### Exercise 1: time it right
#
# Write a `time_it` that returns the µs of *one* call of `work(device)`, once it is compiled. The
# device may still be busy with something else when you begin.

# %%
def time_it(device, work, calls=10):
    """µs that one call of work(device) takes, the mean of `calls`."""
    raise NotImplementedError


def judge_time_it(time_it, rng):
    device = Device()
    device.compiled = True
    for _ in range(50):
        device.launch(2000)    # somebody else's work, still in the queue
    found = time_it(device, lambda device: device.launch(700))
    assert found > 100, f"{found:.0f} µs: that is the price of launching; the work takes 700"
    assert found < 1000, f"{found:.0f} µs instead of 700: whose work is in it?"
    found = time_it(Device(), lambda device: device.launch(700))
    assert found < 1000, f"{found:.0f} µs on a fresh device: the first call compiles"
    assert abs(found - 700) <= 5, f"{found:.1f} µs instead of 700"


check(1, time_it, judge_time_it)

# %% [markdown]
# ## Silence
#
# What NumPy refuses, a device may do. An index beyond the end is an error here; on the device there
# is nobody to raise it, and it wraps around: the embedding of another word, without an error.
# `np.take(mode="wrap")` shows what happens. So the check stands on the host, in `encoder_forward`,
# before the ids leave it.

# %%
table = rng.standard_normal((5, 3))
try:
    table[np.array([7])]
except IndexError as error:
    print("NumPy:", error)
wrapped = table.take([7], axis=0, mode="wrap")
expect(np.abs(wrapped - table[2]).max(), 0, 0, "with wrap, row 7 of 5 is row 2: difference")

config = ModelConfig(embedding_dim=40, layers=[60])
WORDS, BIGRAMS = 300, 200
table = rng.standard_normal((WORDS + BIGRAMS, config.embedding_dim)).astype(np.float32)
model = Model(initial_parameters(config, table, rng), config, WORDS)
try:
    encoder_forward(model, Packed(np.array([3, 300], np.int32), np.array([0, 2])))
except IndexError as error:
    print("convsim_mini:", error)

# %% [markdown]
# ### Exercise 2: a take that complains
#
# `wrapping_take` is what a device does. Write `checked_take`, which raises an IndexError *before*
# the ids leave the host, for every id that is no row of the table, and else returns the rows. A
# batch may hold no ids at all.

# %%
def wrapping_take(table, ids):
    """Rows of a table as a device takes them: table: (R, d), ids: (N,) → (N, d)."""
    return table.take(ids, axis=0, mode="wrap")


def checked_take(table, ids):
    """wrapping_take, but an id that is no row of the table is an IndexError."""
    raise NotImplementedError


def judge_checked_take(checked_take, rng):
    for good in ([0, 4, 4, 2], []):
        ids = np.array(good, np.int32)
        assert np.array_equal(checked_take(table[:5], ids), table[ids]), f"{good} are rows"
    for bad in ([1, 5], [7], [2, -1], [-6]):
        try:
            checked_take(table[:5], np.array(bad, np.int32))
        except IndexError:
            continue
        raise AssertionError(f"{bad} passes, with 5 rows: which way does an id wrap?")


check(2, checked_take, judge_checked_take)

# %% [markdown]
# ## Where this lives
#
# - `core/arrays.py`: `array_module`, `to_device`, `to_host`, `twinned`. `fast/devices.py`:
#   `device_module` tries a small product before it promises a GPU. Beside `core/arrays.py` and
#   `fast/` only `training/distributed.py` imports CuPy.
# - `fast/twins.py`: the table of twins. `fast/kernels.py`: what runs on a GPU in a function's
#   place; `fast/*.cu`: the kernels.
# - `training/loop.py: run_steps` looks at the loss only where it is logged
#   (`training/monitor.py: log`).
# - `tests/gpu/test_kernels.py`: the kernels against NumPy, on a GPU or on an emulated one
#   (`tests/gpu/vgpu/README.md`). They and this lesson's GPU half have not been run on a GPU yet.
# - The paper, §3.1, trains on a cluster with TensorFlow and says nothing of this. All of it is
#   ours.
#
# ## What you know now
#
# - A call costs as much as some thousand numbers on a CPU, and far more on a GPU: count launches.
# - A launch comes back before its work is done: wait before you stop the clock.
# - A device wraps a wrong id without an error: check ids before they leave the host.
#
# Next: lesson 25 asks how many digits of a result are right, and how equal two machines can be.
#
# Solutions, for when you have tried: `lessons/solutions/24_numpy_and_cupy.py`.
