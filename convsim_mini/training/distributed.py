"""Several workers on one batch: the only file that knows of MPI (mpi4py).

    OMP_NUM_THREADS=1 mpiexec -n 4 python -m convsim_mini.train …

The launchers of MPICH and of Open MPI are known. Several hosts need one file system for the run's
folder and the cache.

Each worker has a share of each batch. The gradient of a sum is the sum of gradients, so the workers
add theirs up, and all take the same step. The batch softmax is the exception, for its negatives are
on other workers: see `softmax_among_all`. Workers of one host have one table of embeddings, in
shared memory, and each updates its own rows of it.
"""

import math
import os
import shutil
import sys
import time
import traceback
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np

from ..backend import array_module, to_host
from ..cli import ENDING, UserError, errors_in_one_line
from ..model.sparse_rows import SparseRows, joined
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

    All workers of a group call `gather`, `reduce_scatter` and `total` in the same order, and all
    workers the others, but for `share`. Or they wait for ever.
    """

    def __init__(self, mpi):
        self.mpi, self.comm = mpi, mpi.COMM_WORLD
        self.rank, self.size, self.agreed = self.comm.rank, self.comm.size, False
        self.group, self.place, self.trains_nli = self.comm, self.rank, False
        self.host = self.comm.Split_type(mpi.COMM_TYPE_SHARED)
        self.gpu = self.host.rank
        self.table_sharers, self.windows, self.nccl = None, [], {}

    def take_roles(self, nli_share):
        """The last workers, such a share of all, train NLI from now on; one trains each task.

        Workers of one task are a group, with a place each: they share its batch and its head.
        """
        of_nli = min(self.size - 1, max(1, round(nli_share * self.size)))
        self.trains_nli = self.rank >= self.size - of_nli
        self.group = self.comm.Split(self.trains_nli)
        self.place = self.group.rank

    def share(self, number):
        """A slice of 0 … number − 1: this worker's part. No two parts differ by more than one."""
        return slice(*(number * k // self.group.size for k in (self.place, self.place + 1)))

    def gather(self, x, comm=None):
        """The rows of a group's workers, end to end: x: (b, …) → (B, …), where each part begins."""
        comm, xp = comm or self.group, array_module(x)
        begins = np.cumsum([0, *comm.allgather(len(x))]).tolist()
        x, whole = xp.ascontiguousarray(x), xp.empty((begins[-1], *x.shape[1:]), x.dtype)
        if xp is np:
            counts = np.diff(begins) * math.prod(x.shape[1:])
            comm.Allgatherv(x, [whole, counts])
        else:
            nccl, own = self._nccl(comm)
            nccl.groupStart()                                 # each pair of workers at once
            for peer, part in enumerate(map(slice, begins, begins[1:])):
                for call, array in ((own.send, x), (own.recv, whole[part])):
                    call(array.data.ptr, array.nbytes, nccl.NCCL_UINT8, peer, _stream())
            nccl.groupEnd()
        return whole, begins

    def reduce_scatter(self, x, begins):
        """The sum of a group's x: (B, d), cut to this worker's rows → (b, d)."""
        if array_module(x) is not np:                         # NCCL wants parts of equal size
            return self._add_up(x, self.group)[begins[self.place]:begins[self.place + 1]]
        counts = np.diff(begins)
        own = np.empty((counts[self.place], x.shape[1]), x.dtype)
        self.group.Reduce_scatter(np.ascontiguousarray(x), own, counts * x.shape[1])
        return own

    def total(self, number):
        """The sum of a group's numbers."""
        return self.group.allreduce(number)

    def agree(self, stop):
        """Whether any worker is asked to stop. All of them have finished their step then."""
        self.agreed = self.comm.allreduce(int(stop)) > 0
        return self.agreed

    def sum(self, losses, grads):
        """A step's losses and gradients from the workers' parts.

        Dense gradients travel as one array, those of a task's head within its group. Each worker
        gets the same bits. Of a table only the gradients of the batch's rows travel. A worker gets
        those of the rows that it is to update: its part of a shared table, or else all.
        losses: by name; grads: by name → the same
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
        """Of all workers' SparseRows those of rows that this worker is to update.

        The values are gathered before equal rows are summed. A DAN sends one vector for each
        sentence. The sums of its rows would be about ten times as much.
        """
        xp = array_module(grad.values)
        values, begins = self.gather(grad.values, self.comm)              # (V, d) of all
        sources = xp.arange(len(grad.rows)) if grad.sources is None else grad.sources
        places = xp.stack([grad.rows, sources + begins[self.rank]]).astype(np.int32)
        rows, sources = self.gather(places.T, self.comm)[0].T             # (M,) of all
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
        """The sum of all workers' x, in its place."""
        if array_module(x) is np:
            comm.Allreduce(self.mpi.IN_PLACE, x)
            return x
        nccl, own = self._nccl(comm)
        kind = {4: nccl.NCCL_FLOAT32, 8: nccl.NCCL_FLOAT64}[x.itemsize]
        own.allReduce(x.data.ptr, x.data.ptr, x.size, kind, nccl.NCCL_SUM, _stream())
        return x

    def _nccl(self, comm):
        """CuPy's module of NCCL, and the communicator that has the workers of an MPI one."""
        from cupy.cuda import nccl
        if id(comm) not in self.nccl:
            key = comm.bcast(nccl.get_unique_id() if comm.rank == 0 else None)
            self.nccl[id(comm)] = nccl.NcclCommunicator(comm.size, key, comm.rank)
        return nccl, self.nccl[id(comm)]

    def check_nccl(self):
        """Raises UserError where CuPy does not find NCCL."""
        from cupy.cuda import nccl
        if not nccl.available:
            raise UserError("--device gpu: several workers need NCCL: pip install "
                            "nvidia-nccl-cu12   (CUDA 13: nvidia-nccl-cu13)")

    def collect(self, *arrays):
        """Give all workers the head that NLI's workers have trained, in each of these dicts."""
        for some in arrays if self.group is not self.comm else ():
            for name in sorted(some):
                if name.startswith("nli."):
                    some[name][...] = array_module(some[name]).asarray(
                        self.comm.bcast(to_host(some[name]), self.size - 1))

    def broadcast(self, x):
        """The first worker's x, on all of them.

        Of a dict of arrays the tables come to lie in memory that the workers of a host share. The
        first worker's dict gets these, so that it has no table of its own beside it.
        """
        about = {name: (array.shape, array.dtype.str) for name, array in x.items()} if (
            isinstance(x, dict)) else None
        about = self.comm.bcast(about)
        if about is None:
            return self.comm.bcast(x)
        x = {} if x is None else x
        for name in about:
            x[name] = self._broadcast_array(name, x.get(name), *about[name])
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
        """An array in memory that a host's workers share; each one's own if there is too little.

        Linux keeps shared memory in /dev/shm, which a container may limit to a few megabytes.
        """
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if self.table_sharers is None:
            place = Path("/dev/shm")
            room = shutil.disk_usage(place).free if place.exists() else math.inf
            enough = self.comm.allreduce(int(room > 2 * size)) == self.size
            self.table_sharers = self.host if enough else self.mpi.COMM_SELF
            self.table_writers = self.comm.Split(self.table_sharers.rank > 0)
        if self.table_sharers.size == 1:
            return np.empty(shape, dtype)
        first = self.table_sharers.rank == 0
        window = self.mpi.Win.Allocate_shared(size * first, comm=self.table_sharers)
        self.windows.append(window)                           # or the memory would be freed
        return np.frombuffer(window.Shared_query(0)[0], dtype).reshape(shape)

    def wait(self):
        """Wait for all workers, and leave the processor to those that are not here yet."""
        everyone = self.comm.Ibarrier()
        while not everyone.Test():
            time.sleep(0.005)

    @contextmanager
    def in_turn(self):
        """The first worker goes first; the others then do the same and print nothing."""
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
        """End all workers where one raises, for the others would wait for it for ever."""
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


def _stream():
    import cupy
    return cupy.cuda.get_current_stream().ptr
