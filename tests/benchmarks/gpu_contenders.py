"""What benchmark_gpu.py compares: cases, contenders, and the time of one contender.

It runs as a process of its own, once to write the sentences of a case to a file, then once for each
turn of a contender. Contenders are "ours tf32", "torch TWIN" (contenders.py), and "cublas": a large
float32 product in TF32. With --smoke all of it is small and on the CPU.
"""

import argparse
import json
import os
import statistics
import time
from pathlib import Path
from typing import NamedTuple

import contenders


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
        return contenders.prepare(path, size, pairs, scale.warm_up + scale.timed)
    import numpy as np

    from convsim_mini.config import Config
    from convsim_mini.core.pairs import Batch
    from convsim_mini.data.prepare import open_corpus

    config = Config(pairs=pairs)
    corpus = open_corpus(config)
    which = np.random.default_rng(1).permutation(2 * corpus.train.pairs)[:size]
    words = corpus.vocabulary.size
    contenders.save_batches(path, [Batch(corpus.train.sentences(which))], words,
                            words + config.text.bigram_buckets)


def work(contender, case, path, scale, smoke):
    """Print [seconds for a step or a sentence, operations a second (0 where none are counted)]."""
    if contender == "cublas":
        return print(json.dumps([0, product_rate(scale, smoke)]))
    from convsim_mini.training.options import parse_config

    who, _, how = contender.partition(" ")
    batches, *sizes = contenders.load_batches(path)
    config = parse_config(["--preset", case.preset, *scale.options]).model
    training, number = case.task == "training", len(batches[0].sentences.lengths)
    if not training and who == "torch":
        batches = sorted_batches(batches[0].sentences, scale.at_once)
    step = contenders.step_of(who if who == "ours" else how, batches, *sizes, config, training,
                              "cpu" if smoke else "gpu", "tf32")
    if not training:
        return print(json.dumps([encoding_time(step, len(batches), who) / number, 0]))
    seconds = step_time(step, scale, synchronizer(who, smoke))
    counted = 0 if config.encoder == "dan" else contenders.operations(
        batches[scale.warm_up:], config, True) / scale.timed
    print(json.dumps([seconds, counted / seconds]))


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

    torch.set_float32_matmul_precision("high")
    x = torch.randn(scale.cube, scale.cube, device="cpu" if smoke else "cuda")
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
    case, scale = CASES[options.case], SMOKE if options.smoke else FULL
    if options.work:
        work(options.work, case, options.file, scale, options.smoke)
    else:
        prepare(options.file, case, options.pairs, scale)


if __name__ == "__main__":
    main()
