"""Named arrays in a safetensors file, with a dict that describes them and one checksum."""

import json
import os
import zlib

import numpy as np
from safetensors.numpy import save_file

from .cli import UserError, user_errors
from .files import replace_file

FORMAT = 8
MOST = 100_000_000    # bytes of a header, as safetensors has it
DTYPES = {"F16": "<f2", "F32": "<f4", "F64": "<f8", "I32": "<i4", "I64": "<i8"}
FAULT = "is missing, damaged or cannot be read"
OLDER = "restore it, or train again"
DAMAGE = (OSError, ValueError, LookupError, TypeError, AttributeError)    # what damage raises


def save_arrays(path, arrays, about):
    """Write arrays and the dict `about`, whole or not at all."""
    # safetensors writes the memory of a strided array as it is, so arrays must be contiguous
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    text = json.dumps({"format": FORMAT, **about})
    # one entry: safetensors writes several in any order, so the files of equal runs would differ
    metadata = {"convsim_mini": f"{checksum_of_arrays(arrays, text)} {text}"}
    replace_file(path, lambda temporary: save_file(arrays, temporary, metadata))


def load_arrays(path, advice=OLDER):
    """Read (arrays, about) of `save_arrays`. Raises UserError, with advice, for damage.

    The arrays are read straight into memory. safetensors would map the file, and take it twice.
    """
    with user_errors(f"{path}: {FAULT}", advice, DAMAGE), open(path, "rb") as file:
        entries, crc, text, about = _read_header(path, file)
        data, arrays = file.tell(), {}
        for name, entry in entries.items():
            begin, end = entry["data_offsets"]
            if data + end > os.fstat(file.fileno()).st_size:
                raise ValueError("it is cut short")
            dtype = np.dtype(DTYPES[entry["dtype"]])
            file.seek(data + begin)
            array = np.fromfile(file, dtype, (end - begin) // dtype.itemsize)
            arrays[name] = array.reshape(entry["shape"])
        if int(crc) != checksum_of_arrays(arrays, text):
            raise ValueError("its checksum is wrong")
    return arrays, about


def load_about(path, advice=OLDER):
    """Read `about` alone, unchecked. Raises UserError, with advice, for damage."""
    with user_errors(f"{path}: {FAULT}", advice, DAMAGE), open(path, "rb") as file:
        return _read_header(path, file)[-1]


def _read_header(path, file):
    """What stands before the arrays: their entries, the checksum, `about` as text and as a dict."""
    size = int.from_bytes(file.read(8), "little")
    entries = json.loads(file.read(min(size, MOST)))
    crc, _, text = entries.pop("__metadata__")["convsim_mini"].partition(" ")
    about = json.loads(text)
    if about["format"] != FORMAT:
        raise UserError(f"{path}: was written by another version of convsim_mini (format "
                        f"{about['format']}, expected {FORMAT}); use that version, or train again")
    return entries, crc, text, about


def checksum_of_arrays(arrays, text=""):
    """The CRC-32 of a text and of the names, types, shapes and bytes of arrays."""
    crc = zlib.crc32(text.encode())
    for name, array in sorted(arrays.items()):
        crc = zlib.crc32(f"{name} {array.dtype.str} {array.shape}".encode(), crc)
        crc = zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8), crc)
    return crc
