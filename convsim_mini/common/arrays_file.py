"""Named arrays and what is known about them in one file of safetensors, with checksums."""

import json
import zlib
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from .cli import UserError, user_errors
from .files import replace_file

FORMAT = 11
RESTORE = "restore it, or train again"
UNREADABLE = (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError,
              SafetensorError)    # what damaged files of ours raise
DTYPES = {"F32": np.float32, "I32": np.int32, "I64": np.int64, "U64": np.uint64, "U8": np.uint8}


def save_arrays(path, arrays, about):
    """Write arrays and the dict `about` atomically."""
    # safetensors writes the memory of a strided array as it is, so arrays must be contiguous
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    crcs = {name: checksum_of_arrays({name: array}) for name, array in arrays.items()}
    text = json.dumps({"format": FORMAT, **about, "arrays": crcs})
    # only one entry: safetensors writes several in any order, and files of equal runs would differ
    metadata = {"convsim_mini": f"{zlib.crc32(text.encode())} {text}"}
    replace_file(path, lambda temporary: save_file(arrays, temporary, metadata))


def load_arrays(path, advice=RESTORE, only_about=False, mapped=(), check=False):
    """Read (arrays, about); with only_about, ({}, about). Raises UserError.

    mapped: names of arrays that stay in the file. They are read where they are used, unchecked,
    unless `check` is set
    """
    damaged = f"{path}: is missing, damaged or cannot be read"
    if Path(path).exists() and not Path(path).is_file():
        raise UserError(f"{damaged} (it is a folder or a pipe); {advice}")    # which may wait
    with (user_errors(damaged, advice, UNREADABLE),
          open(path, "rb"),                                   # or safetensors calls all "missing"
          safe_open(path, "np", backend="pread") as file):    # if mapped, it takes memory twice
        crc, _, text = file.metadata()["convsim_mini"].partition(" ")
        about = json.loads(text) | {"checksum": int(crc)}
        if about["format"] != FORMAT:
            raise UserError(f"{path}: was written by another version of convsim_mini (format "
                            f"{about['format']}, expected {FORMAT}); use that version, or {advice}")
        crcs = about.pop("arrays")
        if int(crc) != zlib.crc32(text.encode()):
            raise ValueError("its checksum is wrong")
        if only_about:
            return {}, about
        arrays = {name: mapped_array(path, name) if name in mapped else file.get_tensor(name)
                  for name in crcs}
        for name in crcs if check else crcs.keys() - mapped:
            if crcs[name] != checksum_of_arrays({name: arrays[name]}):
                raise ValueError(f"the checksum of {name} is wrong")
    return arrays, about


def mapped_array(path, name):
    """One of a file's arrays, mapped for reading."""
    with open(path, "rb") as file:
        begin = 8 + int.from_bytes(file.read(8), "little")    # after the header, which is JSON
        about = json.loads(file.read(begin - 8))[name]
    return np.memmap(path, DTYPES[about["dtype"]], "r", begin + about["data_offsets"][0],
                     tuple(about["shape"]))


def checksum_of_arrays(arrays, text=""):
    """The CRC-32 of a text and of the names, types, shapes and bytes of arrays."""
    crc = zlib.crc32(text.encode())
    for name, array in sorted(arrays.items()):
        crc = zlib.crc32(f"{name} {array.dtype.str} {array.shape}".encode(), crc)
        crc = zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8), crc)
    return crc
