"""What each step trains on: conversations, inference (NLI) or both; and in which batches."""

import dataclasses
import itertools
import math
import zlib
from typing import NamedTuple

import numpy as np

from ..common.cli import UserError, say
from ..core.batches import GROWN, Split, batches
from ..data.labelled import encode_snli, find_snli, read_snli
from ..data.split import in_parts


class Tasks(NamedTuple):
    """Splits to train on, and NLI pairs to measure on; fields of NLI are None without that task."""

    conversation: Split
    nli: Split | None = None
    nli_dev: Split | None = None
    nli_checksum: int | None = None    # of the NLI files


def open_tasks(config, corpus):
    """The Tasks of a Config on a Corpus. Raises UserError for NLI data that cannot be used."""
    if not config.nli_task:
        return Tasks(corpus.train)
    files = find_snli(config.nli, ("train", "dev"), all_needed=True)
    pairs, vocabulary = read_snli(files["train"]), corpus.vocabulary
    task = "classes" if config.classifies else "entailments"
    split = encode_snli(pairs, vocabulary, config.nli_fraction, config.seed, task)
    print(f"SNLI: {split.pairs:,} {task.replace('classes', 'pairs')} to train on "
          f"({config.nli_fraction:.0%}); {pairs.dropped:,} pairs of the file have no label or no "
          "text\n")
    dev = encode_snli(read_snli(files["dev"]), vocabulary) if config.classifies else None
    crc = zlib.crc32(repr([*map(checksum, files.values())]).encode())
    return Tasks(corpus.train, split, dev, crc)


def checksum(path):
    """The CRC-32 of a file. Raises OSError."""
    crc = 0
    with open(path, "rb") as file:
        while block := file.read(1 << 22):
            crc = zlib.crc32(block, crc)
    return crc


def batches_of_tasks(config, tasks, first_step=0):
    """Yield the Batch of each step from `first_step` on, without end; the tasks take turns.

    Each task gets the batches that it would get if it were the only one.
    """
    # with --init, a run sees other batches than the run that it starts from
    config = dataclasses.replace(config, seed=config.seed + (config.stage << 112))
    of_tasks = []
    for split, size, steps, done in zip(
            (tasks.conversation, tasks.nli), (config.optim.batch_size, config.optim.nli_batch_size),
            steps_of_tasks(config, config.steps), steps_of_tasks(config, first_step)):
        optim = dataclasses.replace(config.optim, batch_size=size)
        of_task = dataclasses.replace(config, steps=steps, optim=optim)
        of_tasks.append(batches(of_task, split, done))
    for step in itertools.count(first_step):
        turn = steps_of_tasks(config, step + 1)[1] - steps_of_tasks(config, step)[1]
        yield next(of_tasks[turn])                            # 1: NLI's


def steps_of_tasks(config, steps):
    """How many of the first `steps` steps train on conversations, and how many NLI, by turns."""
    share = config.nli_share if "replies" in config.taught else 1.0
    of_nli = math.floor(share * steps) if config.nli_task else 0
    return steps - of_nli, of_nli


def fitting_batches(config, tasks, workers):
    """A Config whose batches are no larger than the data to train on. Raises UserError."""
    grown = GROWN if config.optim.drop_at < 1 else 1
    sizes = {}
    for name, split in (("batch_size", tasks.conversation), ("nli_batch_size", tasks.nli)):
        if not split:
            continue
        asked, most = getattr(config.optim, name), split.pairs // grown
        sizes[name] = min(asked, most)
        if sizes[name] < max(2, workers):
            raise UserError(f"--optim.{name} {sizes[name]}: expected {max(2, workers)} or more "
                            f"pairs in a batch; there are {most:,} to train on")
        if most < asked:
            print(f"--optim.{name} {most}: lowered, because there are too few pairs to train on\n")
    return dataclasses.replace(config, optim=dataclasses.replace(config.optim, **sizes))


def with_steps(config, tasks):
    """A Config with a number of steps: the one that it has, or as many as its epochs take."""
    if config.steps:
        return config
    optim, first, size = config.optim, tasks.conversation, config.optim.batch_size
    if "replies" not in config.taught:
        first, size = tasks.nli, optim.nli_batch_size
    elif tasks.nli:
        size *= 1 - config.nli_share                          # the other steps train NLI
    size *= optim.drop_at + GROWN * (1 - optim.drop_at)
    return dataclasses.replace(config, steps=max(1, round(config.epochs * first.pairs / size)))


def warn_if_cut(config, offsets):
    """Report on standard error how many sentences a Transformer cuts.

    config: a ModelConfig; offsets: as in Packed
    """
    sentences, longest = len(offsets) - 1, config.max_tokens
    lengths = (np.diff(offsets[some.start:some.stop + 1]) for some in in_parts(sentences))
    if config.encoder == "transformer" and (
            cut := sum(np.count_nonzero(some > longest) for some in lengths)):
        say(f"{cut:,} of {sentences:,} sentences have more than {longest} pieces of words and "
            "are cut off there")
