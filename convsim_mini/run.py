"""A run on disk: config.json, vocabulary.json, log.jsonl, weights and resume state as safetensors.

`weights-000500.safetensors` are the parameters after step 500, `resume-000500.safetensors` the
optimiser's state at the same step. Every file is written under a temporary name, synced and
renamed, the weights last: where weights stand, everything of that step does. While a run trains
its two newest checkpoints are kept, and the one that is best on dev; at the end only that one. The
newest weights name the best step.
"""

import dataclasses
import json
import re
import zlib
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save_file

from .backend import device_module, to_device, to_host
from .cli import UserError
from .config import Config, config_from_dict
from .data.text import Vocabulary
from .files import replace_file, write_text
from .model.initial import parameter_shapes
from .model.input_response import Model

KEPT = 2      # newest checkpoints, while a run trains
FORMAT = 1    # of the files in a run's folder


class Run(NamedTuple):
    """A run loaded from its folder."""

    folder: Path
    config: Config
    vocabulary: Vocabulary
    model: Model
    step: int
    corpus: int    # checksum of the Corpus that it was trained on


def save_config(folder, config):
    """Write config.json: the whole configuration, with which `--config` replays the run."""
    write_text(Path(folder, "config.json"), json.dumps(dataclasses.asdict(config), indent=2) + "\n")


def save_vocabulary(folder, corpus):
    """Write vocabulary.json: the vocabulary of a Corpus, and the checksum of all of it."""
    values = {"corpus": corpus.checksum, **corpus.vocabulary.to_dict()}
    write_text(_vocabulary(folder), json.dumps(values))


def save_checkpoint(folder, step, params, state, best=None):
    """Write parameters and optimiser state after `step`; delete what is no longer needed.

    best: the step so far that is best on dev, if any is known.
    """
    for kind, arrays in (("resume", state), ("weights", params)):
        # safetensors writes the buffer of a strided array as it lies, so it must be contiguous
        host = {name: np.ascontiguousarray(array) for name, array in to_host(arrays).items()}
        # one entry, for safetensors writes several in any order and equal runs would differ
        metadata = {"convsim_mini": json.dumps({
            "format": FORMAT, "crc32": _checksum(host), "vocabulary": _crc(_vocabulary(folder)),
            "best": best or step})}
        replace_file(_path(folder, kind, step),
                     lambda temporary: save_file(host, temporary, metadata))
    _keep(folder, [*_steps(folder)[-KEPT:], best or step])


def keep_best(folder):
    """Delete every checkpoint but the one that is best on dev: training has come to its end."""
    newest = _steps(folder)[-1]
    _keep(folder, [_metadata(_path(folder, "weights", newest)).get("best", newest)])


def _keep(folder, steps):
    kept = {_path(folder, kind, step).name for kind in ("resume", "weights") for step in steps}
    # weights first, for they stand for the whole; a killed run also leaves temporary files
    for path in sorted(Path(folder).iterdir(), reverse=True):
        checkpoint = re.fullmatch(r"(resume|weights)-\d+\.safetensors(\.tmp)?", path.name)
        if checkpoint and path.name not in kept:
            path.unlink()


def finished(folder):
    """Whether the run in a folder has come to its end."""
    return any("best" in record for record in read_log(Path(folder, "log.jsonl")))


def load_run(folder, device="cpu", newest=False):
    """Open a run folder at its best step, its parameters on the host or on the "gpu".

    newest: at the newest step instead, as a run that goes on needs it. Raises UserError where
    something is missing or damaged, or where the device cannot be used.
    """
    folder, xp = _existing(folder), device_module(device)
    if not has_checkpoint(folder):
        raise UserError(f"{folder}: holds no weights-*.safetensors, for the run stopped before its "
                        "first checkpoint; go on with: python -m convsim_mini.train --resume "
                        f"{folder}")
    step = _steps(folder)[-1]
    if not newest:
        step = _metadata(_path(folder, "weights", step)).get("best", step)
    path = _path(folder, "weights", step)
    params, about = _load(path)                               # first: it tells the format of all
    config = load_config(folder)
    values = _read_json(_vocabulary(folder))
    if _crc(_vocabulary(folder)) != about.get("vocabulary"):
        raise UserError(f"{_vocabulary(folder)}: is not the one that {path.name} was trained with; "
                        "restore the files of one run")
    corpus = values.pop("corpus")
    vocabulary = Vocabulary(**values)
    expected = parameter_shapes(config.model, vocabulary.size + config.bigram_rows,
                                config.classifies)
    stored = {name: p.shape for name, p in params.items()}
    for name in sorted(expected.keys() | stored.keys()):
        if expected.get(name) != stored.get(name):
            raise UserError(f"{path}: {name} has shape {stored.get(name)}, but "
                            f"{expected.get(name)} follows from config.json and vocabulary.json; "
                            "restore the files of one run")
    model = Model(to_device(params, xp), config.model, vocabulary.size)
    return Run(folder, config, vocabulary, model, step, corpus)


def load_config(folder):
    """The Config of a run folder. Raises UserError where it is missing or damaged."""
    path = _existing(folder) / "config.json"
    return config_from_dict(_read_json(path), path)


def load_state(run):
    """The optimiser's state at a Run's step. Raises UserError where it is missing or damaged."""
    return _load(_path(run.folder, "resume", run.step))[0]


def save_matrix(run, matrix):
    """Write tuned.safetensors, what `tune` learned for a Run at its step: matrix: (e, e)."""
    metadata = {"convsim_mini": json.dumps({"step": run.step})}
    replace_file(run.folder / "tuned.safetensors", lambda temporary: save_file(
        {"matrix": np.ascontiguousarray(matrix, np.float32)}, temporary, metadata))


def load_matrix(run):
    """The tuned matrix of a Run, or None. Raises UserError if it is damaged or of another step."""
    path = run.folder / "tuned.safetensors"
    if not path.exists():
        return None
    try:
        with safe_open(path, "numpy") as file:
            step = json.loads(file.metadata()["convsim_mini"])["step"]
            matrix = file.get_tensor("matrix")
    except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: is damaged or cannot be read ({error}); delete it, or tune "
                        "again") from None
    if step != run.step or matrix.shape != (run.config.model.layers[-1],) * 2:
        raise UserError(f"{path}: was tuned for step {step} with shape {matrix.shape}, but the run "
                        f"is at step {run.step}; delete it, or tune again")
    return matrix


def has_checkpoint(folder):
    """Whether a run folder holds any weights."""
    return bool(_steps(folder))


def check_corpus(run, corpus):
    """Raise a UserError unless the Corpus is the one that a Run was trained on."""
    if corpus.checksum != run.corpus:
        raise UserError(f"{run.folder}: the pair files are not those that this run was trained on; "
                        "put those back or train again")


def _existing(folder):
    if not Path(folder).is_dir():
        raise UserError(f"{folder}: no such run folder; train one with: python -m "
                        "convsim_mini.train")
    return Path(folder)


def _vocabulary(folder):
    return Path(folder, "vocabulary.json")


def _crc(path):
    return zlib.crc32(path.read_bytes()) if path.exists() else None


def _path(folder, kind, step):
    return Path(folder, f"{kind}-{step:06d}.safetensors")


def _steps(folder):
    numbers = (path.stem.removeprefix("weights-")
               for path in Path(folder).glob("weights-*.safetensors"))
    return sorted(int(number) for number in numbers if number.isdecimal())


def _metadata(path):
    """What save_checkpoint wrote beside the arrays. Raises UserError as `_load` does."""
    with _damage_told(path), safe_open(path, "numpy") as file:
        about = json.loads(file.metadata()["convsim_mini"])
        if about["format"] > FORMAT:
            raise UserError(f"{path}: was written by a newer version of convsim_mini (format "
                            f"{about['format']}, this one reads up to {FORMAT}); update it")
        return about


def _load(path):
    """Arrays and metadata of one file of a checkpoint."""
    about = _metadata(path)
    with _damage_told(path):
        arrays = load_file(path)
        if about["crc32"] != _checksum(arrays):
            raise ValueError("its checksum is wrong")
    return arrays, about


@contextmanager
def _damage_told(path):
    """Turn whatever a damaged file causes into a UserError."""
    try:
        yield
    except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: is missing, damaged or cannot be read ({error}); restore it, or "
                        "delete the newest step's weights and resume files to use the one "
                        "before") from None


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


def read_log(path):
    """The records of a log.jsonl, as far as it is whole."""
    records = []
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    for line in text.splitlines():
        try:
            record = json.loads(line)
            record["step"]
        except (ValueError, TypeError, KeyError):             # killed while it was written
            break
        records.append(record)
    return records
