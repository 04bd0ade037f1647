"""Python runs this at its start where this folder is on PYTHONPATH, in subprocesses too.

It takes from Linux what Windows does not have: names, locks of folders, `fork`, files that are
replaced or deleted while they are open. Text gets Windows's line ends. test_other_system.py starts
the tests of several rooms so, and README.md says what this cannot show.
"""

import builtins
import ctypes
import fcntl
import io
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import warnings

import filelock    # noqa: F401  (keeps fcntl's locks: Windows has others, behind one function)

NAMES = {os: ("fork", "sched_getaffinity", "O_DIRECTORY"),
         signal: ("SIGHUP", "SIGPIPE", "pthread_sigmask")}
OURS = r"(__main__|__mp_main__|convsim_mini|data_scripts|lessons)(\.|$)"
FORBIDDEN = set('<>:"|?*')    # in names of files
real = {name: getattr(os, name)
        for name in ("open", "replace", "rename", "unlink", "rmdir", "fsync")}
real_text = io.open


def in_use(path):
    """Whether a process has the file open or mapped, or a file in the folder."""
    path = os.path.realpath(path)
    names = {line.split(maxsplit=5)[-1].strip() for line in real_text("/proc/self/maps")}
    for process in filter(str.isdecimal, os.listdir("/proc")):
        try:
            for number in os.listdir(f"/proc/{process}/fd"):
                names.add(os.readlink(f"/proc/{process}/fd/{number}"))
        except OSError:                                       # it has ended, or is another user's
            pass
    return any(name == path or name.startswith(path + os.sep) for name in names)


def refuse(path, why="is used by a process"):
    raise PermissionError(13, f"Windows refuses: {why}", os.fspath(path))


def replace(source, target):
    if os.path.isdir(target) or in_use(target) or in_use(source):
        refuse(target)
    real["replace"](source, target)


def rename(source, target):
    if os.path.exists(target):
        raise FileExistsError(17, "Windows refuses: exists", os.fspath(target))
    replace(source, target)


def removal(name):
    def remove(path, *, dir_fd=None):
        if in_use(path) and "lock" not in os.path.basename(path):    # filelock's own files
            refuse(path)
        real[name](path)
    return remove


def open_file(path, flags, mode=0o777, *, dir_fd=None):
    if not isinstance(path, int) and os.path.isdir(path):
        refuse(path, "a folder")
    if flags & os.O_CREAT and FORBIDDEN & set(os.path.basename(os.fsdecode(path))):
        raise OSError(22, "Windows refuses this name", path)
    return real["open"](path, flags, mode, dir_fd=dir_fd)


def fsync(descriptor):
    if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        raise OSError(9, "Windows refuses: open for reading")
    real["fsync"](descriptor)


def open_text(file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, *more,
              **named):
    if "b" not in mode:
        encoding = io.text_encoding(encoding)                 # warns who opens it without one
        if newline is None and "r" not in mode and "+" not in mode:
            newline = "\r\n"
    return real_text(file, mode, buffering, encoding, errors, newline, *more, **named)


class CDLL(ctypes.CDLL):
    def __init__(self, name, *more, **named):
        if name is None:
            raise TypeError("Windows refuses: CDLL(None)")
        super().__init__(name, *more, **named)


multiprocessing.set_start_method("spawn", force=True)
for module, names in NAMES.items():
    for name in names:
        delattr(module, name)
os.open, os.replace, os.rename, os.fsync = open_file, replace, rename, fsync
os.unlink = os.remove = removal("unlink")
os.rmdir = removal("rmdir")
shutil._use_fd_functions = False
tempfile.TemporaryFile = tempfile.NamedTemporaryFile           # the other one deletes an open file
builtins.open = io.open = open_text
ctypes.CDLL = CDLL
sys.modules["fcntl"] = None                                   # its import fails
warnings.filterwarnings("ignore", category=EncodingWarning)     # of other packages
warnings.filterwarnings("error", category=EncodingWarning, module=OURS)
