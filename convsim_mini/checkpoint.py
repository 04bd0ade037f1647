"""A run on disk: config.json, vocabulary.json, weights and resume state as safetensors.

`weights-000500.safetensors` are the parameters after step 500, `resume-000500.safetensors` the
optimiser's state at the same step. Every file is written under a temporary name, synced and
renamed, the weights last: where weights stand, everything of that step does. The two newest
steps are kept.
"""

import json
import os
import re
import zlib
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save_file

from .backend import to_host
from .cli import UserError
from .config import Config, config_from_dict, config_to_dict
from .model import Model, parameter_shapes
from .text import Vocabulary

KEPT = 2      # checkpoints
FORMAT = 1    # of the files in a run's folder


class Run(NamedTuple):
    """A run loaded from its folder; the model's parameters are host arrays."""

    folder: Path
    config: Config
    vocabulary: Vocabulary
    model: Model
    step: int


def write_text(path, text):
    """Write a text file as a whole or not at all."""
    replace_file(path, lambda temporary: Path(temporary).write_text(text, encoding="utf-8"))


def save_config(folder, config):
    """Write config.json: the whole configuration, with which `--config` replays the run."""
    write_text(Path(folder, "config.json"), json.dumps(config_to_dict(config), indent=2) + "\n")


def save_vocabulary(folder, vocabulary):
    """Write vocabulary.json."""
    write_text(Path(folder, "vocabulary.json"), json.dumps(vocabulary.to_dict()))


def save_checkpoint(folder, step, params, state):
    """Write parameters and optimiser state after `step`; delete all but the two newest."""
    for kind, arrays in (("resume", state), ("weights", params)):
        # safetensors writes the buffer of a strided array as it lies, so it must be contiguous
        host = {name: np.ascontiguousarray(array) for name, array in to_host(arrays).items()}
        # one entry, for safetensors writes several in any order and equal runs would differ
        metadata = {"convsim_mini": json.dumps({"format": FORMAT, "crc32": _checksum(host)})}
        replace_file(_path(folder, kind, step), lambda temporary: save_file(host, temporary, metadata))
    kept = {f"{kind}-{step:06d}.safetensors" for kind in ("resume", "weights") for step in _steps(folder)[-KEPT:]}
    for path in Path(folder).iterdir():                       # a killed run leaves halves and temporary files
        if re.fullmatch(r"(resume|weights)-\d+\.safetensors(\.tmp)?", path.name) and path.name not in kept:
            path.unlink()


def load_run(folder):
    """Open a run folder at its newest step. Raises UserError where something is missing or damaged."""
    folder = Path(folder)
    config = load_config(folder)
    if not has_checkpoint(folder):
        raise UserError(f"{folder}: holds no weights-*.safetensors, for the run stopped before its first checkpoint; "
                        f"go on with: python -m convsim_mini.train --resume {folder}")
    step = _steps(folder)[-1]
    params = _load(folder, "weights", step)
    try:
        vocabulary = Vocabulary(**_read_json(folder / "vocabulary.json"))
    except TypeError as error:
        raise UserError(f"{folder / 'vocabulary.json'}: is no vocabulary ({error}); train the run again") from None
    expected = parameter_shapes(config.model, vocabulary.size + config.bigram_rows)
    found = {name: p.shape for name, p in params.items()}
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            raise UserError(f"{_path(folder, 'weights', step)}: {name} has shape {found.get(name)}, but {expected.get(name)} "
                            "follows from config.json and vocabulary.json; restore the files of one run")
    return Run(folder, config, vocabulary, Model(params, config.model, vocabulary.size), step)


def load_config(folder):
    """The Config of a run folder. Raises UserError where it is missing or damaged."""
    if not Path(folder).is_dir():
        raise UserError(f"{folder}: no such run folder; train one with: python -m convsim_mini.train")
    path = Path(folder, "config.json")
    return config_from_dict(_read_json(path), path)


def load_state(run):
    """The optimiser's state at a Run's step. Raises UserError where it is missing or damaged."""
    return _load(run.folder, "resume", run.step)


def has_checkpoint(folder):
    """Whether a run folder holds any weights."""
    return bool(_steps(folder))


def check_vocabulary(run, corpus):
    """Raise a UserError unless the Corpus is the one that a Run was trained on."""
    if corpus.vocabulary != run.vocabulary:
        raise UserError(f"{run.folder}: the pair files have changed since this run was trained, and with them the "
                        "vocabulary and the split; put the old ones back or train again")


def _path(folder, kind, step):
    return Path(folder, f"{kind}-{step:06d}.safetensors")


def _steps(folder):
    names = (path.stem.removeprefix("weights-") for path in Path(folder).glob("weights-*.safetensors"))
    return sorted(int(name) for name in names if name.isdecimal())


def _load(folder, kind, step):
    path = _path(folder, kind, step)
    try:
        with safe_open(path, "numpy") as file:
            about = json.loads(file.metadata()["convsim_mini"])
        if about["format"] > FORMAT:
            raise UserError(f"{path}: was written by a newer version of convsim_mini (format {about['format']}, this one "
                            f"reads up to {FORMAT}); update convsim_mini")
        arrays = load_file(path)
        if about["crc32"] != _checksum(arrays):
            raise ValueError("its checksum is wrong")
        return arrays
    except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: is missing, damaged or cannot be read ({error}); restore it, or delete the newest step's "
                        "weights and resume files to use the one before") from None


def _checksum(arrays):
    crc = 0
    for name in sorted(arrays):
        crc = zlib.crc32(arrays[name].reshape(-1).view(np.uint8), zlib.crc32(name.encode(), crc))
    return crc


def _read_json(path):
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: is missing or damaged ({error}); a run folder needs it") from None
    if not isinstance(value, dict):
        raise UserError(f"{path}: holds no JSON object; a run folder needs one")
    return value


def replace_file(path, write):
    """Let write(name) fill a temporary file, then sync it and rename it to path."""
    temporary = f"{path}.tmp"
    try:
        write(temporary)
        _sync(temporary)
        os.replace(temporary, path)
        _sync(Path(path).parent)                              # or a power cut could undo the renaming
    except (OSError, SafetensorError) as error:
        raise UserError(f"{path}: cannot be written ({error}); make room there or choose another folder") from None
    finally:
        with suppress(OSError):                               # there only if something went wrong
            os.unlink(temporary)


def _sync(path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
