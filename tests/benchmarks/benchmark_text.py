"""How fast is text?  CONVSIM_DATA=DIR python tests/benchmarks/benchmarks.py --only text

Preparing the Reddit pairs from scratch (read, filter, tokenise, count, encode); without
CONVSIM_DATA those of the default corpus. Text in, vectors out: ours beside model2vec, fastText and
scikit-learn's hashing, each with vectors of 500 numbers. Each makes its model from the first 50,000
lines before the clock starts, and has encoded no line by then. Weights are random where a contender
allows it: they do not change the speed. Needs: pip install model2vec fasttext-wheel scikit-learn
"""

import json
import os
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict
from itertools import islice

from contenders import in_turns, pair_files, peak, settle    # and the repository's path

FITTED, WIDTH, CHUNK = 50_000, 500, 4_096


def reddit(number):
    """The first texts, inputs and responses alike."""
    from convsim_mini.data.pairs import read_rows
    from convsim_mini.data.formats import default_corpus

    [path] = pair_files() or [default_corpus()]
    pairs = (pair for part in read_rows(path) for pair in part.pairs)
    return list(islice((text for pair in pairs for text in pair[:2]), number))


def ours(lines):
    import numpy as np

    from convsim_mini.config import Config
    from convsim_mini.core.model import Model
    from convsim_mini.core.packed import frequent_bigrams
    from convsim_mini.core.text import Vocabulary, tokenize
    from convsim_mini.inference.sentence_encoder import SentenceEncoder
    from convsim_mini.core.initial import initial_parameters

    config, rng = Config(), np.random.default_rng(0)
    counts = Counter(token for line in lines for token in tokenize(line))
    vocabulary = Vocabulary.of_pieces(counts, config.text.pieces)
    bigrams = frequent_bigrams(vocabulary.encode(lines), vocabulary.size, config.text.bigrams)
    table = rng.standard_normal((vocabulary.size + len(bigrams), WIDTH), np.float32)
    model = Model(initial_parameters(config.model, table, rng), config.model, vocabulary.size,
                  bigrams)
    encoder = SentenceEncoder(model, Vocabulary(**asdict(vocabulary)))
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
    return lambda chunk: HashingVectorizer(n_features=WIDTH, dtype="float32").transform(
        chunk).toarray()


CONTENDERS = {"convsim_mini": ("ours", ours), "model2vec": ("", model2vec),
              "fastText": ("", fasttext),
              "scikit-learn's HashingVectorizer": ("", hashing)}


def work(contender, number):
    """In a process of its own: print µs a sentence from a cold start, peak MB."""
    kind, make = CONTENDERS[contender]
    settle(kind)
    lines = reddit(number)
    encode = make(lines[:FITTED])
    begin = time.perf_counter()
    for first in range(0, len(lines), CHUNK):
        encode(lines[first:first + CHUNK])
    print(json.dumps([1e6 * (time.perf_counter() - begin) / len(lines), peak()]))


def peers(number, rounds):
    """Name → medians of µs a sentence, peak MB."""
    return in_turns(__file__, {name: (name, os.cpu_count()) for name in CONTENDERS},
                    [str(number)], rounds)


def preparing():
    """Seconds that preparing the Reddit pairs takes, and how many sentences they are."""
    from convsim_mini.config import TextConfig
    from convsim_mini.data.prepare import load_corpus
    from convsim_mini.data.formats import default_corpus

    with tempfile.TemporaryDirectory() as cache:
        begin = time.perf_counter()
        paths = pair_files() or [default_corpus()]
        report = load_corpus(paths, TextConfig(), cache).report
        return time.perf_counter() - begin, 2 * report["read"]


if __name__ == "__main__":
    work(sys.argv[2], int(sys.argv[3]))    # after --work
