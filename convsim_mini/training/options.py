"""The training command's options.

Settings come from six places. Later ones override earlier ones: the defaults; the run that --init
names; the preset; what suits other pairs than that run's; the file that --config names; options.
"""

import argparse
import ast
import dataclasses
import inspect
import json
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import get_args

from ..common.cli import Parser, UserError, user_errors
from ..common.files import read_object
from ..config import (
    GROUPS, INHERITED, PRESETS, Config, config_from_dict, flat, settings)
from ..core.model import ENCODERS
from ..core.optim import OPTIMIZERS
from .run import describe

# What suits a run that goes on with other pairs (ours: in a debate forum 36.9% of 9,988 replies
# were picked before, 37.5 to 37.8% after 600 pairs of it; at the whole rates 35.7 to 36.1%).
OTHER_PAIRS = {"task": "conversation", "steps": 300, "evaluations": Config().evaluations}
SLOWED = ("optim.rate", "optim.table_rate", "optim.dropped_rate")
SLOWER = 10    # times


def parse_config(argv):
    """Command line to Config. Raises UserError for options and files that cannot be used."""
    given = parse(argv)
    encoder = given.pop("encoder", None)
    shown = given.pop("print_config", False)
    asked, start, inherited = {}, {}, {}
    if path := given.pop("config", None):
        asked = _settings_in(path, "--config")
    if "init" in given:
        start = flat(dataclasses.asdict(describe(given["init"]).config))
        inherited = {name: value for name, value in start.items() if name in INHERITED}
        asked["stage"] = start.get("stage", 0) + 1
    asked |= given
    if "pairs" in asked:
        inherited.pop("columns", None)
    of_encoder = ENCODERS[encoder].preset if encoder else inherited.get("preset", "chat")
    preset = asked.get("preset", of_encoder)
    changes = PRESETS.get(preset, {})                         # config_from_dict names the others
    if encoder and "preset" not in asked:
        changes = changes | {"model.encoder": encoder}
    if inherited and not encoder and "preset" not in asked:
        changes = {name: value for name, value in changes.items() if name not in INHERITED}
        changes |= for_other_pairs(start, asked)
    config = config_from_dict({**inherited, **changes, **asked, "preset": preset})
    if encoder and encoder != config.model.encoder:
        raise UserError(f"--encoder {encoder}: another option or config file asks for "
                        f"--model.encoder {config.model.encoder}")
    if config.nli and not config.second_task:
        raise UserError(f"--nli {config.nli}: no task reads it; name one, as with --task multitask,"
                        " or leave it out")
    places = {"pairs": resolved(config.pairs)}                # read from anywhere
    for name in ("data", "init", "nli"):
        if value := getattr(config, name):
            places[name] = str(Path(value).resolve())
    with user_errors(f"--cache {config.cache}", "name another folder with --cache", RuntimeError):
        places["cache"] = str(Path(config.cache).expanduser().resolve())
    config = dataclasses.replace(config, **places)
    if shown:
        print(json.dumps(dataclasses.asdict(config), indent=2))
        raise SystemExit(0)
    return config


def resolved(paths):
    """Absolute names of files. A link keeps its own name, because the suffix tells the kind."""
    return [str(Path(path).parent.resolve() / Path(path).name) for path in paths]


def for_other_pairs(start, asked):
    """Settings that suit a run which goes on with other pairs; {} for the same pairs and for NLI.

    start: settings of the run to go on from; asked: the user's. Learning rates are a tenth of its
    preset's, whatever number of runs came before.
    """
    own = start.get("pairs", [])
    if "nli" in asked or resolved(asked.get("pairs", own)) == resolved(own):
        return {}
    of_preset = flat(dataclasses.asdict(Config())) | PRESETS.get(start.get("preset"), {})
    return OTHER_PAIRS | {name: of_preset[name] / SLOWER for name in SLOWED}


def resumed_folder(argv):
    """RUN of `--resume RUN`, or None. Raises UserError where another option stands beside it."""
    given = parse(argv)
    if "resume" not in given:
        return None
    if len(given) > 1 or not given["resume"]:
        raise UserError("--resume: expected a run's folder and no other option; to train with "
                        "other settings: --config RUN/config.json")
    return Path(given["resume"])


def parse(argv):
    """The options on a command line, not yet checked: name → text or list of texts."""
    if "--help-all" in argv:
        config_parser(all_options=True).parse_args(["--help"])
    # --pairs=a b as --pairs a b
    argv = [part for arg in argv for part in (arg.split("=", 1) if arg[:2] == "--" else [arg])]
    given = vars(config_parser().parse_args(argv))
    for name, value in given.items():
        if isinstance(value, list) and len(value) == 1 and value[0].startswith("["):
            with suppress(ValueError):                        # a list as JSON is welcome, too
                given[name] = json.loads(value[0])
    return given


def config_parser(all_options=False):
    """The parser of the training command; with all_options its help shows every setting."""
    parser = Parser(
        prog="python -m convsim_mini.train", usage="%(prog)s [options]", add_help=False,
        description="Train a sentence encoder on conversations.",
        epilog="" if all_options else "--help-all shows the options of text, model, optim as well.",
        formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=24, width=100),
        argument_default=argparse.SUPPRESS)
    parser.add_argument("--help", action="help", help="Show this help.")
    parser.add_argument("--config", metavar="FILE",
                        help="JSON file of settings, such as a run's config.json.")
    parser.add_argument("--print_config", action="store_true", help="Print all settings as JSON.")
    parser.add_argument("--encoder", choices=ENCODERS,
                        help="Short for the --preset that learns in minutes with this encoder.")
    parser.add_argument("--resume", metavar="RUN", nargs="?",
                        help="Go on with the stopped run RUN, with its own settings.")
    docs = _docs()
    for name, default in flat(dataclasses.asdict(Config())).items():
        choices = [kind for kind in get_args(settings()[name].type) if isinstance(kind, str)]
        choices = {"model.encoder": ENCODERS, "optim.optimizer": OPTIMIZERS}.get(name, choices)
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


def _settings_in(path, option):
    """The settings in the JSON file of an option: dotted name → value. Raises UserError."""
    values = read_object(path, "cannot be read as JSON", "expected a run's config.json", option)
    for name in values.keys() & {"encoder", "resume"}:
        raise UserError(f'{option} {path}: "{name}" is an option of the command line alone')
    config_from_dict(values, f"{option} {path}")
    return flat(values)
