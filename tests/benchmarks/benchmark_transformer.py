"""How fast is the Transformer beside PyTorch's?  python tests/benchmarks/benchmark_transformer.py

The paper's size (6 layers, 8 heads, 512/2048), batches of real pairs, both sides, forward, backward
and SGD, float32, without dropout; and encoding. The contenders are ours, PyTorch padded to the
longest sentence of the batch, and PyTorch packed like ours, each in a process of its own, by
turns (see benchmark_dan.py). This script does not use torch.compile: every batch has shapes of its
own. benchmark_gpu.py does, with dynamic shapes. "Of sgemm" counts 6 · words · parameters in the
layers (2 · words for encoding) against the machine's rate of NumPy's 2048³ product in the same run.
Needs torch.
"""

import argparse
import itertools
import json
import os
import resource
import statistics
import tempfile
import time
from pathlib import Path

from benchmark_dan import (
    TASKS, in_turns, load_batches, on, ours, pair_files, pinned, save_batches,
)

STEPS = 3


def prepare(path, batch_size, similar):
    """Write batches of real pairs to a file, at random or of similar lengths; → padding share."""
    import numpy as np

    from convsim_mini.config import Config
    from convsim_mini.core.pairs import batch_order
    from convsim_mini.data.prepare import open_corpus

    corpus = open_corpus(Config(pairs=pair_files()))
    if similar:
        some = np.arange(200 * batch_size)
        longest = np.diff(corpus.train.offsets)[:2 * len(some)].reshape(-1, 2).max(axis=1)
        order = iter(np.argsort(longest, kind="stable").reshape(-1, batch_size)[100:100 + STEPS])
    else:
        order = batch_order(corpus.train.pairs, batch_size, seed=1)
    batches = [corpus.train.batch(next(order), mask_false_negatives=False) for _ in range(STEPS)]
    save_batches(path, batches, words=corpus.vocabulary.size)
    lengths = [batch.sentences.lengths for batch in batches]
    return 1 - sum(some.sum() for some in lengths) / sum(some.max() * len(some) for some in lengths)


def torch(batches, words, config, training, name, device="cpu"):
    """The same of a PyTorch twin: "padded", "packed", "nested", or nested and "compiled".

    Its batches are made ready beforehand, but for the copy to a GPU.
    """
    import torch
    from torch.nn import functional as F

    from convsim_mini.core.transformer import sort_by_length

    from transformer_twins import NestedTwin, PackedTwin, Padded, nested_batch, packed_batch, pad

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    kind, arguments_of = {
        "padded": (Padded, pad), "packed": (PackedTwin, lambda some: packed_batch(some, config)),
        "nested": (NestedTwin, nested_batch), "compiled": (NestedTwin, nested_batch)}[name]
    twin = kind(config, words).to(device)
    response = torch.nn.Sequential(*(layer for _ in range(2) for layer in (
        torch.nn.Linear(config.layers[-1], config.layers[-1]), torch.nn.Tanh())))[:-1].to(device)
    dense = [p for name, p in [*twin.named_parameters(), *response.named_parameters()]
             if name != "table.weight"]
    optimizers = [torch.optim.SGD(dense, lr=0.01, fused=True),
                  torch.optim.SGD([twin.table.weight], lr=0.01)]
    ready = []
    for batch in batches:
        ordered, order, _ = sort_by_length(batch.sentences, config.max_tokens)
        ready.append(pinned([torch.argsort(torch.from_numpy(order)), *arguments_of(ordered)],
                            device))

    def embeddings(k):
        unsorted, *arguments = on(device, ready[k])
        return twin(*arguments)[unsorted]

    def step(k):
        for optimizer in optimizers:
            optimizer.zero_grad()
        u, v = embeddings(k).chunk(2)
        loss = F.cross_entropy(u @ response(v).T, torch.arange(len(u), device=device))
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        return loss

    twin.train(training)                     # evaluation opens nn.MultiheadAttention's fast path
    if name == "compiled":                   # not the table: its gradient is sparse
        twin.layers_over = torch.compile(twin.layers_over, dynamic=True)
    return step if training else torch.inference_mode()(embeddings)


def work(contender, task, path):
    """In a process of its own: print seconds per batch, peak memory in MB, operations a second."""
    from convsim_mini.fast.threads import claim_process, keep_freed_memory
    from convsim_mini.training.options import parse_config

    if contender == "sgemm":
        return print(json.dumps([0, 0, sgemm()]))
    if contender == "ours":
        claim_process()
    else:
        keep_freed_memory()
    config, training = parse_config(["--preset", "transformer"]).model, task == "training"
    batches, words = load_batches(path)
    step = ours(batches, words, words, config, training) if contender == "ours" else (
        torch(batches, words, config, training, contender))
    step(0)
    seconds = []
    for k in range(STEPS):
        begin = time.perf_counter()
        step(k)
        seconds.append(time.perf_counter() - begin)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps([sum(seconds) / STEPS, peak,
                      operations(batches, config, training) / sum(seconds)]))


def operations(batches, config, training):
    """Floating-point operations of the layers' products over the words of batches."""
    import numpy as np

    from convsim_mini.core.transformer import transformer_shapes

    parameters = sum(int(np.prod(shape)) for shape in transformer_shapes(config).values()
                     if len(shape) == 2)
    words = sum(int(np.minimum(batch.sentences.lengths, config.max_tokens).sum())
                for batch in batches)
    return (6 if training else 2) * words * parameters


def sgemm():
    """Operations per second of NumPy's float32 product at 2048³, the median of ten."""
    import numpy as np

    x = np.ones((2048, 2048), np.float32)
    seconds = []
    for _ in range(11):
        begin = time.perf_counter()
        x @ x
        seconds.append(time.perf_counter() - begin)
    return 2 * 2048**3 / statistics.median(seconds[1:])


def measure(task, similar, batch_size, rounds):
    """Contender → (seconds a batch, peak MB, operations a second), medians; the padding share."""
    cores = os.cpu_count()
    contenders = {"convsim_mini": ("ours", cores), "PyTorch, padded": ("padded", cores),
                  "PyTorch, packed": ("packed", cores), "sgemm": ("sgemm", cores)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "batches.npz")
        padding = prepare(path, batch_size, similar)
        measured = in_turns(__file__, contenders, [task, path], rounds)
    return {name: tuple(map(statistics.median, zip(*runs)))
            for name, runs in measured.items()}, padding


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tasks", choices=TASKS, nargs="+", default=TASKS)
    parser.add_argument("--work", nargs=3, metavar=("CONTENDER", "TASK", "FILE"),
                        help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        return work(*options.work[:2], Path(options.work[2]))
    for task, similar in itertools.product(options.tasks, (False, True)):
        medians, padding = measure(task, similar, options.batch, options.rounds)
        print(f"{task}, {options.batch} pairs {'of similar lengths' if similar else 'at random'}, "
              f"{padding:.0%} padding")
        *_, rate = medians.pop("sgemm")
        mine, *_ = medians["convsim_mini"]
        for name, (seconds, peak, operations) in medians.items():
            print(f"  {name:16}{seconds:7.2f} s/batch {options.batch / seconds:7.1f} pairs/s "
                  f"{peak:7,.0f} MB peak "
                  f"{operations / rate:4.0%} of sgemm ({rate / 1e9:.0f} GF/s)   "
                  f"ours is {seconds / mine:.2f}× as fast")


if __name__ == "__main__":
    main()
