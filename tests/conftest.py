"""Fixtures that several test files share: real data, a synthetic pair file, a prepared corpus."""

import os
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")                 # the matrices here are too small for threads
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import hypothesis
import numpy as np
import pytest

from convsim_mini.config import TextConfig
from convsim_mini.corpus import load_corpus

# Derandomised, or a failure in CI could not be repeated; no deadline, because machines differ.
hypothesis.settings.register_profile("repeatable", derandomize=True, max_examples=100, deadline=None)
hypothesis.settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def data_folder():
    """Folder of the real data sets; tests that want it are skipped where it is not named."""
    if not os.environ.get("CONVSIM_DATA"):
        pytest.skip("CONVSIM_DATA is not set: it names the folder with the real data sets")
    return Path(os.environ["CONVSIM_DATA"])


def generate_pairs(number, seed=7):
    """Pairs that share a topic's words, as (input, response); some inputs and responses repeat."""
    rng = np.random.default_rng(seed)
    syllables = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
    words = sorted({"".join(rng.choice(syllables, 3)) for _ in range(400)})
    topics = [rng.choice(words, 12, replace=False) for _ in range(60)]
    pairs = []
    for _ in range(number):
        topic = topics[rng.integers(len(topics))]
        text, response = (" ".join(rng.choice(topic, rng.integers(4, 10))) + "." for _ in range(2))
        repeat, other = rng.random(), pairs[rng.integers(len(pairs))] if pairs else (text, response)
        if repeat < 0.1:
            text = other[0]
        elif repeat < 0.2:
            response = other[1]
        pairs.append((text, response))
    return pairs


@pytest.fixture(scope="session")
def pairs():
    """4,000 generated (input, response) pairs."""
    return generate_pairs(4_000)


@pytest.fixture(scope="session")
def write_tsv():
    """A function that writes (input, response) pairs as a TSV file and returns its path."""
    def write(path, some):
        path.write_text("".join(f"{text}\t{response}\n" for text, response in some), encoding="utf-8")
        return path
    return write


@pytest.fixture(scope="session")
def pair_file(tmp_path_factory, pairs, write_tsv):
    """The generated pairs as a file."""
    return write_tsv(tmp_path_factory.mktemp("pairs") / "pairs.tsv", pairs)


@pytest.fixture(scope="session")
def text_config():
    """Fewer words than the pairs have, so that some fall into the buckets."""
    return TextConfig(words=300, oov_buckets=20, bigram_buckets=500)


@pytest.fixture(scope="session")
def cache_folder(tmp_path_factory):
    """The cache that `corpus` was prepared in; tests must not damage it."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def corpus(pair_file, text_config, cache_folder):
    """The generated pairs, prepared."""
    return load_corpus([pair_file], text_config, cache_folder)
