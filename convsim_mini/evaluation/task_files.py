"""The labelled files of a task: where they are, and their rows."""

from pathlib import Path

from ..cli import UserError, user_errors


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


def read_rows(path, name, titles, separator=None, more=False):
    """Yield (line number, columns) of each line of a UTF-8 text file that is not blank.

    name: the data set's; titles: of the columns, with commas; separator: None for white space;
    more: whether further columns may follow. Raises UserError with file and line.
    """
    with user_errors(f"{path}: cannot be read as UTF-8 text", f"expected a file of {name}",
                     (OSError, UnicodeDecodeError)):
        lines = Path(path).read_text(encoding="utf-8").split("\n")
    count = len(titles.split(","))
    for number, line in enumerate(lines, start=1):
        columns = line.split(separator)
        if not line.strip():
            continue
        if len(columns) < count or len(columns) > count and not more:
            expected = f"{count}{' or more' * more} between {'tabs' if separator else 'spaces'}"
            raise UserError(
                f"{path}, line {number}: {len(columns)} columns, expected {expected}: {titles}")
        yield number, columns
