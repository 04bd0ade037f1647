"""What benchmark_gpu.py compares: cases, contenders, and the time of one contender.

It runs as a process of its own, once to write the sentences of a case to a file, then once for each
turn of a contender. Contenders are "ours PRECISION", "torch TWIN" (benchmark_transformer.py; "bag"
is the DAN's), "cublas": a large float32 product in TF32, and "sgemm": NumPy's 2048³ product. With
--smoke all of it is small and on the CPU.
"""

import argparse
import json
import os
import statistics
import time
from pathlib import Path
from typing import NamedTuple

import benchmark_dan
import benchmark_transformer


class Case(NamedTuple):
    """One thing to time. size: pairs in a batch of training, or sentences to encode."""

    preset: str
    task: str
    size: int
    contenders: tuple


class Scale(NamedTuple):
    """How much is timed. chunk: steps between two looks at the clock; cube: cublas's matrices."""

    warm_up: int
    timed: int
    chunk: int
    cube: int
    most: int             # of a case's size
    at_once: int          # sentences that a twin encodes in one batch
    options: tuple = ()   # settings of the model


CASES = {
    "Transformer, 128 pairs": Case("transformer", "training", 128, (
        "ours tf32", "torch padded", "torch packed", "torch nested", "torch compiled")),
    "Transformer, 1,024 pairs": Case("transformer", "training", 1024, (
        "ours tf32", "cublas")),
    "DAN, 128 pairs": Case("paper", "training", 128, ("ours tf32", "torch bag")),
    "DAN, 1,024 pairs": Case("paper", "training", 1024, ("ours tf32", "torch bag")),
    "encoding, DAN": Case("paper", "encoding", 1_000_000, ("ours tf32", "torch bag")),
    "encoding, Transformer": Case("transformer", "encoding", 100_000, (
        "ours tf32", "torch padded", "torch nested")),
}
FULL = Scale(20, 50, 10, 8192, 1_000_000, 2048)
SMOKE = Scale(1, 2, 1, 256, 8, 4, (
    "--model.embedding_dim", "32", "--model.layers", "32", "--model.response_hidden", "32",
    "--model.hidden", "64", "--model.heads", "2", "--model.transformer_layers", "2"))


def prepare(path, case, pairs, scale):
    """Write the batches of a case, or its sentences, to a file."""
    size = min(case.size, scale.most)
    if case.task == "training":
        return benchmark_dan.prepare(path, size, pairs, scale.warm_up + scale.timed)
    import numpy as np

    from convsim_mini.config import Config
    from convsim_mini.core.pairs import Batch
    from convsim_mini.data.prepare import open_corpus

    config = Config(pairs=pairs)
    corpus = open_corpus(config)
    which = np.random.default_rng(1).permutation(2 * corpus.train.pairs)[:size]
    words = corpus.vocabulary.size
    benchmark_dan.save_batches(path, [Batch(corpus.train.sentences(which), None)], words=words,
                               rows=words + config.text.bigram_buckets)


def work(contender, case, path, scale, smoke):
    """Print [seconds for a step or a sentence, operations a second (0 where none are counted)]."""
    if contender == "cublas":
        return print(json.dumps([0, product_rate(scale, smoke)]))
    if contender == "sgemm":
        rate = benchmark_transformer.sgemm()
        return print(json.dumps([2 * 2048**3 / rate, rate]))
    from convsim_mini.training.options import parse_config

    who, _, how = contender.partition(" ")
    batches, words, rows = benchmark_dan.load_batches(path)
    config = parse_config(["--preset", case.preset, *scale.options]).model
    rows = rows if config.encoder == "dan" else words
    if case.task == "encoding":
        sentences = batches[0].sentences
        if who == "torch":
            batches = sorted_batches(sentences, scale.at_once)
        encode = step_of(who, how, smoke, batches, words, rows, config, False)
        seconds = encoding_time(encode, len(batches), who)
        return print(json.dumps([seconds / len(sentences.lengths), 0]))
    step = step_of(who, how, smoke, batches, words, rows, config, True)
    seconds = step_time(step, scale, synchronizer(who, smoke))
    counted = 0 if config.encoder == "dan" else benchmark_transformer.operations(
        batches[scale.warm_up:], config, True) / scale.timed
    print(json.dumps([seconds, counted / seconds]))


def step_of(who, how, smoke, batches, words, rows, config, training):
    """A contender's function of k: one step on batch k, or its sentences' vectors."""
    if who == "ours":
        device = ("cpu",) if smoke else ("gpu", how)
        return benchmark_dan.ours(batches, words, rows, config, training, device)
    device = torch_device(smoke)
    if how == "bag":
        return benchmark_dan.torch(batches, words, rows, config, training, device)
    return benchmark_transformer.torch(batches, words, config, training, how, device)


def torch_device(smoke):
    """PyTorch's name of where to compute; on the GPU it is told to use TF32, as ours does."""
    if smoke:
        return "cpu"
    import torch
    torch.set_float32_matmul_precision("high")
    return "cuda"


def synchronizer(who, smoke):
    """A function that waits for a contender's GPU. It comes last: ours sets CuPy up first."""
    if smoke:
        return lambda: None
    if who == "ours":
        import cupy
        return cupy.cuda.Device().synchronize
    import torch
    return torch.cuda.synchronize


def step_time(step, scale, synchronize):
    """Seconds of one step: the median over chunks of steps, each waited for at its end."""
    for k in range(scale.warm_up):
        step(k)
    synchronize()
    seconds = []
    for first in range(scale.warm_up, scale.warm_up + scale.timed, scale.chunk):
        begin = time.perf_counter()
        for k in range(first, first + scale.chunk):
            step(k)
        synchronize()
        seconds.append((time.perf_counter() - begin) / scale.chunk)
    return statistics.median(seconds)


def encoding_time(step, batches, who):
    """Seconds to encode all batches, the vectors back on the host, the second time."""
    for _ in range(2):
        begin = time.perf_counter()
        vectors = [step(k) if who == "ours" else step(k).cpu() for k in range(batches)]
        seconds = time.perf_counter() - begin
        del vectors
    return seconds


def sorted_batches(packed, at_once):
    """Sentences in batches of similar length, as PyTorch's users encode to save padding."""
    import numpy as np

    from convsim_mini.core.pairs import Batch

    order = np.argsort(packed.lengths, kind="stable")
    return [Batch(packed.take(order[first:first + at_once]), None)
            for first in range(0, len(order), at_once)]


def product_rate(scale, smoke):
    """Operations a second of a float32 product of two square matrices."""
    import torch

    x = torch.randn(scale.cube, scale.cube, device=torch_device(smoke))
    seconds = step_time(lambda k: x @ x, scale, synchronizer("torch", smoke))
    return 2 * scale.cube**3 / seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", metavar="CONTENDER", help="without it: write the file")
    parser.add_argument("case", choices=CASES)
    parser.add_argument("file", type=Path)
    parser.add_argument("--pairs", nargs="*", default=[], help="none: the default corpus")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count()))
    os.environ.pop(benchmark_dan.CORETYPE, None)
    case, scale = CASES[options.case], SMOKE if options.smoke else FULL
    if options.work:
        work(options.work, case, options.file, scale, options.smoke)
    else:
        prepare(options.file, case, options.pairs, scale)


if __name__ == "__main__":
    main()
