"""The labelled files of a task: where they are, and their rows; published figures."""

import json
import math
from pathlib import Path

from ..common.cli import UserError, user_errors


def find_files(data, below, patterns, name):
    """The files of a data set in the folder `data`, or else in data/below: list of paths.

    name: the data set's. Files without labels (*-input.*) are passed over. Raises UserError.
    """
    for folder in (Path(data), Path(data, below)):
        paths = [path for pattern in patterns for path in sorted(folder.glob(pattern))
                 if not path.stem.endswith("-input")]
        if paths:
            return paths
    raise UserError(f"{data}: holds no {', '.join(patterns)} with labels, nor does {data}/{below}; "
                    f"unpack {name} there, or leave out --data for the small own set")


def lines_of(path, name, encoding="UTF-8"):
    """The lines of a text file, split at \\n alone. name: the data set's. Raises UserError."""
    with user_errors(f"{path}: cannot be read as {encoding} text", f"expected a file of {name}",
                     (OSError, UnicodeDecodeError)):
        return Path(path).read_bytes().decode(encoding).removesuffix("\n").split("\n")


def published(task):
    """What published.json says of a task: "figures" of other systems, their "source"."""
    path = Path(__file__).with_name("published.json")
    return json.loads(path.read_text(encoding="utf-8"))[task]


def number_or_nan(text):
    """The number that a text spells; nan where it spells none."""
    try:
        return float(text)
    except ValueError:
        return math.nan
