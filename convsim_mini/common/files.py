"""Files and folders that are written atomically; named arrays in a file; checksums; locks.

Unfinished work is in a folder `.convsim_mini-XXXXXXXX` next to its target, and is renamed at the
end. A process that is killed leaves that folder behind; you may delete it. Locks work between
processes on one machine.
"""

import json
import os
import stat
import zlib
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from filelock import FileLock, Timeout
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from .cli import UserError, say, user_errors

OURS = ".convsim_mini"      # how the names of locks and of unfinished work begin
UNREADABLE = (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError,
              SafetensorError)    # what damaged files of ours raise
OURS_NPY = b"\x93NUMPY\x02"    # how an .npy of ours begins
FORMAT = 11
RESTORE = "restore it, or train again"
DTYPES = {"F32": np.float32, "I32": np.int32, "I64": np.int64, "U64": np.uint64, "U8": np.uint8}


def write_text(path, text):
    """Write a text file atomically, the same bytes on Windows; "?" for what is not Unicode."""
    replace_file(path, lambda name: Path(name).write_text(text, "utf-8", "replace", "\n"))


def write_rows(path, blocks, width):
    """Write float32 blocks (n, width) as one .npy file, atomically; → the number of rows.

    Its header is of version 2, by which it is known as ours: `np.save` writes version 1.
    """
    header = {"descr": "<f4", "fortran_order": False, "shape": (0, width)}

    def write(temporary):
        with open(temporary, "wb") as file:
            np.lib.format.write_array_header_2_0(file, header)
            for block in blocks:
                file.write(np.ascontiguousarray(block))    # `tofile` may lose a signal's exception
                header["shape"] = (header["shape"][0] + len(block), width)
            file.seek(0)
            np.lib.format.write_array_header_2_0(file, header)    # NumPy pads it to one length

    replace_file(path, write)
    return header["shape"][0]


def replace_file(path, write):
    """Let write(name) fill a temporary file, then sync it and rename it to path.

    If path is a link, its target is replaced. The new file keeps the old one's mode and owner.
    After a UserError nothing has changed.
    """
    path = Path(os.path.realpath(path))
    advice = "make room there or choose another folder"
    with user_errors(f"{path}: cannot be written", advice, (OSError, SafetensorError)):
        if os.path.lexists(path) and not path.is_file():      # a folder, a device, a looping link
            raise UserError(f"{path}: is not a file that can be replaced; choose another name")
        with workplace(path.parent) as folder:
            temporary = folder / path.name
            temporary.touch()
            # as the old file or, if there is none, as the user's umask and folder ask for
            old = (path if path.exists() else temporary).stat()
            write(str(temporary))
            new = temporary.stat()
            if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid) and hasattr(os, "chown"):
                os.chown(temporary, old.st_uid, old.st_gid)   # refused for a file of somebody else
            temporary.chmod(stat.S_IMODE(old.st_mode))        # safetensors makes files private
            with open(temporary, "rb+") as file:
                os.fsync(file.fileno())
            os.replace(temporary, path)


def check_replaceable(path, begins=b"", source=None):
    """Raise a UserError if `path` is a file that a command did not write, or its source.

    begins: the first bytes of every file that it writes; b"": of those of users, too
    """
    if path.is_file() and path.stat().st_size:
        with open(path, "rb") as file:
            found = file.read(len(begins))
        if not begins or found != begins or source and path.samefile(source):
            raise UserError(f"{path}: already exists and was not changed; choose another name")


@contextmanager
def new_folder(path, advice):
    """A folder to fill, which at the end stands at `path`; after an error there is nothing.

    `path` may be an empty folder, which keeps its mode, its owner and what is mounted there. Raises
    UserError, before anything is done, if anything else is there.
    """
    target = Path(os.path.realpath(path))
    with user_errors(f"{path}: cannot be written", advice, (OSError, SafetensorError)):
        empty = target.is_dir() and not any(target.iterdir())
        if not empty and os.path.lexists(target):
            raise UserError(f"{path}: already exists and was not changed; {advice}")
        target.parent.mkdir(parents=True, exist_ok=True)
        with workplace(target if empty else target.parent) as private:
            folder = private / target.name
            folder.mkdir()                                    # not private, unlike `private`
            yield folder
            if not empty:
                os.replace(folder, target)
                return
            if [*target.iterdir()] != [private]:
                raise UserError(f"{path}: somebody else has put files there meanwhile; {advice}")
            for made in folder.iterdir():
                os.replace(made, target / made.name)


@contextmanager
def workplace(parent):
    """A new folder in `parent` for unfinished work, deleted at the end. Raises OSError."""
    with TemporaryDirectory(prefix=f"{OURS}-", dir=parent, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@contextmanager
def locked(folder, busy=None, name=f"{OURS}.lock"):
    """Hold a folder's lock. Raises OSError.

    busy: the UserError's text if it is taken; None: wait, and say so after ten seconds
    """
    path = Path(folder, name)
    if path.exists() and path.stat().st_size:                 # it would be emptied, then deleted
        raise UserError(f"{path}: is not ours, and has the name of our lock; rename it")
    lock = FileLock(path)
    try:
        # a killed process's children keep its lock for a moment
        lock.acquire(timeout=1 if busy else 10)
    except Timeout:
        if busy:
            raise UserError(busy) from None
        say(f"{folder}: waiting for another process, which prepares the same there")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
        with suppress(OSError):                               # Windows does so afterwards
            path.unlink()                                     # whoever waits for it makes another


# ---------------------------------------------------------------- named arrays, in safetensors

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
