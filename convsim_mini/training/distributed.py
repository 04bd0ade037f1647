"""Several workers on one batch: the only file that knows of MPI (mpi4py).

    OMP_NUM_THREADS=1 mpiexec -n 4 python -m convsim_mini.train …

starts four (pip install mpi4py mpich). Several hosts need one file system for the run's folder and
the cache. Each worker has a share of each batch. The gradient of a sum is the sum of gradients, so
the workers add theirs up, and all take the same step. The batch softmax is the exception, for its
negatives are on other workers: see `gather` and `reduce_scatter`.
"""

import os
import signal
import sys
import time
import traceback
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout, suppress
from io import StringIO

import numpy as np

from ..common.cli import ENDING, UserError, errors_in_one_line, handling, python_m
from ..core.arrays import array_module, to_device, to_host
from ..core.embeddings import SparseRows, joined
from ..core.loop import step_gradients
from ..core.model import TABLE, TASKS, loss_and_gradients
from ..core.pairs import Batch


def launched():
    """The Workers that a launcher such as mpiexec has started, or ALONE. Raises UserError."""
    # set by the launchers of MPICH, or of Open MPI
    number = os.environ.get("PMI_SIZE") or os.environ.get("OMPI_COMM_WORLD_SIZE", "1")
    rank = os.environ.get("PMI_RANK") or os.environ.get("OMPI_COMM_WORLD_RANK")
    if number == "1":
        return ALONE
    fault = f"mpi4py or MPI is missing: {python_m('pip install mpi4py mpich')}"
    with suppress(ImportError, RuntimeError):                 # RuntimeError: no MPI library
        # MPI waits here for the other workers: a signal that ended one must end this one, too
        with handling(dict.fromkeys(ENDING, signal.SIG_DFL)):
            from mpi4py import MPI
        if MPI.COMM_WORLD.size == int(number):
            return Workers(MPI)
        fault = f"mpi4py's MPI sees {MPI.COMM_WORLD.size}; start with the mpiexec of that MPI"
    if rank != "0":
        sys.exit(2)
    raise UserError(f"started as one of {number} workers, but {fault}")


class Alone:
    """One process has nothing to exchange: see the methods of Workers."""

    rank, size, gpu = 0, 1, 0
    gradients = staticmethod(step_gradients)

    def _same(self, x):
        return x

    agree = broadcast = _same
    in_turn = job = nullcontext

    def wait(self):
        pass


ALONE = Alone()


class Workers:
    """The processes of one job, numbered from 0. Arrays of GPUs travel through the hosts.

    All workers must call its methods in the same order, or they wait for ever.
    """

    def __init__(self, mpi):
        self.comm = mpi.COMM_WORLD
        self.rank, self.size = self.comm.rank, self.comm.size
        self.gpu = self.comm.Split_type(mpi.COMM_TYPE_SHARED).rank        # its number on its host
        self.broadcast = self.comm.bcast                      # gives all the first one's value
        self.agreed = False

    def all_rows(self, x):
        """All workers' rows, end to end: x: (b, …) → (B, …), where each worker's begin."""
        begins = np.cumsum([0, *self.comm.allgather(len(x))]).tolist()
        whole = np.empty((begins[-1], *x.shape[1:]), x.dtype)
        counts = np.diff(begins) * int(np.prod(x.shape[1:]))
        self.comm.Allgatherv(np.ascontiguousarray(to_host(x)), [whole, counts])
        return to_device(whole, array_module(x)), begins

    def sum(self, arrays):
        """The sums of the workers' arrays, by name. They travel as one; all get the same bits."""
        xp = array_module(next(iter(arrays.values())))
        flat = to_host(xp.concatenate([*map(xp.ravel, arrays.values())]))
        total = np.empty_like(flat)
        self.comm.Allreduce(flat, total)
        ends = np.cumsum([array.size for array in arrays.values()]).tolist()
        parts = xp.split(to_device(total, xp), ends)
        return {name: part.reshape(array.shape)
                for (name, array), part in zip(arrays.items(), parts)}

    def gradients(self, model, config, batch, step):
        """As `step_gradients` of core/loop.py, of a Batch that all workers have."""
        task = TASKS[batch.task]
        part, share = self.part(batch), 1.0
        if batch.labels is not None:                          # its loss is a mean over the part
            share = len(part.labels) / len(batch.labels)
        key = config.seed, step * self.size + self.rank       # each Transformer drops other numbers
        loss, grads = loss_and_gradients(model, part, key, task.weight_in(config) * share, self)
        table = self.all_places(joined(grads.pop(TABLE)))
        whole = self.sum({task.loss: share * loss} | grads) | {TABLE: [table]}
        # a copy: a loss that is kept would keep the array of all gradients
        return {task.loss: whole.pop(task.loss).copy()}, whole

    def all_places(self, grad):
        """All workers' SparseRows as one, equal rows not yet summed.

        So a DAN sends a vector for each sentence; the sums of its rows would be ten times as large.
        """
        xp = array_module(grad.values)
        values, begins = self.all_rows(grad.values)              # (V, d) of all
        places = xp.stack([grad.rows, grad.sources + begins[self.rank]], axis=1).astype(np.int32)
        rows, sources = xp.ascontiguousarray(self.all_rows(places)[0].T)    # (M,) of all
        return SparseRows(rows, values, sources)

    def part(self, batch):
        """This worker's b pairs of a Batch of B, as a Batch.

        Rows of its false negatives count from its own first pair, columns from the batch's.
        """
        pairs = len(batch.sentences.lengths) // 2
        begin, end = (pairs * (self.rank + k) // self.size for k in (0, 1))
        sentences = batch.sentences.take(np.r_[begin:end, pairs + begin:pairs + end])
        masked, labels = batch.false_negatives, batch.labels
        if masked is not None:
            rows, columns = masked
            inside = (rows >= begin) & (rows < end)
            masked = (rows[inside] - begin, columns[inside]) if inside.any() else None
        return Batch(sentences, masked, None if labels is None else labels[begin:end], batch.task)

    def gather(self, v):
        """All responses of all workers, v: (b, e) → (B, e), the number of the first own."""
        everyone, self.begins = self.all_rows(v)
        return everyone, self.begins[self.rank]

    def reduce_scatter(self, dv):
        """The sum of the gradients of what was gathered last, cut to the own rows: (B, e) → (b, e).

        Each worker's copy of a response has got a gradient: the backward of a gather is a sum.
        """
        begin, end = self.begins[self.rank:][:2]
        return self.sum({"dv": dv})["dv"][begin:end]

    def agree(self, stop):
        """Whether any worker is asked to stop. Then all of them have finished the same step."""
        self.agreed = self.comm.allreduce(stop) > 0
        return self.agreed

    def wait(self):
        """Wait for all workers. Meanwhile the processor is free for workers that still compute."""
        everyone = self.comm.Ibarrier()
        while not everyone.Test():
            time.sleep(0.005)

    @contextmanager
    def in_turn(self):
        """The first worker does something; then the others do the same and print nothing."""
        if self.rank == 0:
            yield
        self.wait()
        if self.rank:
            with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
                yield

    @contextmanager
    def job(self):
        """End all workers where one raises an error, or the others would wait for ever."""
        try:
            with errors_in_one_line():
                yield
        except BaseException as error:
            code = getattr(error, "code", 1)
            if code == 0 and self.rank == 0:                  # of --help: now it is their turn
                self.wait()
            if self.agreed and code in [128 + number for number in ENDING] or code == 0:
                self.wait()
                raise
            if not isinstance(error, SystemExit):
                sys.stderr.write(f"worker {self.rank}: {traceback.format_exc()}")
            time.sleep(1)    # or the launcher may end before it has passed the message on
            self.comm.Abort(code)
        self.wait()
