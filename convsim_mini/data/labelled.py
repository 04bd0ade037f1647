"""Published labelled data sets: where their files are, and how mistakes in rows are reported."""

import re
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import msgspec

from ..common.cli import UserError, user_errors


class DataSet(NamedTuple):
    """A data set as its publishers pack it."""

    name: str
    files: Collection            # patterns of their names
    below: Collection = ()       # folders of DIR that may hold them instead
    needed: Collection = ()      # the names without which the others are useless


def find(sets, data):
    """The files of some DataSets in the folder `data`: set's name → file's name → path.

    A set's files come from the first folder, `data` or one `below` it, with any of them and all
    `needed`. Those without labels (*-input.*) or for another task (*subtaskA*) are skipped. Raises
    UserError if nothing is found.
    """
    names = " and ".join(one.name for one in sets)
    if data is None:
        raise UserError(f"--data is missing: name the folder that holds {names}")
    found = {}
    for one in sets:
        for folder in (Path(data, below) for below in ("", *one.below)):
            paths = [path for pattern in one.files for path in sorted(folder.glob(pattern))]
            files = {path.relative_to(folder).as_posix(): path for path in paths
                     if not re.search(r"-input\Z|subtaskA", path.stem)}
            if files and files.keys() >= {*one.needed}:
                found.setdefault(one.name, files)
    if not found:
        one = sets[0]
        lacking = " or ".join(one.needed) or ", ".join(one.files)
        raise UserError(f"{data}: lacks {lacking}, and so do its folders {', '.join(one.below)}; "
                        f"put the files published as {names} there")
    return found


def lines_of(path, name, encoding="UTF-8"):
    """The lines of a text file, split only at \\n. name: of the data set. Raises UserError."""
    with user_errors(f"{path}: cannot be read as {encoding} text", f"expected a file of {name}",
                     (OSError, UnicodeDecodeError)):
        return Path(path).read_bytes().decode(encoding).removesuffix("\n").split("\n")


def rows_of(path, row, records, unit="line"):
    """Yield each record as an object of the class `row`, a msgspec Struct.

    records: as in formats.py. The docstring of `row` says what is expected in a row. Raises a
    UserError that names the file, the line and the field.
    """
    for number, record in records:
        if isinstance(record, ValueError):
            raise UserError(f"{path}, {unit} {number}: {record}")
        try:
            yield msgspec.convert(record, row, strict=False)
        except msgspec.ValidationError as error:
            field = re.search(r"(\w+)`$", str(error))[1]
            found = f'{field} "{str(record[field])[:60]}"' if field in record else f"no {field}"
            expected = " ".join((row.__doc__ or "").split())
            raise UserError(f"{path}, {unit} {number}: {found}, expected {expected}") from None
