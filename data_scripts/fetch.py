"""Fetch an archive, and resume a broken download."""

import hashlib
import os
from pathlib import Path

import requests
import urllib3
from requests.adapters import HTTPAdapter
from tqdm import tqdm

from convsim_mini.common.cli import UserError, one_line

TRIES = 4              # further ones, if nobody answers or the server is busy
WAIT = 1               # seconds before the first of them, which double
TIMEOUT = (15, 60)     # seconds to connect; of silence
CHUNK = 1 << 16
BUSY = 408, 425, 429, *range(500, 600)    # answers that may be others later


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
    """Fetch url into the file part, from where an earlier download ended. Raises UserError.

    If the file has changed meanwhile, its checks will fail, and it will be removed.
    """
    have = _size(part)
    headers = {"Accept-Encoding": "identity"}                 # ranges count the file's own bytes
    if have:
        headers["Range"] = f"bytes={have}-"
    again = urllib3.Retry(TRIES, backoff_factor=WAIT, status_forcelist=BUSY, raise_on_status=False)
    try:
        with requests.Session() as session:
            for scheme in ("https://", "http://"):
                session.mount(scheme, HTTPAdapter(max_retries=again))
            with session.get(url, headers=headers, stream=True, timeout=TIMEOUT) as response:
                status = response.status_code
                if status in (200, 206):
                    return _write(response, part, limit)
        if status == 416 and have:                            # nothing is left to send
            if response.headers.get("Content-Range") == f"bytes */{have}":
                return None
            part.unlink()                                     # longer than the file is now
            return download(url, part, limit)
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
