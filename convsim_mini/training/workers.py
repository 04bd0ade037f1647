"""A single worker, and several on one batch: the only file that knows about MPI (mpi4py).

    OMP_NUM_THREADS=1 mpiexec -n 4 python -m convsim_mini.train …

starts four Workers (pip install mpi4py mpich). Several hosts must share a file system for the run's
folder and the cache. Each worker has a share of each batch. The gradient of a sum is the sum of the
gradients, so the workers add up their gradients, and all take the same step. The batch softmax is
the exception, because its negatives are on all workers: see `gather` and `reduce_scatter`.
"""

import os
import sys
import time
import traceback
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout, suppress
from io import StringIO

import numpy as np

from ..core.arrays import array_module
from ..common.cli import ENDING, UserError, python_m
from ..core.embeddings import SparseRows, joined
from ..core.loop import step_gradients
from ..core.model import TABLE, TASKS, loss_and_gradients
from ..core.batches import Batch
from ..fast.devices import communicator


# where launchers say how many processes they started: MPICH, Open MPI, MVAPICH, torchrun, srun
OF_MPIEXEC = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE")
LAUNCHERS = (*OF_MPIEXEC, "MV2_COMM_WORLD_SIZE", "WORLD_SIZE", "SLURM_STEP_NUM_TASKS")


class SingleWorker:
    """With one process, there is nothing to exchange. Workers has methods with the same names."""

    rank, size, gpu = 0, 1, 0
    gradients = staticmethod(step_gradients)
    agree = broadcast = staticmethod(lambda value: value)
    wait = staticmethod(lambda: None)
    in_turn = job = nullcontext


SINGLE_WORKER = SingleWorker()


def launched():
    """The Workers that mpiexec or the like has started, or SINGLE_WORKER. Raises UserError."""
    launcher = next(filter(os.environ.get, LAUNCHERS), "")
    number = int(os.environ.get(launcher, 1))
    if number == 1:
        return SINGLE_WORKER
    if launcher in OF_MPIEXEC:                                # below others, MPI may abort
        with suppress(ImportError, RuntimeError):             # RuntimeError: no MPI library
            from mpi4py import MPI
            if MPI.COMM_WORLD.size == number:
                return Workers(MPI)
    raise UserError(f"started as one of {number} workers, which do not find each other; "
                    f"{python_m('pip install mpi4py mpich')}, and start them by its mpiexec")


class Workers:
    """The processes of one job, numbered from 0; see also SingleWorker.

    They exchange arrays by MPI, or, between GPUs, by NCCL. All of them must call methods in the
    same order; otherwise they wait forever.
    """

    def __init__(self, mpi):
        self.comm = mpi.COMM_WORLD
        self.rank, self.size = self.comm.rank, self.comm.size
        self.gpu = self.comm.Split_type(mpi.COMM_TYPE_SHARED).rank        # its number on its host
        self.broadcast = self.comm.bcast                      # gives all workers the first's value
        self.nccl = None                                      # made when it is needed
        self.agreed = False

    def all_rows(self, x):
        """All workers' rows, end to end: x: (b, …) → (B, …), and where each worker's rows begin."""
        xp = array_module(x)
        begins = np.cumsum([0, *self.comm.allgather(len(x))]).tolist()
        whole = xp.empty((begins[-1], *x.shape[1:]), x.dtype)
        if xp is np:
            counts = np.diff(begins) * int(np.prod(x.shape[1:]))
            self.comm.Allgatherv(np.ascontiguousarray(x), [whole, counts])
            return whole, begins
        whole[begins[self.rank]:begins[self.rank + 1]] = x
        for rank, rows in enumerate(map(slice, begins, begins[1:])):
            self.between_gpus().broadcast(whole[rows], rank)
        return whole, begins

    def sum(self, arrays):
        """The sums of the workers' arrays, by name, sent as one array. All get identical bits."""
        xp = array_module(next(iter(arrays.values())))
        flat = xp.concatenate([*map(xp.ravel, arrays.values())])
        total = xp.empty_like(flat)
        if xp is np:
            self.comm.Allreduce(flat, total)
        else:
            self.between_gpus().all_reduce(flat, total)
        parts = xp.split(total, np.cumsum([array.size for array in arrays.values()]).tolist())
        return {name: part.reshape(array.shape)
                for (name, array), part in zip(arrays.items(), parts)}

    def between_gpus(self):
        """The workers' communicator for arrays on GPUs. Raises UserError without NCCL."""
        self.nccl = self.nccl or communicator(self.size, self.rank)
        return self.nccl

    def gradients(self, model, config, batch, step):
        """Like `step_gradients` of core/loop.py, but for a Batch that all workers have."""
        task, part, share = TASKS[batch.task], self.part(batch), 1.0
        if batch.labels is not None:                          # its loss is a mean over the part
            share = len(part.labels) / len(batch.labels)
        key = config.seed, step * self.size + self.rank       # each worker drops other values
        loss, grads = loss_and_gradients(model, part, key, task.weight_in(config) * share, self)
        losses = {task.loss: share * loss}
        table = self.all_places(joined(grads.pop(TABLE)))
        whole = self.sum(losses | grads) | {TABLE: [table]}
        # copies, because a loss that is kept would otherwise keep the array of all gradients
        return {name: whole.pop(name).copy() for name in losses}, whole

    def all_places(self, grad):
        """The SparseRows of all workers as one, in which repeated rows are not yet summed.

        In this form, a DAN sends one vector per sentence; summed rows would be ten times as large.
        """
        xp = array_module(grad.values)
        values, begins = self.all_rows(grad.values)              # (V, d) of all
        places = xp.stack([grad.rows, grad.sources + begins[self.rank]], axis=1).astype(np.int32)
        rows, sources = xp.ascontiguousarray(self.all_rows(places)[0].T)    # (M,) of all
        return SparseRows(rows, values, sources)

    def part(self, batch):
        """This worker's b pairs out of a Batch of B, as a Batch."""
        pairs = len(batch.sentences.lengths) // 2
        begin, end = (pairs * (self.rank + k) // self.size for k in (0, 1))
        sentences = batch.sentences.take(np.r_[begin:end, pairs + begin:pairs + end])
        labels = None if batch.labels is None else batch.labels[begin:end]
        return Batch(sentences, labels, batch.task)

    def gather(self, v):
        """The responses of all workers, v: (b, e) → (B, e), and v's first row."""
        everyone, self.begins = self.all_rows(v)
        return everyone, self.begins[self.rank]

    def reduce_scatter(self, dv):
        """This worker's rows of the summed gradients of what was gathered last: (B, e) → (b, e).

        Each worker has its own copy of every response, so the copies' gradients are added up.
        """
        begin, end = self.begins[self.rank:][:2]
        return self.sum({"dv": dv})["dv"][begin:end]

    def agree(self, stop):
        """Whether any worker was asked to stop. All of them have then finished the same step."""
        self.agreed = self.comm.allreduce(stop) > 0
        return self.agreed

    def wait(self):
        """Wait for all workers. Meanwhile, the processor is free for those that still compute."""
        everyone = self.comm.Ibarrier()
        while not everyone.Test():
            time.sleep(0.005)

    @contextmanager
    def in_turn(self):
        """The first worker runs the block; then the others run it, too, but print nothing."""
        if self.rank == 0:
            yield
        self.wait()
        if self.rank:
            with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
                yield

    @contextmanager
    def job(self):
        """End all workers when one ends with an error; otherwise the others would wait forever."""
        try:
            yield
        except BaseException as error:
            code = getattr(error, "code", 1)
            if self.agreed and code in [128 + number for number in ENDING]:
                self.wait()
                raise
            if not isinstance(error, SystemExit):
                sys.stderr.write(f"worker {self.rank}: {traceback.format_exc()}")
            time.sleep(1)    # otherwise the launcher may end before it has passed on the message
            self.comm.Abort(code)
        self.wait()
