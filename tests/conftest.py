"""What test files share: real data, generated pairs, a prepared corpus, commands, a small run."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")   # the matrices here are too small for threads
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import hypothesis
import numpy as np
import pytest
from safetensors.numpy import load_file

from convsim_mini.backend import device_module
from convsim_mini.cli import UserError
from convsim_mini.config import TextConfig
from convsim_mini.data.prepare import load_corpus

from loopback import Loopback

# A job in the background ignores Ctrl-C, and so would the commands that the tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Derandomised, or a failure in CI could not be repeated; no deadline, because machines differ.
hypothesis.settings.register_profile("repeatable", derandomize=True, max_examples=100,
                                     deadline=None)
hypothesis.settings.load_profile("repeatable")

ROOT = Path(__file__).resolve().parent.parent

SMALL = ("--text.words 300 --text.oov_buckets 20 --text.bigram_buckets 500 "
         "--model.embedding_dim 16 --model.layers 16 --model.svd_share 0 "
         "--model.response_hidden 16 --optim.batch_size 64 --optim.warmup 5").split()


class Finished(NamedTuple):
    """What a command left."""

    returncode: int
    stdout: str
    stderr: str


def command(module, *arguments, cwd):
    """Run python -m convsim_mini.MODULE in the folder cwd; → Finished."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    done = subprocess.run([sys.executable, "-m", f"convsim_mini.{module}", *map(str, arguments)],
                          cwd=cwd, capture_output=True, env={**os.environ, "PYTHONPATH": path})
    # Decoded here, because text=True would turn a progress bar's carriage returns into line ends.
    return Finished(done.returncode, done.stdout.decode(), done.stderr.decode())


def weights(folder, step):
    """Parameter name → bytes, after a step of a run."""
    return {name: array.tobytes()
            for name, array in load_file(folder / f"weights-{step:06d}.safetensors").items()}


def pytest_configure(config):
    config.addinivalue_line("markers",
                            "gpu: needs CuPy and an NVIDIA GPU; skipped, saying so, elsewhere")


@pytest.fixture(scope="session")
def cupy():
    """The module cupy where there is a GPU, with products in float32; elsewhere tests skip."""
    try:
        return device_module("gpu", "fp32")
    except UserError as error:
        pytest.skip(str(error))


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
        path.write_text("".join(f"{text}\t{response}\n" for text, response in some),
                        encoding="utf-8")
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


@pytest.fixture(scope="session")
def arguments(corpus, pair_file, cache_folder):
    """Options of a small model on the generated pairs, whose prepared corpus is in the cache."""
    return ["--pairs", pair_file, "--cache", cache_folder, *SMALL]


@pytest.fixture(scope="session")
def trained(tmp_path_factory, arguments):
    """A run of 30 steps: folder, Finished. Tests must not change the folder."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    done = command("train", *arguments, "--steps", 30, "--evaluations", 1, "--run", folder,
                   cwd=folder.parent)
    assert done.returncode == 0, done.stderr
    return folder, done


@pytest.fixture
def server(monkeypatch):
    """A Loopback; those who fetch from it do not wait between tries."""
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setattr("data_scripts.fetch.wait", lambda seconds: None)
    loopback = Loopback()
    yield loopback
    loopback.close()


@pytest.fixture
def run_copy(trained, tmp_path):
    """A copy of the run, which a test may damage."""
    return shutil.copytree(trained[0], tmp_path / "copy")
