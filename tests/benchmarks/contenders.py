"""What the benchmarks time: a step of ours and of PyTorch's, on batches of real pairs.

PyTorch is given the rows of words and bigrams ready-made; ours computes the bigrams in the step.

    python contenders.py --work CONTENDER CASE FILE     prints what a contender takes, see `work`
    python contenders.py --profile CASE FILE            prints where the time of our step goes
"""

import json
import os
import pickle
import resource
import statistics
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]
os.environ.pop("OPENBLAS_CORETYPE", None)    # of an older processor, it slows NumPy's products down


class Case(NamedTuple):
    """One thing to time. It travels to a process of its own as JSON."""

    preset: str
    task: str               # "training" or "encoding"
    size: int               # pairs in a batch
    contenders: dict        # name → kind, see `step_of`, or "sgemm"; threads
    device: str
    steps: tuple            # to warm up; to time; between two looks at the clock
    similar: bool = False   # sentences of similar lengths in a batch


def pair_files():
    """Reddit pairs where CONVSIM_DATA is set; none, the default corpus, otherwise."""
    data = os.environ.get("CONVSIM_DATA")
    return [f"{data}/reddit/comment_reply.tsv.gz"] if data else []


# ---------------------------------------------------------------- batches in a file

def prepare(case, path, pairs):
    """Pickle a Case's batches, the number of words and the bigrams' keys; → the share of padding.

    pairs: files; empty means the default corpus
    """
    import numpy as np

    from convsim_mini.config import Config
    from convsim_mini.core.packed import frequent_bigrams
    from convsim_mini.core.batches import batch_order
    from convsim_mini.data.prepare import open_corpus

    config = Config(pairs=pairs)
    corpus = open_corpus(config)
    size = min(case.size, corpus.train.pairs)
    order = batch_order(corpus.train.pairs, size, seed=1)
    if case.similar:
        some = np.arange(200 * size)
        longest = np.diff(corpus.train.offsets)[:2 * len(some)].reshape(-1, 2).max(axis=1)
        order = iter(np.argsort(longest, kind="stable").reshape(-1, size)[100:])
    batches = [corpus.train.batch(next(order)) for _ in range(sum(case.steps[:2]))]
    words = corpus.vocabulary.size
    bigrams = frequent_bigrams(corpus.train.packed, words, config.text.bigrams)
    Path(path).write_bytes(pickle.dumps([batches, words, bigrams]))
    lengths = [batch.sentences.lengths for batch in batches]
    return 1 - sum(some.sum() for some in lengths) / sum(some.max() * len(some) for some in lengths)


# ---------------------------------------------------------------- a step

def step_of(name, batches, words, bigrams, config, training, device):
    """A contender's function of k: one step on batch k, or its sentences' vectors.

    name: "ours", "bag" (PyTorch's DAN) or a PyTorch Transformer: "padded", "packed". On a GPU a
    step returns before it is done.
    """
    if name == "ours":
        return ours(batches, words, bigrams, config, training, device)
    import torch
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", os.cpu_count())))
    if device == "gpu":                                       # TF32, as ours
        torch.set_float32_matmul_precision("high")
        device = "cuda"
    if name == "bag":
        return torch_dan(batches, words, bigrams, config, training, device)
    return torch_transformer(name, batches, words, config, training, device)


def ours(batches, words, bigrams, config, training, device):
    import numpy as np

    from convsim_mini.core.arrays import to_device
    from convsim_mini.core.model import Model, embed, loss_and_gradients
    from convsim_mini.core.optim import SGD
    from convsim_mini.fast.devices import device_module
    from convsim_mini.core.initial import initial_parameters

    rng = np.random.default_rng(0)
    bigrams = bigrams if config.encoder == "dan" else bigrams[:0]
    table = rng.standard_normal((words + len(bigrams), config.embedding_dim), np.float32)
    params = to_device(initial_parameters(config, table, rng), device_module(device))
    model = Model(params, config, words, bigrams)
    optimizer = SGD(model.params)

    def step(k):
        loss, grads = loss_and_gradients(model, batches[k])
        optimizer.step(model.params, grads, 0.01, 0.01)
        return loss

    return step if training else lambda k: embed(model, batches[k].sentences, 10**6)


def torch_dan(batches, words, bigrams, config, training, device):
    import torch
    from torch_twin import Twin, torch_sentences

    twin = Twin(config, words + len(bigrams)).to(device)
    optimizers = [torch.optim.SGD(twin.parameters(), lr=0.01)]
    ready = [pinned(torch_sentences(batch.sentences, words, bigrams), device) for batch in batches]
    if training:
        return lambda k: descend(twin(*on(device, ready[k])), optimizers)
    return torch.inference_mode()(lambda k: twin.encode(*on(device, ready[k][:3])).cpu())


def torch_transformer(name, batches, words, config, training, device):
    import torch
    from torch.nn import functional as F

    from convsim_mini.core.transformer import sort_by_length
    from torch_twin import PackedTwin, Padded, packed_batch, pad

    kind, arguments_of = {
        "padded": (Padded, pad),
        "packed": (PackedTwin, lambda some: packed_batch(some, config))}[name]
    twin, e = kind(config, words).to(device), config.layers[-1]
    response = torch.nn.Sequential(torch.nn.Linear(e, e), torch.nn.Tanh(),
                                   torch.nn.Linear(e, e)).to(device)
    dense = [p for name, p in [*twin.named_parameters(), *response.named_parameters()]
             if name != "table.weight"]
    optimizers = [torch.optim.SGD(dense, lr=0.01, fused=True),
                  torch.optim.SGD([twin.table.weight], lr=0.01)]
    ready = []                                                # but for the copy to a GPU
    for batch in batches:
        ordered, order, _ = sort_by_length(batch.sentences, config.max_tokens)
        ready.append(pinned([torch.argsort(torch.from_numpy(order)), *arguments_of(ordered)],
                            device))

    def embeddings(k):
        unsorted, *arguments = on(device, ready[k])
        y = twin(*arguments)[unsorted]
        return y if training else y.cpu()

    def step(k):
        u, v = embeddings(k).chunk(2)
        return descend(F.cross_entropy(u @ response(v).T, torch.arange(len(u), device=device)),
                       optimizers)

    twin.train(training)                     # evaluation opens nn.MultiheadAttention's fast path
    return step if training else torch.inference_mode()(embeddings)


def descend(loss, optimizers):
    """A step of PyTorch's optimisers; → the loss."""
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
    return loss


def pinned(arguments, device):
    """A twin's arguments with the tensors where a GPU can copy them while it works."""
    import torch

    return [x.pin_memory() if device != "cpu" and getattr(x, "layout", None) is torch.strided else x
            for x in arguments]


def on(device, arguments):
    """A twin's arguments with the tensors on the device."""
    return [x.to(device, non_blocking=True) if hasattr(x, "to") else x for x in arguments]


# ---------------------------------------------------------------- times

def work(name, case, path):
    """What a contender of a Case takes: seconds of a step, peak MB, operations a second.

    Operations are those of a Transformer's products, 0 of a DAN's.
    """
    from convsim_mini.training.options import config_of

    settle(name)
    warm_up, timed, _ = case.steps
    if name == "sgemm":
        return [0, 0, sgemm(case.device)]
    batches, *sizes = pickle.loads(Path(path).read_bytes())
    config = config_of({"preset": case.preset}).model
    training = case.task == "training"
    step = step_of(name, batches, *sizes, config, training, case.device)
    seconds = step_time(step, case.steps, synchronizer(name, case.device))
    counted = 0 if config.encoder == "dan" else operations(
        batches[warm_up:], config, training) / timed
    return [seconds, peak(), counted / seconds]


def profile(case, path):
    """Where the time of our step goes: of the host alone, in all, and of each kernel (PyTorch)."""
    import torch
    from torch.profiler import ProfilerActivity

    from convsim_mini.training.options import config_of

    settle("ours")
    (warm_up, timed, some), on_gpu = case.steps, case.device == "gpu"
    batches, *sizes = pickle.loads(Path(path).read_bytes())
    config = config_of({"preset": case.preset}).model
    step, wait = ours(batches, *sizes, config, True, case.device), synchronizer("ours", case.device)
    step_time(step, (warm_up, some, some), wait)
    begin = time.perf_counter()
    for k in range(timed):
        step(k)
    host = time.perf_counter() - begin
    wait()
    both = time.perf_counter() - begin
    with torch.profiler.profile(activities=[ProfilerActivity.CUDA if on_gpu
                                            else ProfilerActivity.CPU]) as profiler:
        for k in range(some):
            step(k)
        wait()
    kernels = profiler.key_averages().table(sort_by="cuda_time_total" if on_gpu else
                                            "cpu_time_total", row_limit=25)
    return (f"{1e3 * both / timed:.3f} ms a step; the host alone {1e3 * host / timed:.3f} ms\n"
            f"{kernels}")


def synchronizer(name, device):
    """A function that waits for a contender's GPU. It comes last: ours sets CuPy up first."""
    if device == "cpu":
        return lambda: None
    if name == "ours":
        import cupy
        return cupy.cuda.Device().synchronize
    import torch
    return torch.cuda.synchronize


def step_time(step, steps, synchronize=lambda: None):
    """Seconds of one step: the median over chunks of steps, each waited for at its end."""
    warm_up, timed, chunk = steps
    for k in range(warm_up):
        step(k)
    synchronize()
    seconds = []
    for first in range(warm_up, warm_up + timed, chunk):
        begin = time.perf_counter()
        for k in range(first, first + chunk):
            step(k)
        synchronize()
        seconds.append((time.perf_counter() - begin) / chunk)
    return statistics.median(seconds)


def operations(batches, config, training):
    """Operations of a Transformer's products: 6 · words · parameters of its layers, or 2 ·."""
    import numpy as np

    from convsim_mini.core.transformer import transformer_shapes

    parameters = sum(int(np.prod(shape)) for shape in transformer_shapes(config).values()
                     if len(shape) == 2)
    words = sum(int(np.minimum(batch.sentences.lengths, config.max_tokens).sum())
                for batch in batches)
    return (6 if training else 2) * words * parameters


def sgemm(device="cpu"):
    """Operations a second of a float32 product: NumPy's at 2048³, or cuBLAS's at 8192³ in TF32."""
    import numpy as np

    width, xp = 2_048, np
    if device == "gpu":
        from convsim_mini.fast.devices import device_module
        width, xp = 8_192, device_module("gpu")
    x = xp.ones((width, width), np.float32)
    wait = synchronizer("ours", device)
    return 2 * width**3 / step_time(lambda k: x @ x, (1, 10, 1), wait)


def settle(name):
    """What a contender does before all else."""
    from convsim_mini.fast.host import use_all_cores, keep_freed_memory

    (use_all_cores if name == "ours" else keep_freed_memory)()


def peak():
    """The most memory that this process has held, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    if what == "--profile":
        print(profile(Case(*json.loads(arguments[0])), arguments[1]))
    else:
        print(json.dumps(work(arguments[0], Case(*json.loads(arguments[1])), arguments[2])))
