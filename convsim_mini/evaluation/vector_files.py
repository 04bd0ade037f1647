"""Word vectors that others trained: word2vec or GloVe text, or a .npy matrix and its list of words.

We know of no small library that reads them. gensim reads the text files, but it is a framework for
training.
"""

import os
from pathlib import Path

import numpy as np

from ..cli import UserError, progress
from ..files import read_lines


def read_vectors(path, words):
    """The vectors of a file for a set of words, as far as it knows them: word → float32 (d,).

    A text file, perhaps .gz or .zst, holds a word and its numbers a line, separated by single
    spaces, with or without word2vec's first line "count dim". A `.npy` file holds a matrix. Its
    words stand beside it, one a row: in NAME.txt, or else in the folder's only .parquet file, in
    its only column. Where a word stands twice, the first counts. Tokens are in lower case, so of a
    cased file only such words are used.

    Raises UserError with file and line, or row.
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
    size = os.path.getsize(path) if path.is_file() else None
    with progress(total=size, unit="B", unit_scale=True, desc=path.name, delay=1) as bar:
        lines = read_lines(path, lambda position: bar.update(position - bar.n))
        for number, line in enumerate(lines, start=1):
            line = line.rstrip(b" ")
            if number == 1 and line.count(b" ") == 1 and line.replace(b" ", b"").isdigit():
                count, dim = map(int, line.split())
                continue
            spaces, (word, _, numbers) = line.count(b" "), line.partition(b" ")
            dim = dim or spaces
            # a few words of GloVe hold spaces, such as ". . ."; no token does: passed over
            if not 0 < dim <= spaces or spaces > dim and _is_number(numbers.split(b" ", 1)[0]):
                raise _malformed(path, number, line, dim)
            if word in wanted and spaces == dim and wanted[word] not in vectors:
                vectors[wanted[word]] = _floats(numbers, path, number, line, dim)
    if count is not None and number - 1 != count:
        raise UserError(f"{path}: ends after {number - 1:,} vectors, but its first line says "
                        f"{count:,}; fetch the file again")
    return vectors


def _is_number(text):
    try:
        float(text)
    except ValueError:
        return False
    return True


def _floats(numbers, path, number, line, dim):
    try:
        with np.errstate(over="ignore"):                      # what is too large becomes infinite
            vector = np.array(numbers.split(b" "), np.float32)
    except ValueError:
        vector = np.array(np.nan)
    if not np.isfinite(vector).all():
        raise _malformed(path, number, line, dim)
    return vector


def _malformed(path, number, line, dim):
    shown = line[:40].decode(errors="replace") + ("…" if len(line) > 40 else "")
    return UserError(f'{path}, line {number}: "{shown}", expected a word and {dim or "its"} '
                     "numbers, separated by single spaces, as word2vec and GloVe write text")


# ---------------------------------------------------------------- a matrix and its words

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
    rows = {}
    for row, word in enumerate(names):
        if word in words:
            rows.setdefault(word, row)
    with np.errstate(over="ignore"):
        vectors = {word: matrix[row].astype(np.float32) for word, row in rows.items()}
    for word, vector in vectors.items():
        if not np.isfinite(vector).all():
            raise UserError(f'{path}, row {rows[word]} ("{word}"): holds a number that is not '
                            "finite; mend or replace the file")
    return vectors


def _words_beside(path):
    """The file that lists the words of a matrix, and the list."""
    text, tables = path.with_suffix(".txt"), sorted(path.parent.glob("*.parquet"))
    if text.exists():
        try:
            return text, [line.decode() for line in read_lines(text)]
        except UnicodeDecodeError as why:
            raise UserError(f"{text}: is not UTF-8 text ({why}); expected a word a line") from None
    if len(tables) != 1:
        raise UserError(f"{path}: its words are missing; expected one a line in {text.name}, or "
                        f"one .parquet file beside it with a column of words (found {len(tables)})")
    return tables[0], _parquet_column(tables[0])


def _parquet_column(path):
    try:
        import duckdb  # a large package that nothing else here needs
    except ImportError:
        raise UserError(f"{path}: reading Parquet needs duckdb; pip install duckdb, or write the "
                        "words, one a line, to a text file named like the .npy file") from None
    try:
        rows = duckdb.read_parquet(str(path)).fetchall()
    except duckdb.Error as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{path}: cannot be read as Parquet ({reason})") from None
    if rows and len(rows[0]) != 1:
        raise UserError(f"{path}: holds {len(rows[0])} columns, expected one, of words")
    return [word for word, in rows]
