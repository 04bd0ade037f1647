"""Is one checkout as fast as another?  python tests/benchmarks/benchmark_old_new.py OLD NEW

Steps and encoding of two presets on the default corpus, as the commands run them, by turns, each in
a process of its own. Above 1, NEW is faster. OLD may have the layout before core/ and fast/.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise

WARM_UP, STEPS, SENTENCES = 3, 20, 1024


def work(folder, preset, cache):
    """In a process of its own: print the seconds of each step, and of each encoding."""
    sys.path.insert(0, folder)
    from convsim_mini import train
    from convsim_mini.data.prepare import open_corpus
    from convsim_mini.training import loop
    from convsim_mini.training.options import parse_config
    config = parse_config(["--preset", preset, "--model.svd_share", "0", "--cache", cache])
    if os.path.isdir(f"{folder}/convsim_mini/core"):
        from convsim_mini.core.loop import train_steps
        from convsim_mini.core.model import embed
        from convsim_mini.core.optim import OPTIMIZERS
        from convsim_mini.fast.threads import claim_process
        from convsim_mini.training import tasks as schedule

        def step(k):
            train_steps(model, optimizer, config, [next(batches)], k)
    else:
        from convsim_mini.backend import claim_process
        from convsim_mini.model.input_response import embed
        from convsim_mini.training import schedule
        OPTIMIZERS = {"sgd": loop.SGD, "adaptive": loop.Adaptive}

        def step(k):
            loop.train_step(config, model, optimizer, k, next(batches))

    claim_process()
    corpus = open_corpus(config)
    model, some = train.starting_model(config, corpus), corpus.train.packed.part(0, SENTENCES)
    optimizer = OPTIMIZERS[config.optim.optimizer](model.params)
    batches = schedule.batches(config, schedule.Tasks(corpus.train))
    print(json.dumps([timed(step), timed(lambda k: embed(model, some))]))


def timed(function):
    """Seconds of each call function(k), but for the first ones."""
    clock = [time.perf_counter()]
    for k in range(WARM_UP + STEPS):
        function(k)
        clock.append(time.perf_counter())
    return [end - begin for begin, end in pairwise(clock)][WARM_UP:]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", metavar="OLD NEW")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--presets", nargs="+", default=["chat", "transformer-small"])
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        return work(*options.work)
    os.environ.pop("OPENBLAS_CORETYPE", None)                 # it slows NumPy's products down
    with tempfile.TemporaryDirectory() as caches:
        for preset in options.presets:
            seconds = [([], []), ([], [])]                    # old, new: of steps, of encoding
            for which in [0, 1] * options.rounds:
                told = subprocess.check_output(
                    [sys.executable, __file__, "--work", options.folders[which], preset,
                     f"{caches}/{which}"])
                for whole, part in zip(seconds[which], json.loads(told.splitlines()[-1])):
                    whole += part
            for task, old, new in zip(("a step", f"encoding {SENTENCES} sentences"), *seconds):
                print(f"{preset}, {task}, old / new:", *(
                    f"{f.__name__} {1e3 * f(old):.2f} / {1e3 * f(new):.2f} ms = "
                    f"{f(old) / f(new):.3f};" for f in (statistics.median, min)))


if __name__ == "__main__":
    main()
