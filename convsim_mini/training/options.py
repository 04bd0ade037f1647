"""The training command's options, and the Config that they make."""

import argparse
import dataclasses
import inspect
import os

from ..common.cli import Parser, UserError, python_m
from ..common.lines import read_object
from ..config import (
    GROUPS, PRESET_OF, PRESETS, Config, choices_of, config_from_dict, flat, settings)
from ..core.initial import parameter_shapes
from ..core.model import ENCODERS
from ..fast import PLAIN
from .run import describe


def parse(argv):
    """The options on a command line, not yet checked: name → text or list of texts."""
    given = vars(config_parser("--help-all" in argv).parse_args(argv))
    if given.pop("plain", False):
        os.environ[PLAIN] = "1"                               # before twins are installed
    if "resume" in given and not given.keys() <= {"resume", "device"}:
        raise UserError("--resume: expected a run's folder and no other option except --device; to "
                        "train with other settings, use --config RUN/config.json")
    return given


def config_of(given):
    """A user's settings (dotted name → value, or text as on a command line) as a Config.

    Raises UserError for settings and files that cannot be used.
    """
    if "resume" in given:                                     # in `fit`
        raise UserError(f"resume: resume a run by {python_m('convsim_mini.train --resume RUN')}")
    options = expanded(given)
    file = settings_in_file(options.pop("config", None))
    asked = file | options
    origin = describe(asked["init"]).config if asked.get("init") else None
    below = inherited(origin, asked) if origin else of_preset(asked.get("preset", "chat"))
    stage = {"stage": origin.stage + 1} if origin else {}
    config = config_from_dict(below | file | stage | options)    # each overrides those to its left
    places = {name: absolute(place) for name in ("init", "nli", "data", "cache", "pairs")
              if (place := getattr(config, name))}
    if config.model.start not in ("corpus", "random"):
        places["model"] = dataclasses.replace(config.model, start=absolute(config.model.start))
    config = dataclasses.replace(config, **places)            # to be found from any folder
    if origin:
        check_shapes(config, origin)
    if bool(config.nli) != bool(config.nli_task):
        raise UserError(f"--task {config.task}, --nli {config.nli}: expected both (a "
                        "--task that learns inference, the folder with SNLI's files) or neither")
    return config


def expanded(given):
    """Settings with shorthands expanded: an `encoder` means a preset; `epochs` unset the steps."""
    given = ({"steps": None} if "epochs" in given else {}) | given
    if encoder := given.pop("encoder", None):
        given = {"preset": PRESET_OF.get(encoder, "chat"), "model.encoder": encoder} | given
    return given


def settings_in_file(path):
    """The settings in the file that --config names; {} if it names none."""
    if not path:
        return {}
    values = read_object(path, "cannot be read as JSON", "expected a run's config.json", "--config")
    config_from_dict(values, f"--config {path}")
    return expanded(flat(values))


def of_preset(name):
    """A preset's name and its changes to the defaults."""
    return {"preset": name, **PRESETS.get(name, {})}          # config_from_dict names the others


def inherited(origin, asked):
    """The settings of a run with --init, unless the user's own, `asked`, override them: a dict.

    They are those of text, model and optim, and the pairs of the run that --init names; origin: its
    Config. A preset that the user names overrides them. For other pairs, training takes eight
    epochs at a third of the preset's rates, however many runs came before (ours: 627 pairs of chats
    about given topics raise P@1 from 22.4 to 23.4; two epochs at the full rates, only to 22.5).
    """
    run = flat(dataclasses.asdict(origin))
    of_pairs = () if "pairs" in asked else ("columns", "encoding")
    kept = {name: run[name] for name in run
            if "." in name or name in ("preset", "pairs", *of_pairs)}
    if "preset" in asked:
        return kept | of_preset(asked["preset"])
    if "nli" in asked or absolute(asked.get("pairs", run["pairs"])) == run["pairs"]:
        return kept
    preset = flat(dataclasses.asdict(Config())) | PRESETS[run["preset"]]
    rates = ("optim.learning_rate", "optim.table_learning_rate")
    return kept | {"epochs": 8.0, **{name: preset[name] / 3 for name in rates}}


def absolute(place):
    """The absolute name of a folder (links resolved), or of each file in a list (links kept)."""
    if isinstance(place, list):
        return [os.path.abspath(os.path.expanduser(path)) for path in place]
    if (found := os.path.expanduser(place)).startswith("~"):
        raise UserError(f"{place}: there is no such home folder; give another folder (--cache for "
                        "prepared corpora)")
    return os.path.realpath(found)


def check_shapes(config, origin):
    """Raise a UserError for settings that change a weight's shape. origin: --init's Config."""
    shapes = [parameter_shapes(one.model, 1 + one.text.pieces + one.bigram_rows)
              for one in (config, origin)]
    if shapes[0] != shapes[1]:
        before, after = (flat(dataclasses.asdict(one)) for one in (origin, config))
        changed = [f"--{name} {after[name]}: the run that --init names has {before[name]}"
                   for name in after if name.startswith(("text.", "model."))
                   and after[name] != before[name]]
        raise UserError(f"{', '.join(changed)}; its weights cannot change shape; leave out "
                        "what changes it")


def config_parser(all_options=False):
    """The parser of the training command; with all_options, its help shows every setting."""
    parser = Parser(
        "convsim_mini.train", "Train a sentence encoder on conversations.",
        usage="%(prog)s [options]",
        formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=24, width=100),
        argument_default=argparse.SUPPRESS)
    parser.add_argument("--help-all", action="help", help="Show this help with the options "
                        "of the groups text, model and optim as well.")
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
            help=docs[name] + value if all_options or "." not in name else argparse.SUPPRESS)
    return parser


def _docs():
    """The text under each setting in config.py: dotted name → text for argparse."""
    docs = {}
    for group, cls in GROUPS.items():
        _, _, *parts = inspect.getsource(cls).split('"""')    # settings and texts, by turns
        docs |= {group + code.partition(":")[0].strip(): " ".join(doc.split()).replace("%", "%%")
                 for code, doc in zip(parts[::2], parts[1::2])}
    return docs
