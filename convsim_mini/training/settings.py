"""Settings by their dotted names, and a Config made of them; errors name what is wrong."""

import dataclasses
from typing import Literal, get_args, get_origin

import msgspec

from ..common.cli import UserError, did_you_mean
from ..config import GROUPS, SYNONYMS, TITLES, Config
from ..core.model import ENCODERS


def settings():
    """Every setting under its dotted name: name → dataclass field."""
    return {group + setting.name: setting for group, cls in GROUPS.items()
            for setting in dataclasses.fields(cls) if f"{setting.name}." not in GROUPS}


def flat(values, group=""):
    """Nested dicts as one dict with dotted names."""
    named = {}
    for name, value in values.items():
        if isinstance(value, dict) and not group:             # groups have no groups
            named |= flat(value, f"{name}.")
        else:
            named[group + name] = value
    return named


def config_from_dict(values, where=""):
    """A dict of settings, nested or with dotted names, as a Config. Raises UserError.

    where: the file that they come from; "": the command line, on which numbers are str
    """
    prefix, known = f"{where}: " if where else "--", settings()
    groups = {group: {} for group in GROUPS}
    for name, value in flat(values).items():
        if name not in known:
            hint = did_you_mean(name, known, SYNONYMS)
            raise UserError(f"{prefix}{name}: is not a setting{hint}")
        is_list = known[name].default_factory is not dataclasses.MISSING
        if is_list and not where and not isinstance(value, (list, tuple)):    # in `fit`
            value = [value]
        group, dot, last = name.rpartition(".")
        try:
            groups[group + dot][last] = msgspec.convert(value, known[name].type, strict=bool(where))
        except msgspec.ValidationError as error:
            expected = str(error).partition(", got")[0].replace("`", "").lower()
            if choices := choices_of(known[name].type):
                expected = f"expected {', '.join(choices)}"
            raise UserError(f"{prefix}{name} {str(value):.200}: {expected}") from None
    parts = {group[:-1]: cls(**groups[group]) for group, cls in GROUPS.items() if group}
    config = Config(**groups[""], **parts)
    if fault := _fault(config):
        raise UserError(prefix + fault)
    return config


def choices_of(kind):
    """The strings that a type of Literal[…], or a list of it, allows; () for other types."""
    if get_origin(kind) is list:
        return choices_of(*get_args(kind))
    return get_args(kind) if get_origin(kind) is Literal else ()


def _fault(config):
    """What is wrong with a Config although each of its values is in range, or None."""
    model, dim = config.model, config.model.embedding_dim
    if model.encoder not in ENCODERS:
        return f"model.encoder {model.encoder}: expected {', '.join(ENCODERS)}"
    is_transformer = model.encoder == "transformer"
    if is_transformer and (dim % model.heads or dim % 2):
        return f"model.embedding_dim {dim}: expected an even multiple of the {model.heads} heads"
    if model.bag and not is_transformer:
        return (f"model.bag true: a {TITLES.get(model.encoder, model.encoder)} has no bag; use it "
                "with --encoder transformer")
    if len(config.columns) not in (0, 2):
        return f"columns {' '.join(config.columns)}: expected two names, for input and response"
    return None
