"""Folders that processes share: their locks, and unfinished work beside its place.

What takes long to write is written in a folder of its own, `.convsim_mini-XXXXXXXX`, beside its
place, and renamed at the end. Its process holds a lock in it until it ends, even if it is killed.
So where the lock is free, the next process that works there deletes the folder. Locks hold among
the processes of one machine.
"""

import os
import shutil
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from filelock import FileLock, Timeout

from .cli import UserError

OURS = ".convsim_mini"      # how the names of locks and of unfinished work begin
PREFIX = f"{OURS}-"
LOCK = f"{OURS}.lock"


@contextmanager
def workplace(parent):
    """A new folder in `parent` for unfinished work, deleted at the end. Raises OSError."""
    for lock in Path(parent).glob(f"{PREFIX}*/{LOCK}"):
        with suppress(OSError), FileLock(lock, timeout=0):    # its process is dead
            shutil.rmtree(lock.parent, ignore_errors=True)
    with TemporaryDirectory(prefix=PREFIX, dir=parent, ignore_cleanup_errors=True) as folder:
        with FileLock(Path(folder, LOCK)):
            yield Path(folder)


@contextmanager
def locked(folder, busy=None, name=LOCK):
    """Hold a folder's lock. busy: the UserError where it is taken; None: wait. Raises OSError."""
    # a killed process's children keep its lock for a moment
    lock = FileLock(Path(folder, name), timeout=1 if busy else -1)
    try:
        lock.acquire()
    except Timeout:
        raise UserError(busy) from None
    try:
        yield
    finally:
        with suppress(OSError):                               # Windows does so in `release`
            os.unlink(lock.lock_file)                         # whoever waits for it makes it anew
        lock.release()
