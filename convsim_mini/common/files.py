"""Lines of text, plain, gzip or zstd; JSON; files written whole or not at all."""

import codecs
import gzip
import json
import os
import sys
import zlib
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
from safetensors import SafetensorError

from .cli import UserError, user_errors
from .workspace import workplace

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MOST = 1 << 24     # bytes of a line; Reddit's longest comments have 40,000 characters
WINDOW = {zstd.DecompressionParameter.window_log_max: 31}    # dumps since 2019 have --long=31
SUFFIXES = {".gz": gzip.open, ".zst": partial(zstd.open, options=WINDOW)}
DAMAGE = (EOFError, gzip.BadGzipFile, zlib.error, zstd.ZstdError)    # compressed data, cut or wrong


def read_lines(path, progress=lambda position: None, file=None):
    """Yield the lines of a file as bytes, without their ends and without a byte-order mark.

    A .gz or .zst file is decompressed. progress(position) is called with the number of bytes read
    from disk; file: an open file, which `path` only names. Raises UserError for a file that cannot
    be read, is empty or damaged, or has a line of more than 16 MiB.
    """
    number = 0                                                # lines so far
    try:
        with file or open(path, "rb") as file:
            text = SUFFIXES.get(Path(path).suffix, lambda file: file)(file)
            while line := text.readline(MOST + 1):
                if len(line) > MOST and not line.endswith(b"\n"):
                    raise UserError(f"{path}: after line {number} there is a line of more than "
                                    f"{MOST:,} bytes, the limit; expected a sentence or a record a "
                                    "line: break it up")
                if number == 0:
                    line = line.removeprefix(codecs.BOM_UTF8)
                yield line.rstrip(b"\r\n")
                number += 1
                if number % 1_000 == 0 and file.seekable():
                    progress(file.tell())
            if file.seekable():
                progress(file.tell())
    except DAMAGE as error:
        raise UserError(f"{path}: the compressed data is damaged or cut short after line {number} "
                        f"({error}); fetch or write the file again") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}; give the name of a "
                        "text file") from None
    if number == 0:
        raise UserError(f"{path}: is empty; expected one or more lines of text")


def chunked(records, number):
    """Yield lists of up to `number` records, fewer where they hold more than 16 MiB of text."""
    chunk, size = [], 0
    for record in records:
        chunk.append(record)
        values = record.values() if isinstance(record, dict) else [record]
        size += sum(len(value) for value in values if isinstance(value, (bytes, str, list)))
        if len(chunk) == number or size > MOST:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def decoded(name, lines, advice):
    """Yield lines of bytes as str, without a byte-order mark. Raises UserError with the advice."""
    for number, line in enumerate(lines, start=1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise UserError(f"{name}, line {number}: is not UTF-8 text ({error.reason} at byte "
                            f"{error.start}); {advice}") from None


def parse_json(text):
    """The value of a JSON text, str or bytes. Raises ValueError, which says what is wrong."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("JSON nested too deeply") from None


def read_object(path, fault, advice, option=""):
    """The object in a JSON file, as a dict. Raises UserError: "OPTION PATH: FAULT (…); ADVICE"."""
    where = f"{option} {path}".lstrip()
    with user_errors(f"{where}: {fault}", advice, (OSError, ValueError)):
        value = parse_json(Path(path).read_text(encoding="utf-8"))
    if not isinstance(value, dict):
        raise UserError(f"{where}: holds no JSON object; {advice}")
    return value


def write_text(path, text):
    """Write a text file whole or not at all."""
    replace_file(path, lambda temporary: Path(temporary).write_text(
        text, encoding="utf-8", newline="\n"))                 # the same bytes on Windows


def write_rows(path, blocks, width):
    """Write float32 blocks (n, width) as one .npy file, whole or not at all; → its rows."""
    header = {"descr": "<f4", "fortran_order": False, "shape": (0, width)}

    def write(temporary):
        with open(temporary, "wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            for block in blocks:
                file.write(np.ascontiguousarray(block))    # `tofile` may lose a signal's exception
                header["shape"] = (header["shape"][0] + len(block), width)
            file.seek(0)
            np.lib.format.write_array_header_1_0(file, header)    # NumPy pads it to one length

    replace_file(path, write)
    return header["shape"][0]


def replace_file(path, write):
    """Let write(name) fill a temporary file, then sync it and rename it to path.

    Where path is a link, the file that it names is replaced. The new file has the old one's mode.
    After a UserError nothing is changed.
    """
    path = Path(os.path.realpath(path))
    advice = "make room there or choose another folder"
    with user_errors(f"{path}: cannot be written", advice, (OSError, SafetensorError)):
        if path.exists() and not path.is_file():
            raise UserError(f"{path}: is no file that could be replaced; choose another name")
        with workplace(path.parent) as folder:
            temporary = folder / path.name
            temporary.touch()
            # as the user's umask wants it, or as the user left it
            mode = (path if path.exists() else temporary).stat().st_mode
            write(str(temporary))
            temporary.chmod(mode & 0o777)                     # safetensors makes files private
            with open(temporary, "rb+") as file:
                os.fsync(file.fileno())
            os.replace(temporary, path)


@contextmanager
def new_folder(path, advice):
    """A folder to fill. It becomes `path` at the end, or nothing after an error."""
    target = Path(os.path.realpath(path))
    with user_errors(f"{path}: cannot be written", advice, (OSError, SafetensorError)):
        if target.exists() and not (target.is_dir() and not any(target.iterdir())):
            raise UserError(f"{path}: exists already and is left as it is; {advice}")
        target.parent.mkdir(parents=True, exist_ok=True)
        with workplace(target.parent) as beside:
            folder = beside / target.name
            folder.mkdir()                                    # not private, as `beside` is
            yield folder
            if target.exists():
                target.rmdir()                                # Windows replaces no folder
            os.replace(folder, target)


def checksum(path):
    """The CRC-32 of a file. Raises OSError."""
    crc = 0
    with open(path, "rb") as file:
        while block := file.read(1 << 22):
            crc = zlib.crc32(block, crc)
    return crc


def checksum_of(value):
    """The CRC-32 of a value as JSON."""
    return zlib.crc32(json.dumps(value).encode())
