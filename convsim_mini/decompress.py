"""Plain, gzip, bzip2, xz or zstd: bytes and lines, never more of them than fit into memory.

A kilobyte can expand to gigabytes. So whoever decompresses, decompresses here, with three limits:
on what one read gives, on a line, and on how far a whole file expands.
"""

import bz2
import lzma
import zlib

import zstandard

BLOCK = 1 << 16          # bytes read from disk at a time
TEXT = 1 << 16           # bytes of text made at a time
MOST = 1 << 24           # bytes of a line; Reddit's longest comments have 40,000 characters
WINDOW = 1 << 31         # bytes that a stream may look back; dumps since 2019 have --long=31
FOLD, FREE = 1_000, 1 << 28    # a file may expand so many fold; 256 MiB of text are always free
PIECE = 1 << 10          # bytes


class Damaged(Exception):
    """Compressed data that is cut or cannot be right."""


class TooMuch(Damaged):
    """A line, or a whole text, past its limit."""


class _Zstd:
    """A zstd frame behind the interface of `zlib.decompressobj`.

    zstandard cannot limit what a piece of input becomes, so pieces are small: 4 bytes of zstd are
    128 kB at most, and 1 kB is 32 MB.
    """

    def __init__(self):
        self.stream = zstandard.ZstdDecompressor(max_window_size=WINDOW).decompressobj()
        self.eof, self.unused_data, self.unconsumed_tail = False, b"", b""

    def decompress(self, data, size):
        texts, made, at = [], 0, 0
        while made < size and at < len(data) and not self.stream.eof:
            texts.append(self.stream.decompress(data[at:at + PIECE]))
            made, at = made + len(texts[-1]), at + PIECE
        self.eof, self.unconsumed_tail = self.stream.eof, data[at:]
        self.unused_data = self.stream.unused_data + self.unconsumed_tail
        return b"".join(texts)


SUFFIXES = {".gz": lambda: zlib.decompressobj(wbits=31), ".zst": _Zstd}
# The first bytes of each kind; the last are of pzstd's first frame, to skip.
KINDS = [(b"\x1f\x8b", SUFFIXES[".gz"]), (b"BZh", bz2.BZ2Decompressor),
         (b"\xfd7zXZ\x00", lambda: lzma.LZMADecompressor(memlimit=WINDOW)),
         (b"\x28\xb5\x2f\xfd", _Zstd), (b"\x50\x2a\x4d\x18", _Zstd)]


def kind_of(file):
    """What makes a decompressor for an open file, as its first bytes tell; None: it is plain."""
    begin = file.peek(8)
    return next((make for magic, make in KINDS if begin.startswith(magic)), None)


class Decompressed:
    """The bytes of an open file, decompressed; its streams may follow each other, zeros between.

    make: what makes a decompressor, or None for a plain file; limit: the most bytes that it may
    expand to; 0: 1,000 fold, and 256 MiB always. position: bytes read from disk so far;
    open_end: whether the last line that `lines` has given has no line break. All methods raise
    Damaged or TooMuch, MemoryError where a window does not fit, and OSError where the disk fails.
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
        if self.made > (limit := self.limit or FREE + FOLD * self.position):
            raise TooMuch(f"{self.position:,} bytes of it expand to more than {limit:,} bytes, the "
                          "limit")
        return text

    def lines(self):
        """Yield lists of the lines, as bytes without their ends; no line has more than 16 MiB."""
        rest = b""
        while text := self.read(TEXT):
            text = rest + text
            *lines, rest = text.split(b"\n")
            is_long = (len(line) > MOST for line in (*lines, rest))
            before = next((k for k, long in enumerate(is_long) if long), None) if (
                len(text) > MOST) else None
            lines = lines[:before]
            if b"\r" in text:
                lines = [line.rstrip(b"\r") for line in lines]
            if lines:
                yield lines
            if before is not None:
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
