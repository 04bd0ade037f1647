"""The training command's options, and the Config that they make."""

import argparse
import dataclasses
import inspect
import os

from ..common.cli import Parser, UserError, path_of
from ..common.lines import read_object
from ..config import (
    GROUPS, PRESET_OF, PRESETS, Config, choices_of, config_from_dict, flat, settings)
from ..core.initial import parameter_shapes
from ..core.model import ENCODERS
from ..fast import PLAIN
from .run import describe

PLACES = "init", "nli", "data", "cache", "pairs", "model.start"    # settings: files and folders

def parse(argv=None):
    """The options on a command line, not yet checked: name → text or list of texts."""
    given = vars(config_parser().parse_args(argv))
    if given.pop("plain", False):
        os.environ[PLAIN] = "1"                               # before twins are installed
    if "resume" in given and not given.keys() <= {"resume", "device"}:
        raise UserError("--resume: expected a run's folder and no other option except --device; to "
                        "train with other settings, use --config RUN/config.json")
    if given.get("pairs") == []:                              # an empty variable of the shell
        raise UserError("--pairs: expected one or more files")
    return given


def config_of(given):
    """A user's settings (dotted name → value, or text as on a command line) as a Config.

    A preset or the run that --init names sets what neither `given` nor its --config file does.
    Raises UserError for settings and files that cannot be used.
    """
    asked = all_asked(given)
    if asked.get("init"):
        parent = describe(asked["init"]).config
        config = config_from_dict(inherited(parent, asked) | asked | {"stage": parent.stage + 1})
        shapes = [parameter_shapes(one.model, 1 + one.text.pieces + one.bigram_rows)
                  for one in (config, parent)]
        if shapes[0] != shapes[1]:
            raise UserError(f"--init {asked['init']}: its weights do not fit the settings of text "
                            "and model that are given; leave out those that differ from the run's")
    else:
        preset = PRESETS.get(asked.get("preset", "chat"), {})    # config_from_dict names the others
        config = config_from_dict(preset | asked)
    if bool(config.nli) != (config.task != "conversation"):
        raise UserError(f"--task {config.task}, --nli {config.nli}: expected both (a "
                        "--task that learns inference, the folder with SNLI's files) or neither")
    return config


def all_asked(given):
    """What a user asks for: the settings given and, below them, those of the --config file.

    Files and folders get absolute names, so that they are found from any folder.
    """
    asked = without_shorthands(given)
    if path := asked.pop("config", None):
        values = read_object(path, "cannot be read as JSON", "expected a run's config.json",
                             "--config")
        config_from_dict(values, f"--config {path}")          # its mistakes are the file's
        asked = without_shorthands(flat(values)) | asked
    asked = {"cache": Config.cache} | asked
    return asked | {name: absolute(asked[name]) for name in PLACES
                    if isinstance(asked.get(name), str | list)}


def without_shorthands(given):
    """Settings with shorthands expanded: an `encoder` means a preset; `epochs` unset the steps."""
    given = ({"steps": None} if "epochs" in given else {}) | given
    if encoder := given.pop("encoder", None):
        given = {"preset": PRESET_OF.get(encoder, "chat"), "model.encoder": encoder} | given
    return given


def absolute(place):
    """The absolute name of a file or folder, or of each one in a list; links are kept."""
    if isinstance(place, list):
        return [*map(absolute, place)]
    if place in ("corpus", "random"):                         # not a file to start from
        return place
    return os.path.abspath(path_of(place))


def inherited(parent, asked):
    """The settings that a run gets from the run that it starts from: a dict.

    They are its settings of text, model and optim, and its pairs. parent: that run's Config; asked:
    the user's own settings, whose preset overrides them. For other pairs, training takes eight
    epochs at a third of the preset's rates, however many runs came before (ours: 627 pairs of chats
    about given topics raise P@1 from 22.4 to 23.4; two epochs at the full rates, only to 22.5).
    """
    run = flat(dataclasses.asdict(parent))
    of_pairs = () if "pairs" in asked else ("pairs", "columns", "encoding")
    kept = {name: run[name] for name in run if "." in name or name in ("preset", *of_pairs)}
    if "preset" in asked:
        return kept | PRESETS.get(asked["preset"], {})
    if "nli" in asked or asked.get("pairs", run["pairs"]) == run["pairs"]:
        return kept
    preset = flat(dataclasses.asdict(Config())) | PRESETS[run["preset"]]
    rates = ("optim.learning_rate", "optim.table_learning_rate")
    return kept | {"epochs": 8.0, **{name: preset[name] / 3 for name in rates}}


def config_parser():
    """The parser of the training command, which has an option for every setting."""
    parser = Parser("convsim_mini.train", "Train a sentence encoder on conversations.",
                    usage="%(prog)s [options]", argument_default=argparse.SUPPRESS)
    parser.add_argument("--config", metavar="FILE",
                        help="JSON file of settings, such as a run's config.json.")
    parser.add_argument("--encoder", choices=ENCODERS,
                        help="Shorthand for the --preset that trains this encoder in minutes.")
    parser.add_argument("--resume", metavar="RUN",
                        help="Resume the stopped run RUN; only its --device may be changed.")
    parser.add_argument("--plain", action="store_true", help="Run core/ exactly as written, "
                        "without its faster twins: slower, for use with a debugger.")
    docs = _docs()
    for name, default in flat(dataclasses.asdict(Config())).items():
        choices = ENCODERS if name == "model.encoder" else choices_of(settings()[name].type)
        value = "" if default in (None, []) else f" Default: {default}."
        parser.add_argument(
            f"--{name}", nargs="*" if isinstance(default, list) else None,
            metavar=f"{{{','.join(choices)}}}" if choices else name.rpartition(".")[2].upper(),
            help=docs[name] + value)
    return parser


def _docs():
    """The text under each setting in config.py: dotted name → text for argparse."""
    docs = {}
    for group, cls in GROUPS.items():
        _, _, *parts = inspect.getsource(cls).split('"""')    # settings and texts, by turns
        docs |= {group + code.partition(":")[0].strip(): " ".join(doc.split()).replace("%", "%%")
                 for code, doc in zip(parts[::2], parts[1::2])}
    return docs
