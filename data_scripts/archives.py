"""Fetch an archive, and take the wanted files out of it; its own names never decide where to write.

A broken download is resumed.
"""

import bz2
import errno
import hashlib
import lzma
import os
import shutil
import tarfile
import zipfile
import zlib
from contextlib import contextmanager
from functools import partial
from pathlib import PurePosixPath

from tqdm import tqdm

from convsim_mini.common.cli import UserError, one_line
from convsim_mini.common.lines import SUFFIXES
from data_scripts import libraries

# ---------------------------------------------------------------- fetch

TRIES = 4              # further ones, if nobody answers or the server is busy
WAIT = 1               # seconds before the first of them, which double
TIMEOUT = (15, 60)     # seconds to connect; of silence
CHUNK = 1 << 16
BUSY = 408, 425, 429, *range(500, 600)    # answers that may be others later


def fetch_archive(source, folder, limit):
    """Fetch a Source into folder, unless it is there; → (path, what is known of its sha256).

    limit: the most bytes that it may have. Raises UserError. An archive with a wrong checksum is
    removed. A broken download leaves a .part, which the next run continues.
    """
    part, path = part_of(source, folder), folder / archive_of(source)
    if not path.exists():
        download_file(source.url, part, limit)
        os.replace(part, path)
    with open(path, "rb") as archive:
        found = hashlib.file_digest(archive, "sha256").hexdigest()
    known = (source.sha256 or "").rstrip("…")
    if not found.startswith(known):
        path.unlink()
        raise UserError(f"{source.url}: the archive's sha256 is {found}, expected {source.sha256}; "
                        "it was removed: fetch it again, or ask where it comes from")
    if known == source.sha256:
        return path, "sha256 as expected"
    if known:
        return path, f"sha256 begins with {known}, no more of it is known"
    return path, f"sha256 {found} not checked: not known"


def archive_of(source):
    """The name of a Source's archive."""
    return source.url.rsplit("/", 1)[1]


def part_of(source, folder):
    """The path of a Source's unfinished download, which no other source continues."""
    return folder / f"{archive_of(source)}.{zlib.crc32(source.url.encode()):08x}.part"


def download_file(url, part, limit):
    """Fetch url into the file part, from where an earlier download ended. Raises UserError.

    If the file has changed meanwhile, its checks will fail, and it will be removed.
    """
    with libraries():                                         # only downloading needs them
        import requests
        import urllib3

    have = _size(part)
    headers = {"Accept-Encoding": "identity"}                 # ranges count the file's own bytes
    if have:
        headers["Range"] = f"bytes={have}-"
    again = urllib3.Retry(TRIES, backoff_factor=WAIT, status_forcelist=BUSY, raise_on_status=False)
    try:
        with requests.Session() as session:
            for scheme in ("https://", "http://"):
                session.mount(scheme, requests.adapters.HTTPAdapter(max_retries=again))
            with session.get(url, headers=headers, stream=True, timeout=TIMEOUT) as response:
                status = response.status_code
                if status in (200, 206):
                    return _write(response, part, limit)
        if status == 416 and have:                            # nothing is left to send
            if response.headers.get("Content-Range") == f"bytes */{have}":
                return None
            part.unlink()                                     # longer than the file is now
            return download_file(url, part, limit)
        raise UserError(f"{url}: the server answered {status} {response.reason}, expected the "
                        "file")
    except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
        raise UserError(f"{url}: {one_line(error)}; {_size(part):,} bytes are kept: run the "
                        "command again to resume") from None
    except OSError as error:
        raise UserError(f"{part}: cannot be written ({error}); make room there, then run the "
                        "command again") from None


def _size(part):
    return part.stat().st_size if part.exists() else 0


def _write(response, part, limit):
    """Write an answer, the whole file or the rest of it. Raises UserError for too many bytes."""
    size = _size(part) if response.status_code == 206 else 0
    length = response.headers.get("Content-Length")
    with (open(part, "ab" if size else "wb") as file,
          tqdm(total=length and size + int(length), initial=size, unit="B", unit_scale=True,
               desc=part.with_suffix("").stem, leave=False) as bar):
        # not decoded: many servers call a .tar.gz a tar with the content encoding gzip
        while size <= limit and (chunk := response.raw.read(CHUNK, decode_content=False)):
            size += len(chunk)
            file.write(chunk)
            bar.update(len(chunk))
    if size > limit:
        part.unlink()
        raise UserError(f"{response.url}: sends more than {limit:,} bytes, the limit for this set; "
                        "it was removed: ask where it comes from")


# ---------------------------------------------------------------- unpack

FIRST_BYTES = {
    b"\x1f\x8b": SUFFIXES[".gz"],
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
    b"\x28\xb5\x2f\xfd": SUFFIXES[".zst"],
    b"\x50\x2a\x4d\x18": SUFFIXES[".zst"],    # the skippable frame that pzstd starts with
}


def decompressed(file):
    """An open file, decompressed according to its first bytes."""
    begin = file.peek(8)
    for magic, opened in FIRST_BYTES.items():
        if begin.startswith(magic):
            return opened(file)
    return file


class Limited:
    """A tar, its bytes counted as read: names in it may have any size, and tarfile keeps them."""

    def __init__(self, file, limit, error):
        self.file, self.left, self.error = file, limit, error

    def read(self, size):
        """Up to `size` bytes. Raises the error past the limit."""
        data = self.file.read(size)
        self.left -= len(data)
        if self.left < 0:
            raise self.error
        return data


def unpack_archive(archive, wanted, folder, limit):
    """Write into folder those of the files named in `wanted` that an archive holds; → their names.

    The archive is a zip, a tar or a wanted file itself. Of files with one name, the outermost is
    taken; what macOS adds and what is not a file is skipped. Raises UserError for an archive that
    is damaged or that expands to more than `limit` bytes; OSError if the disk fails.
    """
    if archive.name in wanted:
        shutil.copyfile(archive, folder / archive.name)
        return {archive.name}
    with archive_errors(archive):
        chosen = choose_outermost([name for name, _ in _members(archive, limit)], wanted)
        # listing a compressed tar means expanding it, so it is gone through twice
        for name, opened in _members(archive, limit):
            last = PurePosixPath(name).name
            if chosen.get(last) == name:
                with opened() as source, open(folder / last, "wb") as target:
                    shutil.copyfileobj(source, target)
    return set(chosen)


def choose_outermost(names, wanted):
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
    """Yield the files in a zip or tar archive: name, function that opens it.

    A file of a tar can be read until the next is asked for. Neither zipfile nor tarfile reads past
    a file's declared size. Raises UserError past the limit.
    """
    too_much = UserError(f"{archive}: it expands to more than {limit:,} bytes, the limit set for "
                         "it; nothing was kept")
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as file:
            if sum(info.file_size for info in file.infolist()) > limit:
                raise too_much
            for info in file.infolist():
                if not info.is_dir():
                    yield info.filename, partial(file.open, info)
    else:
        with open(archive, "rb") as packed:
            text = Limited(decompressed(packed), limit, too_much)
            with tarfile.open(fileobj=text, mode="r|") as file:
                for info in file:
                    if info.isfile():
                        yield info.name, partial(file.extractfile, info)


@contextmanager
def archive_errors(archive):
    """Any error in an archive is damage, and becomes a UserError; the disk's OSErrors pass through.

    tarfile and zipfile raise many errors for damage: of names, numbers, places, memory, passwords.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        if getattr(error, "errno", None) not in (None, errno.EINVAL):    # a seek to before 0
            raise
        raise UserError(f"{archive}: is damaged, cut short or not an archive "
                        f"({one_line(error) or type(error).__name__}); fetch it again") from None
