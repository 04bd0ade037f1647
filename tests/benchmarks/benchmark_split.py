"""What a split that cuts conversations is worth: memory of neighbours, measured.

    python tests/benchmarks/benchmark_split.py [--seeds 1 2 3]

The default corpus, with and without rows for bigrams. The test pairs are half of those of test's
conversations, and their candidates are the same; train has nothing of these conversations, or the
other half of their pairs instead of as many others. Brackets: 95% intervals over pairs and seeds.
"""

import argparse
import dataclasses
import tempfile
from itertools import islice
from pathlib import Path

import numpy as np

import contenders  # noqa: F401  (it makes the repository's folders known)
from convsim_mini.common.show import table
from convsim_mini.config import Config
from convsim_mini.core.loop import train_steps
from convsim_mini.core.optim import Adaptive
from convsim_mini.core.batches import batches
from convsim_mini.core.text import Vocabulary
from convsim_mini.data.formats import default_corpus
from convsim_mini.data.layouts import Reading
from convsim_mini.data.passes import read_splits, read_texts, word_counts
from convsim_mini.data.prepare import Corpus
from convsim_mini.data.split import SPLITS, split_pairs
from convsim_mini.evaluation import response
from convsim_mini.evaluation.metrics import per_cent
from convsim_mini.evaluation.results import cell
from convsim_mini.fast.threads import use_all_cores
from convsim_mini.training.start import initial_model


def corpus_of(texts, names, pieces):
    """A Corpus of the pairs that have the name of a split."""
    vocabulary = Vocabulary.of_pieces(word_counts(texts, names == "train"), pieces)
    splits = read_splits(texts, vocabulary, names)
    return Corpus(vocabulary, *(splits[split] for split in SPLITS), report={}, checksum=0)


def controlled(texts, splits, rng):
    """Two corpora with the same dev and test: names without neighbours in train, and with them."""
    test = np.flatnonzero(splits.names == "test")
    neighbours = np.sort(rng.permutation(test)[:len(test) // 2])
    without = splits.names.copy()
    without[neighbours] = ""
    held = without.copy()
    held[rng.choice(np.flatnonzero(held == "train"), len(neighbours), replace=False)] = ""
    held[neighbours] = "train"
    return {"nothing of test's conversations": without, "half of their other pairs": held}


def trained_ranks(corpus, bigrams, seed):
    """The ranks of test's true replies after training: (n,)."""
    config = Config(seed=seed)
    config = dataclasses.replace(config, text=dataclasses.replace(config.text, bigrams=bigrams))
    steps = round(config.epochs * corpus.train.pairs / config.optim.batch_size)
    config = dataclasses.replace(config, steps=steps)
    model = initial_model(config, corpus)
    for _ in train_steps(model, Adaptive(model.params), config,
                         islice(batches(config, corpus.train), steps)):
        pass
    return response.model_ranks(model, corpus.test, *response.drawn(corpus.test, 5_000))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    options, settings, rows = parser.parse_args(), Config().text, []
    use_all_cores()
    with tempfile.TemporaryDirectory() as folder:
        texts, _ = read_texts([default_corpus()], [], Reading(), Path(folder))
        straight = split_pairs(texts.origins)
        for bigrams in (settings.bigrams, 0):
            right = {}
            for seed in options.seeds:
                rng = np.random.Generator(np.random.Philox(seed))
                for name, names in controlled(texts, straight, rng).items():
                    corpus = corpus_of(texts, names, settings.pieces)
                    right.setdefault(name, []).append(trained_ranks(corpus, bigrams, seed) == 1)
            rows.append([f"{bigrams:,} bigrams", *(cell(per_cent(np.concatenate(some)))
                                                  for some in right.values())])
            print(*rows[-1], flush=True)
        print(table(["P@1 if train has …", *right], rows))


if __name__ == "__main__":
    main()
