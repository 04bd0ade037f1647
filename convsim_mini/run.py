"""A run on disk: config.json, vocabulary.json, log.jsonl, weights and resume state as safetensors.

`weights-000500.safetensors` holds the parameters after step 500, `resume-000500.safetensors` the
optimiser's state at that step. The weights are written last: a step with weights is complete. While
a run trains, its two newest checkpoints are kept, and the one that is best on dev; at the end only
the best one. The newest weights name the best step.
"""

import dataclasses
import json
import re
import zlib
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from .backend import device_module, to_device, to_host
from .cli import UserError, user_errors
from .config import Config, completed, config_from_dict, flat
from .data.text import Vocabulary
from .files import read_object, replace_file, write_text
from .model.initial import parameter_shapes
from .model.input_response import Model

KEPT = 2      # newest checkpoints, while a run trains
FORMAT = 1    # of the files in a run's folder
ROWS_AT_ONCE = 4_096
VOCABULARY = "vocabulary.json"
NEEDED = ("is missing or damaged", "a run folder needs it")
DAMAGE = (OSError, SafetensorError, ValueError, KeyError, TypeError)    # what a damaged file raises


class Run(NamedTuple):
    """A run loaded from its folder."""

    folder: Path
    config: Config
    vocabulary: Vocabulary
    model: Model
    step: int
    corpus: int       # checksum of the Corpus that it was trained on
    identity: dict    # the step, and checksums of its weights and its vocabulary


def save_config(folder, config):
    """Write config.json: the whole configuration, with which `--config` replays the run."""
    write_text(Path(folder, "config.json"), json.dumps(dataclasses.asdict(config), indent=2) + "\n")


def save_vocabulary(folder, corpus):
    """Write vocabulary.json: the vocabulary of a Corpus, and the checksum of the Corpus."""
    values = {"corpus": corpus.checksum, **corpus.vocabulary.to_dict()}
    write_text(Path(folder, VOCABULARY), json.dumps(values))


def save_checkpoint(folder, step, params, state, best=None):
    """Write parameters and optimiser state after `step`; delete what is no longer needed.

    best: the step that is best on dev so far, if one is known.
    """
    for kind, arrays in (("resume", state), ("weights", params)):
        # safetensors writes the buffer of a strided array as it lies, so it must be contiguous
        host = {name: np.ascontiguousarray(array) for name, array in to_host(arrays).items()}
        about = {"format": FORMAT, "crc32": _checksum(host),
                 "vocabulary": _crc(Path(folder, VOCABULARY)), "best": best or step}
        _save(_path(folder, kind, step), host, about)
    _keep(folder, [*_steps(folder)[-KEPT:], best or step])


def keep_best(folder):
    """Delete every checkpoint but the one that is best on dev: training has come to its end."""
    _keep(folder, [_best(folder)])


def _save(path, arrays, about):
    # one entry, for safetensors writes several in any order and equal runs would differ
    metadata = {"convsim_mini": json.dumps(about)}
    replace_file(path, lambda temporary: save_file(arrays, temporary, metadata))


def _keep(folder, steps):
    kept = {_path(folder, kind, step).name for kind in ("resume", "weights") for step in steps}
    # weights first, for a step with weights is complete; a killed run also leaves temporary files
    for path in sorted(Path(folder).iterdir(), reverse=True):
        checkpoint = re.fullmatch(r"(resume|weights)-\d+\.safetensors(\.tmp)?", path.name)
        if checkpoint and path.name not in kept:
            path.unlink()


def finished(folder):
    """Whether the run in a folder has come to its end."""
    return any("best" in record for record in read_log(Path(folder, "log.jsonl")))


def load_run(folder, device="cpu", newest=False):
    """Open a run folder at its best (or newest) step, its parameters on the host or on the "gpu".

    Raises UserError where a file is missing or damaged, or where the device cannot be used.
    """
    folder = _existing(folder)
    if not has_checkpoint(folder):
        raise UserError(f"{folder}: holds no weights-*.safetensors, for the run stopped before its "
                        f"first checkpoint; go on: python -m convsim_mini.train --resume {folder}")
    step = _steps(folder)[-1] if newest else _best(folder)
    path = _path(folder, "weights", step)
    params, about = _load(path)                               # first: it tells the format of all
    config = load_config(folder)
    xp = device_module(device, config.precision)
    words = folder / VOCABULARY
    if _crc(words) != about.get("vocabulary"):
        read_object(words, *NEEDED)                           # missing or damaged: it says so
        raise UserError(f"{words}: is not the one that {path.name} was trained with; restore it")
    vocabulary, corpus = load_vocabulary(folder)
    rows = vocabulary.size + config.bigram_rows
    expected = parameter_shapes(config.model, rows, config.classifies)
    stored = {name: p.shape for name, p in params.items()}
    for name in sorted(expected.keys() | stored.keys()):
        shape, other = stored.get(name), expected.get(name)
        if shape != other:
            raise UserError(f"{path}: {name} has shape {shape}, but {other} follows from "
                            "config.json and vocabulary.json; restore the files of one run")
    model = Model(to_device(params, xp), config.model, vocabulary.size)
    identity = {"step": step, "weights": about["crc32"], "vocabulary": about["vocabulary"]}
    return Run(folder, config, vocabulary, model, step, corpus, identity)


def load_vocabulary(folder):
    """The Vocabulary of a run folder and the checksum of its Corpus. Raises UserError."""
    path = _existing(folder) / VOCABULARY
    values = read_object(path, *NEEDED)
    with user_errors(f"{path}: {NEEDED[0]}", NEEDED[1], DAMAGE):
        corpus = values.pop("corpus")
        return Vocabulary(**values), corpus


def load_config(folder):
    """The Config of a run folder. Raises UserError where it is missing or damaged."""
    path = _existing(folder) / "config.json"
    return config_from_dict(completed(flat(read_object(path, *NEEDED))), path)


def load_state(run):
    """The optimiser's state at a Run's step. Raises UserError where it is missing or damaged."""
    return _load(_path(run.folder, "resume", run.step))[0]


def save_matrix(run, name, matrix):
    """Write a matrix (e, e) for the vectors of a Run at its step: "tuned", "all_but_the_top"."""
    arrays = {"matrix": np.ascontiguousarray(matrix, np.float32)}
    _save(run.folder / f"{name}.safetensors", arrays, {"step": run.step})


def load_matrix(run, name):
    """A matrix of a Run by its name, or None. Raises UserError if damaged or of another step."""
    path = run.folder / f"{name}.safetensors"
    if not path.exists():
        return None
    again = "delete it, or make it again: " + (
        f"python -m convsim_mini.tune {run.folder} --data DIR" if name == "tuned" else
        f"python -m convsim_mini.train --resume {run.folder}")
    with user_errors(f"{path}: is damaged or cannot be read", again, DAMAGE):
        step, matrix = _about(path)["step"], _read(path)["matrix"]
    if step != run.step or matrix.shape != (run.config.model.layers[-1],) * 2:
        raise UserError(f"{path}: was made for step {step} with shape {matrix.shape}, but the run "
                        f"is at step {run.step}; {again}")
    return matrix


def has_checkpoint(folder):
    """Whether a run folder holds any weights."""
    return bool(_steps(folder))


def check_corpus(run, corpus):
    """Raise a UserError unless the Corpus is the one that a Run was trained on."""
    if corpus.checksum != run.corpus:
        raise UserError(f"{run.folder}: the pair files are not those that this run was trained on, "
                        "or another version prepared them; put those back or train again")


def _existing(folder):
    if not Path(folder).is_dir():
        raise UserError(f"{folder}: no such run folder; train one: python -m convsim_mini.train")
    return Path(folder)


def _crc(path):
    return zlib.crc32(path.read_bytes()) if path.exists() else None


def _path(folder, kind, step):
    return Path(folder, f"{kind}-{step:06d}.safetensors")


def _steps(folder):
    numbers = [path.stem.partition("-")[2] for path in Path(folder).glob("weights-*.safetensors")]
    return sorted(int(number) for number in numbers if number.isdecimal())


def _best(folder):
    """The step that is best on dev, as the newest weights name it."""
    newest = _steps(folder)[-1]
    return _load(_path(folder, "weights", newest), arrays=False)[1].get("best", newest)


def _about(path):
    """What `_save` wrote beside the arrays."""
    with safe_open(path, "numpy") as file:
        return json.loads(file.metadata()["convsim_mini"])


def _load(path, arrays=True):
    """Arrays (or None) of one file of a checkpoint, and what is written beside them."""
    advice = "restore it, or delete the newest step's weights and resume files to use older ones"
    with user_errors(f"{path}: is missing, damaged or cannot be read", advice, DAMAGE):
        about = _about(path)
        if about["format"] > FORMAT:
            raise UserError(f"{path}: was written by a newer version of convsim_mini (format "
                            f"{about['format']}, this one reads up to {FORMAT}); update it")
        loaded = _read(path) if arrays else None
        if arrays and about["crc32"] != _checksum(loaded):
            raise ValueError("its checksum is wrong")
    return loaded, about


def _read(path):
    """Name → array. Large ones are read by parts into NumPy's own memory, which has huge pages.

    Random rows of a table are found faster there: a sentence is encoded in 33 µs, not in 40.
    """
    arrays = {}
    with safe_open(path, "np") as file:
        for name in file.keys():
            tensor = file.get_slice(name)
            shape = tensor.get_shape()
            if not shape or shape[0] <= ROWS_AT_ONCE:
                arrays[name] = file.get_tensor(name)
                continue
            arrays[name] = np.empty(shape, tensor[:1].dtype)
            for start in range(0, shape[0], ROWS_AT_ONCE):
                end = min(start + ROWS_AT_ONCE, shape[0])
                arrays[name][start:end] = tensor[start:end]
    return arrays


def _checksum(arrays):
    crc = 0
    for name in sorted(arrays):
        crc = zlib.crc32(arrays[name].reshape(-1).view(np.uint8), zlib.crc32(name.encode(), crc))
    return crc


def read_log(path):
    """The records of a log.jsonl, as far as it is whole."""
    records = []
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    with suppress(ValueError, TypeError, KeyError):           # killed while it was written
        for line in text.splitlines():
            record = json.loads(line)
            record["step"]
            records.append(record)
    return records
