"""Take the wanted files out of an archive. The archive's own names never decide where to write."""

import gzip
import lzma
import shutil
import stat
import tarfile
import zipfile
import zlib
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Callable, NamedTuple

from tqdm import tqdm

from convsim_mini.cli import UserError

CHUNK = 1 << 20
# The table of sbert.net has one column more than the official files: it names the file.
OFFICIAL_COLUMNS = ("genre", "dataset", "year", "sid", "score", "sentence1", "sentence2")
# The last three: an odd compression, a password, odd names.
DAMAGED = (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError,
           gzip.BadGzipFile, NotImplementedError, RuntimeError, UnicodeDecodeError)


class Member(NamedTuple):
    """Something in an archive. size: as declared; plain: no link or device; open: → a file."""

    name: str
    size: int
    plain: bool
    open: Callable


def unpack(archive, wanted, folder, limit):
    """Write into folder those of the files named in `wanted` that an archive holds; → their names.

    The archive is a zip, a tar, sbert.net's table of the STS Benchmark, or a wanted file itself. Of
    files with one name, the outermost is taken; what macOS adds is skipped. Raises UserError for an
    archive that is damaged, that holds a name outside its folder, a link or a device, or that
    expands to more than `limit` bytes.
    """
    if archive.name in wanted:
        shutil.copyfile(archive, folder / archive.name)
        return {archive.name}
    if archive.name.endswith(".tsv.gz"):
        return split_table(archive, wanted, folder, limit)
    with _damage_told(archive), _members(archive) as members:
        members = _inspected(archive, members, limit)
        chosen = choose(members, wanted)
        total = sum(members[inside].size for inside in chosen.values())
        with tqdm(total=total, desc=f"unpacking {archive.name}", unit="B", unit_scale=True,
                  leave=False) as bar:
            for name, inside in chosen.items():
                # Neither zipfile nor tarfile reads past a member's declared size.
                with members[inside].open() as source, open(folder / name, "wb") as target:
                    while block := source.read(CHUNK):
                        target.write(block)
                        bar.update(len(block))
    return set(chosen)


def choose(names, wanted):
    """Wanted file → the name of it among `names` (paths with slashes).

    Of several, the outermost that macOS did not add.
    """
    chosen = {}
    for name in sorted(names, key=lambda name: (name.count("/"), name)):
        path = PurePosixPath(name)
        if path.name in wanted and "__MACOSX" not in path.parts:
            chosen.setdefault(path.name, name)
    return chosen


def split_table(archive, wanted, folder, limit):
    """Split sbert.net's STS Benchmark, a gzipped table, into the official files; → their names.

    Quotation marks have no meaning there, as in the official files.
    """
    with _damage_told(archive), gzip.open(archive) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise UserError(_too_large(archive, limit))
    try:
        lines = [line.rstrip("\r") for line in data.decode("utf-8-sig").split("\n") if line.strip()]
        header, *rows = [line.split("\t") for line in lines]
        places = [header.index(column) for column in ("split", *OFFICIAL_COLUMNS)]
        rows = [[row[k] for k in places] for row in rows]
    except (ValueError, IndexError):
        raise UserError(
            f"{archive}: expected UTF-8 text, tab-separated, whose header names the columns split, "
            f"{', '.join(OFFICIAL_COLUMNS)}, and as many columns in each row") from None
    found = {f"sts-{split}.csv" for split, *_ in rows} & set(wanted)
    for name in found:
        lines = ["\t".join(columns) + "\n"
                 for split, *columns in rows if f"sts-{split}.csv" == name]
        Path(folder, name).write_bytes("".join(lines).encode("utf-8"))
    return found


@contextmanager
def _members(archive):
    """An iterator of the Members of a zip or tar archive, without folders."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as file:
            yield (Member(info.filename.replace("\\", "/"), info.file_size,
                          stat.S_IFMT(info.external_attr >> 16) in (0, stat.S_IFREG),
                          partial(file.open, info))
                   for info in file.infolist() if not info.is_dir())
    else:
        with tarfile.open(archive) as file:
            yield (Member(info.name.replace("\\", "/"), info.size, info.isfile(),
                          partial(file.extractfile, info))
                   for info in file if not info.isdir())


def _inspected(archive, members, limit):
    """Name → Member. Raises UserError for a name outside the folder, a link, a device, or too much.

    The members are looked at one by one: to list a compressed tar is to expand it.
    """
    found, size = {}, 0
    for member in members:
        outside = (member.name.startswith("/") or ".." in member.name.split("/")
                   or PureWindowsPath(member.name).drive)
        if outside or not member.plain:
            what = "a name outside its folder" if outside else "a link or a device"
            raise UserError(f'{archive}: holds "{member.name}", {what}, which no official archive '
                            "does; nothing was unpacked")
        size += member.size
        if size > limit:
            raise UserError(_too_large(archive, limit))
        found[member.name] = member
    return found


@contextmanager
def _damage_told(archive):
    try:
        yield
    except DAMAGED as error:
        raise UserError(f"{archive}: is damaged, cut short or no archive "
                        f"({' '.join(str(error).split())}); fetch it again") from None


def _too_large(archive, limit):
    return (f"{archive}: expands to more than {limit:,} bytes, the limit set for it; "
            "nothing was kept")
