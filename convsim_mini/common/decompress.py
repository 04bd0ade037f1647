"""Bytes and lines of files that are plain, gzip or zstd, within limits of memory.

A kilobyte can expand to gigabytes. So all decompressing is done here, with three limits: on what
one read gives, on the length of a line, and on how far a whole file expands.
"""

import lzma
import zlib
from functools import partial
from itertools import takewhile

import zstandard

BLOCK = 1 << 16          # bytes read from disk at a time
TEXT = 1 << 16           # bytes of text made at a time
MOST = 1 << 24           # bytes of a line; Reddit's longest comments have 40,000 characters
WINDOW = 1 << 31         # bytes that a stream may look back; dumps since 2019 have --long=31
FOLD = 1_000             # times its size that a file may expand to
FREE = 1 << 28           # bytes of text that are always allowed
PIECE = 1 << 10          # bytes that zstd is given at a time


class Damaged(Exception):
    """Compressed data that is cut or cannot be right."""


class TooMuch(Damaged):
    """A line, or a whole text, past its limit."""


class _Zstd:
    """A zstd frame behind the interface of `zlib.decompressobj`.

    zstandard cannot limit what input becomes, so pieces are small: 1 kB of zstd is 32 MB at most.
    """

    def __init__(self):
        self.stream = zstandard.ZstdDecompressor(max_window_size=WINDOW).decompressobj()
        self.eof, self.unused_data, self.unconsumed_tail = False, b"", b""

    def decompress(self, data, size):
        text, at = bytearray(), 0
        while len(text) < size and at < len(data) and not self.stream.eof:
            text += self.stream.decompress(data[at:at + PIECE])
            at += PIECE
        self.eof, self.unconsumed_tail = self.stream.eof, data[at:]
        self.unused_data = self.stream.unused_data + self.unconsumed_tail
        return bytes(text)


SUFFIXES = {".gz": partial(zlib.decompressobj, wbits=31), ".zst": _Zstd}


class Decompressed:
    """The bytes of an open file, decompressed. Streams may follow each other, with zeros between.

    make: a function that makes a decompressor, also of bz2 or lzma, or None for a plain file
    limit: the most bytes that the file may expand to; 0: 1,000 times its size, or 256 MiB if more
    position: bytes read from disk so far
    open_end: whether the last line that `lines` gave had no line break

    All methods raise Damaged, TooMuch, MemoryError or the disk's OSError.
    """

    def __init__(self, file, make, limit=0):
        self.file, self.make, self.limit = file, make, limit
        self.stream, self.data, self.position, self.made = None, b"", 0, 0
        self.open_end = False

    def read(self, size):
        """Some bytes, `size` at most (of zstd 32 MB more); b"" at the end."""
        try:
            text = self._expand(size) if self.make else self._take(size)
        except (OSError, zlib.error, lzma.LZMAError, zstandard.ZstdError) as error:
            if getattr(error, "errno", None) is not None:     # the disk's; bzip2's have no number
                raise
            if "not enough memory" in str(error):             # for a window: this is no damage
                raise MemoryError(f"{self.file.name}: {error}; a file written with --long=31 takes "
                                  "2 GiB") from None
            raise Damaged(str(error)) from None
        self.made += len(text)
        limit = self.limit or FREE + FOLD * self.position
        if self.made > limit:
            raise TooMuch(f"{self.position:,} bytes of it expand to more than {limit:,} bytes, the "
                          "limit")
        return text

    def lines(self):
        """Yield lists of the lines, as bytes without their ends; no line has more than 16 MiB."""
        rest = b""
        while text := self.read(TEXT):
            *lines, rest = (rest + text).split(b"\n")
            short = [line.rstrip(b"\r") for line in takewhile(lambda x: len(x) <= MOST, lines)]
            if short:
                yield short
            if len(short) < len(lines) or len(rest) > MOST:
                raise TooMuch(f"there is a line of more than {MOST:,} bytes, the limit")
        if rest:
            self.open_end = True
            yield [rest.rstrip(b"\r")]

    def _expand(self, size):
        while True:
            is_end = False
            if not self.data and getattr(self.stream, "needs_input", True):
                self.data = self._take(BLOCK)
                is_end = not self.data
            if self.stream is None:                           # before the first, or between two
                if is_end:
                    return b""
                self.data = self.data.lstrip(b"\0")
                self.stream = self.make() if self.data else None
                continue
            text = self.stream.decompress(self.data, size)
            if self.stream.eof:
                self.data, self.stream = self.stream.unused_data, None
            else:                                             # bzip2 and xz hold their rest inside
                self.data = getattr(self.stream, "unconsumed_tail", b"")
            if text:
                return text
            if is_end and self.stream:                        # zstandard itself says nothing here
                raise Damaged("the compressed data stops")

    def _take(self, size):
        block = self.file.read1(size)
        self.position += len(block)
        return block
