"""Lines of plain, gzip or zstd text, read to their very end; files written whole or not at all."""

import gzip
import os
import zlib
from contextlib import suppress
from pathlib import Path

import zstandard
from safetensors import SafetensorError

from .cli import UserError


def read_lines(path, progress=lambda position: None):
    """Yield the lines of a file as bytes, without their ends; .gz and .zst are decompressed.

    progress(position) is told now and then how many bytes have been read from disk. Raises
    UserError for a file that is missing, unreadable or empty, or whose compressed data is damaged
    or cut short.
    """
    path, number = Path(path), 0
    reader = {".gz": gzip.open, ".zst": _zstd_lines}.get(path.suffix, iter)
    try:
        with open(path, "rb") as file:
            # a pipe has no position
            tell = (lambda: progress(file.tell())) if file.seekable() else (lambda: None)
            for number, line in enumerate(reader(file), start=1):
                yield line.rstrip(b"\r\n")
                if number % 1_000 == 0:
                    tell()
            tell()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}; give the name of a "
                        "text file") from None
    except (EOFError, zlib.error, zstandard.ZstdError) as error:
        raise UserError(f"{path}: the compressed data is damaged or cut short after line {number} "
                        f"({error}); fetch or write the file again") from None
    if number == 0:
        raise UserError(f"{path}: is empty; expected one or more lines of text")


def _zstd_lines(file):
    """Lines of a zstd file. A cut stream ends silently in zstandard, so its end is checked here."""
    rest, stream = b"", None
    while block := file.read(1 << 18):
        while block:
            if stream is None:
                stream = zstandard.ZstdDecompressor(max_window_size=2**31).decompressobj()
            text = rest + stream.decompress(block)
            *lines, rest = text.split(b"\n")
            yield from lines
            block = b""
            if stream.eof:                                    # another frame may follow
                block, stream = stream.unused_data, None
    if rest:
        yield rest
    if stream is not None:
        raise EOFError("the zstd stream has no end")


# ---------------------------------------------------------------- writing

def write_text(path, text):
    """Write a text file as a whole or not at all."""
    replace_file(path, lambda temporary: Path(temporary).write_text(text, encoding="utf-8"))


def replace_file(path, write):
    """Let write(name) fill a temporary file, then sync it and rename it to path.

    Where path is a link, the file that it names is replaced. Raises UserError where that cannot be
    done; what stood there before is then untouched.
    """
    path = os.path.realpath(path)
    if os.path.exists(path) and not os.path.isfile(path):
        raise UserError(f"{path}: is no file that could be replaced; choose another name")
    temporary = f"{path}.tmp"
    try:
        with open(temporary, "wb") as file:
            mode = os.fstat(file.fileno()).st_mode            # as the user's umask wants it
        write(temporary)
        os.chmod(temporary, mode & 0o777)                     # safetensors makes files private
        _sync(temporary)
        os.replace(temporary, path)
        _sync(Path(path).parent)                              # or a power cut may undo renaming
    except (OSError, SafetensorError) as error:
        raise UserError(f"{path}: cannot be written ({error}); make room there or choose another "
                        "folder") from None
    finally:
        with suppress(OSError):                               # there only if something went wrong
            os.unlink(temporary)


def _sync(path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
