"""One of several workers, started by test_workers.py: are n workers' gradients one process's?

    mpiexec -n 4 python tests/training/worker_gradients.py [gpu]

It prints, on the first worker, one line of JSON: the largest difference by case; whether all
workers have the same bits; how many false negatives each has at least among others' responses.
gpu: each has an emulated device.
"""

import json
import sys
import zlib

import numpy as np

from convsim_mini.config import Config, ModelConfig, OptimConfig
from convsim_mini.core.arrays import to_device, to_host
from convsim_mini.core.pairs import Split
from convsim_mini.core.packed import Packed, drop_words, offsets_of
from convsim_mini.core.gradcheck import dense
from convsim_mini.training.initial import parameter_shapes
from convsim_mini.core.model import Model
from convsim_mini.training.distributed import ALONE, launched

WORDS, BIGRAMS, PAIRS = 30, 40, 23
CONFIGS = {
    "dan": ModelConfig(embedding_dim=6, layers=[5, 7], response_hidden=[4], nli_hidden=6),
    "transformer": ModelConfig(encoder="transformer", embedding_dim=8, layers=[7], nli_hidden=6,
                               transformer_layers=2, heads=2, hidden=9, dropout=0.0, bag=True),
}


def main(workers, xp=np, dtypes=("float64",)):
    differences, same_bits, masked = {}, True, 0
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
                expected = ALONE.gradients(model, settings, batch, 0)
                assert expected[1].keys() == found.keys()
                differences[f"{encoder}, {case}, {dtype}"] = difference(
                    model, expected, (to_host(losses), found))
                bits = [dense(found[name], p).tobytes() for name, p in model.params.items()
                        if name in found]
                same_bits &= len(set(workers.comm.allgather(zlib.crc32(b"".join(bits))))) == 1
            masked += of_others(workers.part(batch).false_negatives, workers)
    masked = min(workers.comm.allgather(masked))
    if workers.rank == 0:
        print(json.dumps({"differences": differences, "same bits": same_bits,
                          "false negatives of others": masked}))


def on_host(grad):
    """A gradient, an array or a list of SparseRows, with NumPy's arrays."""
    return [part._make(map(to_host, part)) for part in grad] if isinstance(
        grad, list) else to_host(grad)


def model_of(config, rng, workers):
    """A float64 Model with random parameters, the same for all workers."""
    shapes = parameter_shapes(config, WORDS + BIGRAMS, classifies=True)
    params = {name: 0.5 * rng.standard_normal(shape) for name, shape in shapes.items()}
    return Model(workers.broadcast(params), config, WORDS)


def difference(model, expected, found):
    """The largest difference in losses and in those gradients that were found."""
    (losses, grads), (losses_found, grads_found) = expected, found
    assert losses.keys() == losses_found.keys()
    return float(max(
        *(abs(loss - losses_found[name]) for name, loss in losses.items()),
        *(np.abs(dense(grads[name], model.params[name]) - dense(grad, model.params[name])).max()
          for name, grad in grads_found.items())))


def of_others(false_negatives, workers):
    """How many of a worker's false negatives are responses that other workers have."""
    if not isinstance(false_negatives, tuple):
        return 0
    begin, end = (PAIRS * (workers.rank + k) // workers.size for k in (0, 1))
    return int(((false_negatives[1] < begin) | (false_negatives[1] >= end)).sum())


def data(rng):
    """Pairs of each task, and the numbers of a batch's: a Split, (B,), Splits of NLI."""
    lengths = rng.integers(1, 9, 2 * 2 * PAIRS)
    sentences = Packed(rng.integers(0, WORDS, lengths.sum()).astype(np.int32), offsets_of(lengths))
    keys = rng.integers(0, 12, (2 * PAIRS, 2)).astype(np.uint64)    # many are equal
    which = rng.permutation(2 * PAIRS)[:PAIRS]
    return (Split(*sentences, keys), which,
            Split(*sentences, labels=rng.integers(0, 3, 99), task="classes"),
            Split(*sentences, keys, task="entailments"))


def cases(rng):
    """A Batch of each task, one without masks, and one with word dropout."""
    split, which, nli, entailed = data(rng)
    batch = split.batch(which)
    dropped = drop_words(batch.sentences, 0.4, np.random.Generator(np.random.Philox(5)))
    return {"conversation": batch, "unmasked": split.batch(which, False),
            "dropped": batch._replace(sentences=dropped), "nli": nli.batch(which),
            "entailment": entailed.batch(which)}


if __name__ == "__main__":
    workers = launched()
    if sys.argv[1:] == ["gpu"]:
        import cupy
        main(workers, cupy, ("float64", "float32"))
    else:
        main(workers)
