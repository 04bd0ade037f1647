"""Arrays by name in a file of safetensors, with what is to be known of them, and with checksums."""

import json
import zlib

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from .cli import UserError, user_errors
from .files import replace_file

FORMAT = 2    # 1: the checksum is of names and numbers alone, and there is none of the metadata
ROWS_AT_ONCE = 4_096
FAULT = "is missing, damaged or cannot be read"
OLDER = "restore it, or delete the newest step's weights and resume files to use older ones"
DAMAGE = (OSError, SafetensorError, ValueError, KeyError, TypeError)    # what a damaged file raises


def save_arrays(path, arrays, about):
    """Write arrays by name, and a dict beside them; → the checksum of the arrays.

    The file is written whole or not at all. Raises UserError as `replace_file` does.
    """
    # safetensors writes the buffer of a strided array as it lies, so it must be contiguous
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    crc = _checksum(arrays)
    about = json.dumps({"format": FORMAT, "crc32": crc, **about})
    # one entry, for safetensors writes several in any order and equal runs would differ
    metadata = {"convsim_mini": f"{zlib.crc32(about.encode())} {about}"}
    replace_file(path, lambda temporary: save_file(arrays, temporary, metadata))
    return crc


def load_arrays(path, advice=OLDER):
    """What `save_arrays` wrote: the arrays by name, and the dict beside them.

    Raises UserError as `load_about`, and where the arrays are damaged.
    """
    about = load_about(path, advice)
    with user_errors(f"{path}: {FAULT}", advice, DAMAGE):
        arrays = _read(path)
        if about.get("crc32") not in (None, _checksum(arrays, about.get("format", 1))):
            raise ValueError("its checksum is wrong")
    return arrays, about


def load_about(path, advice=OLDER):
    """The dict that `save_arrays` wrote beside the arrays, which are not read.

    Raises UserError where the file is missing, damaged or of a newer version; advice: what then to
    do.
    """
    with user_errors(f"{path}: {FAULT}", advice, DAMAGE):
        with safe_open(path, "numpy") as file:
            text = file.metadata()["convsim_mini"]
        if text[:1] != "{":                                   # as in format 1
            crc, _, text = text.partition(" ")
            if int(crc) != zlib.crc32(text.encode()):
                raise ValueError("the checksum of its metadata is wrong")
        about = json.loads(text)
        if about.get("format", 1) > FORMAT:
            raise UserError(f"{path}: was written by a newer version of convsim_mini (format "
                            f"{about['format']}, this one reads up to {FORMAT}); update it")
    return about


def _read(path):
    """Name → array. Large ones are read by parts into NumPy's own memory, which has huge pages.

    Random rows of a table are found faster there: a sentence is encoded in 33 µs, not in 40.
    """
    arrays = {}
    with safe_open(path, "np") as file:
        for name in file.keys():
            tensor = file.get_slice(name)
            shape = tensor.get_shape()
            if not shape or shape[0] <= ROWS_AT_ONCE:
                arrays[name] = file.get_tensor(name)
                continue
            arrays[name] = np.empty(shape, tensor[:1].dtype)
            for start in range(0, shape[0], ROWS_AT_ONCE):
                end = min(start + ROWS_AT_ONCE, shape[0])
                arrays[name][start:end] = tensor[start:end]
    return arrays


def _checksum(arrays, form=FORMAT):
    crc = 0
    for name, array in sorted(arrays.items()):
        kind = name if form == 1 else f"{name} {array.dtype.str} {array.shape}"
        crc = zlib.crc32(array.reshape(-1).view(np.uint8), zlib.crc32(kind.encode(), crc))
    return crc
