"""One of several workers with a GPU each, started by test_workers.py on emulated devices.

Are n GPUs' gradients those of one process on the host? NCCL itself cannot run without a GPU, so MPI
plays the few calls that are made of it. It prints one line of JSON: the largest difference by case.
"""

import ctypes
import itertools
import json
from types import SimpleNamespace

import cupy
import numpy as np

from convsim_mini.core.arrays import to_device, to_host
from convsim_mini.config import Config, OptimConfig
from convsim_mini.core.model import Model
from convsim_mini.training.distributed import launched
from convsim_mini.training.workers import ALONE

from worker_gradients import CONFIGS, cases, difference, model_of

KINDS = {"float32": ctypes.c_float, "float64": ctypes.c_double, "bytes": ctypes.c_uint8}


class PlayedCommunicator:
    """NcclCommunicator, whose devices' memory is the host's here."""

    def __init__(self, size, key, rank):
        self.comm = workers.comm.Split(len(key), rank)
        assert (self.comm.size, self.comm.rank) == (size, rank)

    def allReduce(self, source, target, count, kind, operation, stream):
        assert operation == "sum"
        self.comm.Allreduce(memory(source, count, kind), memory(target, count, kind))

    def bcast(self, buffer, count, kind, root, stream):
        self.comm.Bcast(memory(buffer, count, kind), root)


def memory(pointer, count, kind):
    return np.ctypeslib.as_array(ctypes.cast(pointer, ctypes.POINTER(KINDS[kind])), (count,))


def main():
    differences = {}
    for (encoder, config), dtype in itertools.product(CONFIGS.items(), ("float64", "float32")):
        rng = np.random.default_rng(0)
        model = model_of(config, rng, workers)
        params = {name: p.astype(dtype) for name, p in model.params.items()}
        there = Model(to_device(params, cupy), config, model.word_rows)
        for case, batch in cases(rng).items():
            settings = Config(optim=OptimConfig(chunk=2 if case == "unmasked" else None,
                                                nli_weight=3))
            expected = ALONE.gradients(model, settings, batch, 0)
            losses, grads = workers.gradients(there, settings, batch, 0)
            grads = {name: [part._make(map(to_host, part)) for part in grad]
                     if isinstance(grad, list) else to_host(grad) for name, grad in grads.items()}
            differences[f"{encoder}, {case}, {dtype}"] = difference(
                model, expected, (to_host(losses), grads))
    if workers.rank == 0:
        print(json.dumps(differences))


if __name__ == "__main__":
    workers = launched()
    cupy.cuda.nccl = SimpleNamespace(
        available=True, get_unique_id=lambda: b"a key", NcclCommunicator=PlayedCommunicator,
        NCCL_UINT8="bytes", NCCL_FLOAT32="float32", NCCL_FLOAT64="float64", NCCL_SUM="sum")
    main()
