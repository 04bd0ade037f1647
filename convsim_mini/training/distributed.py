"""Several workers on one batch: the only file that knows of MPI (mpi4py).

    OMP_NUM_THREADS=1 mpiexec -n 4 python -m convsim_mini.train …

starts four (pip install mpi4py mpich). Several hosts need one file system for the run's folder and
the cache. Each worker has a share of each batch. The gradient of a sum is the sum of gradients, so
the workers add theirs up, and all take the same step. The batch softmax is the exception, for its
negatives are on other workers: see `gather` and `reduce_scatter`. Workers of one host have one
table of embeddings, in shared memory, and each updates its own rows of it.
"""

import math
import os
import shutil
import signal
import sys
import time
import traceback
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path

import numpy as np

from ..core.arrays import array_module, to_host
from ..common.cli import ENDING, UserError, errors_in_one_line, handling, python_m
from ..core.pairs import Batch
from ..core.model import TASKS, Alone as NoOthers
from ..core.embeddings import SparseRows, joined
from .chunks import of_batch
from .workers import ALONE


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


class Workers:
    """The processes of one job, numbered from 0, and what they exchange; see also Alone.

    All workers of a group must call `gather` and `reduce_scatter` in the same order, and all
    workers the other methods. `share` and `part` do not communicate. If one worker does not
    call, the others wait for ever.
    """

    def __init__(self, mpi):
        self.mpi, self.comm = mpi, mpi.COMM_WORLD
        self.rank, self.size = self.comm.rank, self.comm.size
        self.group, self.place = self.comm, self.rank
        self.host = self.comm.Split_type(mpi.COMM_TYPE_SHARED)
        self.gpu = self.host.rank
        self.trains_nli = self.table_sharers = None
        self.windows, self.nccl = [], {}
        self.agreed = False

    def take_roles(self, nli_share):
        """Let this share of the workers, the last ones, train NLI. Each task has its group."""
        of_nli = min(self.size - 1, max(1, round(nli_share * self.size)))
        self.trains_nli = self.rank >= self.size - of_nli
        self.group = self.comm.Split(self.trains_nli)
        self.place = self.group.rank

    def gradients(self, model, config, batch, step):
        """As `step_gradients` of core/loop.py, of a Batch that all workers have; see `sum`."""
        optim, task = config.optim, TASKS[batch.task]
        weight = task.weight_in(config)
        batch = self.part(batch, optim.local_negatives)
        if optim.nli_workers:
            weight *= optim.nli_workers if self.trains_nli else 1 - optim.nli_workers
        share, others = 1.0, self
        if optim.local_negatives or batch.labels is not None:     # a mean over this worker's pairs
            sentences = len(batch.sentences.lengths)
            share, others = sentences / self.group.allreduce(sentences), NoOthers()
        key = config.seed, step * self.size + self.rank       # each Transformer drops other numbers
        loss, grads = of_batch(config)(model, batch, key, weight * share, others)
        losses = {task.loss: share * loss}
        if optim.nli_workers:                                 # all workers send both losses
            losses = {"loss": 0 * loss, "nli_loss": 0 * loss} | losses
        return self.sum(losses, grads)

    def share(self, number):
        """This worker's slice of 0 … number − 1. Lengths of slices differ by one at most."""
        size = self.group.size
        return slice(number * self.place // size, number * (self.place + 1) // size)

    def part(self, batch, local_negatives=False):
        """This worker's b pairs of a Batch of B, as a Batch.

        In its false negatives the rows count from this worker's first pair. The columns count from
        the batch's first pair, or with local_negatives from this worker's.
        """
        pairs = len(batch.sentences.lengths) // 2
        own = self.share(pairs)
        which = np.arange(own.start, own.stop)
        sentences = batch.sentences.take(np.concatenate([which, pairs + which]))
        masked, labels = batch.false_negatives, batch.labels
        if masked is not None:
            rows, columns = masked
            inside = (rows >= own.start) & (rows < own.stop)
            if local_negatives:
                inside &= (columns >= own.start) & (columns < own.stop)
                columns = columns - own.start
            masked = (rows[inside] - own.start, columns[inside]) if inside.any() else None
        if labels is not None:
            labels = labels[own]
        return Batch(sentences, masked, labels, batch.task)

    def gather(self, v):
        """All responses of this task's workers, v: (b, e) → (B, e), the number of the first own."""
        everyone, self.begins = self.all_rows(v, self.group)
        return everyone, self.begins[self.place]

    def all_rows(self, x, comm):
        """All rows of a group, end to end: x: (b, …) → (B, …), where each worker's begin."""
        xp = array_module(x)
        begins = np.cumsum([0, *comm.allgather(len(x))]).tolist()
        x = xp.ascontiguousarray(x)
        whole = xp.empty((begins[-1], *x.shape[1:]), x.dtype)
        if xp is np:
            counts = np.diff(begins) * math.prod(x.shape[1:])
            comm.Allgatherv(x, [whole, counts])
        else:
            nccl, own, stream = self._nccl(comm)
            nccl.groupStart()                                 # each pair of workers at once
            for peer, part in enumerate(map(slice, begins, begins[1:])):
                for call, array in ((own.send, x), (own.recv, whole[part])):
                    call(array.data.ptr, array.nbytes, nccl.NCCL_UINT8, peer, stream)
            nccl.groupEnd()
        return whole, begins

    def reduce_scatter(self, dv):
        """The sum of the workers' gradients of what was gathered last, cut to the own rows.

        Gathering copied a response to every worker, and each copy got a gradient: the backward of
        a gather is a sum. dv: (B, e) → (b, e)
        """
        if array_module(dv) is not np:                        # NCCL wants parts of equal size
            own = slice(self.begins[self.place], self.begins[self.place + 1])
            return self._add_up(dv, self.group)[own]
        counts = np.diff(self.begins)
        own = np.empty((counts[self.place], dv.shape[1]), dv.dtype)
        self.group.Reduce_scatter(np.ascontiguousarray(dv), own, counts * dv.shape[1])
        return own

    def agree(self, stop):
        """Whether any worker is asked to stop. Then all of them have finished the same step."""
        self.agreed = self.comm.allreduce(stop, self.mpi.LOR)
        return self.agreed

    def sum(self, losses, grads):
        """Add up the workers' losses and gradients → two dicts by name.

        Dense gradients travel as one array, and each worker gets the same bits. The gradients of a
        task's head are added up in its group alone. A table's gradient travels as the rows of the
        batch. A worker gets the rows that it updates: its own rows of a shared table, or all rows.
        """
        dense = {name: grad for name, grad in grads.items() if not isinstance(grad, list)}
        heads = {name: dense.pop(name) for name in list(dense)
                 if self.group is not self.comm and not name.startswith("encoder.")}
        whole = self._sum(losses | dense, self.comm) | self._sum(heads, self.group)
        for name in sorted(grads.keys() - whole.keys()):
            whole[name] = [self._own_rows(joined(grads[name]))]
        # copies: a loss that is kept would keep the array of all gradients
        return {name: whole.pop(name).copy() for name in losses}, whole

    def _own_rows(self, grad):
        """Gather all workers' SparseRows; keep the places of the rows that this worker updates.

        Values are gathered before equal rows are summed, because a DAN then sends one vector for
        each sentence. The sums of its rows would be about ten times as large.
        """
        xp = array_module(grad.values)
        values, begins = self.all_rows(grad.values, self.comm)             # (V, d) of all
        places = xp.stack([grad.rows, grad.sources + begins[self.rank]]).astype(np.int32)
        rows, sources = self.all_rows(places.T, self.comm)[0].T           # (M,) of all
        if xp is np and self.table_sharers.size > 1:
            own = rows % self.table_sharers.size == self.table_sharers.rank
            rows, sources = rows[own], sources[own]
        return SparseRows(xp.ascontiguousarray(rows), values, xp.ascontiguousarray(sources))

    def _sum(self, arrays, comm):
        if not arrays:
            return {}
        xp = array_module(next(iter(arrays.values())))
        flat = self._add_up(xp.concatenate([*map(xp.ravel, arrays.values())]), comm)
        parts = xp.split(flat, np.cumsum([array.size for array in arrays.values()]).tolist())
        return {name: part.reshape(array.shape)
                for (name, array), part in zip(arrays.items(), parts)}

    def _add_up(self, x, comm):
        """The sum of all workers' x, in place."""
        if array_module(x) is np:
            comm.Allreduce(self.mpi.IN_PLACE, x)
            return x
        nccl, own, stream = self._nccl(comm)
        kind = {4: nccl.NCCL_FLOAT32, 8: nccl.NCCL_FLOAT64}[x.itemsize]
        own.allReduce(x.data.ptr, x.data.ptr, x.size, kind, nccl.NCCL_SUM, stream)
        return x

    def _nccl(self, comm):
        """CuPy's NCCL, its communicator with an MPI communicator's workers, the current stream."""
        from cupy.cuda import get_current_stream, nccl
        if id(comm) not in self.nccl:
            key = comm.bcast(nccl.get_unique_id() if comm.rank == 0 else None)
            self.nccl[id(comm)] = nccl.NcclCommunicator(comm.size, key, comm.rank)
        return nccl, self.nccl[id(comm)], get_current_stream().ptr

    def check_nccl(self):
        """Raise a UserError where CuPy does not find NCCL."""
        from cupy.cuda import nccl
        if not nccl.available:
            install = python_m("pip install nvidia-nccl-cu12   (CUDA 13: nvidia-nccl-cu13)")
            raise UserError(f"--device gpu: several workers need NCCL: {install}")

    def collect(self, *arrays):
        """Give all workers the head that NLI's workers have trained. arrays: dicts that hold it."""
        for some in arrays:
            for name in sorted(some):
                if self.group is not self.comm and name.startswith("nli."):
                    trained = self.comm.bcast(to_host(some[name]), self.size - 1)
                    some[name][...] = array_module(some[name]).asarray(trained)

    def broadcast(self, x):
        """Give all workers the first one's value or dict of arrays. A host shares its tables."""
        if not self.comm.bcast(isinstance(x, dict)):
            return self.comm.bcast(x)
        x = x or {}
        shapes = {name: (array.shape, array.dtype.str) for name, array in x.items()}
        for name, (shape, dtype) in self.comm.bcast(shapes).items():
            x[name] = self._broadcast_array(name, x.get(name), shape, dtype)
        return x

    def _broadcast_array(self, name, array, shape, dtype):
        if "embedding.weight" not in name:
            array = np.ascontiguousarray(array) if self.rank == 0 else np.empty(shape, dtype)
            self.comm.Bcast(array)
            return array
        table = self._shared_array(shape, dtype)
        if self.rank == 0:
            table[...] = array
        if self.table_sharers.rank == 0:
            self.table_writers.Bcast(table)
        self.table_sharers.Barrier()
        return table

    def _shared_array(self, shape, dtype):
        """A new array that a host's workers share; each has its own if /dev/shm has no room."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if self.table_sharers is None:
            place = Path("/dev/shm")
            room = shutil.disk_usage(place).free if place.exists() else math.inf
            is_enough = self.comm.allreduce(room > 2 * size, self.mpi.LAND)
            self.table_sharers = self.host if is_enough else self.mpi.COMM_SELF
            self.table_writers = self.comm.Split(self.table_sharers.rank > 0)
        if self.table_sharers.size == 1:
            return np.empty(shape, dtype)
        if self.table_sharers.rank:                           # the first has the memory for all
            size = 0
        window = self.mpi.Win.Allocate_shared(size, comm=self.table_sharers)
        self.windows.append(window)                           # or the memory would be freed
        return np.frombuffer(window.Shared_query(0)[0], dtype).reshape(shape)

    def wait(self):
        """Wait for all workers. Meanwhile the processor is free for workers that still compute."""
        everyone = self.comm.Ibarrier()
        while not everyone.Test():
            time.sleep(0.005)

    @contextmanager
    def in_turn(self):
        """The first worker does something; then the others do the same and print nothing."""
        if self.rank == 0:
            try:
                yield
            except SystemExit:                                # --help ends all of them
                self.wait()
                raise
        self.wait()
        if self.rank:
            with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
                yield

    @contextmanager
    def job(self):
        """End all workers where one raises an error, or the others would wait for ever."""
        try:
            with errors_in_one_line():
                try:
                    yield
                except UserError as error:
                    raise UserError(f"worker {self.rank}: {error}") from None
        except BaseException as error:
            code = getattr(error, "code", 1)                  # 0: of --help
            if self.agreed and code in [128 + number for number in ENDING] or code == 0:
                self.wait()
                raise
            if not isinstance(error, SystemExit):
                sys.stderr.write(f"worker {self.rank}: {traceback.format_exc()}")
            time.sleep(1)    # or the launcher may end before it has passed the message on
            self.comm.Abort(code)
        self.wait()
