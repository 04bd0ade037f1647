"""The training command, with an accident to worker 1: worker_job.py WHAT STEP OPTIONS…"""

import os
import signal
import sys

from convsim_mini import train
from convsim_mini.common.cli import UserError
from convsim_mini.training import workers


def fail():
    raise UserError("its disk is gone")


WHAT = {"fails": fail, "has a bug": lambda: 1 / 0,
        "is interrupted": lambda: os.kill(os.getpid(), signal.SIGINT),
        "is killed": lambda: os.kill(os.getpid(), signal.SIGKILL)}


def main(what, step, *options):
    real, calls = workers.loss_and_gradients, iter(range(10**9))
    rank = int(os.environ.get("PMI_RANK") or os.environ["OMPI_COMM_WORLD_RANK"])

    def wrapped(*arguments):
        if next(calls) == int(step) and rank == 1:
            WHAT[what]()
        return real(*arguments)

    workers.loss_and_gradients = wrapped
    train.main(list(options))


if __name__ == "__main__":
    main(*sys.argv[1:])
