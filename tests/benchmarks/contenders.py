"""What the benchmarks time: a step of ours and of PyTorch's, on batches of real pairs.

PyTorch is given the rows of words and bigrams ready-made; ours computes the bigrams in the step.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]
os.environ.pop("OPENBLAS_CORETYPE", None)    # of an older processor, it slows NumPy's products down


def pair_files():
    """Reddit pairs where CONVSIM_DATA is set; none, the default corpus, otherwise."""
    data = os.environ.get("CONVSIM_DATA")
    return [f"{data}/reddit/comment_reply.tsv.gz"] if data else []


# ---------------------------------------------------------------- batches in a file

def prepare(path, size, pairs, steps, similar=False):
    """Write batches of pairs to a file, at random or of similar lengths; → the share of padding.

    pairs: pair files, or none for the default corpus
    """
    import numpy as np

    from convsim_mini.config import Config
    from convsim_mini.core.pairs import batch_order
    from convsim_mini.data.prepare import open_corpus

    config = Config(pairs=pairs)
    corpus = open_corpus(config)
    order = batch_order(corpus.train.pairs, size, seed=1)
    if similar:
        some = np.arange(200 * size)
        longest = np.diff(corpus.train.offsets)[:2 * len(some)].reshape(-1, 2).max(axis=1)
        order = iter(np.argsort(longest, kind="stable").reshape(-1, size)[100:])
    batches = [corpus.train.batch(next(order), mask_false_negatives=False) for _ in range(steps)]
    words = corpus.vocabulary.size
    save_batches(path, batches, words, words + config.text.bigram_buckets)
    lengths = [batch.sentences.lengths for batch in batches]
    return 1 - sum(some.sum() for some in lengths) / sum(some.max() * len(some) for some in lengths)


def save_batches(path, batches, words, rows):
    """Write Batches without false negatives, and two numbers, to a small .npz file.

    words: more than every id; of at most 65,536 words an id takes 16 bits, as a length does
    """
    import numpy as np

    arrays = {"sizes": [words, rows]}
    for k, batch in enumerate(batches):
        arrays[f"ids-{k}"] = batch.sentences.ids.astype(np.min_scalar_type(words - 1))
        arrays[f"lengths-{k}"] = batch.sentences.lengths.astype(np.uint16)
    np.savez_compressed(path, **arrays)


def load_batches(path):
    """What save_batches wrote: the list of Batches, words, rows."""
    import numpy as np

    from convsim_mini.core.packed import Packed, offsets_of
    from convsim_mini.core.pairs import Batch

    file = np.load(path)
    batches = [Batch(Packed(file[f"ids-{k}"].astype(np.int32), offsets_of(file[f"lengths-{k}"])))
               for k in range(len(file.files) // 2)]
    return [batches, *file["sizes"].tolist()]


# ---------------------------------------------------------------- a step

def step_of(name, batches, words, rows, config, training, device="cpu", precision="fp32"):
    """A contender's function of k: one step on batch k, or its sentences' vectors.

    name: "ours", "bag" (PyTorch's DAN) or a PyTorch Transformer: "padded", "packed", "nested", or
    nested and "compiled". On a GPU a step returns before it is done.
    """
    if name == "ours":
        return ours(batches, words, rows, config, training, device, precision)
    import torch
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    if device == "gpu":                                       # TF32, as ours
        torch.set_float32_matmul_precision("high")
        device = "cuda"
    if name == "bag":
        return torch_dan(batches, words, rows, config, training, device)
    return torch_transformer(name, batches, words, config, training, device)


def ours(batches, words, rows, config, training, device, precision):
    import numpy as np

    from convsim_mini.core.arrays import to_device
    from convsim_mini.core.model import Model, embed, loss_and_gradients
    from convsim_mini.core.optim import SGD
    from convsim_mini.fast.devices import device_module
    from convsim_mini.training.initial import initial_parameters

    rng = np.random.default_rng(0)
    rows = rows if config.encoder == "dan" else words
    table = rng.standard_normal((rows, config.embedding_dim), np.float32)
    xp = device_module("gpu", precision) if device == "gpu" else device_module("cpu")
    model = Model(to_device(initial_parameters(config, table, rng), xp), config, words)
    optimizer = SGD(model.params)

    def step(k):
        loss, grads = loss_and_gradients(model, batches[k])
        optimizer.step(model.params, grads, 0.01, 0.01)
        return loss

    return step if training else lambda k: embed(model, batches[k].sentences, 10**6)


def torch_dan(batches, words, rows, config, training, device):
    import torch
    from torch_twin import Twin, torch_batch

    twin = Twin(config, rows).to(device)
    optimizers = [torch.optim.SGD(twin.parameters(), lr=0.01)]
    ready = [pinned(torch_batch(batch, words, rows), device) for batch in batches]
    if training:
        return lambda k: descend(twin(*on(device, ready[k])), optimizers)
    return torch.inference_mode()(lambda k: twin.encode(*on(device, ready[k][:3])))


def torch_transformer(name, batches, words, config, training, device):
    import torch
    from torch.nn import functional as F

    from convsim_mini.core.transformer import sort_by_length
    from torch_twin import NestedTwin, PackedTwin, Padded, nested_batch, packed_batch, pad

    kind, arguments_of = {
        "padded": (Padded, pad), "packed": (PackedTwin, lambda some: packed_batch(some, config)),
        "nested": (NestedTwin, nested_batch), "compiled": (NestedTwin, nested_batch)}[name]
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
        return twin(*arguments)[unsorted]

    def step(k):
        u, v = embeddings(k).chunk(2)
        return descend(F.cross_entropy(u @ response(v).T, torch.arange(len(u), device=device)),
                       optimizers)

    twin.train(training)                     # evaluation opens nn.MultiheadAttention's fast path
    if name == "compiled":                   # not the table: its gradient is sparse
        twin.layers_over = torch.compile(twin.layers_over, dynamic=True)
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

def operations(batches, config, training):
    """Operations of a Transformer's products: 6 · words · parameters of its layers, or 2 ·."""
    import numpy as np

    from convsim_mini.core.transformer import transformer_shapes

    parameters = sum(int(np.prod(shape)) for shape in transformer_shapes(config).values()
                     if len(shape) == 2)
    words = sum(int(np.minimum(batch.sentences.lengths, config.max_tokens).sum())
                for batch in batches)
    return (6 if training else 2) * words * parameters


def sgemm():
    """Seconds of NumPy's float32 product at 2048³, the median of ten; operations a second."""
    import numpy as np

    x, seconds = np.ones((2048, 2048), np.float32), []
    for _ in range(11):
        begin = time.perf_counter()
        x @ x
        seconds.append(time.perf_counter() - begin)
    median = statistics.median(seconds[1:])
    return median, 2 * 2048**3 / median


def settle(name):
    """What a contender does before all else. name: "numba" is ours with it."""
    from convsim_mini.fast.threads import claim_process, keep_freed_memory

    if name == "ours":
        sys.modules["numba"] = None                           # as if it were not installed
    if name == "numba":
        import numba  # noqa: F401  (else its row would show SciPy's times)
    (claim_process if name in ("ours", "numba") else keep_freed_memory)()


def peak():
    """The most memory that this process has held, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def in_turns(script, contenders, arguments, rounds):
    """Let a script work for each contender, by turns: name → medians of what its runs printed.

    contenders: name → (contender, threads), and workers where they are several; the script is
    called with --work CONTENDER and the arguments, and prints a list of numbers as JSON
    """
    measured = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, (contender, threads, *workers) in contenders.items():
            mpiexec = [Path(sys.executable).with_name("mpiexec"), "-n", *map(str, workers)]
            run = subprocess.run([*mpiexec[:3 * len(workers)], sys.executable, script, "--work",
                                  contender, *arguments], check=True, stdout=subprocess.PIPE,
                                 stdin=subprocess.DEVNULL,
                                 env={**os.environ, "OMP_NUM_THREADS": str(threads)})
            measured[name].append(json.loads(run.stdout))
    return {name: tuple(map(statistics.median, zip(*runs))) for name, runs in measured.items()}
