"""One of several workers, started by test_workers.py: are n workers' gradients one process's?

It prints, on the first worker, one line of JSON: the largest difference by case; whether all
workers have the same bits; how many false negatives each has at least among others' responses.
"""

import json
import zlib

import numpy as np

from convsim_mini.config import ModelConfig
from convsim_mini.data.corpus import Split
from convsim_mini.data.packed import Packed, drop_words, offsets_of
from convsim_mini.data.snli import EntailmentSplit, NliSplit
from convsim_mini.gradcheck import dense
from convsim_mini.model.initial import parameter_shapes
from convsim_mini.model.input_response import (
    Model, loss_and_gradients, loss_and_gradients_in_chunks,
)
from convsim_mini.training.distributed import ALONE, launched

WORDS, BIGRAMS, PAIRS = 30, 40, 23
CONFIGS = {
    "dan": ModelConfig(embedding_dim=6, layers=[5, 7], response_hidden=[4], nli_hidden=6),
    "transformer": ModelConfig(encoder="transformer", embedding_dim=8, layers=[7], nli_hidden=6,
                               transformer_layers=2, heads=2, hidden=9, dropout=0.0, bag=True),
}


def main():
    workers, differences, same_bits, masked = launched(), {}, True, 0
    for encoder, config in CONFIGS.items():
        rng = np.random.default_rng(0)
        rows = WORDS + BIGRAMS
        model = Model({name: 0.5 * rng.standard_normal(shape) for name, shape in
                       parameter_shapes(config, rows, classifies=True).items()}, config, WORDS)
        for case, batch_of in cases(rng).items():
            for chunk in (None, 2):
                loss, grads = step(model, batch_of(slice(0, PAIRS)), chunk, ALONE)
                loss_here, grads_here = workers.sum(
                    *step(model, batch_of(workers.share(PAIRS)), chunk, workers))
                assert grads.keys() == grads_here.keys()
                grads, grads_here = (
                    {name: dense(grad, model.params[name]) for name, grad in some.items()}
                    for some in (grads, grads_here))
                differences[f"{encoder}, {case}, {chunk}"] = float(max(
                    abs(loss - loss_here),
                    *(np.abs(grad - grads_here[name]).max() for name, grad in grads.items())))
                crc = zlib.crc32(b"".join(grads_here[name].tobytes() for name in sorted(grads)))
                same_bits &= len(set(workers.comm.allgather(crc))) == 1
            masked += of_others(batch_of(workers.share(PAIRS))[1], workers)
    masked = min(workers.comm.allgather(masked))
    if workers.rank == 0:
        print(json.dumps({"differences": differences, "same bits": same_bits,
                          "false negatives of others": masked}))


def step(model, batch, chunk, workers):
    """Loss and gradients, in chunks or at once."""
    if chunk:
        return loss_and_gradients_in_chunks(model, batch, chunk, weight=3.0, workers=workers)
    return loss_and_gradients(model, batch, weight=3.0, workers=workers)


def of_others(false_negatives, workers):
    """How many of a worker's false negatives are responses that other workers have."""
    if not isinstance(false_negatives, tuple):
        return 0
    own = workers.share(PAIRS)
    return int(((false_negatives[1] < own.start) | (false_negatives[1] >= own.stop)).sum())


def cases(rng):
    """Functions of a slice of the batch's pairs, one for each task, and word dropout."""
    lengths = rng.integers(1, 9, 2 * 2 * PAIRS)
    sentences = Packed(rng.integers(0, WORDS, lengths.sum()).astype(np.int32), offsets_of(lengths))
    keys = rng.integers(0, 12, (2 * PAIRS, 2)).astype(np.uint64)    # many are equal
    which = rng.permutation(2 * PAIRS)[:PAIRS]
    split = Split(*sentences, keys)
    entailed, nli = EntailmentSplit(sentences, keys), NliSplit(sentences, rng.integers(0, 3, 99))

    def dropped(own):
        batch = split.batch(which, True, own)
        rng = np.random.Generator(np.random.Philox(5))
        return batch._replace(sentences=drop_words(batch.sentences, 0.4, rng,
                                                   *split.word_places(which, own)))
    return {"conversation": lambda own: split.batch(which, True, own),
            "unmasked": lambda own: split.batch(which, False, own), "dropped": dropped,
            "nli": lambda own: nli.batch(which, own),
            "entailment": lambda own: entailed.batch(which, own)}


if __name__ == "__main__":
    main()
