"""How fast is text?  CONVSIM_DATA=DIR python tests/benchmarks/benchmark_text.py [--lines 1000000]

Preparing the Reddit pairs from scratch (read, filter, tokenise, count, encode); without
CONVSIM_DATA those of the default corpus. Text in, vectors out: ours beside model2vec, fastText and
scikit-learn's hashing, each with vectors of 500 numbers and in a process of its own, by turns. Each
makes its model from the first 50,000 lines before the clock starts, and has encoded no line by
then. Weights are random where a contender allows it: they do not change the speed. Then calls of
one sentence and more. Needs: pip install model2vec fasttext-wheel scikit-learn
"""

import argparse
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from collections import Counter
from itertools import islice

from benchmark_dan import in_turns, pair_files    # and the repository's path

FITTED, WIDTH, CHUNK = 50_000, 500, 4_096


def reddit(number):
    """The first texts, inputs and responses alike."""
    from convsim_mini.data.pairs import default_corpus, parse, read_chunks

    [path] = pair_files() or [default_corpus()]
    pairs = (parse(chunk.kind, record) for chunk in read_chunks(path) for record in chunk.records)
    return list(islice((text for pair in pairs for text in pair[:2]), number))


def ours(lines):
    import numpy as np

    from convsim_mini.config import Config
    from convsim_mini.core.model import Model
    from convsim_mini.core.text import Vocabulary, tokenize
    from convsim_mini.inference.sentence_encoder import SentenceEncoder
    from convsim_mini.training.initial import initial_parameters

    config, rng = Config(), np.random.default_rng(0)
    counts = Counter(token for line in lines for token in tokenize(line))
    vocabulary = Vocabulary.from_counts(counts, config.text.words, config.text.oov_buckets)
    rows = 1 + config.text.words + config.text.oov_buckets + config.text.bigram_buckets
    table = rng.standard_normal((rows, WIDTH), np.float32)
    model = Model(initial_parameters(config.model, table, rng), config.model, vocabulary.size)
    encoder = SentenceEncoder(model, Vocabulary(**vocabulary.to_dict()))
    tokenize.__globals__["_tokens"].clear()                   # what counting has left there
    return encoder.encode


def model2vec(lines):
    import numpy as np
    from model2vec import StaticModel
    from tokenizers import BertWordPieceTokenizer

    tokenizer = BertWordPieceTokenizer()
    tokenizer.train_from_iterator(lines, vocab_size=30_000, show_progress=False)
    vectors = np.random.default_rng(0).standard_normal((tokenizer.get_vocab_size(), WIDTH))
    model = StaticModel(vectors.astype(np.float32), tokenizer._tokenizer)
    return lambda chunk: model.encode(chunk, use_multiprocessing=False)


def fasttext(lines):
    import fasttext
    import numpy as np

    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("".join(f"{line}\n" for line in lines))
        file.flush()
        # words alone: with its character n-grams it takes ten times as long
        model = fasttext.train_unsupervised(file.name, dim=WIDTH, epoch=1, maxn=0, verbose=0)
    return lambda chunk: np.array([model.get_sentence_vector(line) for line in chunk])


def hashing(lines):
    from sklearn.feature_extraction.text import HashingVectorizer

    vectorizer = HashingVectorizer(n_features=WIDTH, dtype="float32")
    return lambda chunk: vectorizer.transform(chunk).toarray()


CONTENDERS = {"convsim_mini": ours, "convsim_mini, numba": ours, "model2vec": model2vec,
              "fastText": fasttext, "scikit-learn's HashingVectorizer": hashing}


def work(contender, number):
    """In a process of its own: print µs a sentence, from a cold start and again, and peak MB."""
    from convsim_mini.fast.threads import claim_process, keep_freed_memory

    if contender == "convsim_mini":
        sys.modules["numba"] = None                           # as if it were not installed
    elif contender == "convsim_mini, numba":
        import numba  # noqa: F401  (else its row would show SciPy's times)
    if contender.startswith("convsim_mini"):
        claim_process()
    else:
        keep_freed_memory()
    lines = reddit(number)
    encode = CONTENDERS[contender](lines[:FITTED])
    seconds = []
    for _ in range(2):
        begin = time.perf_counter()
        for first in range(0, len(lines), CHUNK):
            encode(lines[first:first + CHUNK])
        seconds.append(time.perf_counter() - begin)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps([1e6 * s / len(lines) for s in seconds] + [peak]))


def peers(number, rounds):
    """Name → medians of µs a sentence from a cold start, the same again, peak MB."""
    measured = in_turns(__file__, {name: (name, os.cpu_count()) for name in CONTENDERS},
                        [str(number)], rounds)
    return {name: tuple(map(statistics.median, zip(*runs))) for name, runs in measured.items()}


def preparing():
    """Seconds that preparing the Reddit pairs takes, and how many sentences they are."""
    from convsim_mini.config import TextConfig
    from convsim_mini.data.prepare import load_corpus
    from convsim_mini.data.pairs import default_corpus

    with tempfile.TemporaryDirectory() as cache:
        begin = time.perf_counter()
        paths = pair_files() or [default_corpus()]
        report = load_corpus(paths, TextConfig(), cache).report
        return time.perf_counter() - begin, 2 * report["read"]


def curve(most):
    """Sentences at once → milliseconds, the median of some calls on lines not seen before."""
    encode, lines, found = ours(reddit(FITTED)), reddit(FITTED + most)[FITTED:], {}
    for size in (10**k for k in range(7) if 10**k <= most):
        seconds, place = [], 0
        for _ in range(max(1, min(9, len(lines) // size))):
            begin = time.perf_counter()
            encode(lines[place:place + size])
            seconds.append(time.perf_counter() - begin)
            place += size
        found[size] = 1e3 * statistics.median(seconds)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", nargs=2, metavar=("CONTENDER", "LINES"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        return work(options.work[0], int(options.work[1]))
    seconds, sentences = preparing()
    print(f"preparing {sentences:,} sentences: {seconds:.1f} s")
    for name, (cold, warm, peak) in peers(options.lines, options.rounds).items():
        print(f"  {name:40}{cold:6.1f} µs a sentence, again {warm:6.1f}, {peak:7,.0f} MB peak")
    for size, milliseconds in curve(options.lines).items():
        print(f"  {size:9,} at once: {milliseconds:10.2f} ms, "
              f"{1e3 * milliseconds / size:6.1f} µs each")


if __name__ == "__main__":
    main()
