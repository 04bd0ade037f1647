"""Word vectors that others trained: word2vec or GloVe text, or a .npy matrix and its list of words.

We know of no small library that reads them; gensim is a framework for training.
"""

import re
from contextlib import suppress
from pathlib import Path

import numpy as np

from ..cli import UserError, progress, user_errors
from ..files import read_lines


def read_vectors(path, words):
    """The vectors of a file for a set of words, as far as it knows them: word → float32 (d,).

    A text file, perhaps .gz or .zst, holds a word and its numbers a line, separated by single
    spaces, with or without word2vec's first line "count dim". A `.npy` file holds a matrix; its
    words, one a row, are in NAME.txt, or else in the only column of the folder's only .parquet
    file. Where a word stands twice, the first counts. Raises UserError with file and line, or row.
    """
    path = Path(path)
    vectors = (_read_matrix if path.suffix == ".npy" else _read_text)(path, words)
    if not vectors:
        raise UserError(f"{path}: holds none of the {len(words):,} words of these texts; give "
                        "vectors of lower-case words of their language")
    return vectors


def _read_text(path, words):
    wanted = {word.encode(): word for word in words}
    vectors, count, dim, number = {}, None, None, 0
    size = path.stat().st_size if path.is_file() else None
    with progress(total=size, unit="B", unit_scale=True, desc=path.name, delay=1) as bar:
        lines = read_lines(path, lambda position: bar.update(position - bar.n))
        for number, line in enumerate(lines, start=1):
            line = line.rstrip(b" ")
            if number == 1 and (header := re.fullmatch(rb"(\d{1,18}) (\d{1,18})", line)):
                count, dim = map(int, header.groups())
                continue
            spaces, (word, _, numbers) = line.count(b" "), line.partition(b" ")
            dim = dim or spaces
            # a few words of GloVe hold spaces, such as ". . ."; no token does: passed over
            is_whole = 0 < dim <= spaces and (
                spaces == dim or _floats(numbers.split(b" ", 1)[0]) is None)
            if is_whole and word in wanted and spaces == dim and wanted[word] not in vectors:
                vectors[wanted[word]] = vector = _floats(numbers)
                is_whole = vector is not None and np.isfinite(vector).all()
            if not is_whole:
                shown = line[:40].decode(errors="replace") + "…" * (len(line) > 40)
                raise UserError(f'{path}, line {number}: "{shown}", expected a word and '
                                f'{dim or "its"} numbers, separated by single spaces')
    if count is not None and number - 1 != count:
        raise UserError(f"{path}: ends after {number - 1:,} vectors, but its first line says "
                        f"{count:,}; fetch the file again")
    return vectors


def _floats(text):
    """Numbers separated by single spaces: float32 (d,); None where one of them is no number."""
    with suppress(ValueError), np.errstate(over="ignore"):    # what is too large becomes infinite
        return np.array(text.split(b" "), np.float32)


def _read_matrix(path, words):
    try:
        matrix = np.lib.format.open_memmap(path, mode="r")
    except Exception as error:                                # the header is Python: any may come
        reason = " ".join(str(error).split())
        raise UserError(f"{path}: cannot be read as a NumPy array ({reason}); expected a matrix of "
                        "float, a row a word") from None
    if matrix.ndim != 2 or not np.issubdtype(matrix.dtype, np.floating):
        raise UserError(f"{path}: holds {matrix.dtype} of shape {matrix.shape}, expected a matrix "
                        "of float, a row a word")
    beside, names = _words_beside(path)
    if len(names) != len(matrix):
        raise UserError(f"{beside}: holds {len(names):,} words, but {path.name} has "
                        f"{len(matrix):,} rows; expected one a row")
    vectors = {}
    for row, word in enumerate(names):
        if word in words and word not in vectors:
            with np.errstate(over="ignore"):                  # what is too large becomes infinite
                vectors[word] = matrix[row].astype(np.float32)
            if not np.isfinite(vectors[word]).all():
                raise UserError(f'{path}, row {row} ("{word}"): holds a number that is not finite; '
                                "mend or replace the file")
    return vectors


def _words_beside(path):
    """The file that lists the words of a matrix, and the list."""
    text, tables = path.with_suffix(".txt"), sorted(path.parent.glob("*.parquet"))
    if text.exists():
        with user_errors(f"{text}: is not UTF-8 text", "expected a word a line", UnicodeError):
            return text, [line.decode() for line in read_lines(text)]
    if len(tables) != 1:
        raise UserError(f"{path}: its words are missing; expected one a line in {text.name}, or "
                        f"one .parquet file beside it with a column of words (found {len(tables)})")
    try:
        import duckdb  # a large package that nothing else here needs
    except ImportError:
        raise UserError(f"{tables[0]}: reading Parquet needs duckdb; pip install duckdb, or write "
                        f"the words, one a line, to {text.name}") from None
    try:
        rows = duckdb.read_parquet(str(tables[0])).fetchall()
    except duckdb.Error as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{tables[0]}: cannot be read as Parquet ({reason})") from None
    if rows and len(rows[0]) != 1:
        raise UserError(f"{tables[0]}: holds {len(rows[0])} columns, expected one, of words")
    return tables[0], [word for word, in rows]
