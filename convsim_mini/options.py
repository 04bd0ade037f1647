"""The training command's options. Later settings override earlier ones:

defaults, the run that --init names, the preset, what suits other pairs than that run's, the file
that --config names, single options.
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

from .cli import Parser, UserError, user_errors
from .config import (
    ENCODERS, GROUPS, INHERITED, PRESETS, Config, completed, config_from_dict, flat, settings,
)
from .files import read_object


# What suits a run that goes on with other pairs (ours: in a debate forum 36.9% of 9,988 replies
# were picked before, 37.5 to 37.8% after 600 pairs of it; at the whole rates 35.7 to 36.1%).
OTHER_PAIRS = {"task": "conversation", "steps": 300, "evaluations": Config().evaluations}
SLOWED, SLOWER = ("optim.rate", "optim.table_rate", "optim.dropped_rate"), 10


def parse_config(argv):
    """Command line to Config. Raises UserError for options and files that cannot be used."""
    given = parse(argv)
    encoder, path, shown = (given.pop(name, None) for name in ("encoder", "config", "print_config"))
    asked = (_settings_in(path, "--config") if path else {}) | given
    start = _settings_in(Path(given["init"], "config.json"), "--init") if "init" in given else {}
    not_inherited = {"columns"} if "pairs" in asked else set()
    inherited = {name: start[name] for name in start if name in INHERITED - not_inherited}
    short = {"preset": ENCODERS[encoder]} if encoder else {}
    chosen = {"preset": "chat", **inherited, **short, **asked}["preset"]
    preset = PRESETS.get(chosen, {})
    if inherited and not (short or "preset" in asked):
        preset = {name: preset[name] for name in preset if name not in INHERITED}
        preset |= for_other_pairs(start, asked)
    config = config_from_dict({**inherited, **preset, **asked, "preset": chosen})
    if encoder and encoder != config.model.encoder:
        raise UserError(f"--encoder {encoder}: another option or config file asks for "
                        f"--model.encoder {config.model.encoder}")
    config.pairs = resolved(config.pairs)                     # read from anywhere
    if "init" in given and "stage" not in given:
        config.stage = start.get("stage", 0) + 1
    for name in ("data", "init", "nli"):
        value = getattr(config, name)
        setattr(config, name, value and str(Path(value).resolve()))
    with user_errors(f"--cache {config.cache}", "name another folder with --cache", RuntimeError):
        config.cache = str(Path(config.cache).expanduser().resolve())
    if shown:
        print(json.dumps(dataclasses.asdict(config), indent=2))
        raise SystemExit(0)
    return config


def resolved(paths):
    """Names of files, whole."""
    # The folder alone: a link keeps its name, whose suffix tells what the file holds.
    return [str(Path(path).parent.resolve() / Path(path).name) for path in paths]


def for_other_pairs(start, asked):
    """The settings that suit a run on conversations that goes on with other pairs than its own.

    start: that run's settings; asked: the user's. Its rates are a tenth of its preset's, however
    many runs came before. → dotted name → value; {} where the pairs are the same or NLI is learned
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
    """The options on a command line, not yet checked: name → text, or list of texts."""
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
        epilog="" if all_options else "--help-all shows those of text, model and optim as well.",
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
    return completed(flat(values))
