"""Several workers on one batch: the only file that knows of MPI (mpi4py).

    OMP_NUM_THREADS=1 mpiexec -n 4 python -m convsim_mini.train …

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
        self.group, self.place, self.trains_nli = self.comm, self.rank, False

    def take_roles(self, nli_share):
        """The last workers, such a share of all and at least one, train NLI from now on.

        Workers of one task are a group, with a place each: they share its batch and its head.
        """
        self.trains_nli = self.rank >= self.size - max(1, round(nli_share * self.size))
        self.group = self.comm.Split(self.trains_nli)
        self.place = self.group.rank

    def share(self, number):
        """A slice of 0 … number − 1: this worker's part. No two parts differ by more than one."""
        return slice(*(number * k // self.group.size for k in (self.place, self.place + 1)))

    def gather(self, x, comm=None):
        """The rows of a group's workers, end to end: x: (b, d) → (B, d), where each one's begin."""
        comm = comm or self.group
        begins = np.cumsum([0, *comm.allgather(len(x))])
        whole = np.empty((begins[-1], *x.shape[1:]), x.dtype)
        counts = np.diff(begins) * math.prod(x.shape[1:])
        comm.Allgatherv(np.ascontiguousarray(x), [whole, counts])
        return whole, begins

    def reduce_scatter(self, x, begins):
        """The sum of a group's x: (B, d), cut to this worker's rows → (b, d)."""
        counts = np.diff(begins)
        own = np.empty((counts[self.place], x.shape[1]), x.dtype)
        self.group.Reduce_scatter(np.ascontiguousarray(x), own, counts * x.shape[1])
        return own

    def total(self, number):
        """The sum of a group's numbers."""
        return self.group.allreduce(number)

    def agree(self, stop):
        """Whether any worker is asked to stop."""
        self.agreed = self.comm.allreduce(int(stop)) > 0
        return self.agreed

    def sum(self, losses, grads):
        """A step's losses and gradients from the workers' parts: the same bits on each of them.

        Dense gradients travel as one array, those of a task's head within its group. Of a table's
        only the rows in use do. losses: by name; grads: by name → the same
        """
        dense = {name: grad for name, grad in grads.items() if not isinstance(grad, list)}
        heads = {name: dense.pop(name) for name in list(dense) if not name.startswith("encoder.")}
        whole = self._sum(losses | dense, self.comm) | self._sum(heads, self.group)
        for name in sorted(grads.keys() - whole.keys()):
            rows, values = (np.concatenate(arrays) for arrays in zip(*grads[name]))
            rows, values = (self.gather(array, self.comm)[0] for array in (rows, values))
            whole[name] = sum_of_rows([SparseRows(rows, values)])
        return {name: whole.pop(name) for name in losses}, whole

    def _sum(self, arrays, comm):
        flat = np.concatenate([*map(np.ravel, arrays.values()), np.empty(0, np.float32)])
        comm.Allreduce(self.mpi.IN_PLACE, flat)
        parts = np.split(flat, np.cumsum([np.size(array) for array in arrays.values()]))
        return {name: part.reshape(np.shape(array))
                for (name, array), part in zip(arrays.items(), parts)}

    def collect(self, *arrays):
        """Give all workers NLI's head in dicts of arrays, which only those that train it have."""
        for some in arrays if self.group is not self.comm else ():
            for name in sorted(some):
                if name.startswith("nli."):
                    self.comm.Bcast(some[name], self.size - 1)

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
            code = getattr(error, "code", 1)                  # 130: of Ctrl-C
            if self.agreed and code == 130:
                self.wait()
                raise
            if not isinstance(error, SystemExit):
                traceback.print_exc()
            time.sleep(1)    # or the launcher may end before it has passed the message on
            self.comm.Abort(code)
        self.wait()
