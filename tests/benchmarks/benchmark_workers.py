"""Two workers with one BLAS thread against one process with two.

    python tests/benchmarks/benchmark_workers.py

The contenders take turns for several rounds; medians are compared. Each trains steps of the default
corpus's real pairs and says where a worker's time goes: waiting for the others before MPI's calls,
sending in them, and the rest computing. Bytes are those that a worker gives to MPI in a step.
"""

import argparse
import json
import time
from itertools import islice

from contenders import in_turns    # and the repository's path

WARM_UP = 5
PRESETS = {"chat": 40, "transformer-small": 12}    # steps timed
CONTENDERS = {"1 process, 2 threads": (2,), "2 workers, 1 thread": (1, 2),
              "1 process, 1 thread": (1,)}    # threads, and workers


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
    from convsim_mini.fast.threads import use_all_cores
    from convsim_mini.training import tasks, workers as jobs
    from convsim_mini.training.options import config_of

    config = config_of({"preset": preset, "steps": 1_000,
                        "model.start": "random"})             # the speed is the same
    workers = jobs.launched()
    use_all_cores()
    corpus = open_corpus(config)
    model = train.starting_model(config, corpus)
    model = model._replace(params=workers.broadcast(model.params))
    optimizer, counted = OPTIMIZERS[config.optim.optimizer](model.params), Counted(None)
    if workers.size > 1:
        counted = workers.comm = Counted(workers.comm)

    batches = islice(tasks.batches_of_tasks(config, tasks.Tasks(corpus.train)), WARM_UP + steps)
    for done, _ in train_steps(model, optimizer, config, batches, gradients=workers.gradients):
        workers.agree(False)
        if done == WARM_UP:
            workers.wait()
            began, counted.waited = time.perf_counter(), 0.0
            counted.seconds, counted.bytes = 0.0, 0
    seconds = (time.perf_counter() - began) / steps
    if workers.rank == 0:
        print(json.dumps([config.optim.batch_size / seconds, seconds, counted.waited / steps,
                          counted.seconds / steps, counted.bytes / steps]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", choices=PRESETS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        return child(options.work, PRESETS[options.work])
    from convsim_mini.common.show import markdown
    rows = []
    for preset in PRESETS:
        contenders = {name: (preset, *how) for name, how in CONTENDERS.items()}
        measured = in_turns(__file__, contenders, [], options.rounds)
        whole = next(iter(measured.values()))[0]
        rows += [[preset, name, f"{pairs:,.0f}", f"{pairs / whole:.2f}", f"{1e3 * seconds:.1f} ms",
                  f"{1e3 * waited:.1f} ms", f"{1e3 * in_mpi:.1f} ms", f"{sent / 1e6:.1f} MB"]
                 for name, (pairs, seconds, waited, in_mpi, sent) in measured.items()]
    print(markdown(["preset", "contender", "pairs a second", "ratio", "a step", "waiting",
                    "sending", "bytes a step"], rows))


if __name__ == "__main__":
    main()
