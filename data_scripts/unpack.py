"""Take the wanted files out of an archive. The archive's own names never decide where to write."""

import errno
import shutil
import tarfile
import zipfile
from contextlib import contextmanager
from functools import partial
from pathlib import PurePosixPath

from convsim_mini.common.cli import UserError, one_line
from data_scripts.dump_files import decompressed


class TooMuch(Exception):
    """An archive past its limit in bytes."""


class Limited:
    """A tar, its bytes counted as read: names in it may have any size, and tarfile keeps them."""

    def __init__(self, file, limit):
        self.file, self.left = file, limit

    def read(self, size):
        """Up to `size` bytes. Raises TooMuch past the limit."""
        data = self.file.read(size)
        self.left -= len(data)
        if self.left < 0:
            raise TooMuch
        return data


def unpack(archive, wanted, folder, limit):
    """Write into folder those of the files named in `wanted` that an archive holds; → their names.

    The archive is a zip, a tar or a wanted file itself. Of files with one name, the outermost is
    taken; what macOS adds and what is not a file is skipped. Raises UserError for an archive that
    is damaged or that expands to more than `limit` bytes; OSError if the disk fails.
    """
    if archive.name in wanted:
        shutil.copyfile(archive, folder / archive.name)
        return {archive.name}
    with damage_told(archive, limit):
        chosen = choose([name for name, _ in _members(archive, limit)], wanted)
        # listing a compressed tar means expanding it, so it is gone through twice
        for name, opened in _members(archive, limit):
            last = PurePosixPath(name).name
            if chosen.get(last) == name:
                with opened() as source, open(folder / last, "wb") as target:
                    shutil.copyfileobj(source, target)
    return set(chosen)


def choose(names, wanted):
    """Wanted file → its name among `names` (paths with slashes).

    Of several, the outermost that macOS did not add.
    """
    chosen = {}
    for name in sorted(names, key=lambda name: (name.count("/"), name)):
        path = PurePosixPath(name)
        if path.name in wanted and "__MACOSX" not in path.parts:
            chosen.setdefault(path.name, name)
    return chosen


def _members(archive, limit):
    """Yield the files in a zip or tar archive: name, function that opens it. Raises TooMuch.

    A file of a tar can be read until the next is asked for. Neither zipfile nor tarfile reads past
    a file's declared size.
    """
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as file:
            if sum(info.file_size for info in file.infolist()) > limit:
                raise TooMuch
            for info in file.infolist():
                if not info.is_dir():
                    yield info.filename, partial(file.open, info)
    else:
        with open(archive, "rb") as packed:
            text = Limited(decompressed(packed), limit)
            with tarfile.open(fileobj=text, mode="r|") as file:
                for info in file:
                    if info.isfile():
                        yield info.name, partial(file.extractfile, info)


@contextmanager
def damage_told(archive, limit):
    """Any error in an archive is damage, and becomes a UserError; the disk's OSErrors pass through.

    tarfile and zipfile raise many errors for damage: of names, numbers, places, memory, passwords.
    """
    try:
        yield
    except UserError:
        raise
    except TooMuch:
        raise UserError(f"{archive}: it expands to more than {limit:,} bytes, the limit set for it;"
                        " nothing was kept") from None
    except Exception as error:
        if getattr(error, "errno", None) not in (None, errno.EINVAL):    # a seek to before 0
            raise
        raise UserError(f"{archive}: is damaged, cut short or not an archive "
                        f"({one_line(error) or type(error).__name__}); fetch it again") from None
