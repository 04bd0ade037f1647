"""How fast is the DAN beside the same model in PyTorch?  python tests/benchmarks/benchmark_dan.py

A training step, and encoding (ids in, vectors out), at the paper's size (250,000-row table, layers
300, 300, 500, SGD), real sentences. Every contender runs in a process of its own, because the
thread pools of NumPy's and PyTorch's BLAS get in each other's way; they take turns for several
rounds, and medians are compared. PyTorch is given the rows of words and bigrams ready-made; ours
computes the bigrams inside the step. Both keep freed memory. With --busy N, N processes compute
beside them all the time. Needs torch, and numba for its row; reads Reddit pairs where CONVSIM_DATA
is set, the default corpus otherwise.
"""

import argparse
import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]
WARM_UP, TIMED = 10, 50
TASKS = ("training", "encoding")
CORETYPE = "OPENBLAS_CORETYPE"    # where set to an older processor, it slows NumPy's products down


def pair_files():
    """Reddit pairs where CONVSIM_DATA is set; none, the default corpus, otherwise."""
    data = os.environ.get("CONVSIM_DATA")
    return [f"{data}/reddit/comment_reply.tsv.gz"] if data else []


def prepare(path, batch_size, pairs, steps=WARM_UP + TIMED):
    """Write batches of pairs to a file. pairs: pair files, or none for the default corpus."""
    from convsim_mini.config import Config
    from convsim_mini.core.pairs import batch_order
    from convsim_mini.data.prepare import open_corpus

    config = Config(pairs=pairs)
    corpus = open_corpus(config)
    order = batch_order(corpus.train.pairs, batch_size, seed=1)
    batches = [corpus.train.batch(next(order), mask_false_negatives=False) for _ in range(steps)]
    words = corpus.vocabulary.size
    save_batches(path, batches, words=words, rows=words + config.text.bigram_buckets)


def save_batches(path, batches, words, **sizes):
    """Write Batches without false negatives, and named numbers, to a small .npz file.

    words: more than every id; of at most 65,536 words an id takes 16 bits, as a length does
    """
    import numpy as np

    arrays = {"sizes": [words, *sizes.values()]}
    for k, batch in enumerate(batches):
        arrays[f"ids-{k}"] = batch.sentences.ids.astype(np.min_scalar_type(words - 1))
        arrays[f"lengths-{k}"] = batch.sentences.lengths.astype(np.uint16)
    np.savez_compressed(path, **arrays)


def load_batches(path):
    """What save_batches wrote: the list of Batches, then the numbers."""
    import numpy as np

    from convsim_mini.core.packed import Packed, offsets_of
    from convsim_mini.core.pairs import Batch

    file = np.load(path)
    batches = [Batch(Packed(file[f"ids-{k}"].astype(np.int32), offsets_of(file[f"lengths-{k}"])),
                     None)
               for k in range(len(file.files) // 2)]
    return [batches, *file["sizes"].tolist()]


def ours(batches, words, rows, config, training, device=("cpu",)):
    """A function that takes one step of convsim_mini on batch k, or encodes its sentences.

    device: the arguments of device_module. On a GPU a step returns before it is done.
    """
    import numpy as np

    from convsim_mini.core.arrays import to_device
    from convsim_mini.core.model import Model, embed, loss_and_gradients
    from convsim_mini.core.optim import SGD
    from convsim_mini.fast.devices import device_module
    from convsim_mini.training.initial import initial_parameters

    rng = np.random.default_rng(0)
    table = rng.standard_normal((rows, config.embedding_dim), np.float32)
    params = to_device(initial_parameters(config, table, rng), device_module(*device))
    model = Model(params, config, words)
    optimizer = SGD(model.params)

    def step(k):
        loss, grads = loss_and_gradients(model, batches[k])
        optimizer.step(model.params, grads, 0.01, 0.01)
        return loss

    return step if training else lambda k: embed(model, batches[k].sentences, 10**6)


def torch(batches, words, rows, config, training, device="cpu"):
    """The same of the PyTorch twin; its batches are made ready, but for the copy to a GPU."""
    import torch

    from torch_twin import Twin, torch_batch

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    twin = Twin(config, rows).to(device)
    optimizer = torch.optim.SGD(twin.parameters(), lr=0.01)
    ready = [pinned(torch_batch(batch, words, rows), device) for batch in batches]

    def step(k):
        optimizer.zero_grad()
        loss = twin(*on(device, ready[k]))
        loss.backward()
        optimizer.step()
        return loss

    @torch.inference_mode()
    def encode(k):
        return twin.encode(*on(device, ready[k][:3]))

    return step if training else encode


def pinned(arguments, device):
    """A twin's arguments with the tensors where a GPU can copy them while it works."""
    import torch

    return [x.pin_memory() if device != "cpu" and getattr(x, "layout", None) is torch.strided else x
            for x in arguments]


def on(device, arguments):
    """A twin's arguments with the tensors on the device."""
    return [x.to(device, non_blocking=True) if hasattr(x, "to") else x for x in arguments]


def work(contender, task, path):
    """In a process of its own: print the median time of a batch in ms and the peak memory in MB."""
    from convsim_mini.fast.threads import claim_process, keep_freed_memory
    from convsim_mini.training.options import parse_config

    if contender == "ours":
        sys.modules["numba"] = None                           # as if it were not installed
    elif contender == "numba":
        import numba  # noqa: F401  (else its row would show SciPy's times)
    if contender == "torch":
        keep_freed_memory()
    else:
        claim_process()
    config = parse_config(["--preset", "paper"]).model
    step = (torch if contender == "torch" else ours)(
        *load_batches(path), config, task == "training")
    seconds = []
    for k in range(WARM_UP + TIMED):
        begin = time.perf_counter()
        step(k)
        seconds.append(time.perf_counter() - begin)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps([1e3 * statistics.median(seconds[WARM_UP:]), peak]))


def in_turns(script, contenders, arguments, rounds, timeout=None):
    """Let a script work for each contender, by turns: name → list of what its runs printed as JSON.

    contenders: name → (contender, threads); the script is called with --work CONTENDER and the
    arguments; timeout: seconds of each call
    """
    measured = {name: [] for name in contenders}
    environment = {name: value for name, value in os.environ.items() if name != CORETYPE}
    for _ in range(rounds):
        for name, (contender, threads) in contenders.items():
            run = subprocess.run([sys.executable, script, "--work", contender, *arguments],
                                 check=True, stdout=subprocess.PIPE, timeout=timeout,
                                 env={**environment, "OMP_NUM_THREADS": str(threads)})
            measured[name].append(json.loads(run.stdout))
    return measured


def measure(task, batch_size, rounds):
    """Contender → (milliseconds a batch, peak MB), medians; of PyTorch the better thread count."""
    cores = os.cpu_count()
    contenders = {"convsim_mini": ("ours", cores), "convsim_mini, numba": ("numba", cores),
                  **{f"PyTorch, {n} thread{'s'[:n > 1]}": ("torch", n) for n in {1, cores}}}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "batches.npz")
        prepare(path, batch_size, pair_files())
        measured = in_turns(__file__, contenders, [task, path], rounds)
    medians = {name: tuple(map(statistics.median, zip(*runs))) for name, runs in measured.items()}
    best = min((name for name in medians if name.startswith("PyTorch")), key=medians.get)
    return {name: medians[name] for name in medians if name[:7] != "PyTorch" or name == best}


@contextmanager
def busy(processes):
    """Other work on this machine: processes that do nothing but compute."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"])
               for _ in range(processes)]
    try:
        yield
    finally:
        for process in running:
            process.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, nargs="+", default=[128, 1024])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tasks", choices=TASKS, nargs="+", default=TASKS)
    parser.add_argument("--busy", type=int, default=0, metavar="N")
    parser.add_argument("--work", nargs=3, metavar=("CONTENDER", "TASK", "FILE"),
                        help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        return work(*options.work[:2], Path(options.work[2]))
    for batch_size, task in itertools.product(options.batch, options.tasks):
        with busy(options.busy):
            medians = measure(task, batch_size, options.rounds)
        *_, (torch_ms, _) = medians.values()
        print(f"{task}, {batch_size} pairs a batch, {options.busy} busy processes")
        for name, (ms, peak) in medians.items():
            print(f"  {name:26}{ms:8.2f} ms/batch {1e3 * batch_size / ms:9,.0f} pairs/s "
                  f"{peak:8,.0f} MB peak   {torch_ms / ms:.2f}× PyTorch")


if __name__ == "__main__":
    main()
