"""What a task reads: labelled files, published figures, and word vectors that others trained."""

import json
import math
import re
from contextlib import suppress
from pathlib import Path

import numpy as np

from ..common.cli import UserError, progress, user_errors
from ..common.files import read_lines

HEADER = re.compile(rb"(\d{1,18}) (\d{1,18})")    # word2vec's: number of words, numbers in each


def find_files(data, below, patterns, name, own):
    """The files of the data set `name` in the folder `data`, or else in data/below: stem → path.

    own: the file of our own set, which is found where data is None. Files without labels
    (*-input.*) are passed over. Raises UserError where nothing is found.
    """
    if data is None:
        return {"own set": own}
    for folder in (Path(data), Path(data, below)):
        paths = [path for pattern in patterns for path in sorted(folder.glob(pattern))]
        found = {path.stem: path for path in paths if not path.stem.endswith("-input")}
        if found:
            return found
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


def read_vectors(path, words):
    """The vectors of a set of words in a text file of word2vec or GloVe: word → float32 (d,).

    A file, perhaps .gz or .zst, holds a word and its numbers a line, separated by single spaces,
    with or without word2vec's first line "count dim". Where a word stands twice, the first counts.
    Raises UserError with file and line.
    """
    path = Path(path)
    wanted = {word.encode(): word for word in words}
    vectors = {}
    count = dim = None
    size = path.stat().st_size if path.is_file() else None
    with progress(total=size, unit="B", unit_scale=True, desc=path.name, delay=1) as bar:
        lines = read_lines(path, lambda position: bar.update(position - bar.n))
        for number, line in enumerate(lines, start=1):
            line = line.rstrip(b" ")
            header = HEADER.fullmatch(line) if number == 1 else None
            if header:
                count, dim = map(int, header.groups())
                continue
            word, _, numbers = line.partition(b" ")
            spaces = line.count(b" ")
            dim = dim or spaces
            is_row = 0 < dim <= spaces
            if spaces > dim:    # a few words of GloVe hold spaces, such as ". . ."; no token does
                is_row = is_row and _floats(numbers.split(b" ", 1)[:1]) is None
            elif is_row and word in wanted and wanted[word] not in vectors:
                vectors[wanted[word]] = _floats(numbers.split(b" "))
                is_row = vectors[wanted[word]] is not None
            if not is_row:
                shown = line[:40].decode(errors="replace") + ("…" if len(line) > 40 else "")
                raise UserError(f'{path}, line {number}: "{shown}", expected a word and '
                                f'{dim or "its"} numbers, separated by single spaces')
    if count is not None and number - 1 != count:
        raise UserError(f"{path}: ends after {number - 1:,} vectors, but its first line says "
                        f"{count:,}; fetch the file again")
    if not vectors:
        raise UserError(f"{path}: holds none of the {len(words):,} words of these texts; give "
                        "vectors of lower-case words of their language")
    return vectors


def _floats(texts):
    """Numbers as float32 (d,); None where a text is no finite number."""
    with suppress(ValueError), np.errstate(over="ignore"):    # what is too large becomes infinite
        numbers = np.array(texts, np.float32)
        return numbers if np.isfinite(numbers).all() else None
