"""Lines of text files (plain, gzip or zstd), and JSON objects."""

import codecs
import gzip
import io
import json
import sys
import zlib
from pathlib import Path

from .cli import UserError, python_m, user_errors

try:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
except ImportError:
    zstd = None    # needed only for .zst files

LONGEST_LINE = 1 << 24     # bytes of a line; Reddit's longest comments have 40,000 characters
NOT_TEXT = {    # how files that are not text begin, and what to do
    b"PK\3\4": "a zip file, such as an .xlsx; unpack it, or save the table as CSV UTF-8",
    b"\xd0\xcf\x11\xe0": "an old Excel file; save the table as CSV UTF-8",
    b"\x1f\x8b\x08\x08": "compressed with gzip; give it a name that ends in .gz"}
CODE_PAGES = "cp1252", "gb18030", "big5", "shift_jis", "cp949", "cp1251"    # tried in a message
DAMAGE = (EOFError, gzip.BadGzipFile, zlib.error, *([zstd.ZstdError] if zstd else []))


def open_zstd(file):
    """Open a file of zstd frames to read bytes. Raises UserError if zstd is missing."""
    if not zstd:
        raise UserError(".zst: reading such files needs a package; run " +
                        python_m("pip install backports.zstd"))
    window = zstd.DecompressionParameter.window_log_max       # dumps since 2019 have --long=31
    return zstd.open(file, options={window: window.bounds()[1]})    # 31; 30 on a 32-bit system


SUFFIXES = {".gz": gzip.open, ".zst": open_zstd}


def read_lines(path, progress=None, file=None):
    """Yield the lines of a file as bytes, without line ends; a UTF-8 byte-order mark is kept.

    A .gz or .zst file is decompressed. progress(position) is called with the number of bytes read
    from disk; file: an open file, of which `path` is the name. Raises UserError for a file that
    cannot be read, is empty or damaged, or has a line of more than 16 MiB.
    """
    number = 0                                                # lines so far
    try:
        with file or open(path, "rb") as raw:
            text = SUFFIXES.get(Path(path).suffix.lower(), lambda raw: raw)(raw)
            for line in _lines(text):
                if number == 0 and (what := NOT_TEXT.get(line[:4])):
                    raise UserError(f"{path}: is {what}")
                if len(line) > LONGEST_LINE and not line.endswith(b"\n"):
                    raise UserError(f"{path}: the line after line {number} has more than "
                                    f"{LONGEST_LINE:,} bytes; put one sentence or record per line")
                if number == 0 and b"\0" in line[:5]:
                    raise UserError(f"{path}: is UTF-16 without its mark, or is not text; save it "
                                    "as UTF-8")
                yield line.rstrip(b"\r\n")
                number += 1
                if progress and number % 1_000 == 0:
                    progress(raw.tell())
            if progress:
                progress(raw.tell())
    except DAMAGE as error:
        raise UserError(f"{path}: the compressed data is damaged or cut short after line {number} "
                        f"({error}); fetch or write the file again") from None
    except (OSError, UnicodeError) as error:
        reason = "it is a folder" if Path(path).is_dir() else getattr(error, "strerror", 0) or error
        raise UserError(f"{path}: cannot be read: {reason}; give the name of a text file") from None
    if number == 0:
        raise UserError(f"{path}: is empty; expected one or more lines of text")


def _lines(text):
    """Yield the lines of an open file, with line ends; UTF-16 with a mark becomes UTF-8 with one.

    In a file without line feeds, lines end in a carriage return, as on old Macs.
    """
    if text.peek(2)[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        decoded, mark = io.TextIOWrapper(text, "utf-16", newline="\n"), codecs.BOM_UTF8
        while line := decoded.readline(LONGEST_LINE + 1):
            yield mark + line.encode()
            mark = b""
        decoded.detach()                                      # or it would close the file
        return
    line = text.readline(LONGEST_LINE + 1)
    if b"\n" not in line and len(line) <= LONGEST_LINE:
        yield from io.BytesIO(line.replace(b"\r", b"\n"))
        return
    while line:
        yield line
        line = text.readline(LONGEST_LINE + 1)


def text_lines(path, progress=None, file=None, encoding="utf-8"):
    """Yield the lines of `read_lines` as str, without a mark. Raises UserError if decoding fails.

    encoding: for a file without a mark; it must encode ASCII as ASCII, as all do except UTF-16 …
    """
    with user_errors(f"--encoding {encoding}: cannot be used", "expected a name such as cp1252 or "
                     "shift_jis; UTF-16 is recognised by its mark", (LookupError, ValueError)):
        if bytes(range(128)).decode(encoding) != "".join(map(chr, range(128))):
            raise ValueError("it does not keep ASCII as it is")
    for number, line in enumerate(read_lines(path, progress, file), start=1):
        while number == 1 and line.startswith(codecs.BOM_UTF8):
            line, encoding = line.removeprefix(codecs.BOM_UTF8), "utf-8"
        try:
            yield line.decode(encoding)
        except UnicodeError as error:
            raise UserError(f"{path}, line {number}: is not {encoding.upper()} text ({error}); "
                            "save the file as UTF-8, or give the encoding that reads it right: "
                            f"{code_pages_of(line)}") from None


def code_pages_of(line):
    """What some code pages read in bytes that are not UTF-8; only a reader sees which is right."""
    begin = next(place for place, byte in enumerate(line) if byte > 127)
    found = []
    for code_page in CODE_PAGES:
        text = line[begin:begin + 60].decode(code_page, "ignore")
        if text.isprintable():
            found.append(f'--encoding {code_page} ("{text[:12]}")')
    return ", ".join(found) or "none that we know; is this text?"


def chunked(records, number):
    """Yield lists of `number` records, or of fewer if they exceed LONGEST_LINE characters."""
    chunk, letters = [], 0
    for record in records:
        chunk.append(record)
        letters += len(str(record))
        if len(chunk) == number or letters > LONGEST_LINE:
            yield chunk
            chunk, letters = [], 0
    if chunk:
        yield chunk


def parse_object(text):
    """The object in a JSON text, as a dict. Raises a ValueError that says what is wrong."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not a JSON object: {error}") from None
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def read_object(path, fault, advice, option=""):
    """The object in a JSON file, as a dict. Raises UserError: "OPTION PATH: FAULT (…); ADVICE"."""
    with user_errors(f"{option} {path}: {fault}".lstrip(), advice, (OSError, ValueError)):
        return parse_object(Path(path).read_text(encoding="utf-8"))
