"""A run on disk: config.json, vocabulary.json, log.jsonl, weights and resume state as safetensors.

`weights-000500.safetensors` holds the parameters after step 500, `resume-000500.safetensors` the
optimiser's state at that step. The weights are written last: a step with weights is complete. While
a run trains, its two newest checkpoints are kept, and the one that is best on dev; at the end only
the best one.

The files know each other. Beside the weights stand the settings that they were trained with, the
best step, and checksums of the vocabulary, of the optimiser's state and of what dev has measured.
Beside the vocabulary stand checksums of the pairs and of the NLI data. Whoever reads a file checks
that it is whole and belongs to the others.
"""

import dataclasses
import json
import re
import sys
import zlib
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .arrays_file import DAMAGE, load_about, load_arrays, save_arrays
from .backend import device_module, to_device, to_host
from .cli import UserError, user_errors
from .config import Config, completed, config_from_dict, flat
from .data.text import Vocabulary
from .files import checksum, checksum_of, read_object, write_text
from .model.initial import parameter_shapes
from .model.input_response import Model

KEPT = 2      # newest checkpoints, while a run trains
VOCABULARY = "vocabulary.json"
NEEDED = ("is missing or damaged", "a run folder needs it")
# Settings that may change: places, whose files have checksums of their own, and what changes no
# result.
PLACES = {"run", "init", "pairs", "columns", "nli", "data", "cache", "device", "optim.chunk"}


class Run(NamedTuple):
    """A run loaded from its folder."""

    folder: Path
    config: Config
    vocabulary: Vocabulary
    model: Model
    step: int
    corpus: int       # checksum of the Corpus that it was trained on
    nli: int | None   # checksum of the NLI data that it was trained on
    about: dict       # what stands beside its weights

    @property
    def identity(self):
        """What its vectors depend on: the step, and checksums of its weights and vocabulary."""
        return {"step": self.step, "weights": self.about["crc32"],
                "vocabulary": self.about["vocabulary"]}


def save_config(folder, config):
    """Write config.json: the whole configuration, with which `--config` replays the run."""
    write_text(Path(folder, "config.json"), json.dumps(dataclasses.asdict(config), indent=2) + "\n")


def save_vocabulary(folder, corpus, nli=None):
    """Write vocabulary.json: the vocabulary of a Corpus, and the checksum of the Corpus.

    nli: checksum of the NLI data, if there are any
    """
    values = {"corpus": corpus.checksum, "nli": nli, **corpus.vocabulary.to_dict()}
    write_text(Path(folder, VOCABULARY), json.dumps(values))


def settings_of(config):
    """The settings of a Config that its results depend on: dotted name → value."""
    values = flat(dataclasses.asdict(config))
    return {name: value for name, value in values.items() if name not in PLACES}


def difference(found, expected):
    """The first setting with another value than expected, as (name, found, expected), or None.

    found, expected: of `settings_of`; settings that only one of them has do not count
    """
    return next(((name, found[name], expected[name])
                 for name in sorted(found.keys() & expected.keys())
                 if found[name] != expected[name]), None)


def save_checkpoint(folder, config, step, params, state, best=None):
    """Write parameters and optimiser state after `step`; delete what is no longer needed.

    best: the step that is best on dev so far, if one is known.
    """
    about = {"vocabulary": _crc(Path(folder, VOCABULARY))}
    of_state = save_arrays(_path(folder, "resume", step), to_host(state), about)
    save_arrays(_path(folder, "weights", step), to_host(params), {
        **about, "best": best or step, "state": of_state, "settings": settings_of(config),
        "measured": _crc_of_measures(read_log(Path(folder, "log.jsonl")), step)})
    _keep(folder, [*_steps(folder)[-KEPT:], best or step])


def keep_best(folder):
    """Delete every checkpoint but the one that is best on dev: training has come to its end.

    A matrix that `tune` has learned for another step goes, too.
    """
    best, tuned = _best(folder), Path(folder, "tuned.safetensors")
    _keep(folder, [best])
    with suppress(UserError):                                 # damaged: `load_matrix` says so
        if tuned.exists() and load_about(tuned).get("step") != best:
            tuned.unlink()
            print(f"{tuned}: was for another step, which is not kept, and is deleted; tune again",
                  file=sys.stderr)


def _keep(folder, steps):
    kept = {_path(folder, kind, step).name for kind in ("resume", "weights") for step in steps}
    # weights first, for a step with weights is complete
    for path in sorted(Path(folder).iterdir(), reverse=True):
        if re.fullmatch(r"(resume|weights)-\d+\.safetensors", path.name) and path.name not in kept:
            path.unlink()


def finished(folder):
    """Whether the run in a folder has come to its end."""
    return any("best" in record for record in read_log(Path(folder, "log.jsonl")))


def load_run(folder, device="cpu", newest=False):
    """Open a run folder at its best (or newest) step, its parameters on the host or on the "gpu".

    Raises UserError where a file is missing or damaged, or where the device cannot be used.
    """
    folder = existing(folder)
    if not has_checkpoint(folder):
        raise UserError(f"{folder}: holds no weights-*.safetensors, for the run stopped before its "
                        f"first checkpoint; go on: python -m convsim_mini.train --resume {folder}")
    step, params, about = _load_weights(folder, newest)       # first: it tells the format of all
    path, config = _path(folder, "weights", step), load_config(folder)
    if other := difference(settings_of(config), about.get("settings", {})):
        raise UserError("{}/config.json: {} is {}, but {} was trained with {}; restore the files "
                        "of one run".format(folder, *other[:2], path.name, other[2]))
    xp = device_module(device, config.precision)
    words = folder / VOCABULARY
    if _crc(words) != about.get("vocabulary"):
        read_object(words, *NEEDED)                           # missing or damaged: it says so
        raise UserError(f"{words}: is not the one that {path.name} was trained with; restore it")
    vocabulary, corpus, nli = load_vocabulary(folder)
    rows = vocabulary.size + config.bigram_rows
    expected = parameter_shapes(config.model, rows, config.classifies)
    stored = {name: p.shape for name, p in params.items()}
    for name in sorted(expected.keys() | stored.keys()):
        shape, other = stored.get(name), expected.get(name)
        if shape != other:
            raise UserError(f"{path}: {name} has shape {shape}, but {other} follows from "
                            "config.json and vocabulary.json; restore the files of one run")
    model = Model(to_device(params, xp), config.model, vocabulary.size)
    return Run(folder, config, vocabulary, model, step, corpus, nli, about)


def _best(folder):
    """The step that is best on dev, as the newest weights name it."""
    newest = _steps(folder)[-1]
    return load_about(_path(folder, "weights", newest)).get("best", newest)


def _load_weights(folder, newest):
    """The best or newest step, its parameters, and what is written beside them."""
    before = None
    while True:
        last = _steps(folder)[-1]
        try:
            step = last if newest else _best(folder)
            return step, *load_arrays(_path(folder, "weights", step))
        except UserError:
            if last == before:
                raise
        before = last                                         # a training may have deleted it


def load_vocabulary(folder):
    """A run folder's Vocabulary, checksums of its Corpus and NLI data. Raises UserError."""
    path = existing(folder) / VOCABULARY
    values = read_object(path, *NEEDED)
    with user_errors(f"{path}: {NEEDED[0]}", NEEDED[1], DAMAGE):
        corpus, nli = values.pop("corpus"), values.pop("nli", None)
        return Vocabulary(**values), corpus, nli


def load_config(folder):
    """The Config of a run folder. Raises UserError where it is missing or damaged."""
    path = existing(folder) / "config.json"
    return config_from_dict(completed(flat(read_object(path, *NEEDED))), path)


def load_state(run):
    """The optimiser's state at a Run's step.

    Raises UserError where it is missing, damaged or of other weights.
    """
    path = _path(run.folder, "resume", run.step)
    state, about = load_arrays(path)
    if about["crc32"] != run.about.get("state", about["crc32"]):
        raise UserError(f"{path}: belongs to other weights; restore the files of one run")
    return state


def save_matrix(run, name, matrix):
    """Write a matrix (e, e) for the vectors of a Run at its step: "tuned", "all_but_the_top"."""
    save_arrays(run.folder / f"{name}.safetensors", {"matrix": matrix.astype(np.float32)},
                {"step": run.step, "weights": run.identity["weights"]})


def load_matrix(run, name):
    """A matrix of a Run by its name, or None. Raises UserError if damaged or of another run."""
    path = run.folder / f"{name}.safetensors"
    if not path.exists():
        return None
    again = "delete it, or make it again: " + (
        f"python -m convsim_mini.tune {run.folder} --data DIR" if name == "tuned" else
        f"python -m convsim_mini.train --resume {run.folder}")
    arrays, about = load_arrays(path, again)
    with user_errors(f"{path}: is damaged", again, DAMAGE):
        step, matrix = about["step"], arrays["matrix"]
    if step != run.step or matrix.shape != (run.config.model.layers[-1],) * 2:
        raise UserError(f"{path}: was made for step {step} with shape {matrix.shape}, but the run "
                        f"is at step {run.step}; {again}")
    if about.get("weights", run.identity["weights"]) != run.identity["weights"]:
        raise UserError(f"{path}: was made for other weights than this run has; {again}")
    return matrix


def has_checkpoint(folder):
    """Whether a run folder holds any weights."""
    return bool(_steps(folder))


def check_corpus(run, corpus):
    """Raise a UserError unless the Corpus is the one that a Run was trained on."""
    if corpus.checksum != run.corpus:
        raise UserError(f"{run.folder}: the pair files are not those that this run was trained on, "
                        "or another version prepared them; put those back or train again")


def check_resumed(run, corpus, nli):
    """Raise a UserError unless a Run can go on: with its Corpus, its NLI data and its log.

    nli: the checksum of the NLI data, or None
    """
    check_corpus(run, corpus)
    if run.nli is not None and nli != run.nli:
        raise UserError(f"{run.config.nli}: these NLI data are not those that {run.folder} was "
                        "trained on; put those back or train again")
    log_of(run, needed=True)


def log_of(run, needed=False):
    """The records of a Run's log. Raises UserError where it is damaged or of another run.

    needed: also where there is none
    """
    path = run.folder / "log.jsonl"
    records = read_log(path)
    if run.about.get("measured") not in (None, _crc_of_measures(records, run.step)) and (
            needed or path.exists()):
        raise UserError(f"{path}: does not hold what was measured up to step {run.step}; "
                        "restore it")
    return records


def _crc_of_measures(records, step):
    """A checksum of what was measured on dev up to a step: it decides which step is the best."""
    return checksum_of([record for record in records
                        if "dev" in record and record["step"] <= step])


def existing(folder):
    """The Path of a run's folder. Raises UserError where there is none."""
    if not Path(folder).is_dir():
        raise UserError(f"{folder}: no such run folder; train one: python -m convsim_mini.train")
    return Path(folder)


def _crc(path):
    return checksum(path) if path.exists() else None


def _path(folder, kind, step):
    return Path(folder, f"{kind}-{step:06d}.safetensors")


def _steps(folder):
    numbers = [path.stem.partition("-")[2] for path in Path(folder).glob("weights-*.safetensors")]
    return sorted(int(number) for number in numbers if number.isdecimal())


def read_log(path):
    """The records of a log.jsonl. Raises UserError where it is damaged.

    The last line of a run that was killed may be half written; it is left out.
    """
    records, crc = [], 0
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
            found = record.pop("crc32", None)                 # older logs have none
            odd = record["step"] < 0 or "best" in record and len(record) > 2
            if odd or found not in (None, checksum_of(record, crc)):
                raise ValueError("its checksum is wrong")
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            if number < len(lines) or line.endswith(b"\n"):
                raise UserError(f"{path}, line {number}: is damaged ({error}); restore it, or move "
                                "it away") from None
        else:
            records.append(record)
        crc = zlib.crc32(line, crc)
    return records
