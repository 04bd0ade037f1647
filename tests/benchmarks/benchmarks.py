"""The speed tables of tests/benchmarks/README.md, measured again.

    CONVSIM_DATA=DIR python tests/benchmarks/benchmarks.py [--only DAN Transformer] [--device gpu]

The paper's DAN and Transformer (float32, SGD, without dropout) on real pairs, a training step and
encoding. Every contender runs in a process of its own, because the thread pools of NumPy's and
PyTorch's BLAS get in each other's way; they take turns for several rounds, and medians are
compared. One that fails has no row. Children run without OPENBLAS_CORETYPE, so that OpenBLAS
chooses the kernels that suit the processor. "Of sgemm" is a share of the rate of one large product
in the same run. With --busy N, N processes compute beside them all the time. --profile tells
instead where the time of our steps goes. Reads Reddit pairs where CONVSIM_DATA is set. Needs torch.
"""

import argparse
import json
import math
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


def cases(device):
    """Name of a task → its Case; contenders: name → kind, see contenders.py, and threads."""
    of_dan, of_transformer = ((10, 50, 1), (1, 3, 1)) if device == "cpu" else [(20, 50, 10)] * 2
    threads = {1, CORES} if device == "cpu" else {CORES}
    dan = {"convsim_mini": ("ours", CORES),
           **{f"PyTorch, {n} threads": ("bag", n) for n in threads}}
    transformer = {"convsim_mini": ("ours", CORES), "PyTorch, padded": ("padded", CORES),
                   "PyTorch, packed": ("packed", CORES), "sgemm": ("sgemm", CORES)}
    found = {f"DAN, {task}, {size:,} pairs": Case("paper", task, size, dan, device, of_dan)
             for size in (128, 1024) for task in ("training", "encoding")}
    for task in ("training", "encoding"):
        name = f"Transformer, {task}, 128 pairs"
        for similar, named in ((False, name), (True, f"{name}, similar lengths")):
            found[named] = Case("transformer", task, 128, transformer, device, of_transformer,
                                similar)
    return found


def measure(name, case, rounds, profiled):
    """Table rows of a case; of PyTorch's DAN the better number of threads."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "batches.pickle")
        padding = contenders.prepare(case, path, contenders.pair_files())
        if profiled:
            print(f"\n{name}", in_a_process("--profile", json.dumps(case), path), sep="\n")
            return []
        runs = {contender: [] for contender in case.contenders}
        for _ in range(rounds):
            for contender, (kind, threads) in case.contenders.items():
                if text := in_a_process("--work", kind, json.dumps(case), path, threads=threads):
                    runs[contender].append(json.loads(text))
    measured = {name: tuple(map(statistics.median, zip(*some)))
                for name, some in runs.items() if some}
    _, _, rate = measured.pop("sgemm", [0] * 3)
    of_dan = [name for name in measured if case.contenders[name][0] == "bag"]
    for slower in sorted(of_dan, key=measured.get)[1:]:
        del measured[slower]
    ours, *_ = measured.get("convsim_mini", [math.nan])
    return [[f"{name}, {padding:.0%} padding", contender, f"{1e3 * seconds:,.3g} ms",
             f"{peak:,.0f} MB", f"{operations / rate:.0%}" if rate else "", f"{seconds / ours:.2f}"]
            for contender, (seconds, peak, operations) in measured.items()]


def in_a_process(*arguments, threads=CORES):
    """What contenders.py prints; nothing, and its traceback on standard error, if it fails."""
    done = subprocess.run([sys.executable, contenders.__file__, *arguments], stdout=subprocess.PIPE,
                          text=True, env={**os.environ, "OMP_NUM_THREADS": str(threads)})
    return done.stdout if done.returncode == 0 else ""


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
    parser.add_argument("--device", choices=["cpu", "gpu"], default="cpu")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--busy", type=int, default=0, metavar="N")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    rate = contenders.sgemm()                                 # which loads the library
    from threadpoolctl import threadpool_info
    kernels = [pool["architecture"] for pool in threadpool_info() if "architecture" in pool]
    print(f"OpenBLAS: {kernels[0]}, {rate / 1e9:.0f} GFLOP/s at 2048³")
    table = []
    with busy(options.busy):
        for name, case in cases(options.device).items():
            if name.startswith(tuple(options.only)):
                rows = measure(name, case, options.rounds, options.profile)
                print(*map(" | ".join, rows), sep="\n", flush=True)
                table += rows
    print(markdown(HEADERS, table))


if __name__ == "__main__":
    main()
