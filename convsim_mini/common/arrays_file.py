"""Named arrays in a safetensors file, with a dict that describes them and one checksum."""

import json
import zlib

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from .cli import UserError, user_errors
from .files import replace_file

FORMAT = 7
ROWS_AT_ONCE = 4_096
FAULT = "is missing, damaged or cannot be read"
OLDER = "restore it, or train again"
DAMAGE = (OSError, SafetensorError, ValueError, KeyError, TypeError)    # what a damaged file raises


def save_arrays(path, arrays, about):
    """Write arrays and the dict `about`, whole or not at all."""
    # safetensors writes the memory of a strided array as it is, so arrays must be contiguous
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    text = json.dumps({"format": FORMAT, **about})
    # one entry: safetensors writes several in any order, so the files of equal runs would differ
    metadata = {"convsim_mini": f"{checksum_of_arrays(arrays, text)} {text}"}
    replace_file(path, lambda temporary: save_file(arrays, temporary, metadata))


def load_arrays(path, advice=OLDER):
    """Read (arrays, about) of `save_arrays`. Raises UserError, with advice, for damage."""
    about, crc, text = _read_about(path, advice)
    with user_errors(f"{path}: {FAULT}", advice, DAMAGE):
        arrays = _read(path)
        is_whole = int(crc) == checksum_of_arrays(arrays, text)
        if not is_whole and _read_about(path, advice)[1] == crc:
            raise ValueError("its checksum is wrong")
    if is_whole:
        return arrays, about
    return load_arrays(path, advice)    # a training has replaced the file meanwhile


def load_about(path, advice=OLDER):
    """Read `about` alone, unchecked. Raises UserError, with advice, for damage."""
    return _read_about(path, advice)[0]


def checksum_of_arrays(arrays, text=""):
    """The CRC-32 of a text and of the names, types, shapes and bytes of arrays."""
    crc = zlib.crc32(text.encode())
    for name, array in sorted(arrays.items()):
        crc = zlib.crc32(f"{name} {array.dtype.str} {array.shape}".encode(), crc)
        crc = zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8), crc)
    return crc


def _read_about(path, advice):
    with user_errors(f"{path}: {FAULT}", advice, DAMAGE):
        with safe_open(path, "numpy") as file:
            crc, _, text = file.metadata()["convsim_mini"].partition(" ")
        about = json.loads(text)
        found = about["format"]
    if found != FORMAT:
        raise UserError(f"{path}: was written by another version of convsim_mini (format {found}, "
                        f"expected {FORMAT}); use that version, or train again")
    return about, crc, text


def _read(path):
    """All arrays of a file, by name.

    They are read in parts into NumPy's own memory, which has huge pages. Random rows of a table are
    found faster there: encoding a sentence took 33 µs instead of 40. Each part opens the file anew:
    while it is open, what was read stays in memory, too.
    """
    with safe_open(path, "np") as file:
        tensors = {name: file.get_slice(name) for name in file.keys()}
        arrays = {name: np.empty(tensor.get_shape(), tensor[:1].dtype)
                  for name, tensor in tensors.items()}
    del tensors                                               # they keep the file open
    for name, array in arrays.items():
        for start in range(0, len(array), ROWS_AT_ONCE):
            with safe_open(path, "np") as file:
                part = array[start:start + ROWS_AT_ONCE]
                part[:] = file.get_slice(name)[start:start + len(part)]
    return arrays
