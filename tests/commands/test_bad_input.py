"""Mistakes: each command line, and the words that its error message must contain.

Each gives one line on standard error and exit code 2, and leaves every file as it was. The messages
of the readers of single file formats are tested in those readers' own folders.
"""

import runpy
import shutil
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from convsim_mini.common.arrays_file import load_arrays, save_arrays
from convsim_mini.common.cli import UserError, python_m
from convsim_mini.fast.devices import device_module
from convsim_mini.inference.rows import rows_of_texts
from convsim_mini.inference.stored import build_index
from convsim_mini import load

from conftest import SMALL, Finished

NEW = "--cache cache --run new --steps 4 --evaluations 1"    # with SMALL after every "train" below
CASES = """
train --stepz 3                             | --stepz 3 --steps
train --learning-rate 0.01                  | --learning-rate --optim.learning_rate
train --preset chatt                        | chatt chat, similarity transformer-small
train --optim.learning_rate nan             | --optim.learning_rate nan > 0
train --steps NINES                         | --steps 99999 out of range
train --model.layers 8 0                    | --model.layers 0 >= 1
train --resume run --steps 9                | --resume folder no other option except --device
train --resume run-lost                     | run-lost not finished training.safetensors is missing
train --pairs                               | --pairs: expected one or more files
train --encoder transformer --model.embedding_dim 18 --model.heads 4 | --model.embedding_dim 18 even
train --config cut.json                     | cut.json JSON
train --config unknown.json                 | unknown.json stepz steps?
train --pairs here.csv                      | here.csv row
train --pairs good.tsv --encoding utf-16    | --encoding utf-16 ASCII cp1252
train --pairs good.tsv --run /proc/run      | /proc/run
train --pairs good.tsv --run run            | run already exists
train --init run --text.pieces 17           | --init weights text
train --init run --model.layers 17          | --init weights model
train --task multitask                      | --task multitask --nli
train --pairs good.tsv --nli nli            | --task --nli
train --task multitask --nli nowhere --pairs good.tsv  | nowhere snli_1.0_train
train --task multitask --nli nli-dev --pairs good.tsv   | nli-dev lacks snli_1.0_train snli_1.0_dev
train --task multitask --nli nli-label --pairs good.tsv | nli-label line 2 maybe
evaluation run --on stz                     | --on stz
evaluation                                  | run
evaluation . --bogus 3                      | --bogus
evaluation exported                         | exported model.safetensors
evaluation run-weights                      | run-weights damaged
evaluation run-none                         | run-none
tune run                                    | --data STS
tune run-stopped                            | run-stopped: its training is not finished
evaluation run-log --on sts --out new       | run-log log.jsonl damaged
evaluation run --on sts --out here.csv/out  | here.csv/out cannot be written
chat run --replies index                    | index: holds messages, not replies
encode run-nan hello                        | not finite damaged
encode run --file good.tsv                  | 30 sentences
encode run hello --out /dev/null            | /dev/null replaced
encode run hello --file good.tsv            | arguments --file
encode run --file good.tsv --index index    | index already exists
encode run hello --index index --column other | index: holds the column line, not other
encode run --file good.tsv --index good.tsv --add | good.tsv: is not an index
encode run hello --index nli                | nli/index.safetensors: is missing make another
encode run hello you --words -1             | words -1
encode run hello you --json                 | --json: --search --index
""".strip().splitlines()
CASES = [[part.strip() for part in case.split("|", 1)] for case in CASES]
SHORT = {"NINES": "9" * 5_000}    # for the lines above


def change(path, how):
    path.write_bytes(how(path.read_bytes()))


def not_finite(run):
    arrays, about = load_arrays(run / WEIGHTS)
    arrays["encoder.embedding.weight"][:] = np.nan
    save_arrays(run / WEIGHTS, arrays, about)


def lost(run):
    arrays, about = load_arrays(run / WEIGHTS)
    about["settings"]["steps"] += 1                           # as if it had been stopped before
    save_arrays(run / WEIGHTS, arrays, about)


WEIGHTS = "model.safetensors"
DAMAGED = {    # folder → damage to a copy of the run
    "run": lambda run: None, "run-none": lambda run: (run / WEIGHTS).unlink(),
    "run-weights": lambda run: change(run / WEIGHTS, lambda data: data[:-1] + b"x"),
    "run-nan": not_finite, "run-log": lambda run: (run / "log.jsonl").write_bytes(b"x\n"),
    "run-lost": lost,
    "run-stopped": lambda run: shutil.copy(run / WEIGHTS, run / "training.safetensors")}
NLI_PAIR = b'{"gold_label": "neutral", "sentence1": "a", "sentence2": "b"}\n'


def files(text):
    """Name → bytes of each file. text: the content of good.tsv."""
    return {
        "good.tsv": text, "here.csv": b"a,b\n", "unknown.json": b'{"stepz": 4}',
        "exported/modules.json": b"[]", "exported/README.md": b"",
        "cut.json": b'{"steps": ',
        **{f"nli{name}/snli_1.0_dev.jsonl": NLI_PAIR for name in ("", "-dev", "-label")},
        "nli/snli_1.0_train.jsonl": NLI_PAIR * 3,
        "nli-label/snli_1.0_train.jsonl": NLI_PAIR + NLI_PAIR.replace(b"neutral", b"maybe")}


@pytest.fixture(scope="module")
def workshop(tmp_path_factory, pair_file, trained):
    """A folder with everything that the cases mention; its files must not change."""
    folder = tmp_path_factory.mktemp("workshop")
    for name, data in files(pair_file.read_bytes()).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    build_index(load(trained[0]), rows_of_texts(["one", "two"]), folder / "index")
    for name, damage in DAMAGED.items():
        shutil.copytree(trained[0], folder / name)
        damage(folder / name)
    before = {path: path.read_bytes() for path in snapshot(folder)}
    yield folder
    assert {path: path.read_bytes() for path in snapshot(folder)} == before


def snapshot(folder):
    """Size and modification time of every file under a folder, except prepared corpora."""
    return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob("*")
            if path.is_file() and "cache" not in path.parts}


def in_process(line, folder, monkeypatch, capsys):
    """Run a command line like `command`, but without a new process; → Finished."""
    module, *arguments = [SHORT.get(word, word) for word in line.split()]
    if module == "train" and "--resume" not in arguments:
        arguments = [*SMALL, *NEW.split(), *arguments]
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", [module, *arguments])
    monkeypatch.setitem(sys.modules, f"convsim_mini.{module}", None)
    del sys.modules[f"convsim_mini.{module}"]
    capsys.readouterr()
    with pytest.raises(SystemExit) as exit:
        runpy.run_module(f"convsim_mini.{module}", run_name="__main__")
    return Finished(exit.value.code, *capsys.readouterr())


def assert_one_line(done, words):
    """Exit code 2, and one line that begins with "error:" and contains all words, in order."""
    # a carriage return overwrites a progress bar
    lines = [line.rsplit("\r", 1)[-1] for line in done.stderr.rstrip("\n").split("\n")]
    line, = [line for line in lines if ": left out: " not in line]
    assert done.returncode == 2 and line.startswith("error: ")
    place = 0
    for word in words.split():
        place = line.find(word, place)
        assert place >= 0, f"{word!r} is missing: {line}"


@pytest.mark.filterwarnings("ignore:.*found in sys.modules")      # by runpy
@pytest.mark.parametrize("line, words", CASES, ids=[line for line, _ in CASES])
def test_a_mistake_is_one_line_and_leaves_every_file_as_it_was(
        workshop, monkeypatch, capsys, line, words):
    before = snapshot(workshop)
    done = in_process(line, workshop, monkeypatch, capsys)
    assert snapshot(workshop) == before
    assert_one_line(done, words)


def test_a_gpu_that_is_not_there_is_one_line(workshop, monkeypatch, capsys):
    try:
        device_module("gpu")
    except UserError:
        done = in_process("train --pairs good.tsv --device gpu", workshop, monkeypatch, capsys)
        assert_one_line(done, f"--device gpu: CuPy {python_m('pip install ')}")


def test_an_unfit_cupy_is_told_by_its_cause(monkeypatch):
    reason = "libcudart.so.12 is missing"

    def fail():
        raise ImportError("=====\nFailed to import CuPy") from ImportError(reason)

    cupy = SimpleNamespace(cuda=SimpleNamespace(runtime=SimpleNamespace(getDeviceCount=fail)))
    cupy._core = cupy._routines_linalg = cupy
    for name in ("cupy", "cupy._core", "cupy._core._routines_linalg"):
        monkeypatch.setitem(sys.modules, name, cupy)
    with pytest.raises(UserError, match=rf"cannot compute \({reason}\); .*\[ctk\]>=14,<15"):
        device_module("gpu")
