"""Two workers with one BLAS thread against one process with two.  python tests/benchmark_workers.py

The contenders take turns for several rounds; medians are compared. Each trains steps of the default
corpus's real pairs and says where a worker's time goes: computing, and in MPI's calls, which is
waiting for the others as well as sending. Bytes are those that a worker gives to MPI in a step.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
WARM_UP = 5
PRESETS = {"chat": 40, "transformer-small": 12}    # steps timed
CONTENDERS = {"1 process, 2 threads": (1, 2), "2 workers, 1 thread": (2, 1),
              "1 process, 1 thread": (1, 1)}


class Counted:
    """A communicator that counts the seconds and the bytes of its calls."""

    def __init__(self, comm):
        self.comm, self.seconds, self.bytes = comm, 0.0, 0

    def __getattr__(self, name):
        found = getattr(self.comm, name)
        if not callable(found):
            return found

        def timed(*arguments):
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
    from convsim_mini.backend import keep_freed_memory
    from convsim_mini.data.corpus import open_corpus
    from convsim_mini.options import parse_config
    from convsim_mini.training import distributed, loop, schedule

    config, workers = parse_config(["--preset", preset]), distributed.launched()
    keep_freed_memory()
    corpus = open_corpus(config)
    tasks = schedule.Tasks(corpus.train, None, None)
    config.model.svd_share = 0.0                              # the start does not change the speed
    model = train.starting_model(config, corpus)
    optimizer, counted = loop.Adaptive(model.params), Counted(None)
    if workers.size > 1:
        counted = workers.comm = workers.group = Counted(workers.comm)
    for step, batch in zip(range(WARM_UP + steps), schedule.batches(config, tasks, 0, workers)):
        if step == WARM_UP:
            workers.wait()
            began, counted.seconds, counted.bytes = time.perf_counter(), 0.0, 0
        loop.train_step(config, model, optimizer, step, batch, workers)
    seconds = (time.perf_counter() - began) / steps
    if workers.rank == 0:
        print(json.dumps([config.optim.batch_size / seconds, seconds, counted.seconds / steps,
                          counted.bytes / steps]))


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
    parser.add_argument("--child", choices=PRESETS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(options.child, PRESETS[options.child])
    from convsim_mini.tables import markdown
    rows = []
    for preset in PRESETS:
        measured = measure(preset, options.rounds)
        whole = next(iter(measured.values()))[0]
        rows += [[preset, name, f"{pairs:,.0f}", f"{pairs / whole:.2f}", f"{1e3 * seconds:.1f} ms",
                  f"{1e3 * in_mpi:.1f} ms", f"{sent / 1e6:.1f} MB"]
                 for name, (pairs, seconds, in_mpi, sent) in measured.items()]
    print(markdown(["preset", "contender", "pairs a second", "ratio", "a step", "in MPI",
                    "bytes a step"], rows))


if __name__ == "__main__":
    main()
