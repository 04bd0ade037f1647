"""The speed tables of tests/README.md, measured again.

    CONVSIM_DATA=DIR python tests/benchmarks/benchmarks.py [--only DAN Transformer]

The paper's DAN and Transformer (float32, SGD, without dropout) on real pairs, a training step and
encoding. Every contender runs in a process of its own, because the thread pools of
NumPy's and PyTorch's BLAS get in each other's way; they take turns for several rounds, and medians
are compared. Children run without OPENBLAS_CORETYPE, so that OpenBLAS chooses the kernels that suit
the processor. "Of sgemm" is a share of the rate of NumPy's 2048³ product in the same run. With
--busy N, N processes compute beside them all the time. Reads Reddit pairs where CONVSIM_DATA is
set. Needs torch.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import contenders    # first: it makes the repository's folder known
from contenders import Case

from convsim_mini.common.show import markdown

CORES = os.cpu_count()
HEADERS = ["task", "contender", "time", "peak memory", "of sgemm", "its time / ours"]
DAN = {"convsim_mini": ("ours", CORES),
       **{f"PyTorch, {n} threads": ("bag", n) for n in {1, CORES}}}    # name → contender, threads
TRANSFORMER = {"convsim_mini": ("ours", CORES), "PyTorch, padded": ("padded", CORES),
               "PyTorch, packed": ("packed", CORES), "sgemm": ("sgemm", CORES)}
CASES = {f"DAN, {task}, {size:,} pairs": Case("paper", task, size, DAN, "cpu", (10, 50, 1))
         for size in (128, 1024) for task in ("training", "encoding")}
CASES |= {f"Transformer, {task}, 128 pairs{', similar lengths' if similar else ''}": Case(
              "transformer", task, 128, TRANSFORMER, "cpu", (1, 3, 1), similar)
          for task in ("training", "encoding") for similar in (False, True)}


def measure(name, case, rounds):
    """Table rows of a case; of PyTorch's DAN the better number of threads."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "batches.npz")
        padding = contenders.prepare(case, path, contenders.pair_files())
        runs = {contender: [] for contender in case.contenders}
        for _ in range(rounds):
            for contender, (kind, threads) in case.contenders.items():
                done = subprocess.run([sys.executable, contenders.__file__, "--work", kind,
                                       json.dumps(case), path], check=True, stdout=subprocess.PIPE,
                                      env={**os.environ, "OMP_NUM_THREADS": str(threads)})
                runs[contender].append(json.loads(done.stdout))
    measured = {name: tuple(map(statistics.median, zip(*some))) for name, some in runs.items()}
    _, _, rate, _ = measured.pop("sgemm", [0] * 4)
    if case.contenders is DAN:
        slower = max((name for name in measured if "PyTorch" in name), key=measured.get)
        del measured[slower]
    ours = next(iter(measured.values()))[0]                   # the first
    return [[f"{name}, {padding:.0%} padding", contender, f"{1e3 * seconds:,.3g} ms",
             f"{peak:,.0f} MB", f"{operations / rate:.0%}" if rate else "", f"{seconds / ours:.2f}"]
            for contender, (seconds, peak, operations, _) in measured.items()]


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
    parser.add_argument("--only", nargs="+", default=[""], help="beginnings of tasks' names")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--busy", type=int, default=0, metavar="N")
    options = parser.parse_args()
    rate = contenders.sgemm()                                 # which loads the library
    from threadpoolctl import threadpool_info
    kernels = [pool["architecture"] for pool in threadpool_info() if "architecture" in pool]
    print(f"OpenBLAS: {kernels[0]}, {rate / 1e9:.0f} GFLOP/s at 2048³")
    table, only = [], tuple(options.only)
    with busy(options.busy):
        for name, case in CASES.items():
            table += measure(name, case, options.rounds) if name.startswith(only) else []
    print(markdown(HEADERS, table))


if __name__ == "__main__":
    main()
