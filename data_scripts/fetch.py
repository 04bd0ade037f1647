"""Fetch an archive, and go on after a broken download."""

import hashlib
import os
import re
import signal
import sys
import time
from contextlib import contextmanager
from http import HTTPStatus
from itertools import chain
from pathlib import Path

import requests
import urllib3
from tqdm import tqdm

from convsim_mini.common.cli import UserError

TRIES = 5                                                     # in a row that brought nothing new
TIMEOUT = (15, 60)                                            # seconds to connect; of silence
LONGEST = 1_800                                               # seconds for a source in one run
CHUNK = 1 << 18
RECORD = "sha256.txt"                                         # of first downloads, by URL
BUSY = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS)


class Interrupted(Exception):
    """A failure that another try may overcome."""


def fetch(source, folder, limit):
    """Fetch a Source into folder, unless it is there; → (path, sha256, what is known of that).

    limit: the most bytes that it may have. Raises UserError. An archive with a wrong checksum is
    removed. A broken download leaves a .part, from which the next run goes on. Where no sha256 is
    known, that of the first right download counts; see `remember`.
    """
    part = part_of(source, folder)
    path = part.with_name(part.stem)
    if not path.exists():
        os.replace(download(source.url, part, limit), path)
    forget(part)
    with open(path, "rb") as archive:
        found = hashlib.file_digest(archive, "sha256").hexdigest()
    record = Path(folder, RECORD)
    first = dict(map(reversed, _remembered(record))).get(source.url)
    at_first = f" as at first; if you trust the new one, take its line out of {record}"
    for expected, where in ((source.sha256, ""), (first, at_first)):
        known = (expected or "").rstrip("…")
        if found[:len(known)] != known if known != expected else found != known:
            path.unlink()
            raise UserError(f"{source.url}: the archive's sha256 is {found}, expected {expected}"
                            f"{where}; it was removed: fetch it again, or ask where it comes from")
    if first:
        return path, found, "sha256 as in the first download"
    if source.sha256 is None:
        return path, found, f"sha256 {found} not checked: not known"
    if source.sha256.endswith("…"):
        return path, found, f"sha256 begins with {source.sha256[:-1]}, no more of it is known"
    return path, found, "sha256 as expected"


def remember(source, folder, found):
    """Record the sha256 of a Source whose archive is right, unless the registry knows it."""
    record = Path(folder, RECORD)
    if (source.sha256 or "…").endswith("…") and [found, source.url] not in _remembered(record):
        with open(record, "a", encoding="utf-8") as file:
            file.write(f"{found}  {source.url}\n")


def _remembered(record):
    """[sha256, URL] of each Source that `remember` has recorded."""
    return [line.split() for line in record.open(encoding="utf-8")] if record.exists() else []


def part_of(source, folder):
    """The path of a Source's unfinished download: the archive's name with .part at the end."""
    return Path(folder, source.url.rsplit("/", 1)[1] + ".part")


def forget(part):
    """Remove an unfinished download."""
    part.unlink(missing_ok=True)
    _state_file(part).unlink(missing_ok=True)


def download(url, part, limit):
    """Fetch url into the file part, going on where an earlier try ended; → part, complete.

    Raises UserError for an answer that no other try will change, for more than `limit` bytes, after
    TRIES tries in a row that brought nothing new, and after LONGEST seconds. Main thread only.
    """
    failed, furthest = 0, _state(url, part)[0]
    with requests.Session() as session, _at_most(LONGEST, url, part):
        while True:
            try:
                _continue(session, url, part, limit)
                return part
            # ValueError: a redirect to an address that is none
            except (Interrupted, requests.RequestException, urllib3.exceptions.HTTPError,
                    ValueError) as error:
                have = _state(url, part)[0]
                failed = 1 if have > furthest else failed + 1
                furthest = max(furthest, have)
                if failed == TRIES:
                    raise UserError(
                        f"{url}: {_reason(error)}; gave up after {TRIES} tries in a row that "
                        f"brought nothing new; {have:,} bytes are kept: run the command again "
                        "to go on") from None
                pause = 2 ** (failed - 1)
                print(f"{_reason(error)}; trying again in {pause} s", file=sys.stderr)
                wait(pause)
            except OSError as error:
                raise UserError(f"{part}: cannot be written ({error}); make room there, then go "
                                "on") from None


@contextmanager
def _at_most(seconds, url, part):
    """Raise UserError after so many seconds, whatever is going on: a drip outlasts any timeout."""
    def stop(*_):
        raise UserError(f"{url}: is not here after {seconds:,} seconds, the limit; "
                        f"{_state(url, part)[0]:,} bytes are kept: run the command again to go on")

    if sys.platform == "win32":                               # no timers: a drip may go on for ever
        yield
        return
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1)         # again: one in a callback is lost
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _reason(error):
    """The text of the innermost error, which says most."""
    while error.__context__:
        error = error.__context__
    return " ".join(str(error).split()) or type(error).__name__


def wait(seconds):
    """Give the server time to recover; tests replace this."""
    time.sleep(seconds)


def _continue(session, url, part, limit):
    """Ask once for what part lacks.

    The server sends the rest (206), or all (200), or finds that nothing is missing (416).
    """
    have, validator, size = _state(url, part)
    headers = {"Accept-Encoding": "identity"}                 # ranges count the file's own bytes
    if have:
        headers |= {"Range": f"bytes={have}-", "If-Range": validator}
    with session.get(url, headers=headers, stream=True, timeout=TIMEOUT) as response:
        start, total = _extent(response)
        if response.status_code == 416 and have and total == have == (size or have):
            return
        if response.status_code == 416 or (response.status_code == 206 and (
                not have or start != have or _validator(response.headers) != validator
                or (size or total) != (total or size))):      # never join a new file to an old part
            part.unlink(missing_ok=True)
            raise Interrupted("the server does not have the rest that was asked for")
        if response.status_code in BUSY or response.status_code >= 500:
            raise Interrupted(f"the server answered {response.status_code} {response.reason}")
        if response.status_code not in (200, 206):
            raise UserError(f"{url}: the server answered {response.status_code} {response.reason}, "
                            "expected the file")
        if response.status_code == 200:
            _keep_state(url, part, _validator(response.headers), total)
        _write(response, part, start, total or size, limit)


def _extent(response):
    """(first byte, size of the whole file) of an answer; None for what is not told."""
    if response.status_code == 200:
        length = response.headers.get("Content-Length", "")
        return 0, int(length) if re.fullmatch("[0-9]{1,18}", length) else None
    found = re.fullmatch(r"bytes (?:([0-9]{1,18})-[0-9]+|\*)/(?:([0-9]{1,18})|\*)",
                         response.headers.get("Content-Range", ""))
    start, total = found.groups() if found else (None, None)
    return start and int(start), total and int(total)


def _write(response, part, start, total, limit):
    """Add an answer's body to part, which has `start` bytes.

    Raises Interrupted if bytes lack, and UserError, without a part, if there are too many.
    """
    size = start
    with (open(part, "ab") as file,
          tqdm(total=total, initial=start, desc=part.stem, unit="B", unit_scale=True,
               leave=False) as bar):
        # Not decoded: many servers call a .tar.gz a tar with the content encoding gzip.
        # Not `stream`, which waits for a whole chunk: of a slow server it would keep nothing.
        chunks = iter(lambda: response.raw.read1(CHUNK, decode_content=False) or b"", b"")
        for chunk in chain([b""], chunks):                    # a size that is told counts, too
            size += len(chunk)
            if max(size, total or 0) > limit:
                file.close()                                  # Windows deletes no open file
                forget(part)
                raise UserError(f"{response.url}: sends more than {limit:,} bytes, the limit for "
                                "this set; it was removed: ask where it comes from")
            file.write(chunk)
            bar.update(len(chunk))
    if total is not None and _size(part) != total:
        raise Interrupted(f"the server sent {_size(part):,} of {total:,} bytes")


# ---------------------------------------------------------------- what is known of a .part

def _size(part):
    return part.stat().st_size if part.exists() else 0


def _state(url, part):
    """(bytes there, the validator of their version, the size of all of it or 0).

    There are 0 bytes in a part of another URL, and of a version without a validator.
    """
    try:
        known, validator, size = _state_file(part).read_text(encoding="utf-8").split("\n")
        return (_size(part), validator, int(size)) if known == url and validator else (0, "", 0)
    except (OSError, ValueError):
        return 0, "", 0


def _keep_state(url, part, validator, total):
    """Begin a new part, and note which version of the file is fetched."""
    part.unlink(missing_ok=True)
    _state_file(part).write_text(f"{url}\n{validator}\n{total or 0}", encoding="utf-8")


def _validator(headers):
    """What names the version of a file: its ETag, or its date where the ETag is weak or lacks."""
    tag, date = headers.get("ETag", ""), headers.get("Last-Modified", "")
    return date if tag.startswith("W/") else tag or date


def _state_file(part):
    return part.with_name(f"{part.name}.version")
