"""What a split that cuts conversations is worth: memory of neighbours and of people, measured.

    python tests/benchmarks/benchmark_split.py [--seeds 1 2 3]

The default corpus. The first table: the default's P@1 if pairs are split by a hash of their input,
as in our own versions before November 2026, and by conversations. The second: the same test pairs,
which are half of those of test's conversations, with the same candidates; train has nothing of
these conversations, or the other half of their pairs instead of as many others. Both with and
without rows for bigrams. Brackets: 95% intervals over test pairs and seeds.
"""

import argparse
import dataclasses
import json
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
from convsim_mini.data.split import LEFT_OUT, SPLITS, Splits, overlap, split_pairs
from convsim_mini.data.units import text_key
from convsim_mini.evaluation import response
from convsim_mini.evaluation.metrics import difference, per_cent
from convsim_mini.evaluation.results import cell
from convsim_mini.fast.host import use_all_cores
from convsim_mini.training.measures import QUERIES, drawn
from convsim_mini.training.start import initial_model


def by_input(origins):
    """The split of former versions: all replies to one input together, conversations cut."""
    inputs = origins.keys[:, 0]
    test, dev = inputs % 10 < 1, inputs // 10 % 25 == 0
    return Splits(np.where(test, 2, np.where(dev, 1, 0)), np.arange(len(inputs)), 0)


def corpus_of(texts, codes, pieces, folder):
    """A Corpus of the pairs that have the code of a split, in files in a folder."""
    vocabulary = Vocabulary.of_pieces(word_counts(texts, codes == 0), pieces)
    splits, _ = read_splits(texts, vocabulary, codes, Path(tempfile.mkdtemp(dir=folder)))
    return Corpus(vocabulary, *(splits[split] for split in SPLITS), report={}, checksum=0)


def controlled(texts, splits, rng):
    """Two corpora with the same dev and test: codes without neighbours in train, and with them."""
    test = np.flatnonzero(splits.codes == 2)
    neighbours = np.sort(rng.permutation(test)[:len(test) // 2])
    without = splits.codes.copy()
    without[neighbours] = LEFT_OUT
    held = without.copy()
    held[rng.choice(np.flatnonzero(held == 0), len(neighbours), replace=False)] = LEFT_OUT
    held[neighbours] = 0
    return {"nothing of test's conversations": without, "half of their other pairs": held}


def people():
    """Who speaks in each conversation of the default corpus: name, as in Origins → set of ids."""
    said = json.loads(default_corpus().read_bytes())
    return {text_key(f"0 {name}"): {part["sender"] for turn in one["messages"] for part in turn}
            for name, one in said.items()}


def heard(origins, codes):
    """The share of test's pairs from conversations with somebody who also speaks in train."""
    train, test = ([of[name] for name in origins.names[codes == code, 0].tolist()]
                   for of in [people()] for code in (0, 2))
    speakers = set().union(*train)
    return np.mean([bool(some & speakers) for some in test])


def people_apart(origins, rng):
    """Codes as in `controlled`: without train pairs of the people of test, and with such pairs.

    A quarter of the people is drawn; dev and test are half of the conversations among them.
    """
    speakers = people()
    everybody = sorted(set().union(*speakers.values()))
    drawn = {*rng.permutation(everybody)[:len(everybody) // 4]}
    names, pair_of = np.unique(origins.names[:, 0], return_inverse=True)
    of_drawn = np.array([len(speakers[name] & drawn) / len(speakers[name])
                         for name in names.tolist()])
    asked = (of_drawn == 1) & (rng.random(len(names)) < 0.5)
    dev = asked & (rng.random(len(names)) < 0.1)
    code = np.where(of_drawn == 0, 0, LEFT_OUT)
    without = np.where(dev, 1, np.where(asked, 2, code))[pair_of]
    theirs = np.flatnonzero(((of_drawn > 0) & ~asked)[pair_of])
    others, held = np.flatnonzero(without == 0), without.copy()
    most = min(len(theirs), len(others))
    held[rng.choice(others, most, replace=False)] = LEFT_OUT
    held[rng.choice(theirs, most, replace=False)] = 0
    return {"nothing of test's people": without, "their other conversations": held}


def ranks(corpus, bigrams, seed, most):
    """The ranks of test's true replies before and after training: (n,), (n,)."""
    config = Config(seed=seed)
    config = dataclasses.replace(config, text=dataclasses.replace(config.text, bigrams=bigrams))
    steps = round(config.epochs * corpus.train.pairs / config.optim.batch_size)
    config = dataclasses.replace(config, steps=steps)
    model = initial_model(config, corpus)
    asked = corpus.test, *drawn(corpus.test, most)
    before = response.model_ranks(model, *asked)
    for _ in train_steps(model, Adaptive(model.params), config,
                         islice(batches(config, corpus.train), steps)):
        pass
    return before, response.model_ranks(model, *asked)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    options, settings, rows = parser.parse_args(), Config().text, []
    use_all_cores()
    with tempfile.TemporaryDirectory() as folder:
        texts, _ = read_texts([default_corpus()], [], Reading(), Path(folder))
        fair = split_pairs(texts.origins)
        print("split by conversation: test's pairs of which somebody speaks in train, too: "
              f"{heard(texts.origins, fair.codes):.1%}")
        for name, splits in (("by input", by_input(texts.origins)), ("by conversation", fair)):
            corpus = corpus_of(texts, splits.codes, settings.pieces, folder)
            found = overlap(texts.origins, splits)
            pairs, candidates = response.drawn(corpus.test)
            words = response.ranks_of_truth(
                *response.tfidf_vectors(corpus, corpus.test, pairs), candidates)
            for bigrams in (settings.bigrams, 0):
                both = [ranks(corpus, bigrams, seed, QUERIES) for seed in options.seeds]
                before, after = (np.concatenate(some) == 1 for some in zip(*both))
                rows.append([f"{name}, {bigrams:,} bigrams",
                             f"{found['known'] / found['texts']:.0%}",
                             *(cell(per_cent(some)) for some in (words == 1, before, after))])
                print(*rows[-1], flush=True)
        print(table(["split", "test's texts in train", "TF-IDF", "before training", "trained"],
                    rows))
        for two_corpora in (lambda rng: controlled(texts, fair, rng),
                            lambda rng: people_apart(texts.origins, rng)):
            rows = []
            for bigrams in (settings.bigrams, 0):
                right = {}
                for seed in options.seeds:
                    rng = np.random.Generator(np.random.Philox(seed))
                    for name, codes in two_corpora(rng).items():
                        corpus = corpus_of(texts, codes, settings.pieces, folder)
                        right.setdefault(name, []).append(
                            ranks(corpus, bigrams, seed, 5_000)[1] == 1)
                less, more = (np.concatenate(some) for some in right.values())
                rows.append([f"{bigrams:,} bigrams", cell(per_cent(less)), cell(per_cent(more)),
                             cell(difference(np.mean, 100.0 * more, 100.0 * less))])
                print(*rows[-1], flush=True)
            print(table(["P@1 if train has …", *right, "more"], rows))


if __name__ == "__main__":
    main()
