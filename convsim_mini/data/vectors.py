"""Word vectors that others trained: texts as of word2vec or GloVe, tables with tokenizers."""

import codecs
import re
from contextlib import suppress

import numpy as np

from ..common.cli import UserError, path_of, progress, python_m, user_errors
from ..common.lines import read_lines
from ..common.arrays_file import UNREADABLE

HEADER = re.compile(rb"\d{1,18} (\d{1,18})")    # word2vec's: number of words, dimensions


def vectors_of(path, words):
    """The vectors of those words of a list that have one: word → float32 (d,).

    path: a text file (see `read_vectors`); a .npz with arrays `words` and `vectors`; or a table of
    token vectors with its tokenizer, as a folder of model2vec or WordLlama, where a word gets the
    mean of its tokens. Raises UserError.
    """
    path = path_of(path)
    advice = "expected word vectors: --model.start FILE"
    with user_errors(f"{path}: cannot be read", advice, UNREADABLE):
        if path.is_dir() or path.suffix == ".safetensors":
            return _of_tokens(path, words)
        if path.suffix == ".npz":
            file = np.load(path)
            found = dict(zip(file["words"].tolist(), file["vectors"].astype(np.float32)))
            return {word: found[word] for word in words if word in found}
    return read_vectors(path, words)


def _of_tokens(path, words):
    """As `vectors_of`. path: a folder, or a .safetensors next to its tokenizer's file"""
    with user_errors("--model.start: a table with a tokenizer needs a package",
                     f"run {python_m('pip install tokenizers')}", ImportError):
        from tokenizers import Tokenizer
    from safetensors.numpy import load_file
    is_folder = path.is_dir()
    table = load_file(_first(path.rglob("*.safetensors"), ".safetensors") if is_folder else path)
    rows = table.get("mapping")                               # model2vec's, of a pruned table
    table = _first((array for array in table.values() if array.ndim == 2), "array (n, d)")
    table = table.astype(np.float32)
    files = path.rglob("*tokenizer*.json") if is_folder else path.parent.glob("*tokenizer*.json")
    files = sorted(files, key=lambda file: (file.name != "tokenizer.json", file))
    file = _first(files, "tokenizer.json")
    tokens = Tokenizer.from_file(str(file)).encode_batch([*words], add_special_tokens=False)
    return {word: table[one.ids if rows is None else rows[one.ids]].mean(axis=0)
            for word, one in zip(words, tokens) if one.ids}


def _first(found, what):
    """The first of what was found. Raises ValueError if that is nothing."""
    for one in found:
        return one
    raise ValueError(f"it has no {what}")


def read_vectors(path, words):
    """The vectors of a set of words, from a text file of word2vec or GloVe: word → float32 (d,).

    A file (plain, .gz or .zst) holds one word and its values per line, separated by single spaces,
    with or without word2vec's first line "count dim". If a word has two vectors, the first counts.
    Raises UserError with file and line.
    """
    wanted, vectors, dim = {word.encode(): word for word in words}, {}, None
    lines = progress(read_lines(path), path.name, unit=" words", unit_scale=True, delay=1)
    for number, line in enumerate(lines, start=1):
        line = line.removeprefix(codecs.BOM_UTF8).rstrip(b" ")
        if number == 1 and (header := HEADER.fullmatch(line)):
            dim = int(header[1])
            continue
        word, _, numbers = line.partition(b" ")
        spaces = line.count(b" ")
        dim = dim or spaces
        is_row = 0 < dim <= spaces       # a few GloVe words hold spaces (". . ."); tokens do not
        if is_row and dim == spaces and word in wanted:
            vector = _floats(numbers.split(b" "))
            vectors.setdefault(wanted[word], vector)
            is_row = vector is not None
        if not is_row:
            raise UserError(f'{path}, line {number}: "{line[:40].decode(errors="replace")}", '
                            f"expected a word and {dim or 'its'} numbers, separated by single "
                            "spaces")
    if not vectors:
        raise UserError(f"{path}: contains none of the {len(words):,} words in these texts; use "
                        "vectors of lower-case words in the same language")
    return vectors


def _floats(texts):
    """Numbers as float32 (d,); None if a text is not a finite number."""
    with suppress(ValueError), np.errstate(over="ignore"):    # what is too large becomes infinite
        numbers = np.array(texts, np.float32)
        return numbers if np.isfinite(numbers).all() else None
