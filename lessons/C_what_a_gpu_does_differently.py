# %% [markdown]
# # C · NumPy and CuPy: launches, queues, silence
#
# **Needs** NumPy; lessons 7 (embeddings) and 8 (the DAN) help. No GPU.
# **Gives** a count of the calls that a layer makes, the right way to time a device that works
# ahead, and a check of what a device does not check.
# **Time** 35 minutes.
#
# Most of NumPy's functions exist in CuPy, for arrays that live on a GPU. But a GPU behaves in
# another way than a processor: each call costs time, a call returns before its work is done, and a
# wrong index gives no error. Each of these can be counted or computed on the CPU. (A GPU also adds
# up in another order: lesson C.)

# %%
import sys

sys.path += [".", "lessons"]
from lesson import check, claim, expect, plt, seed, show

import numpy as np

from convsim_mini.core.layers import l2_normalize_backward, l2_normalize_forward, tanh_backward
from convsim_mini.core.transformer_layers import layer_norm_forward

rng = np.random.default_rng(seed(17))

# %% [markdown]
# ## Counting launches
#
# On a GPU each NumPy call is a *launch*: a small program is sent to the device. It takes some 5 µs,
# however little there is to do. (A function marked `@twinned` may have a faster twin in `fast/`;
# `.plain` is the function as it stands in `core/`.) How many does a layer make? An array that notes
# what is called on it tells, without any GPU. First an example:
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
claim("calls of a layer norm", len(made), 12, 12)

# %% [markdown]
# (NumPy's mean is a sum and a division; CuPy's is one launch.) So a layer norm goes a dozen times
# through memory, where two would do: read a row, write a row. A launch costs the host some 5 µs,
# and in that time a GPU with 2,000 GB/s could add 600,000 numbers. Fused kernels change nothing but
# the time: `fast/layers.cu: add_norm_forward` is layer norm and the residual connection before it
# in one launch.
#
# ## A device that works ahead
#
# A launch returns as soon as the work is *queued*. The host goes on. Only where it needs a number
# (`float(loss)`, `x.get()`) does it wait. Here is a model of a device with a clock: a launch costs
# the host 5 µs, and the device does one piece of work after the other.

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
claim("100 launches of 1 ms: time with waiting / without", (device.now - begin) / naive, low=100)

# %% [markdown]
# "My GPU is 200 times as fast!" is usually this.
#
# For the same reason a training loop must not look at the loss in each step. Say the host
# needs h = 2 ms to prepare a batch and the device d = 3 ms for a step. If nobody waits, the host
# prepares the next batch while the device works: max(h, d) a step. With `float(loss)` in the loop
# they take turns: h + d.
#
# ![Host and device, with a queue and in turns](pictures/C_host_and_queue.svg)
#
# **Predict:** 100 steps, both ways.

# %%
def run(steps, look, prepare=2000):
    """ms of so many steps; look: see the loss, and so wait for it, in every one."""
    device = Device()
    device.compiled = True
    for _ in range(steps):
        device.now += prepare                                 # the host prepares a batch
        device.launch(3000)
        if look:
            device.synchronize()
    device.synchronize()
    return device.now / 1000


expect(run(100, look=False), 302, 302.1,
       "ms if nobody looks: 100 · max(h, d), after the first batch is ready")
claim("100 steps: time if each loss is looked at / if none is; derived 1.66",
      run(100, look=True) / run(100, look=False), 1.6, 1.7)

figure, axes = plt.subplots()
prepare = np.linspace(100, 6000, 30)
for look, label in ((True, "each loss is looked at: h + d"), (False, "none is: max(h, d)")):
    axes.plot(prepare / 1000, [run(100, look, h) / 100 for h in prepare], ".-", label=label)
axes.set(xlabel="ms for the host to prepare a batch, h (the device works d = 3 ms)",
         ylabel="ms for a step", ylim=(0, None), title="If the host waits, both times add up")
show(figure, "C_what_a_gpu_does_differently")

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
    device, takes, made = Device(), rng.uniform(600, 800), []

    def work(device):                                         # each call a little longer or shorter
        made.append(takes * (0.9 if len(made) % 2 else 1.1))
        device.launch(made[-1])

    device.compiled = True
    for _ in range(50):
        device.launch(2000)                                   # other work, still in the queue
    found = time_it(device, work, 20)
    assert device.now >= device.done, "you answer while the device still works: nobody waited"
    assert found > 100, f"{found:.0f} µs: that is the price of launching, not of the work"
    assert found < 1000, f"{found:.0f} µs instead of {takes:.0f}: whose work is in it?"
    found = time_it(Device(), work, 20)
    assert found < 1000, f"{found:.0f} µs on a fresh device: the first call compiles"
    right = np.mean(made[-20:]) + 5 / 20                      # one launch is not hidden by work
    assert abs(found - right) < 1, (
        f"{found:.1f} µs instead of {right:.1f}: is it the mean of 20 calls? A wait after every "
        "call adds the price of its launch")


check(1, time_it, judge_time_it)

# %% [markdown]
# ## Silence
#
# An index beyond the end is an error in NumPy. In CuPy it wraps around: it gives the embedding of
# another word, without an error. `np.take(mode="wrap")` does the same. So the host checks the ids
# in `encoder_forward`, before they are sent.

# %%
table = rng.standard_normal((30, 3))
try:
    table[:5][np.array([7])]
except IndexError as error:
    print("NumPy:", error)
wrapped = table[:5].take([7], axis=0, mode="wrap")
expect(np.abs(wrapped - table[2]).max(), 0, 0, "with wrap, row 7 of 5 is row 2: difference")

# %% [markdown]
# ### Exercise 2: a take that checks
#
# `wrapping_take` is what a device does. Write `checked_take`. It raises an IndexError *before* it
# takes anything, if an id is no row of the table, and else returns the rows. There may be no ids.

# %%
def wrapping_take(table, ids):
    """Rows of a table as a device takes them: table: (R, d), ids: (N,) → (N, d)."""
    return table.take(ids, axis=0, mode="wrap")


def checked_take(table, ids):
    """wrapping_take, but an id that is no row of the table is an IndexError."""
    raise NotImplementedError


def judge_checked_take(checked_take, rng):
    class Watched(np.ndarray):
        def take(self, ids, **options):
            taken.append(ids)
            return np.asarray(self).take(ids, **options)

    R, taken = int(rng.integers(5, 20)), []
    rows = table[:R].view(Watched)
    for ids in (rng.integers(0, R, 4), rng.integers(0, R, 0)):
        assert np.array_equal(checked_take(rows, ids), table[ids]), f"{ids} are rows"
    for bad in ([1, R], [R + 2], [2, -1], [-R - 1]):
        taken.clear()
        try:
            checked_take(rows, np.array(bad, np.int32))
        except IndexError:
            assert not taken, f"{bad}: the ids had left the host before the check"
        else:
            raise AssertionError(f"{bad} passes, with {R} rows: which way does an id wrap?")


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
#   (`tests/gpu/vgpu/README.md`). They have not been run on a GPU yet.

# %% [markdown]
# ## Claims
#
# Over five seeds, as `python -m lessons.claims 24` prints it. The last column says which values
# would refute the claim.
#
# | claim | mean ± sd | least to most | refuted |
# | --- | --- | --- | --- |
# | calls of a layer norm | 12 ± 0 | 12 to 12 | below 12, above 12 |
# | 100 launches of 1 ms: time with waiting / without | 200 ± 0 | 200 to 200 | below 100 |
# | 100 steps: time if each loss is looked at / if none is; derived 1.66 | 1.66 ± 0 | 1.66 to 1.66 | below 1.6, above 1.7 |

# %% [markdown]
# ## What you know now
#
# - On a GPU every call is a launch, and has its price: count launches.
# - A launch returns before its work is done: wait before you stop the clock.
# - A device wraps a wrong id without an error: check ids before they leave the host.
#
# Next: lesson C asks how many digits of a result are right, and how equal two machines can be.
#
# Solutions, for when you have tried: `lessons/solutions/C_what_a_gpu_does_differently.py`.
