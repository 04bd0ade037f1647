"""Word vectors that others trained, from files in the format of word2vec or GloVe."""

import codecs
import re
from contextlib import suppress

import numpy as np

from ..common.cli import UserError, progress
from ..common.lines import read_lines

HEADER = re.compile(rb"\d{1,18} (\d{1,18})")    # word2vec's: number of words, dimensions


def read_vectors(path, words):
    """The vectors of a set of words, from a text file of word2vec or GloVe: word → float32 (d,).

    A file (plain, .gz or .zst) holds one word and its values per line, separated by single spaces,
    with or without word2vec's first line "count dim". If a word has two vectors, the first counts.
    Raises UserError with file and line.
    """
    wanted = {word.encode(): word for word in words}
    vectors, dim = {}, None
    size = path.stat().st_size if path.is_file() else None
    with progress(total=size, unit="B", unit_scale=True, desc=path.name, delay=1) as bar:
        lines = read_lines(path, lambda position: bar.update(position - bar.n))
        for number, line in enumerate(lines, start=1):
            line = line.removeprefix(codecs.BOM_UTF8).rstrip(b" ")
            if number == 1 and (header := HEADER.fullmatch(line)):
                dim = int(header[1])
                continue
            word, _, numbers = line.partition(b" ")
            spaces = line.count(b" ")
            dim = dim or spaces
            is_row = 0 < dim <= spaces    # a few GloVe words hold spaces (". . ."); tokens do not
            if is_row and dim == spaces and word in wanted:
                vector = _floats(numbers.split(b" "))
                vectors.setdefault(wanted[word], vector)
                is_row = vector is not None
            if not is_row:
                found = line[:40].decode(errors="replace")
                raise UserError(f'{path}, line {number}: "{found}", expected a word and '
                                f"{dim or 'its'} numbers, separated by single spaces")
    if not vectors:
        raise UserError(f"{path}: contains none of the {len(words):,} words in these texts; use "
                        "vectors of lower-case words in the same language")
    return vectors


def _floats(texts):
    """Numbers as float32 (d,); None if a text is not a finite number."""
    with suppress(ValueError), np.errstate(over="ignore"):    # what is too large becomes infinite
        numbers = np.array(texts, np.float32)
        return numbers if np.isfinite(numbers).all() else None
