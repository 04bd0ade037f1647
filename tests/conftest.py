"""Shared by test files: real and generated data, a prepared corpus, commands, a small run."""

import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")   # the matrices here are too small for threads
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import hypothesis
import numpy as np
import pytest
from safetensors.numpy import load_file

from convsim_mini.fast.devices import device_module
from convsim_mini.common.cli import UserError
from convsim_mini.config import TextConfig
from convsim_mini.data.prepare import load_corpus
from convsim_mini.core.multitask import LABELS
from convsim_mini import load
from convsim_mini.training.options import config_of, parse

from loopback import Loopback

# A background job ignores Ctrl-C, and nohup ignores a closed terminal. The commands that the
# tests interrupt would inherit this.
signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Derandomised, so that a failure in CI can be repeated; no deadline, because machines differ.
hypothesis.settings.register_profile("repeatable", derandomize=True, max_examples=100,
                                     deadline=None)
hypothesis.settings.load_profile("repeatable")

ROOT = Path(__file__).resolve().parent.parent
# where processes find the package, and gpu/vgpu/ if it is in use
PATH = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))

SMALL = ("--text.pieces 300 --text.bigrams 500 --model.embedding_dim 16 --model.layers 16 "
         "--model.response_hidden 16 --optim.batch_size 64").split()
ASCII = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}    # environment variables


def parse_config(argv):
    """The Config of a training command line."""
    return config_of(parse(argv))


class Finished(NamedTuple):
    """The result of a command."""

    returncode: int
    stdout: str
    stderr: str


def command(module, *arguments, cwd):
    """Run python -m convsim_mini.MODULE in the folder cwd; → Finished."""
    return python("-m", f"convsim_mini.{module}", *arguments, cwd=cwd)


def python(*arguments, cwd=None):
    """Run Python, which can import the package; → Finished."""
    done = subprocess.run([sys.executable, *map(str, arguments)], cwd=cwd, capture_output=True,
                          env={**os.environ, "PYTHONPATH": PATH})
    # Decoded here, because text=True would turn a progress bar's carriage returns into newlines.
    return Finished(done.returncode, done.stdout.decode(), done.stderr.decode())


def wait_for(condition, process, seconds=300):
    """Wait, long enough for a busy machine, until the condition holds; fail if it does not."""
    until = time.monotonic() + seconds
    while not (met := condition()) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.02)
    if not met:
        process.kill()                                        # otherwise it would train forever
    assert met and process.poll() is None


def ended(process, seconds=300):
    """Wait for a process; → its (output, errors). It is killed if it does not end."""
    try:
        return process.communicate(timeout=seconds)
    finally:
        process.kill()


def weights(folder, file="model.safetensors"):
    """Array name → bytes, from a run's file."""
    return {name: array.tobytes() for name, array in load_file(folder / file).items()}


def pytest_configure(config):
    """Make Matplotlib list its fonts once per session: the list at home may be broken."""
    if not hasattr(config, "workerinput"):                    # xdist's workers inherit it
        os.environ["MPLCONFIGDIR"] = folder = tempfile.mkdtemp(prefix="matplotlib-")
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
        importlib.import_module("matplotlib.font_manager")


def pytest_runtest_setup(item):
    if item.get_closest_marker("emulated") and "vgpu" not in sys.modules:
        pytest.skip("needs the emulated GPU: tests/gpu/vgpu/README.md")


@pytest.fixture(scope="session")
def cupy():
    """The module cupy, with float32 products; without a GPU the test is skipped."""
    try:
        return device_module("gpu", "fp32")
    except UserError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def data_folder():
    """The folder of real data sets; tests that need it are skipped if it is not given."""
    if not os.environ.get("CONVSIM_DATA"):
        pytest.skip("CONVSIM_DATA is not set: it names the folder with the real data sets")
    return Path(os.environ["CONVSIM_DATA"])


def generate_pairs(number, seed=7):
    """(input, response) pairs that share a topic's words; some inputs and responses repeat.

    They contain nearly all letters, so that their pieces can spell most English words.
    """
    rng = np.random.default_rng(seed)
    syllables = [first + vowel for first in ["", *"bcdfghjklmnpqrstvwxyz"] for vowel in "aeiou"]
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


def generate_nli(pairs, number, seed=5):
    """A list of (label, premise, hypothesis).

    A hypothesis is the premise without its first word, the same after "not", or another text.
    """
    rng = np.random.default_rng(seed)
    texts, made = [text.rstrip(".").split() for text, _ in pairs], []
    for _ in range(number):
        premise, other = texts[rng.integers(len(texts))], texts[rng.integers(len(texts))]
        label = LABELS[rng.integers(3)]
        hypothesis = {"entailment": premise[1:], "contradiction": ["not", *premise[1:]],
                      "neutral": other}[label]
        made.append((label, " ".join(premise), " ".join(hypothesis)))
    return made


def write_snli(folder, split, rows):
    """Write rows of (label, premise, hypothesis) as an official .jsonl file; → its path."""
    path = folder / f"snli_1.0_{split}.jsonl"
    path.write_text(
        "".join(json.dumps({"gold_label": label, "sentence1": one, "sentence2": two}) + "\n"
                for label, one, two in rows))
    return path


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
def nli_folder(tmp_path_factory, pairs):
    """SNLI files: 600 pairs in train, 200 each in dev and test, and one without a label."""
    folder = tmp_path_factory.mktemp("nli")
    for seed, (split, number) in enumerate({"train": 600, "dev": 200, "test": 200}.items()):
        write_snli(folder, split, [*generate_nli(pairs, number, seed), ("-", "a", "b")])
    return folder


@pytest.fixture(scope="session")
def text_config():
    """Fewer pieces than there are words in the pairs, so that some words are several pieces."""
    return TextConfig(pieces=300, bigrams=500)


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
    """A Loopback, with no waiting between attempts to fetch from it."""
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setattr("data_scripts.archives.WAIT", 0)
    loopback = Loopback()
    yield loopback
    loopback.close()


@pytest.fixture(scope="session")
def encoder(trained):
    """The run's SentenceEncoder. Tests must not change it."""
    return load(trained[0])


@pytest.fixture
def run_copy(trained, tmp_path):
    """A copy of the run that a test may damage."""
    return shutil.copytree(trained[0], tmp_path / "copy")
