"""What each step trains on: conversations, or inference (NLI) by turns; and in which batches."""

import dataclasses
import itertools
import math
import zlib
from typing import NamedTuple

import numpy as np

from ..common.cli import UserError
from ..core.batches import GROWN, Split, batches
from ..data.labelled import encode_snli, find_snli, read_snli


class Tasks(NamedTuple):
    """Splits to train on, and NLI pairs to measure on; fields of NLI are None without that task."""

    conversation: Split
    nli: Split | None = None
    nli_dev: Split | None = None
    nli_checksum: int | None = None    # of the NLI files


def open_tasks(config, corpus):
    """The Tasks of a Config on a Corpus. Raises UserError for NLI data that cannot be used."""
    if not config.nli:
        return Tasks(corpus.train)
    files = find_snli(config.nli, ("train", "dev"), all_needed=True)
    pairs, vocabulary = read_snli(files["train"]), corpus.vocabulary
    task = "classes" if config.classifies else "entailments"
    split = encode_snli(pairs, vocabulary, config.nli_fraction, config.seed, task)
    print(f"SNLI: {split.pairs:,} {task.replace('classes', 'pairs')} to train on "
          f"({config.nli_fraction:.0%}); {pairs.dropped:,} pairs of the file have no label or no "
          "text\n")
    dev = encode_snli(read_snli(files["dev"]), vocabulary) if config.classifies else None
    checksums = [zlib.crc32(np.memmap(path, mode="r")) for path in files.values()]
    return Tasks(corpus.train, split, dev, zlib.crc32(repr(checksums).encode()))


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
    of_nli = math.floor(config.nli_share * steps) if config.nli else 0
    return steps - of_nli, of_nli


def fitted(config, tasks, workers=1):
    """A Config with batches no larger than its tasks, and with as many steps as its epochs take.

    workers: how many share a batch. Raises UserError for too few pairs.
    """
    optim, sizes = config.optim, {}
    growth = GROWN if optim.drop_at < 1 else 1
    for name, split in (("batch_size", tasks.conversation), ("nli_batch_size", tasks.nli)):
        if not split:
            continue
        asked, most = getattr(optim, name), split.pairs // growth
        sizes[name] = min(asked, most)
        if sizes[name] < max(2, workers):
            raise UserError(f"--optim.{name} {sizes[name]}: expected {max(2, workers)} or more "
                            f"pairs in a batch; there are {most:,} to train on")
        if most < asked:
            print(f"--optim.{name} {most}: lowered, because there are too few pairs to train on\n")
    config = dataclasses.replace(config, optim=dataclasses.replace(optim, **sizes))
    if config.steps:
        return config
    size = sizes["batch_size"] * (optim.drop_at + GROWN * (1 - optim.drop_at))
    if tasks.nli:
        size *= 1 - config.nli_share                          # the other steps train NLI
    steps = round(config.epochs * tasks.conversation.pairs / size)
    return dataclasses.replace(config, steps=max(1, steps))
