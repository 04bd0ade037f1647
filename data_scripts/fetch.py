"""Fetch an archive, and resume a broken download."""

import hashlib
import os
import re
import sys
import time
from http import HTTPStatus
from itertools import chain
from pathlib import Path

import requests
import urllib3
from tqdm import tqdm

from convsim_mini.common.cli import UserError

TRIES = 5                                                     # in a row without progress
TIMEOUT = (15, 60)                                            # seconds to connect; of silence
LONGEST = 1_800                                               # seconds for a source in one run
CHUNK = 1 << 18
BUSY = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS)


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
        os.replace(download(source.url, part, limit), path)
    forget(part)
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


def forget(part):
    """Remove an unfinished download."""
    part.unlink(missing_ok=True)
    _state_file(part).unlink(missing_ok=True)


def download(url, part, limit):
    """Fetch url into the file part, resuming where an earlier try ended; → part, complete.

    Raises UserError for an answer that no other try will change, for more than `limit` bytes, after
    TRIES tries in a row without progress, and after LONGEST seconds.
    """
    until = time.monotonic() + LONGEST
    failed, furthest = 0, _state(url, part)[0]
    with requests.Session() as session:
        while True:
            try:
                _continue(session, url, part, limit, until)
                return part
            # ValueError: a redirect to an invalid address
            except (Interrupted, requests.RequestException, urllib3.exceptions.HTTPError,
                    ValueError) as error:
                have = _state(url, part)[0]
                failed = 1 if have > furthest else failed + 1
                furthest = max(furthest, have)
                if failed == TRIES:
                    raise UserError(
                        f"{url}: {_reason(error)}; gave up after {TRIES} tries in a row "
                        f"without progress; {have:,} bytes are kept: run the command again "
                        "to resume") from None
                pause = 2 ** (failed - 1)
                print(f"{_reason(error)}; trying again in {pause} s", file=sys.stderr)
                wait(pause)
            except OSError as error:
                raise UserError(f"{part}: cannot be written ({error}); make room there, then "
                                "run the command again") from None


def _reason(error):
    """The text of the innermost error, which is the most specific."""
    while error.__context__:
        error = error.__context__
    return " ".join(str(error).split()) or type(error).__name__


def wait(seconds):
    """Give the server time to recover; tests replace this."""
    time.sleep(seconds)


def _continue(session, url, part, limit, until):
    """Make one request for the bytes that part lacks.

    The server sends the rest (206), or all (200), or finds that nothing is missing (416).
    """
    have, validator = _state(url, part)
    headers = {"Accept-Encoding": "identity"}                 # ranges count the file's own bytes
    if have:
        headers |= {"Range": f"bytes={have}-", "If-Range": validator}
    with session.get(url, headers=headers, stream=True, timeout=TIMEOUT) as response:
        status, (start, total) = response.status_code, _extent(response)
        if status == 416 and have and total == have:
            return
        if status in (206, 416) and not (0 < have == start
                                         and _validator(response.headers) == validator):
            part.unlink(missing_ok=True)                      # never join a new file to an old part
            raise Interrupted("the server does not have the rest that was asked for")
        if status in BUSY or status >= 500:
            raise Interrupted(f"the server answered {status} {response.reason}")
        if status not in (200, 206):
            raise UserError(f"{url}: the server answered {status} {response.reason}, expected the "
                            "file")
        if status == 200:
            part.unlink(missing_ok=True)
            _state_file(part).write_text(f"{url}\n{_validator(response.headers)}", encoding="utf-8")
        _write(response, part, start, total, limit, until)


def _extent(response):
    """(first byte, size of the whole file) of an answer; None for what it does not give."""
    if response.status_code == 200:
        length = response.headers.get("Content-Length", "")
        return 0, int(length) if length.isdecimal() else None
    found = re.fullmatch(r"bytes (?:(\d+)-\d+|\*)/(?:(\d+)|\*)",
                         response.headers.get("Content-Range", ""))
    return [number and int(number) for number in found.groups()] if found else (None, None)


def _write(response, part, start, total, limit, until):
    """Add an answer's body to part, which has `start` bytes.

    Raises Interrupted if bytes are missing, UserError for too many bytes or too much time.
    """
    size = start
    with (open(part, "ab") as file,
          tqdm(total=total, initial=start, desc=part.stem, unit="B", unit_scale=True,
               leave=False) as bar):
        # Not decoded: many servers call a .tar.gz a tar with the content encoding gzip.
        # Not `stream`, which waits for a whole chunk: it would keep nothing from a slow server.
        chunks = iter(lambda: response.raw.read1(CHUNK, decode_content=False) or b"", b"")
        for chunk in chain([b""], chunks):                    # a size that is given counts, too
            size += len(chunk)
            if max(size, total or 0) > limit:
                file.close()                                  # Windows deletes no open file
                forget(part)
                raise UserError(f"{response.url}: sends more than {limit:,} bytes, the limit for "
                                "this set; it was removed: ask where it comes from")
            file.write(chunk)
            bar.update(len(chunk))
            if time.monotonic() > until:                      # a drip outlasts any timeout
                raise UserError(f"{response.url}: not complete after {LONGEST:,} seconds, the limit"
                                f"; {size:,} bytes are kept: run the command again to resume")
    if total not in (None, size):
        raise Interrupted(f"the server sent {size:,} of {total:,} bytes")


# ---------------------------------------------------------------- what is known about a .part

def _state(url, part):
    """(bytes on disk, their version's ETag or date).

    A part of another URL, or of a version without a validator, counts as 0 bytes.
    """
    try:
        known, validator = _state_file(part).read_text(encoding="utf-8").split("\n")
        return (part.stat().st_size, validator) if known == url and validator else (0, "")
    except (OSError, ValueError):
        return 0, ""


def _validator(headers):
    """What identifies a file's version: its ETag, or its date if the ETag is weak or missing."""
    tag, date = headers.get("ETag", ""), headers.get("Last-Modified", "")
    return date if tag.startswith("W/") else tag or date


def _state_file(part):
    return part.with_name(f"{part.name}.version")
