"""Settings by their dotted names, and a Config made of them; errors name what is wrong."""

import dataclasses
import re
from typing import get_args

import msgspec

from ..common.cli import UserError, did_you_mean
from ..config import GROUPS, SYNONYMS, Config
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
    prefix = f"{where}: " if where else "--"
    values, known, nested = flat(values), settings(), {}
    for name, value in values.items():
        if name not in known:
            hint = did_you_mean(name, known, SYNONYMS)
            raise UserError(f"{prefix}{name}: is not a setting{hint}")
        group, _, last = name.rpartition(".")
        target = nested.setdefault(group, {}) if group else nested
        is_list = known[name].default_factory is not dataclasses.MISSING
        one = is_list and not where and not isinstance(value, (list, tuple))    # in `fit`
        target[last] = [value] if one else value
    try:
        config = msgspec.convert(nested, Config, strict=bool(where))
    except msgspec.ValidationError as error:
        raise UserError(prefix + _explained(str(error), values)) from None
    if fault := _fault(config):
        raise UserError(prefix + fault)
    return config


def _explained(message, values):
    """Turn msgspec's "Expected `int`, got `str` - at `$.steps`" into "steps abc: expected int"."""
    expected, _, place = message.rpartition(" - at `$.")
    expected, name = re.sub(r"`|, got `\w+`", "", expected), re.match(r"[\w.]+", place)[0]
    value, choices = str(values[name]), get_args(settings()[name].type)
    if expected.startswith("Invalid"):
        choices = [choice for kind in choices for choice in get_args(kind) or [kind]]    # of a list
        expected = f"expected {', '.join(choices)}"
    return f"{name} {value:.200}: {expected[0].lower()}{expected[1:]}"


def _fault(config):
    """What is wrong with a Config although each of its values is in range, or None."""
    model, dim = config.model, config.model.embedding_dim
    if model.encoder not in ENCODERS:
        return f"model.encoder {model.encoder}: expected {', '.join(ENCODERS)}"
    is_transformer = model.encoder == "transformer"
    if is_transformer and (dim % model.heads or dim % 2):
        return f"model.embedding_dim {dim}: expected an even multiple of the {model.heads} heads"
    if model.bag and not is_transformer:
        return (f"model.bag true: a {ENCODERS[model.encoder].short} has no bag; use it with "
                "--encoder transformer")
    if len(config.columns) not in (0, 2):
        return f"columns {' '.join(config.columns)}: expected two names, for input and response"
    return None
