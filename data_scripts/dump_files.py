"""Lines of monthly dumps: plain, gzip, bzip2, xz or zstd. A damaged dump gives its whole part."""

import bz2
import lzma
import zlib
from pathlib import Path

import zstandard

BLOCK = 1 << 18          # bytes read from disk at a time
LONGEST_LINE = 1 << 24   # bytes; Reddit's longest comments have 40,000 characters

# The first bytes tell a file's kind: some dumps have lost their suffix, others have a wrong one.
KINDS = [
    (b"\x1f\x8b", lambda: zlib.decompressobj(wbits=31)),
    (b"BZh", bz2.BZ2Decompressor),
    (b"\xfd7zXZ\x00", lzma.LZMADecompressor),
    # Dumps since 2019 are written with --long=31: their frames may look back 2 GiB.
    (b"\x28\xb5\x2f\xfd",
     _zstd := lambda: zstandard.ZstdDecompressor(max_window_size=2**31).decompressobj()),
    (b"\x50\x2a\x4d\x18", _zstd),                             # pzstd's first frame, to skip
]


class DumpLines:
    """Iterates over the lines of a dump, as bytes without their ends.

    position: bytes read from disk so far; number: lines given so far; open_end: True if the line
    just given is the last one and has no line break; cut: None, or where damage ended the dump and
    how. Damage raises nothing: all whole lines before it are given. Raises OSError if the disk
    fails, and MemoryError.
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
            if getattr(error, "errno", None) is not None:     # the disk's; bzip2's have no number
                raise
            if "memory" in str(error):                        # no room for zstd's window: no damage
                raise MemoryError(f"{self.path}: {error}; a dump written with --long=31 takes "
                                  "2 GiB") from None
            self.cut = (f"{error} after line {self.number}, within the first {self.position} bytes "
                        "of the file")
            return
        if rest:
            self.number, self.open_end = self.number + 1, True
            yield rest

    def _decompressed(self, file):
        """Yield the decompressed blocks of a file, stream after stream."""
        block, stream = self._read(file), None
        make = next((make for magic, make in KINDS if block.startswith(magic)), None)
        while block:
            if make is None:
                yield block
            else:
                stream = stream or make()
                yield stream.decompress(block)
                if stream.eof:                                # another stream or zeros may follow
                    rest, stream = stream.unused_data.lstrip(b"\0"), None
                    if rest:
                        block = rest
                        continue
            block = self._read(file)
        if stream is not None:                                # zstandard itself says nothing here
            raise EOFError("the compressed data stops")

    def _read(self, file):
        block = file.read(BLOCK)
        self.position += len(block)
        return block
