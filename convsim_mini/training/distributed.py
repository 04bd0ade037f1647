"""Several workers on one batch: the only file that knows of MPI (mpi4py).

    mpiexec -n 4 python -m convsim_mini.train …

Each worker has all parameters and a share of each batch. The gradient of a sum is the sum of
gradients, so the workers add theirs up, and all take the same step. The batch softmax is the
exception, for its negatives are on other workers: see `softmax_among_all`.
"""

import math
import os
import sys
import time
import traceback
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO

import numpy as np

from ..cli import UserError, errors_in_one_line
from ..model.embeddings import SparseRows, sum_of_rows
from ..model.workers import ALONE

SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE")    # set by the launchers of MPICH and of Open MPI
RANKS = ("PMI_RANK", "OMPI_COMM_WORLD_RANK")


def launched():
    """The Workers that a launcher such as mpiexec has started, or ALONE.

    Raises UserError, on the first worker, without mpi4py or with the launcher of another MPI.
    """
    number, rank = (next(filter(None, map(os.environ.get, names)), "") for names in (SIZES, RANKS))
    if number in ("", "1"):
        return ALONE
    try:
        from mpi4py import MPI
        seen = MPI.COMM_WORLD.size
    except (ImportError, RuntimeError):                       # RuntimeError: no MPI library
        seen = None
    if seen == int(number):
        return Workers(MPI)
    if rank != "0":
        sys.exit(2)
    raise UserError(f"started as one of {number} workers, but " + (
        "mpi4py or MPI is missing: pip install mpi4py mpich" if seen is None else
        f"mpi4py's MPI sees {seen}; start with the mpiexec of that MPI"))


class Workers:
    """The processes of one job, numbered from 0, and what they exchange; see also Alone.

    All of them call each method in the same order, but for `share`, or they wait for ever.
    """

    def __init__(self, mpi):
        self.mpi, self.comm = mpi, mpi.COMM_WORLD
        self.rank, self.size, self.agreed = self.comm.rank, self.comm.size, False

    def share(self, number):
        """A slice of 0 … number − 1: this worker's part. No two parts differ by more than one."""
        return slice(*(number * k // self.size for k in (self.rank, self.rank + 1)))

    def gather(self, x):
        """The rows of all workers, end to end: x: (b, d) → (B, d), where each worker's begin."""
        begins = np.cumsum([0, *self.comm.allgather(len(x))])
        whole = np.empty((begins[-1], *x.shape[1:]), x.dtype)
        counts = np.diff(begins) * math.prod(x.shape[1:])
        self.comm.Allgatherv(np.ascontiguousarray(x), [whole, counts])
        return whole, begins

    def reduce_scatter(self, x, begins):
        """The sum of all workers' x: (B, d), cut to this worker's rows → (b, d)."""
        counts = np.diff(begins)
        own = np.empty((counts[self.rank], x.shape[1]), x.dtype)
        self.comm.Reduce_scatter(np.ascontiguousarray(x), own, counts * x.shape[1])
        return own

    def total(self, number):
        """The sum of all workers' numbers."""
        return self.comm.allreduce(number)

    def agree(self, stop):
        """Whether any worker is asked to stop."""
        self.agreed = self.total(int(stop)) > 0
        return self.agreed

    def sum(self, loss, grads):
        """The batch's loss and gradients from the workers' parts: the same bits on each of them.

        Dense gradients travel as one array. Of a table's only the rows in use do.
        """
        dense = {name: grad for name, grad in grads.items() if not isinstance(grad, list)}
        flat = np.concatenate([np.ravel(loss), *map(np.ravel, dense.values())])
        self.comm.Allreduce(self.mpi.IN_PLACE, flat)
        ends = np.cumsum([1, *(grad.size for grad in dense.values())])
        whole = {name: part.reshape(grad.shape)
                 for (name, grad), part in zip(dense.items(), np.split(flat, ends)[1:])}
        for name in grads.keys() - dense.keys():
            rows, values = (np.concatenate(arrays) for arrays in zip(*grads[name]))
            rows, values = self.gather(rows)[0], self.gather(values)[0]
            whole[name] = sum_of_rows([SparseRows(rows, values)])
        return flat[0], whole

    def broadcast(self, x):
        """The first worker's x, on all of them; a dict of arrays travels as it lies in memory."""
        arrays = isinstance(x, dict)
        about = self.comm.bcast({name: (array.shape, array.dtype.str) for name, array in x.items()}
                                if arrays else x)
        if not self.comm.bcast(arrays):
            return about
        x = x if arrays else {name: np.empty(*shape) for name, shape in about.items()}
        x = {name: np.ascontiguousarray(array) for name, array in x.items()}
        for array in x.values():
            self.comm.Bcast(array)
        return x

    def wait(self):
        """Wait for all workers, and leave the processor to those that are not here yet."""
        everyone = self.comm.Ibarrier()
        while not everyone.Test():
            time.sleep(0.005)

    @contextmanager
    def in_turn(self):
        """The first worker goes first; the others then do the same and print nothing."""
        if self.rank == 0:
            yield
        self.wait()
        if self.rank:
            with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
                yield

    @contextmanager
    def job(self):
        """End all workers where one raises, for the others would wait for it for ever."""
        try:
            with errors_in_one_line():
                try:
                    yield
                except UserError as error:
                    raise UserError(f"worker {self.rank}: {error}") from None
        except BaseException as error:
            if not self.agreed:
                if not isinstance(error, SystemExit):
                    traceback.print_exc()
                time.sleep(1)    # or the launcher may end before it has passed the message on
                self.comm.Abort(getattr(error, "code", 1))
            self.wait()
            raise
        self.wait()
