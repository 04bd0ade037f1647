"""Lines of monthly dumps: plain, gzip, bzip2, xz or zstd, as far as they are whole."""

import bz2
import lzma
import zlib
from pathlib import Path

import zstandard

BLOCK = 1 << 18          # bytes read from disk at a time
LONGEST_LINE = 1 << 24   # bytes; Reddit's longest comments have 40,000 characters

# The first bytes of a file tell its kind: some dumps have lost their suffix, others carry a wrong one.
KINDS = [
    (b"\x1f\x8b", lambda: zlib.decompressobj(wbits=31)),
    (b"BZh", bz2.BZ2Decompressor),
    (b"\xfd7zXZ\x00", lzma.LZMADecompressor),
    # Dumps since 2019 are written with --long=31: their frames may look back 2 GiB.
    (b"\x28\xb5\x2f\xfd", _zstd := lambda: zstandard.ZstdDecompressor(max_window_size=2**31).decompressobj()),
    (b"\x50\x2a\x4d\x18", _zstd),                            # a skippable frame, with which pzstd begins
]


class DumpLines:
    """Iterates over the lines of a dump, bytes without their ends; damage ends it without an exception.

    position: bytes read from disk so far; number: lines given so far; open_end: the line just given
    is the last and has no line break; cut: None, or how compressed data ended before its time. What
    could be read before that is given; a line cut in two is not. Raises OSError where the disk fails, and
    MemoryError.
    """

    def __init__(self, path):
        self.path, self.position, self.number = Path(path), 0, 0
        self.open_end, self.cut = False, None

    def __iter__(self):
        rest = b""
        try:
            with open(self.path, "rb") as file:
                for text in self._decompressed(file):
                    *lines, rest = (rest + text).split(b"\n")
                    if len(rest) > LONGEST_LINE:
                        raise EOFError(f"a line of more than {LONGEST_LINE} bytes")
                    for line in lines:
                        self.number += 1
                        yield line
        except (OSError, EOFError, zlib.error, lzma.LZMAError, zstandard.ZstdError) as error:
            if getattr(error, "errno", None) is not None:     # the disk's error; bzip2's own have no number
                raise
            if "memory" in str(error):                        # zstd's window did not fit: no fault of the dump
                raise MemoryError(f"{self.path}: {error}; a dump written with --long=31 takes 2 GiB") from None
            self.cut = f"{error} after line {self.number}, within the first {self.position} bytes of the file"
            return
        if rest:
            self.number, self.open_end = self.number + 1, True
            yield rest

    def _decompressed(self, file):
        """Yield what the blocks of a file decompress to, stream after stream."""
        block, stream = self._read(file), None
        make = next((make for magic, make in KINDS if block.startswith(magic)), None)
        while block:
            if make is None:
                yield block
            else:
                stream = stream or make()
                yield stream.decompress(block)
                if stream.eof:                                # another stream may follow, or zeros to fill a tape
                    rest, stream = stream.unused_data.lstrip(b"\0"), None
                    if rest:
                        block = rest
                        continue
            block = self._read(file)
        if stream is not None:                                # zstandard ends a cut stream without a word
            raise EOFError("the compressed data stops")

    def _read(self, file):
        block = file.read(BLOCK)
        self.position += len(block)
        return block
