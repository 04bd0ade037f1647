"""Take the wanted files out of an archive. The archive's own names never decide where to write."""

import errno
import shutil
import stat
import tarfile
import zipfile
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Callable, NamedTuple

from tqdm import tqdm

from convsim_mini.common.cli import UserError
from convsim_mini.data.formats import read_tsv
from convsim_mini.data.layouts import Reading
from data_scripts.dump_files import decompressed

CHUNK = 1 << 20
ROOM = 1 << 23    # bytes besides those of an archive's files: names, sizes, padding
# The table of sbert.net has one column more, which names the official file.
OFFICIAL_COLUMNS = ("genre", "dataset", "year", "sid", "score", "sentence1", "sentence2")


TOLD = "it expands to more than {:,} bytes, the limit"


class TooMuch(Exception):
    """An archive past a limit."""


class Limited:
    """A tar, its bytes counted as read: names in it may have any size, and tarfile keeps them."""

    def __init__(self, file, limit):
        self.file, self.limit, self.position = file, limit, 0

    def read(self, size):
        """Up to `size` bytes. Raises TooMuch past the limit plus ROOM."""
        data = self.file.read(size)
        self.position += len(data)
        if self.position > self.limit + ROOM:
            raise TooMuch(TOLD.format(self.limit))
        return data


class Member(NamedTuple):
    """Something in an archive. size: as declared; plain: not a link or a device; open: → a file.

    The file can be read until the next Member is asked for.
    """

    name: str
    size: int
    plain: bool
    open: Callable


def unpack(archive, wanted, folder, limit):
    """Write into folder those of the files named in `wanted` that an archive holds; → their names.

    The archive is a zip, a tar, sbert.net's table of the STS Benchmark, or a wanted file itself. Of
    files with one name, the outermost is taken; what macOS adds is skipped. Raises UserError for an
    archive that is damaged, that holds a name outside its folder, a link or a device, or that
    expands to more than `limit` bytes; OSError if the disk fails.
    """
    if archive.name in wanted:
        shutil.copyfile(archive, folder / archive.name)
        return {archive.name}
    if archive.name.endswith(".tsv.gz"):
        return split_table(archive, wanted, folder, limit)
    with damage_told(archive):
        sizes = _inspected(archive, limit)
        chosen = {inside: name for name, inside in choose(sizes, wanted).items()}
        with tqdm(total=sum(map(sizes.get, chosen)), desc=f"unpacking {archive.name}", unit="B",
                  unit_scale=True, leave=False) as bar:
            for member in _members(archive, limit):
                if member.name not in chosen:
                    continue
                # Neither zipfile nor tarfile reads past a member's declared size.
                with member.open() as source, open(folder / chosen[member.name], "wb") as target:
                    while block := source.read(CHUNK):
                        target.write(block)
                        bar.update(len(block))
    return set(chosen.values())


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


def split_table(archive, wanted, folder, limit):
    """Split sbert.net's STS Benchmark, a gzipped table, into the official files; → their names."""
    size, tables = 0, {}
    with damage_told(archive):
        for number, row in read_tsv(archive, reading=Reading(OFFICIAL_COLUMNS)):
            try:
                line = "\t".join(row[name] for name in OFFICIAL_COLUMNS) + "\n"
                tables.setdefault(f"sts-{row['split']}.csv", []).append(line)
            except (TypeError, KeyError):
                raise UserError(f"{archive}, line {number}: expected the columns split, "
                                f"{', '.join(OFFICIAL_COLUMNS)}") from None
            size += len(line)
            if size > limit:
                raise TooMuch(TOLD.format(limit))
    found = tables.keys() & set(wanted)
    for name in found:
        Path(folder, name).write_bytes("".join(tables[name]).encode())
    return found


def _members(archive, limit):
    """Yield the Members of a zip or tar archive, without folders."""
    if zipfile.is_zipfile(archive):
        if archive.stat().st_size > limit + ROOM:             # its list of names is read as a whole
            raise TooMuch(TOLD.format(limit))
        with zipfile.ZipFile(archive) as file:
            for info in file.infolist():
                if not info.is_dir():
                    yield Member(info.filename.replace("\\", "/"), info.file_size,
                                 stat.S_IFMT(info.external_attr >> 16) in (0, stat.S_IFREG),
                                 partial(file.open, info))
    else:
        with open(archive, "rb") as packed:
            text = Limited(decompressed(packed), limit)
            with tarfile.open(fileobj=text, mode="r|") as file:
                for info in file:
                    if not info.isdir():
                        yield Member(info.name.replace("\\", "/"), info.size, info.isfile(),
                                     partial(file.extractfile, info))


def _inspected(archive, limit):
    """Name → size of all Members.

    Raises TooMuch, and UserError for a name outside the folder, a link or a device. The members are
    looked at one by one, because listing a compressed tar means expanding it.
    """
    sizes, size = {}, 0
    for member in _members(archive, limit):
        outside = (member.name.startswith("/") or ".." in member.name.split("/")
                   or PureWindowsPath(member.name).drive)
        if outside or not member.plain:
            what = "a name outside its folder" if outside else "a link or a device"
            raise UserError(f'{archive}: holds "{member.name}", {what}, which no official archive '
                            "does; nothing was unpacked")
        size += member.size
        if size > limit:
            raise TooMuch(TOLD.format(limit))
        sizes[member.name] = member.size
    return sizes


@contextmanager
def damage_told(archive):
    """Any error in an archive is damage, and becomes a UserError; the disk's OSErrors pass through.

    tarfile and zipfile raise many errors for damage: of names, numbers, places, memory, passwords.
    """
    try:
        yield
    except UserError:
        raise
    except TooMuch as error:
        raise UserError(f"{archive}: {error} set for it; nothing was kept") from None
    except Exception as error:
        if getattr(error, "errno", None) not in (None, errno.EINVAL):    # a seek to before 0
            raise
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(f"{archive}: is damaged, cut short or not an archive ({reason}); fetch it "
                        "again") from None
