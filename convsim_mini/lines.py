"""Lines of text files: plain, gzip or zstd, read in constant memory and checked to their very end."""

import gzip
import zlib
from pathlib import Path

import zstandard

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
            for number, line in enumerate(reader(file), start=1):
                yield line.rstrip(b"\r\n")
                if number % 1_000 == 0:
                    progress(file.tell())
            progress(file.tell())
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}; give the name of a text file") from None
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
