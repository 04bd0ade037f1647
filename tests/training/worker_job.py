"""The training command, with an accident to worker 1: worker_job.py WHAT STEP OPTIONS…

"is killed soon": at a random moment of steps 12 to 40, or 62 to 90 of a new run, whose first
checkpoint is at step 60; STEP is the seed, and decides which worker is killed.
"""

import os
import random
import signal
import sys
import threading

from convsim_mini import train
from convsim_mini.common.cli import UserError
from convsim_mini.training import workers


def fail():
    raise UserError("its disk is gone")


WHAT = {"fails": fail, "has a bug": lambda: 1 / 0,
        "is interrupted": lambda: os.kill(os.getpid(), signal.SIGINT),
        "is killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
        "lacks mpi4py": None}


def main(what, step, *options):
    real, calls, soon = workers.loss_and_gradients, iter(range(10**9)), random.Random(step)
    rank = int(os.environ.get("PMI_RANK") or os.environ["OMPI_COMM_WORLD_RANK"])
    last = soon.randrange(12, 40) + (0 if "--resume" in options else 50)

    def wrapped(*arguments):
        call = next(calls)
        if what == "is killed soon":
            if rank == int(step) % 2 and call == last:
                delay = soon.uniform(0, 0.03)                 # in a step or a checkpoint
                threading.Timer(delay, os.kill, [os.getpid(), signal.SIGKILL]).start()
        elif call == int(step) and rank == 1:
            WHAT[what]()
        return real(*arguments)

    workers.loss_and_gradients = wrapped
    if what == "lacks mpi4py":
        sys.modules["mpi4py"] = None
    train.main(list(options))


if __name__ == "__main__":
    main(*sys.argv[1:])
