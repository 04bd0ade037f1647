"""Named arrays in a safetensors file, with a dict that describes them and a checksum of each."""

import json
import zlib

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from .cli import UserError, user_errors
from .files import replace_file

FORMAT = 6
ROWS_AT_ONCE = 4_096
FAULT = "is missing, damaged or cannot be read"
OLDER = "restore it, or delete the newest step's weights and resume files to use older ones"
DAMAGE = (OSError, SafetensorError, ValueError, KeyError, TypeError)    # what a damaged file raises


def save_arrays(path, arrays, about):
    """Write arrays and the dict `about`, whole or not at all; → the arrays' checksum."""
    # safetensors writes the memory of a strided array as it is, so arrays must be contiguous
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    crc = _checksum(arrays)
    about = json.dumps({**about, "format": FORMAT, "crc32": crc})
    # one entry: safetensors writes several in any order, so the files of equal runs would differ
    metadata = {"convsim_mini": f"{zlib.crc32(about.encode())} {about}"}
    replace_file(path, lambda temporary: save_file(arrays, temporary, metadata))
    return crc


def load_arrays(path, advice=OLDER):
    """Read (arrays, about) of `save_arrays`. Raises UserError where either is damaged."""
    about = load_about(path, advice)
    with user_errors(f"{path}: {FAULT}", advice, DAMAGE):
        arrays = _read(path)
        if about["crc32"] != _checksum(arrays):
            raise ValueError("its checksum is wrong")
    return arrays, about


def load_about(path, advice=OLDER):
    """Read `about` alone. Raises UserError, with advice, for damage and another FORMAT."""
    with user_errors(f"{path}: {FAULT}", advice, DAMAGE):
        with safe_open(path, "numpy") as file:
            crc, _, text = file.metadata()["convsim_mini"].partition(" ")
        if int(crc) != zlib.crc32(text.encode()):
            raise ValueError("the checksum of its metadata is wrong")
        about = json.loads(text)
    if about["format"] != FORMAT:
        raise UserError(f"{path}: was written by another version of convsim_mini (format "
                        f"{about['format']}, expected {FORMAT}); use that version, or train again")
    return about


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


def _checksum(arrays):
    crc = 0
    for name, array in sorted(arrays.items()):
        crc = zlib.crc32(f"{name} {array.dtype.str} {array.shape}".encode(), crc)
        crc = zlib.crc32(array.reshape(-1).view(np.uint8), crc)
    return crc
