"""Folders that processes share: unfinished work, locks, and what a killed process has left.

What takes long to write is written in a folder of its own, `.convsim_mini-HOST-XXXXXXXX`, beside
its place, and renamed at the end. The process locks that folder until it ends, even if it is
killed. So a folder that is not locked was left by a dead process, and the next process there
deletes it. Locks hold among the processes of one machine. Windows locks no folder, but a file in
it, which is deleted with the lock.
"""

import errno
import os
import platform
import shutil
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import lock_descriptor

from .cli import UserError

PREFIX = ".convsim_mini-"
OWN = f"{PREFIX}{platform.node()}-"
LOCK = ".convsim_mini.lock"
O_DIRECTORY = getattr(os, "O_DIRECTORY", None)
FOLDERS_OPEN = O_DIRECTORY is not None    # Windows opens no folder, and deletes no open file
WEEK = 7 * 24 * 3600    # seconds
# errors of file systems that have no locks
NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK, errno.EINVAL, errno.EBADF)


@contextmanager
def workplace(parent):
    """A new folder in `parent` for unfinished work, deleted at the end. Raises OSError."""
    sweep(parent)
    lock = None
    while lock is None:
        folder = Path(tempfile.mkdtemp(prefix=OWN, dir=parent))
        with suppress(FileNotFoundError):                     # another swept it before its lock
            lock = _lock(folder)
    try:
        yield folder
    finally:
        _delete(folder, lock)


def sweep(parent):
    """Delete what dead processes have left in a folder, or other machines more than a week ago."""
    for folder in Path(parent).glob(f"{PREFIX}*"):
        with suppress(OSError):                               # BlockingIOError: its owner lives
            is_ours = f"{folder.name.rpartition('-')[0]}-" == OWN
            if is_ours or time.time() - folder.stat().st_mtime > WEEK:
                _delete(folder, _lock(folder, wait=False, needed=True))


@contextmanager
def locked(folder, busy=None):
    """Hold a folder's lock. busy: the UserError where it is taken; None: wait. Raises OSError."""
    for tries_left in range(9, -1, -1):    # a killed process's children keep its lock for a moment
        try:
            lock = _lock(folder, wait=not busy)
            break
        except (BlockingIOError, FileNotFoundError) as error:
            if not busy:
                raise
            if not tries_left or isinstance(error, FileNotFoundError):
                raise UserError(busy) from None
            time.sleep(0.1)
    try:
        yield
    finally:
        _free(folder, lock)


def _lock(folder, wait=True, needed=False):
    """A descriptor that holds a folder's lock. needed: OSError where there are no locks."""
    if FOLDERS_OPEN:
        lock = os.open(folder, os.O_RDONLY | O_DIRECTORY)
    else:
        lock = os.open(Path(folder, LOCK), os.O_RDWR | os.O_CREAT)
    try:
        try:
            if not lock_descriptor(lock, blocking=wait):
                raise BlockingIOError(folder)
        except OSError as error:
            if needed or error.errno not in NO_LOCKS:
                raise
        if not FOLDERS_OPEN or os.path.samestat(os.fstat(lock), os.stat(folder)):
            return lock
        raise FileNotFoundError(folder)                       # deleted while this process waited
    except BaseException:
        os.close(lock)
        raise


def _free(folder, lock):
    os.close(lock)
    if not FOLDERS_OPEN:
        with suppress(OSError):                               # another process waits for it
            os.unlink(Path(folder, LOCK))


def _delete(folder, lock):
    shutil.rmtree(folder, ignore_errors=True)
    _free(folder, lock)
    if not FOLDERS_OPEN:
        with suppress(OSError):                               # a new owner had waited for the lock
            os.rmdir(folder)
