"""Two workers with one BLAS thread against one process with two.

    python tests/benchmarks/benchmark_workers.py

The contenders take turns for several rounds; medians are compared. Each trains steps of the default
corpus's real pairs and says where a worker's time goes: waiting for the others before MPI's calls,
sending in them, and the rest computing. Bytes are those that a worker gives to MPI in a step.
--links prints what to expect of GPUs, from bytes and the speeds of links; nothing is measured.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path

from kernel_table import DENSE, N, PRODUCTS, step_seconds

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
WARM_UP = 5
PRESETS = {"chat": 40, "transformer-small": 12}    # steps timed
CONTENDERS = {"1 process, 2 threads": (1, 2), "2 workers, 1 thread": (2, 1),
              "1 process, 1 thread": (1, 1)}


# What --links assumes of H200s beside kernel_table.py: bytes a second that a GPU sends over NVLink,
# and over a network card of its own (400 Gbit/s); seconds that a kernel's launch takes on the host,
# and a collective operation at least.
NVLINK, NETWORK, HOST_LAUNCH, COLLECTIVE = 450e9, 50e9, 17e-6, 30e-6
# name: pairs of a worker; launches; seconds of our kernels on the device; dense parameters; the
# rows that pass each of them (sentences, words); numbers of a worker's share of the table's
# gradient; e. 0.1 ms for the DAN's kernels is a guess. The DAN's word dropout keeps 10 of a
# sentence's words, which name 20 rows. The table's gradient is a vector a sentence for the DAN,
# else a vector a word.
LINKED = {"chat, the DAN": (512, 30, 1e-4, 500_500, 2 * 512, 2 * 512 * (500 + 2 * 20), 500),
          "the paper's Transformer": (128, 251, step_seconds()[1], DENSE, N, N * (512 + 2), 500)}


def expected():
    """Rows of a table: encoder, GPUs, MB that a worker gets, ms to compute and to send, share.

    Replies are gathered, and their gradients added up on all workers: three times as many numbers.
    """
    for name, (pairs, launches, kernels, dense, rows, table, e) in LINKED.items():
        for gpus, speed in ((8, NVLINK), (64, NETWORK)):
            others, flop = gpus - 1, 6 * dense * rows + 6 * pairs * pairs * gpus * e
            received = 4 * (others * (table + 3 * pairs * e) + 2 * others / gpus * dense)
            compute = max(launches * HOST_LAUNCH, flop / PRODUCTS + kernels)
            send = 5 * COLLECTIVE + received / speed
            yield [name, gpus, f"{received / 1e6:.0f} MB", f"{1e3 * compute:.1f} ms",
                   f"{1e3 * send:.1f} ms", f"{100 * compute / (compute + send):.0f}%"]


class Counted:
    """A communicator that counts its calls' seconds and bytes, and the seconds before them."""

    def __init__(self, comm):
        self.comm, self.waited, self.seconds, self.bytes = comm, 0.0, 0.0, 0

    def __getattr__(self, name):
        found = getattr(self.comm, name)
        if not callable(found):
            return found

        def timed(*arguments):
            began = time.perf_counter()
            self.comm.Barrier()
            self.waited += time.perf_counter() - began
            began = time.perf_counter()
            result = found(*arguments)
            self.seconds += time.perf_counter() - began
            sent = arguments[1 if name == "Allreduce" else 0] if arguments else None
            self.bytes += getattr(sent, "nbytes", 8)
            return result
        return timed


def child(preset, steps):
    """Print a line of JSON: pairs a second; a worker's seconds and bytes in MPI, of one step."""
    from convsim_mini import train
    from convsim_mini.core.loop import train_steps
    from convsim_mini.core.optim import OPTIMIZERS
    from convsim_mini.data.prepare import open_corpus
    from convsim_mini.fast.threads import claim_process
    from convsim_mini.training import distributed, tasks
    from convsim_mini.training.options import parse_config

    config = parse_config(["--preset", preset, "--model.svd_share", "0"])    # the speed is the same
    workers = distributed.launched()
    claim_process()
    corpus = open_corpus(config)
    model = train.starting_model(config, corpus)
    model = model._replace(params=workers.broadcast(model.params))
    optimizer, counted = OPTIMIZERS[config.optim.optimizer](model.params), Counted(None)
    optimizer.state = workers.broadcast(optimizer.state)
    if workers.size > 1:
        counted = workers.comm = workers.group = Counted(workers.comm)

    def after_step(done, losses):
        nonlocal began
        workers.agree(False)
        if done == WARM_UP:
            workers.wait()
            began, counted.waited = time.perf_counter(), 0.0
            counted.seconds, counted.bytes = 0.0, 0

    began, batches = 0.0, tasks.batches(config, tasks.Tasks(corpus.train))
    train_steps(model, optimizer, config, islice(batches, WARM_UP + steps), 0, after_step,
                workers.gradients)
    seconds = (time.perf_counter() - began) / steps
    if workers.rank == 0:
        print(json.dumps([config.optim.batch_size / seconds, seconds, counted.waited / steps,
                          counted.seconds / steps, counted.bytes / steps]))


def measure(preset, rounds):
    """Contender → medians of what `child` prints."""
    found = {name: [] for name in CONTENDERS}
    for _ in range(rounds):
        for name, (workers, threads) in CONTENDERS.items():
            launcher = [str(Path(sys.executable).parent / "mpiexec"), "-n", str(workers)]
            run = subprocess.run(
                [*(launcher if workers > 1 else []), sys.executable, __file__, "--child", preset],
                check=True, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
                env={**os.environ, "OMP_NUM_THREADS": str(threads)})
            found[name].append(json.loads(run.stdout))
    return {name: [statistics.median(values) for values in zip(*rounds)]
            for name, rounds in found.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--links", action="store_true")
    parser.add_argument("--child", choices=PRESETS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(options.child, PRESETS[options.child])
    from convsim_mini.common.tables import markdown
    if options.links:
        return print(markdown(["encoder", "GPUs", "a worker gets", "computing", "sending",
                               "efficiency"], [*expected()]))
    rows = []
    for preset in PRESETS:
        measured = measure(preset, options.rounds)
        whole = next(iter(measured.values()))[0]
        rows += [[preset, name, f"{pairs:,.0f}", f"{pairs / whole:.2f}", f"{1e3 * seconds:.1f} ms",
                  f"{1e3 * waited:.1f} ms", f"{1e3 * in_mpi:.1f} ms", f"{sent / 1e6:.1f} MB"]
                 for name, (pairs, seconds, waited, in_mpi, sent) in measured.items()]
    print(markdown(["preset", "contender", "pairs a second", "ratio", "a step", "waiting",
                    "sending", "bytes a step"], rows))


if __name__ == "__main__":
    main()
