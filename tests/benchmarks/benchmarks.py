"""The speed tables of tests/README.md, measured again.

    CONVSIM_DATA=DIR python tests/benchmarks/benchmarks.py [--only DAN Transformer text]

The paper's DAN and Transformer (float32, SGD, without dropout) on real pairs, a training step and
encoding; text to vectors. Every contender runs in a process of its own, because the thread pools of
NumPy's and PyTorch's BLAS get in each other's way; they take turns for several rounds, and medians
are compared. Children run without OPENBLAS_CORETYPE, so that OpenBLAS chooses the kernels that suit
the processor. "Of sgemm" is a share of the rate of NumPy's 2048³ product in the same run. With
--busy N, N processes compute beside them all the time. Reads Reddit pairs where CONVSIM_DATA is
set. Needs torch, numba, and what benchmark_text.py needs.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import contenders    # first: it makes the repository's folder known
import benchmark_text

from convsim_mini.common.tables import markdown

CORES = os.cpu_count()
HEADERS = ["task", "contender", "time", "peak memory", "of sgemm", "its time / ours"]


class Case(NamedTuple):
    """One thing to time. similar: batches of sentences of similar lengths."""

    encoder: str
    preset: str
    task: str
    pairs: int
    similar: bool = False

    def __str__(self):
        lengths = ", similar lengths" if self.similar else ""
        return f"{self.encoder}, {self.task}, {self.pairs:,} pairs{lengths}"

    @property
    def steps(self):
        """Steps to warm up, steps to time."""
        return (10, 50) if self.encoder == "DAN" else (1, 3)

    @property
    def contenders(self):
        """Name → (contender, threads)."""
        if self.encoder == "DAN":
            return {"convsim_mini": ("ours", CORES), "convsim_mini, numba": ("numba", CORES),
                    **{f"PyTorch, {n} threads": ("bag", n) for n in {1, CORES}}}
        return {"convsim_mini": ("numba", CORES), "PyTorch, padded": ("padded", CORES),
                "PyTorch, packed": ("packed", CORES), "sgemm": ("sgemm", CORES)}


CASES = {str(case): case for case in [
    *(Case("DAN", "paper", task, pairs) for pairs in (128, 1024)
      for task in ("training", "encoding")),
    *(Case("Transformer", "transformer", task, 128, similar) for task in ("training", "encoding")
      for similar in (False, True))]}


def work(contender, case, path):
    """In a process of its own: print seconds a batch, peak memory in MB, operations a second."""
    from convsim_mini.training.options import parse_config

    contenders.settle(contender)
    if contender == "sgemm":
        seconds, rate = contenders.sgemm()
        return print(json.dumps([seconds, 0, rate]))
    config, training = parse_config(["--preset", case.preset]).model, case.task == "training"
    batches, *sizes = contenders.load_batches(path)
    name = "ours" if contender == "numba" else contender
    step, seconds = contenders.step_of(name, batches, *sizes, config, training), []
    for k in range(len(batches)):
        begin = time.perf_counter()
        step(k)
        seconds.append(time.perf_counter() - begin)
    warm_up, _ = case.steps
    median = statistics.median(seconds[warm_up:])
    counted = 0 if case.encoder == "DAN" else contenders.operations(
        batches[warm_up:], config, training) / sum(seconds[warm_up:])
    print(json.dumps([median, contenders.peak(), counted]))


def measure(case, rounds):
    """Table rows of a case; of PyTorch's DAN the better number of threads."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "batches.npz")
        padding = contenders.prepare(path, case.pairs, contenders.pair_files(), sum(case.steps),
                                     case.similar)
        measured = contenders.in_turns(__file__, case.contenders, [str(case), path], rounds)
    *_, rate = measured.pop("sgemm", [0])
    if case.encoder == "DAN":
        slower = max((name for name in measured if "PyTorch" in name), key=measured.get)
        del measured[slower]
    return rows(f"{case}, {padding:.0%} padding", measured, 1e3, "ms", rate)


def rows(task, measured, scale, unit, rate=0):
    """Table rows: measured: contender → (time, peak MB, operations a second); the first is ours."""
    ours = next(iter(measured.values()))[0]
    return [[task, name, f"{scale * time:,.3g} {unit}", f"{peak:,.0f} MB",
             f"{more[0] / rate:.0%}" if rate else "", f"{time / ours:.2f}"]
            for name, (time, peak, *more) in measured.items()]


def text(lines, rounds):
    """Table rows of text to vectors, and of preparing a corpus."""
    seconds, sentences = benchmark_text.preparing()
    return [*rows(f"text to vectors, {lines:,} lines", benchmark_text.peers(lines, rounds), 1,
                  "µs a line"),
            [f"preparing {sentences:,} sentences", "convsim_mini", f"{seconds:.1f} s", "", "", ""]]


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


def architecture():
    """The kernels that NumPy's OpenBLAS chooses here."""
    from threadpoolctl import threadpool_info
    return next(pool["architecture"] for pool in threadpool_info() if "architecture" in pool)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[""], help="beginnings of tasks' names")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--busy", type=int, default=0, metavar="N")
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        contender, case, path = options.work
        return work(contender, CASES[case], path)
    rate = contenders.sgemm()[1]                              # which loads the library
    print(f"OpenBLAS: {architecture()}, {rate / 1e9:.0f} GFLOP/s at 2048³")
    table, only = [], tuple(options.only)
    with busy(options.busy):
        for name, case in CASES.items():
            table += measure(case, options.rounds) if name.startswith(only) else []
        table += text(options.lines, options.rounds) if "text".startswith(only) else []
    print(markdown(HEADERS, table))


if __name__ == "__main__":
    main()
