"""A run on disk: config.json, vocabulary.json, log.jsonl, weights and resume state as safetensors.

`weights-000500.safetensors` holds the parameters after step 500. `resume-000500.safetensors` holds
the optimiser's state at that step. The weights are written last, so a step with weights is
complete. While a run trains, it keeps its two newest checkpoints and the one that is best on dev.
At the end it keeps only the best one.

Beside the weights stand their settings, the best step, and checksums of the other files. Beside the
vocabulary stand checksums of the pairs and the NLI data. Whoever reads a file checks that it is
whole and belongs to the others.
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

from ..core.arrays import to_device, to_host
from ..fast.devices import device_module
from ..common.arrays_file import DAMAGE, load_about, load_arrays, save_arrays
from ..common.cli import UserError, python_m, user_errors
from ..common.files import checksum, checksum_of, read_object, write_text
from ..config import Config, config_from_dict, flat
from ..core.text import Vocabulary
from ..core.model import Model

KEPT = 2      # newest checkpoints, while a run trains
VOCABULARY = "vocabulary.json"
NEEDED = ("is missing or damaged", "a run folder needs it")
# Settings that may change. Some are places of files that have checksums of their own; the others
# change no result.
PLACES = {"run", "init", "pairs", "columns", "nli", "data", "cache", "device", "optim.chunk"}


class Run(NamedTuple):
    """A run that is loaded from its folder."""

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
    """Write vocabulary.json: a Corpus's words, and checksums of the Corpus and the NLI data."""
    values = {"corpus": corpus.checksum, "nli": nli, **corpus.vocabulary.to_dict()}
    write_text(Path(folder, VOCABULARY), json.dumps(values))


def save_checkpoint(folder, config, step, params, state, best=None):
    """Save what `step` has learned; delete old checkpoints. best: the step that is best on dev."""
    best = best or step
    about = {"best": best, "settings": settings_of(config),
             "vocabulary": checksum(Path(folder, VOCABULARY))}
    about["state"] = save_arrays(_path(folder, "resume", step), to_host(state), about)
    about["measured"] = _checksum_of_measures(read_log(Path(folder, "log.jsonl")), step)
    save_arrays(_path(folder, "weights", step), to_host(params), about)
    _keep(folder, [*_steps(folder)[-KEPT:], best])


def keep_best(folder, half=False):
    """At the end of training delete all checkpoints but the best on dev, and another's matrix.

    half: store the weights that stay in 16 bits
    """
    best = _best(folder)
    tuned = Path(folder, "tuned.safetensors")
    _keep(folder, [best])
    if half:
        params, about = load_arrays(_path(folder, "weights", best))
        halved = {name: p.astype(np.float16) for name, p in params.items()}
        save_arrays(_path(folder, "weights", best), halved, about)
    with suppress(UserError):                                 # damaged: `load_matrix` says so
        if tuned.exists() and load_about(tuned)["step"] != best:
            tuned.unlink()
            print(f"{tuned}: was for another step, which is not kept, and is deleted; tune again",
                  file=sys.stderr)


def _keep(folder, steps):
    kept = {_path(folder, kind, step).name for kind in ("resume", "weights") for step in steps}
    # weights first, for a step with weights is complete
    for path in sorted(Path(folder).iterdir(), reverse=True):
        if re.fullmatch(r"(resume|weights)-\d+\.safetensors", path.name) and path.name not in kept:
            with suppress(PermissionError):                   # Windows, while another reads it
                path.unlink()


def save_matrix(run, name, matrix):
    """Write a matrix (e, e) for the vectors of a Run at its step: "tuned", "all_but_the_top"."""
    save_arrays(run.folder / f"{name}.safetensors", {"matrix": matrix.astype(np.float32)},
                {"step": run.step, "weights": run.identity["weights"]})


def load_run(folder, device="cpu", newest=False):
    """Open a run folder at its best (or newest) step, on the host or "gpu". Raises UserError."""
    folder = existing(folder)
    step, params, about = _load_weights(folder, newest)
    config = load_config(folder)
    vocabulary, corpus, nli = load_vocabulary(folder)
    _check_one_run(_path(folder, "weights", step), config, about)
    params = {name: np.asarray(p, np.float32) for name, p in params.items()}    # may be in 16 bits
    params = to_device(params, device_module(device, config.precision))
    model = Model(params, config.model, vocabulary.size)
    return Run(folder, config, vocabulary, model, step, corpus, nli, about)


def _check_one_run(path, config, about):
    """Raise a UserError unless weights, written with `about`, belong to the files beside them."""
    folder = path.parent
    advice = "restore the files of one run"
    if "state" not in about:
        raise UserError(f"{path}: holds no weights; {advice}")
    if other := difference(settings_of(config), about["settings"]):
        name, found, expected = other
        raise UserError(f"{folder}/config.json: {name} is {found}, but {path.name} was trained "
                        f"with {expected}; {advice}")
    if checksum(folder / VOCABULARY) != about["vocabulary"]:
        raise UserError(f"{folder / VOCABULARY}: is not the one that {path.name} was trained with; "
                        "restore it")


def _best(folder):
    newest = _steps(folder)[-1]
    return load_about(_path(folder, "weights", newest))["best"]


def _load_weights(folder, newest):
    """Read the best or newest weights; → step, parameters, what is written beside them."""
    if not has_checkpoint(folder):
        load_config(folder)                                   # it may be of another program
        raise UserError(f"{folder}: holds no weights-*.safetensors, for the run stopped before its "
                        f"first checkpoint; go on: "
                        f"{python_m(f'convsim_mini.train --resume {folder}')}")
    last = _steps(folder)[-1]
    try:
        step = last if newest else _best(folder)
        return step, *load_arrays(_path(folder, "weights", step))
    except UserError:
        if _steps(folder)[-1] == last:
            raise
    return _load_weights(folder, newest)    # a training has saved a step and deleted an old one


def load_vocabulary(folder):
    """A run folder's Vocabulary, and the checksums of its Corpus and NLI data. Raises UserError."""
    path = existing(folder) / VOCABULARY
    values = read_object(path, *NEEDED)
    with user_errors(f"{path}: {NEEDED[0]}", NEEDED[1], DAMAGE):
        corpus, nli = values.pop("corpus"), values.pop("nli")
        return Vocabulary(**values), corpus, nli


def load_config(folder):
    """The Config of a run folder. Raises UserError where it is missing or damaged."""
    path = existing(folder) / "config.json"
    return config_from_dict(read_object(path, *NEEDED), path)


def load_state(run):
    """The optimiser's state at a Run's step. Raises UserError where it cannot be used."""
    path = _path(run.folder, "resume", run.step)
    state, about = load_arrays(path)
    if about["crc32"] != run.about["state"]:
        raise UserError(f"{path}: belongs to other weights; restore the files of one run")
    return state


def load_matrix(run, name):
    """A matrix of a Run by its name, or None. Raises UserError if damaged or of another run."""
    path = run.folder / f"{name}.safetensors"
    if not path.exists():
        return None
    commands = {"tuned": f"tune {run.folder} --data DIR",
                "all_but_the_top": f"train --resume {run.folder}"}
    again = f"delete it, or make it again: {python_m(f'convsim_mini.{commands[name]}')}"
    arrays, about = load_arrays(path, again)
    if about.get("weights") != run.identity["weights"]:
        raise UserError(f"{path}: was made for other weights than this run has; {again}")
    return arrays["matrix"]


def read_log(path):
    """The records of a log.jsonl. Raises UserError where it is damaged.

    The last line of a run that was killed may be half written; it is left out. Each record holds a
    checksum of itself and of what stands before it.
    """
    records, crc = [], 0
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
            if record.pop("crc32") != checksum_of(record, crc):
                raise ValueError("its checksum is wrong")
            records.append(record)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            if number < len(lines) or line.endswith(b"\n"):
                raise UserError(f"{path}, line {number}: is damaged ({error}); restore it, or move "
                                "it away") from None
        crc = zlib.crc32(line, crc)
    return records


def finished(folder):
    """Whether the run in a folder has come to its end."""
    return any("best" in record for record in read_log(Path(folder, "log.jsonl")))


def has_checkpoint(folder):
    """Whether a run folder holds any weights."""
    return bool(_steps(folder))


def existing(folder):
    """The Path of a run's folder. Raises UserError where there is none, or another folder."""
    folder = Path(folder)
    if has_checkpoint(folder) or (folder / "config.json").exists():
        return folder
    advice = f"train one: {python_m('convsim_mini.train')}"
    if not folder.is_dir():
        raise UserError(f"{folder}: no such run folder; {advice}")
    if (folder / "modules.json").exists():
        advice = "it is an exported one, and its README.md says how to use that"
    raise UserError(f"{folder}: is no run folder, for it holds no config.json; {advice}")


def settings_of(config):
    """The settings of a Config that its results depend on: dotted name → value."""
    values = flat(dataclasses.asdict(config))
    return {name: value for name, value in values.items() if name not in PLACES}


def difference(found, expected):
    """The first setting in both dicts that has two values: (name, found, expected), or None."""
    for name in sorted(found.keys() & expected.keys()):
        if found[name] != expected[name]:
            return name, found[name], expected[name]
    return None


def check_corpus(run, corpus):
    """Raise a UserError unless the Corpus is the one that a Run was trained on."""
    if corpus.checksum != run.corpus:
        raise UserError(f"{run.folder}: the pair files are not those that this run was trained on, "
                        "or another version prepared them; put those back or train again")


def check_resumed(run, corpus, nli):
    """Raise a UserError unless a Run can go on with this Corpus, checksum of NLI data and log."""
    check_corpus(run, corpus)
    if run.nli is not None and nli != run.nli:
        raise UserError(f"{run.config.nli}: these NLI data are not those that {run.folder} was "
                        "trained on; put those back or train again")
    log_of(run, needed=True)


def log_of(run, needed=False):
    """A Run's log. Raises UserError if damaged, of another run, or `needed` and missing."""
    path = run.folder / "log.jsonl"
    records = read_log(path)
    measured = _checksum_of_measures(records, run.step)
    if measured != run.about["measured"] and (needed or path.exists()):
        raise UserError(f"{path}: does not hold what was measured up to step {run.step}; "
                        "restore it")
    return records


def _checksum_of_measures(records, step):
    """The checksum of all measures on dev up to a step. They decide which step is the best.

    `seconds` is left out: equal runs have equal files.
    """
    return checksum_of([{**record, "seconds": None} for record in records
                        if "dev_p1" in record and record["step"] <= step])


def _path(folder, kind, step):
    return Path(folder, f"{kind}-{step:06d}.safetensors")


def _steps(folder):
    numbers = [path.stem.partition("-")[2] for path in Path(folder).glob("weights-*.safetensors")]
    return sorted(int(number) for number in numbers if number.isdecimal())
