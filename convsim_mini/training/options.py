"""The training command's options.

Settings come from six places. Later ones override earlier ones: the defaults; the run that --init
names; the preset; what suits other pairs than that run's; the file that --config names; options.
"""

import argparse
import ast
import dataclasses
import inspect
import os
from itertools import pairwise
from typing import get_args

from ..common.cli import Parser, UserError
from ..common.lines import read_object
from ..config import GROUPS, PRESETS, SYNONYMS, Config
from ..core.model import ENCODERS
from ..fast import PLAIN
from .initial import parameter_shapes
from .run import describe
from .settings import config_from_dict, flat, settings

# Settings that a run with --init takes from the run that --init names.
INHERITED = {"preset", "pairs", "columns", "encoding",
             *(name for name in settings() if "." in name)}


def parse_config(argv):
    """Command line to Config. Raises UserError for options and files that cannot be used."""
    asked = with_own_steps(parse(argv))
    encoder = asked.pop("encoder", None)
    origin, start, inherited = None, {}, {}
    if "init" in asked:
        origin = describe(asked["init"]).config
        start = flat(dataclasses.asdict(origin))
        inherited = {name: value for name, value in start.items() if name in INHERITED}
        asked = {"stage": start["stage"] + 1} | asked
    if path := asked.pop("config", None):
        in_file = read_object(path, "cannot be read as JSON", "expected a run's config.json",
                              "--config")
        config_from_dict(in_file, f"--config {path}")
        asked = with_own_steps(flat(in_file)) | asked
    if encoder:
        asked["model.encoder"] = encoder
        inherited["preset"] = ENCODERS[encoder].preset
    if "pairs" in asked:
        for name in ("columns", "encoding"):
            inherited.pop(name, None)
    preset = asked.get("preset", inherited.get("preset", "chat"))
    changes = PRESETS.get(preset, {})                         # config_from_dict names the others
    if start and not encoder and "preset" not in asked:
        changes = {name: value for name, value in changes.items() if name not in INHERITED}
        changes |= for_other_pairs(start, asked)
    config = config_from_dict(inherited | changes | asked | {"preset": preset})
    places = {name: absolute(place) for name in ("init", "nli", "data", "cache", "pairs")
              if (place := getattr(config, name))}
    config = dataclasses.replace(config, **places)            # to be found from any folder
    if origin:
        check_shapes(config, origin)
    if bool(config.nli) != bool(config.second_task):
        raise UserError(f"--task {config.task}, --nli {config.nli}: expected both, a --task "
                        "that learns inference and the folder with SNLI's files, or neither")
    return config


def check_shapes(config, origin):
    """Raise a UserError unless the parameters of --init's run, whose Config is origin, fit."""
    kept, wanted = (parameter_shapes(one.model, 1 + one.text.pieces + one.bigram_rows)
                    for one in (origin, config))
    if kept != wanted:
        before, now = (flat(dataclasses.asdict(one)) for one in (origin, config))
        changed = ", ".join(f"--{name} {now[name]}: the run of --init has {before[name]}"
                            for name in now if now[name] != before[name]
                            if name.startswith(("text.", "model.")))
        raise UserError(f"{changed}; its weights keep their shapes: leave the option out")


def with_own_steps(given):
    """Settings that somebody has given; where `epochs` are among them, steps follow from these."""
    return ({"steps": None} if "epochs" in given else {}) | given


def absolute(place):
    """The absolute name of a folder, or of each file in a list: a link's suffix tells its kind."""
    if isinstance(place, list):
        return [os.path.abspath(path) for path in place]
    return os.path.realpath(os.path.expanduser(place))


def for_other_pairs(start, asked):
    """Settings that suit a run which continues on other pairs; {} for the same pairs and for NLI.

    Eight epochs at a third of the preset's rates, whatever number of runs came before (ours: after
    627 pairs of chats about given topics P@1 is 23.4, and 22.5 after two epochs at the whole rates;
    before it was 22.4). start: settings of the run to start from; asked: the user's
    """
    if "nli" in asked or absolute(asked.get("pairs", start["pairs"])) == start["pairs"]:
        return {}
    defaults = flat(dataclasses.asdict(Config()))
    preset = defaults | PRESETS[start["preset"]]
    return {"task": "conversation", "epochs": 8.0, "evaluations": defaults["evaluations"],
            **{name: preset[name] / 3 for name in ("optim.rate", "optim.table_rate")}}


def parse(argv):
    """The options on a command line, not yet checked: name → text or list of texts."""
    given = vars(config_parser("--help-all" in argv).parse_args(argv))
    if given.pop("plain", False):
        os.environ[PLAIN] = "1"                               # before the twins are put in
    if len(given) > 1 and "resume" in given:
        raise UserError("--resume: expected a run's folder and no other option; to train with "
                        "other settings: --config RUN/config.json")
    return given


def config_parser(all_options=False):
    """The parser of the training command; with all_options its help shows every setting."""
    parser = Parser(
        "convsim_mini.train", "Train a sentence encoder on conversations.", SYNONYMS,
        usage="%(prog)s [options]",
        formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=24, width=100),
        argument_default=argparse.SUPPRESS)
    parser.add_argument("--help-all", action="help", help="Show the options of text, model and "
                        "optim as well.")
    parser.add_argument("--config", metavar="FILE",
                        help="JSON file of settings, such as a run's config.json.")
    parser.add_argument("--encoder", choices=ENCODERS,
                        help="Short for the --preset that learns in minutes with this encoder.")
    parser.add_argument("--resume", metavar="RUN",
                        help="Go on with the stopped run RUN, with its own settings.")
    parser.add_argument("--plain", action="store_true", help="Run core/ as it stands there, "
                        "without its faster twins: for a debugger, and slower.")
    docs = _docs()
    for name, default in flat(dataclasses.asdict(Config())).items():
        choices = [kind for kind in get_args(settings()[name].type) if isinstance(kind, str)]
        choices = ENCODERS if name == "model.encoder" else choices
        value = "" if default in (None, []) else f" Default: {default}."
        parser.add_argument(
            f"--{name}", nargs="*" if isinstance(default, list) else None,
            metavar=f"{{{','.join(choices)}}}" if choices else name.rpartition(".")[2].upper(),
            help=docs[name] + value if all_options or "." not in name else argparse.SUPPRESS)
    return parser


def _docs():
    """The docstring under each setting: dotted name → text for argparse."""
    docs = {}
    for group, cls in GROUPS.items():
        body = ast.parse(inspect.getsource(cls)).body[0].body
        docs |= {group + setting.target.id: " ".join(doc.value.value.split()).replace("%", "%%")
                 for setting, doc in pairwise(body) if isinstance(doc, ast.Expr)}
    return docs
