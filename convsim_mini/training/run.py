"""A run on disk: one file, model.safetensors, which can be copied and shared.

It holds the weights of the step that is best on dev, and the matrix that `tune` learned. Its
metadata hold the settings, the vocabulary, the step, what was measured on dev, and one checksum.
During training, training.safetensors next to it holds the newest weights and the optimiser's
state; a finished run has none. config.json is for people and for `--config`, log.jsonl for figures.
"""

import dataclasses
import itertools
import json
import shutil
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from ..core.arrays import to_device, to_host
from ..fast.devices import device_module
from ..common.files import OURS, locked, replace_file
from ..common.arrays_file import RESTORE, UNREADABLE, checksum_of_arrays, load_arrays, save_arrays
from ..common.cli import UserError, harmless, path_of, python_m, user_errors
from ..config import Config, config_from_dict
from ..core.text import Vocabulary
from ..core.model import NO_BIGRAMS, TABLE, Model
from ..core.initial import parameter_shapes

MODEL, TRAINING, LOG = "model.safetensors", "training.safetensors", "log.jsonl"
PAIRS = f"{OURS}.pairs.jsonl"    # what `fit` was given
BIGRAMS = "bigrams"     # the keys of those with a row, an array that is not trained
TUNED, STATE = "tuned", "state."    # arrays that are not weights; the second is a prefix
# Settings that do not distinguish runs: where files are (pairs and NLI data have checksums), and
# how to compute.
NOT_COMPARED = {"run", "init", "pairs", "columns", "encoding", "nli", "data", "cache", "device"}


class Run(NamedTuple):
    """A run as stored in its file."""

    path: Path
    config: Config
    vocabulary: Vocabulary
    model: Model | None    # None: not read, or not yet trained
    step: int = 0
    measured: list[dict] = []    # records of what was measured on dev: up to the step; or all, if
    #                              the run is finished
    corpus_checksum: int = 0    # of the Corpus that it was trained on; 0: not begun
    nli_checksum: int | None = None    # of the NLI data that it was trained on
    weights_checksum: int = 0    # of the weights and the vocabulary
    tuned: np.ndarray | None = None    # the matrix (e, e) for its vectors that `tune` learned
    state: dict = {}       # the optimiser's, in training.safetensors
    initial: Model | None = None    # of a run that was just trained: the model before; not stored

    @property
    def folder(self):
        """The folder that holds the run's file."""
        return self.path.parent

    @property
    def name(self):
        """The run's name: that of its folder, or of its file if somebody has renamed the file."""
        return harmless(
            self.folder.resolve().name if self.path.name == MODEL else self.path.stem)


def save_run(run):
    """Write a Run to the file at its path, atomically."""
    params = to_host(run.model.params) | {BIGRAMS: run.model.bigrams} if run.model else {}
    words = dataclasses.asdict(run.vocabulary)
    arrays = {**params,
              **({} if run.tuned is None else {TUNED: run.tuned}),
              **{STATE + name: array for name, array in to_host(run.state).items()}}
    save_arrays(run.path, arrays, {
        "settings": dataclasses.asdict(run.config), "vocabulary": words, "step": run.step,
        "measured": run.measured, "corpus": run.corpus_checksum, "nli": run.nli_checksum,
        "weights": checksum_of_arrays(params, json.dumps(words))})


def keep_as_best(folder):
    """Put the newest weights, those of training.safetensors, into model.safetensors."""
    last = Path(folder, TRAINING)
    replace_file(Path(folder, MODEL), lambda temporary: shutil.copyfile(last, temporary))


def save_tuned(run, matrix):
    """Add the matrix (e, e) that `tune` learned to a Run's file; → the Run with the matrix."""
    arrays, about = load_arrays(run.path)
    matrix = matrix.astype(np.float32)
    del about["checksum"]                                     # that of the old file
    save_arrays(run.path, arrays | {TUNED: matrix}, about)
    return run._replace(tuned=matrix)


def load_run(run, device="cpu"):
    """Load a run, given its folder or its file, to "cpu" or "gpu". Raises UserError."""
    path = file_of(run)
    arrays, about = load_arrays(path)
    run = _run_of(path, about)
    tuned = arrays.pop(TUNED, None)
    state = {name.removeprefix(STATE): arrays.pop(name) for name in [*arrays]
             if name.startswith(STATE)}
    bigrams = arrays.pop(BIGRAMS, NO_BIGRAMS)
    params = {name: p if name == TABLE and device == "cpu" else np.asarray(p, np.float32)
              for name, p in arrays.items()}                  # with `half`, p is float16
    rows = run.vocabulary.size + len(bigrams)
    shapes = parameter_shapes(run.config.model, rows, run.config.classifies)
    if shapes != {name: p.shape for name, p in params.items()}:
        raise UserError(f"{path}: is damaged or incomplete (the shapes of its weights do not "
                        f"match its settings); {RESTORE}")
    params = to_device(params, device_module(device, run.config.precision))
    model = Model(params, run.config.model, run.vocabulary.size, bigrams)
    return run._replace(model=model, tuned=tuned, state=state)


def describe(run):
    """A Run without its arrays, given its folder or its file. Raises UserError."""
    path = file_of(run)
    return _run_of(path, load_arrays(path, only_about=True)[1])


def _run_of(path, about):
    with user_errors(f"{path}: is damaged or incomplete", RESTORE, UNREADABLE):
        config, own = config_from_dict(about["settings"], path), path.absolute().with_name(PAIRS)
        if own.exists():                                      # wherever the folder was moved
            config = dataclasses.replace(config, pairs=[str(own)])
        return Run(path, config, msgspec.convert(about["vocabulary"], Vocabulary), None,
                   *(msgspec.convert(about[name.removesuffix("_checksum")],
                                     Run.__annotations__[name])
                     for name in ("step", "measured", "corpus_checksum", "nli_checksum",
                                  "weights_checksum")))


def file_of(run):
    """A run's file, given that file or its folder. Raises UserError."""
    path = path_of(run)
    if path.is_file():
        return path
    if Path(path, MODEL).is_file():
        return path / MODEL
    if Path(path, TRAINING).is_file():
        raise UserError(f"{path}: has no {MODEL}, because the run stopped before its first "
                        f"checkpoint; resume it: {python_m('convsim_mini.train --resume', path)}")
    raise UserError(f"{path}: is not a run: it has no {MODEL}; train one: "
                    f"{python_m('convsim_mini.train')}")


def newest(folder):
    """The file to resume from: training.safetensors, or the model of a finished run.

    Raises UserError if the run is not finished and has no training.safetensors.
    """
    if not finished(folder):
        return Path(folder, TRAINING)
    run = describe(folder)
    if run.measured[-1]["step"] < run.config.steps:
        raise UserError(f"{run.folder}: its training is not finished, but {TRAINING} is missing; "
                        "restore it, or train on from the model: --init")
    return run.path


def finished(folder):
    """Whether the run in a folder is finished."""
    return not Path(folder, TRAINING).exists()


def in_16_bits(array):
    """An array as float16. Raises UserError if its values are too large for that."""
    if (largest := np.abs(array).max(initial=0)) > (most := np.finfo(np.float16).max):
        raise UserError(f"a weight is {largest:.4g}, expected at most {most:,.0f} in 16 "
                        "bits; train with a lower --optim.learning_rate and "
                        "--optim.table_learning_rate")
    return array.astype(np.float16)


@contextmanager
def new_run_folder(config):
    """Make a run's folder and hold its lock. If the run then does not begin, it is removed again.

    Raises UserError, before any work is done, if it cannot be made or holds anything.
    """
    names = (f"runs/{config.preset}-{k}".removesuffix("-1") for k in itertools.count(1))
    folder = path_of(next(name for name in names if not Path(name).exists())
                     if config.run is None else config.run)
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    with user_errors(f"{folder}: cannot be made", "choose another folder with --run"):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        with training_in(folder):
            if not _unused(folder):
                raise UserError(f"{folder}: already exists and was not changed; choose another "
                                "folder with --run")
            yield folder
    except BaseException:
        if new and _unused(folder):
            shutil.rmtree(folder)
            for parent in new[1:]:
                with suppress(OSError):                       # something else is in it by now
                    parent.rmdir()
        raise


def _unused(folder):
    return folder.is_dir() and all(path.name.startswith(OURS) for path in folder.iterdir())


@contextmanager
def training_in(folder):
    """Hold the lock of a run's folder; if a signal stops its training, say how to resume it."""
    with locked(folder, f"{folder}: another process is training in it; wait for it or stop it"):
        try:
            yield
        except (KeyboardInterrupt, SystemExit):
            if not finished(folder):
                resume = python_m("convsim_mini.train --resume", folder)
                print(f"stopped; resume with:  {resume}", file=sys.stderr)
            raise


def read_log(path):
    """The records of a log.jsonl; if its last line is only half written, that is left out.

    Raises UserError for other damage.
    """
    with user_errors(f"{path}: is damaged", "move the file away", UNREADABLE):
        whole, _, _ = path.read_bytes().rpartition(b"\n") if path.exists() else (b"", b"", b"")
        records = msgspec.json.Decoder(dict[str, int | float | str]).decode_lines(whole)
        return [record for record in records if record["step"] >= 0]


def check_corpus(run, corpus):
    """Raise a UserError unless the Corpus is the one that a Run was trained on."""
    if corpus.checksum != run.corpus_checksum:
        raise UserError(f"{run.folder}: the pair files are not those that this run was trained on, "
                        "or another version prepared them; restore the old files, or train again")
