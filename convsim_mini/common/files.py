"""Files and folders that are written atomically, and locks.

Unfinished work is in a folder `.convsim_mini-XXXXXXXX` next to its target, and is renamed at the
end. A process that is killed leaves that folder behind; you may delete it. Locks work between
processes on one machine.
"""

import os
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from filelock import FileLock, Timeout
from safetensors import SafetensorError

from .cli import UserError, say, user_errors

OURS = ".convsim_mini"      # how the names of locks and of unfinished work begin
OURS_NPY = b"\x93NUMPY\x02"    # how an .npy of ours begins


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
    if os.path.lexists(path) and not path.is_file():
        raise UserError(f"{path}: is not a file that can be replaced; choose another name")
    if path.is_file() and path.stat().st_size:
        with open(path, "rb") as file:
            found = file.read(len(begins))
        if not begins or found != begins or source and path.samefile(source):
            raise UserError(f"{path}: already exists and was not changed; choose another name")


def check_folder(path, advice, is_ours=lambda folder: not any(folder.iterdir())):
    """Where `path` leads: an empty folder, nothing, or what is ours. Raises UserError, OSError."""
    target = Path(os.path.realpath(path))
    if os.path.lexists(target) and not (target.is_dir() and is_ours(target)):
        raise UserError(f"{path}: already exists and was not changed; {advice}")
    return target


@contextmanager
def new_folder(path, advice):
    """A folder to fill, which at the end stands at `path`; after an error there is nothing.

    `path` may be an empty folder, which keeps its mode, its owner and what is mounted there. Raises
    UserError, before anything is done, if anything else is there.
    """
    with user_errors(f"{path}: cannot be written", advice, (OSError, SafetensorError)):
        target = check_folder(path, advice)
        empty = target.is_dir()
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
        with suppress(OSError):                               # Windows does so afterwards
            path.unlink()                                     # whoever waits for it makes another
        lock.release()
