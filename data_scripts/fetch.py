"""Fetch an archive, and resume a broken download."""

import hashlib
import os
import sys
from pathlib import Path
from time import sleep

import requests
import urllib3
from tqdm import tqdm

from convsim_mini.common.cli import UserError, one_line

TRIES = 5              # in a row without progress
TIMEOUT = (15, 60)     # seconds to connect; of silence
CHUNK = 1 << 16
BUSY = 408, 425, 429, *range(500, 600)    # answers that may be others later


class Interrupted(Exception):
    """A failure that another try may overcome."""


def fetch(source, folder, limit):
    """Fetch a Source into folder, unless it is there; → (path, what is known of its sha256).

    limit: the most bytes that it may have. Raises UserError. An archive with a wrong checksum is
    removed. A broken download leaves a .part, which the next run continues.
    """
    part = part_of(source, folder)
    path = part.with_name(part.stem)
    if not path.exists():
        download(source.url, part, limit)
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


def part_of(source, folder):
    """The path of a Source's unfinished download: the archive's name with .part at the end."""
    return Path(folder, source.url.rsplit("/", 1)[1] + ".part")


def download(url, part, limit):
    """Fetch url into the file part, resuming where an earlier try ended.

    Raises UserError for an answer that no other try will change, for more than `limit` bytes, and
    after TRIES tries in a row without progress.
    """
    failed, have = 0, _size(part)
    while True:
        try:
            return _continue(url, part, limit)
        except (Interrupted, requests.RequestException, urllib3.exceptions.HTTPError) as error:
            failed = 1 if _size(part) > have else failed + 1
            have = _size(part)
            if failed == TRIES:
                raise UserError(f"{url}: {one_line(error)}; gave up after {TRIES} tries in a row "
                                f"without progress; {have:,} bytes are kept: run the command again "
                                "to resume") from None
            pause = 2 ** (failed - 1)
            print(f"{one_line(error)}; trying again in {pause} s", file=sys.stderr)
            sleep(pause)
        except OSError as error:
            raise UserError(f"{part}: cannot be written ({error}); make room there, then run the "
                            "command again") from None


def _size(part):
    return part.stat().st_size if part.exists() else 0


def _continue(url, part, limit):
    """Make one request for the bytes that part lacks.

    The server sends the rest (206), or all (200), or finds that nothing is missing (416). If the
    file has changed meanwhile, its checks will fail, and it will be removed.
    """
    have = _size(part)
    headers = {"Accept-Encoding": "identity"}                 # ranges count the file's own bytes
    if have:
        headers["Range"] = f"bytes={have}-"
    with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as response:
        status = response.status_code
        if status == 416 and response.headers.get("Content-Range") == f"bytes */{have}":
            return
        if status == 416:                                     # longer than the file is now
            part.unlink(missing_ok=True)
        if status in (416, *BUSY):
            raise Interrupted(f"the server answered {status} {response.reason}")
        if status not in (200, 206):
            raise UserError(f"{url}: the server answered {status} {response.reason}, expected the "
                            "file")
        if status == 200:
            part.unlink(missing_ok=True)
        _append(response, part, limit)


def _append(response, part, limit):
    """Add an answer's body to part. Raises UserError for too many bytes."""
    size, length = _size(part), response.headers.get("Content-Length")
    with (open(part, "ab") as file,
          tqdm(total=length and size + int(length), initial=size, desc=part.stem, unit="B",
               unit_scale=True, leave=False) as bar):
        # not decoded: many servers call a .tar.gz a tar with the content encoding gzip
        while size <= limit and (chunk := response.raw.read(CHUNK, decode_content=False)):
            size += len(chunk)
            file.write(chunk)
            bar.update(len(chunk))
    if size > limit:
        part.unlink()
        raise UserError(f"{response.url}: sends more than {limit:,} bytes, the limit for this set; "
                        "it was removed: ask where it comes from")
