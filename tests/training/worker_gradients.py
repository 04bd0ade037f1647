"""One of n workers, started by test_workers.py: are their gradients those of one process?

    mpiexec -n 4 python tests/training/worker_gradients.py [gpu]

The first worker prints one line of JSON: the largest difference for each case, and whether all
workers have the same bits. gpu: each has an emulated device. NCCL itself cannot run without a GPU,
so MPI stands in for it.
"""

import ctypes
import json
import sys
import zlib

import numpy as np

from convsim_mini.config import Config, ModelConfig, OptimConfig
from convsim_mini.core.arrays import to_device, to_host
from convsim_mini.core.batches import Split
from convsim_mini.core.packed import Packed, offsets_of
from convsim_mini.core.gradcheck import dense
from convsim_mini.core.initial import parameter_shapes
from convsim_mini.core.model import Model
from convsim_mini.training.workers import SINGLE_WORKER, launched

WORDS, BIGRAMS, PAIRS = 30, 40, 23
CONFIGS = {
    "dan": ModelConfig(embedding_dim=6, layers=[5, 7], response_hidden=[4], nli_hidden=6),
    "transformer": ModelConfig(encoder="transformer", embedding_dim=8, layers=[7], nli_hidden=6,
                               transformer_layers=2, heads=2, hidden=9, dropout=0.0, bag=True),
}


def main(workers, xp=np, dtypes=("float64",)):
    differences, same_bits = {}, True
    for encoder, config in CONFIGS.items():
        rng = np.random.default_rng(0)
        model = model_of(config, rng, workers)
        for case, batch in cases(rng).items():
            for dtype in dtypes:
                settings = Config(optim=OptimConfig(nli_weight=3))
                params = {name: p.astype(dtype) for name, p in model.params.items()}
                there = model._replace(params=to_device(params, xp))
                losses, found = workers.gradients(there, settings, batch, 0)
                assert xp is not np or {loss.base for loss in losses.values()} == {None}
                found = {name: on_host(grad) for name, grad in found.items()}
                expected = SINGLE_WORKER.gradients(model, settings, batch, 0)
                assert expected[1].keys() == found.keys()
                differences[f"{encoder}, {case}, {dtype}"] = difference(
                    model, expected, (to_host(losses), found))
                bits = [dense(found[name], p).tobytes() for name, p in model.params.items()
                        if name in found]
                same_bits &= len(set(workers.comm.allgather(zlib.crc32(b"".join(bits))))) == 1
    differences = workers.comm.allgather(differences)         # heads: only on their workers
    differences = {case: max(each[case] for each in differences) for case in differences[0]}
    if workers.rank == 0:
        print(json.dumps({"differences": differences, "same bits": same_bits}))


def on_host(grad):
    """A gradient (an array or a list of SparseRows) as NumPy arrays."""
    return [part._make(map(to_host, part)) for part in grad] if isinstance(
        grad, list) else to_host(grad)


def model_of(config, rng, workers):
    """A float64 Model with random parameters, the same for all workers."""
    shapes = parameter_shapes(config, WORDS + BIGRAMS, classifies=True)
    params = {name: 0.5 * rng.standard_normal(shape) for name, shape in shapes.items()}
    return Model(workers.broadcast(params), config, WORDS)


def difference(model, expected, found):
    """The largest difference in the losses and in the gradients found."""
    (losses, grads), (losses_found, grads_found) = expected, found
    assert losses.keys() == losses_found.keys()
    return float(max(
        *(abs(loss - losses_found[name]) for name, loss in losses.items()),
        *(np.abs(dense(grads[name], model.params[name]) - dense(grad, model.params[name])).max()
          for name, grad in grads_found.items())))


def cases(rng):
    """A Batch for each task."""
    lengths = rng.integers(1, 9, 2 * 2 * PAIRS)
    sentences = Packed(rng.integers(0, WORDS, lengths.sum()).astype(np.int32), offsets_of(lengths))
    which, labels = rng.permutation(2 * PAIRS)[:PAIRS], rng.integers(0, 3, 99)
    splits = {"conversation": Split(*sentences),
              "nli": Split(*sentences, labels=labels, task="classes"),
              "entailment": Split(*sentences, task="entailments")}
    return {name: split.batch(which) for name, split in splits.items()}


class PlayedBackend:
    """What `init_process_group` returns; here the memory of devices is the host's."""

    def __init__(self, size, rank, use_mpi):
        assert use_mpi and (size, rank) == (workers.size, workers.rank)

    def all_reduce(self, source, target):
        workers.comm.Allreduce(memory(source), memory(target))

    def broadcast(self, array, root):
        workers.comm.Bcast(memory(array), root)


def memory(array):
    buffer = (ctypes.c_uint8 * array.nbytes).from_address(array.data.ptr)
    return np.frombuffer(buffer, array.dtype)


if __name__ == "__main__":
    workers = launched()
    if sys.argv[1:] == ["gpu"]:
        import cupy
        import cupyx.distributed
        cupyx.distributed.init_process_group = PlayedBackend
        main(workers, cupy, ("float64", "float32"))
    else:
        main(workers)
