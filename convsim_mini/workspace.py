"""Folders that processes share: unfinished work, locks, and what a killed process has left.

Whatever takes long to write is written in a folder of its own, `.convsim_mini-HOST-XXXXXXXX`,
beside its place, and renamed at the end. No other process knows that name. A process locks such a
folder with flock(2), and the system takes the lock away when the process ends, however it ends. So
a folder whose lock is free was left by a dead process, and whoever works there next deletes it.
Such locks hold among the processes of one machine.
"""

import errno
import fcntl
import os
import platform
import shutil
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path

from .cli import UserError

PREFIX = ".convsim_mini-"
OWN = f"{PREFIX}{platform.node()}-"
WEEK = 7 * 24 * 3600    # seconds
# what file systems say that have no such locks
NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK, errno.EINVAL, errno.EBADF)


@contextmanager
def workplace(parent):
    """A new folder in `parent` for unfinished work; it is deleted at the end. Raises OSError.

    What dead processes have left in `parent` is deleted before.
    """
    sweep(parent)
    lock = None
    while lock is None:
        folder = Path(tempfile.mkdtemp(prefix=OWN, dir=parent))
        with suppress(FileNotFoundError):                     # another swept it before its lock
            lock = _lock(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def sweep(parent):
    """Delete the unfinished work of dead processes in a folder; of other machines' after a week."""
    for folder in Path(parent).glob(f"{PREFIX}*"):
        with suppress(OSError):                               # BlockingIOError: its owner lives
            own = folder.name.rpartition("-")[0] + "-" == OWN
            if own or time.time() - folder.stat().st_mtime > WEEK:
                lock = _lock(folder, fcntl.LOCK_NB, needed=True)
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)


@contextmanager
def locked(folder, busy=None):
    """Hold the lock of a folder. Raises OSError.

    busy: the text of a UserError for a folder whose lock another process has, or that it has just
    deleted; None: wait until the lock is free
    """
    for tries_left in range(9, -1, -1):    # a killed process's children keep its lock for a moment
        try:
            lock = _lock(folder, fcntl.LOCK_NB if busy else 0)
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
        os.close(lock)


def _lock(folder, how=0, needed=False):
    """A descriptor that holds the lock of a folder until it is closed. Raises OSError.

    needed: also where the file system has no locks; if they are not, the work goes on without
    """
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | how)
        except OSError as error:
            if needed or error.errno not in NO_LOCKS:
                raise
        if os.path.samestat(os.fstat(lock), os.stat(folder)):
            return lock
        raise FileNotFoundError(folder)                       # deleted while this process waited
    except BaseException:
        os.close(lock)
        raise
