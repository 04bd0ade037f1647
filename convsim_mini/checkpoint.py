"""A run on disk: config.json, vocabulary.json, weights and resume state as safetensors.

`weights-000500.safetensors` are the parameters after step 500, `resume-000500.safetensors` the
optimiser's state at the same step. Every file is written under a temporary name, synced and
renamed, the weights last: where weights stand, everything of that step does. The two newest
steps are kept.
"""

import json
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from .backend import to_host
from .cli import UserError
from .config import Config, config_from_dict, config_to_dict
from .model import Model, parameter_shapes
from .text import Vocabulary

KEPT = 2


class Run(NamedTuple):
    """A run loaded from its folder; the model's parameters are host arrays."""

    folder: Path
    config: Config
    vocabulary: Vocabulary
    model: Model
    step: int


def write_text(path, text):
    """Write a text file as a whole or not at all."""
    _replace(path, lambda temporary: Path(temporary).write_text(text, encoding="utf-8"))


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
        _replace(Path(folder, f"{kind}-{step:06d}.safetensors"), lambda temporary: save_file(host, temporary))
    for old in _steps(folder)[:-KEPT]:
        Path(folder, f"weights-{old:06d}.safetensors").unlink()
        Path(folder, f"resume-{old:06d}.safetensors").unlink(missing_ok=True)


def load_run(folder):
    """Open a run folder at its newest step. Raises UserError where something is missing or damaged."""
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f"{folder}: no such run folder; train one with: python -m convsim_mini.train")
    config = config_from_dict(_read_json(folder / "config.json"), folder / "config.json")
    try:
        vocabulary = Vocabulary(**_read_json(folder / "vocabulary.json"))
    except TypeError as error:
        raise UserError(f"{folder / 'vocabulary.json'}: is no vocabulary ({error}); train the run again") from None
    steps = _steps(folder)
    if not steps:
        raise UserError(f"{folder}: holds no weights-*.safetensors; the run stopped before its first checkpoint")
    path = folder / f"weights-{steps[-1]:06d}.safetensors"
    params = _load(path)
    expected = parameter_shapes(config.model, vocabulary.size + config.text.bigram_buckets)
    found = {name: p.shape for name, p in params.items()}
    for name in expected.keys() | found.keys():
        if expected.get(name) != found.get(name):
            raise UserError(f"{path}: {name} has shape {found.get(name)}, but {expected.get(name)} follows from "
                            "config.json and vocabulary.json; restore the files of one run")
    return Run(folder, config, vocabulary, Model(params, config.model, vocabulary.size), steps[-1])


def _steps(folder):
    names = (path.stem.removeprefix("weights-") for path in Path(folder).glob("weights-*.safetensors"))
    return sorted(int(name) for name in names if name.isdecimal())


def _load(path):
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise UserError(f"{path}: is damaged or cannot be read ({error}); restore it or train the run again") from None


def _read_json(path):
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: is missing or damaged ({error}); a run folder needs it") from None
    if not isinstance(value, dict):
        raise UserError(f"{path}: holds no JSON object; a run folder needs one")
    return value


def _replace(path, write):
    """Let write(name) fill a temporary file, then sync it and rename it to path."""
    temporary = f"{path}.tmp"
    try:
        write(temporary)
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except (OSError, SafetensorError) as error:
        raise UserError(f"{path}: cannot be written ({error}); make room there or choose another --run folder") from None
    finally:
        Path(temporary).unlink(missing_ok=True)               # there only if something went wrong
