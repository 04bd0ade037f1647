"""Named arrays in a safetensors file, with a dict that describes them and one checksum."""

import json
import zlib
from functools import partial

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from .cli import UserError, user_errors
from .files import replace_file

FORMAT = 8
FAULT = "is missing, damaged or cannot be read"
OLDER = "restore it, or train again"
# what damage raises
DAMAGE = (OSError, ValueError, LookupError, TypeError, AttributeError, SafetensorError)
opened = partial(safe_open, framework="np", backend="pread")    # mapped, it takes memory twice


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
    with user_errors(f"{path}: {FAULT}", advice, DAMAGE), opened(path) as file:
        crc, text, about = _metadata(path, file)
        arrays = {name: file.get_tensor(name) for name in file.keys()}
        if int(crc) != checksum_of_arrays(arrays, text):
            raise ValueError("its checksum is wrong")
    return arrays, about


def load_about(path, advice=OLDER):
    """Read `about` alone, unchecked. Raises UserError, with advice, for damage."""
    with user_errors(f"{path}: {FAULT}", advice, DAMAGE), opened(path) as file:
        return _metadata(path, file)[-1]


def _metadata(path, file):
    """The checksum, `about` as text and as a dict."""
    crc, _, text = file.metadata()["convsim_mini"].partition(" ")
    about = json.loads(text)
    if about["format"] != FORMAT:
        raise UserError(f"{path}: was written by another version of convsim_mini (format "
                        f"{about['format']}, expected {FORMAT}); use that version, or train again")
    return crc, text, about


def checksum_of_arrays(arrays, text=""):
    """The CRC-32 of a text and of the names, types, shapes and bytes of arrays."""
    crc = zlib.crc32(text.encode())
    for name, array in sorted(arrays.items()):
        crc = zlib.crc32(f"{name} {array.dtype.str} {array.shape}".encode(), crc)
        crc = zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8), crc)
    return crc
