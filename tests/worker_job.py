"""The training command in which something happens to worker 1: worker_job.py WHAT STEP OPTIONS…"""

import os
import signal
import sys

from convsim_mini import train
from convsim_mini.cli import UserError
from convsim_mini.training import loop


def fail():
    raise UserError("its disk is gone")


WHAT = {"fails": fail, "has a bug": lambda: 1 / 0,
        "is interrupted": lambda: os.kill(os.getpid(), signal.SIGINT),
        "is killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
        "lacks mpi4py": None}


def main(what, step, *options):
    real, calls = loop.loss_and_gradients, iter(range(10**9))

    def wrapped(*arguments):
        if next(calls) == int(step) and arguments[4].rank == 1:
            WHAT[what]()
        return real(*arguments)

    loop.loss_and_gradients = wrapped
    if what == "lacks mpi4py":
        sys.modules["mpi4py"] = None
    train.main(list(options))


if __name__ == "__main__":
    main(*sys.argv[1:])
