"""Lines of monthly dumps: plain, gzip, bzip2, xz or zstd. A damaged dump gives its whole part."""

import bz2
import lzma
from functools import partial
from pathlib import Path

from convsim_mini.common.decompress import SUFFIXES, WINDOW, Damaged, Decompressed

FIRST_BYTES = {
    b"\x1f\x8b": SUFFIXES[".gz"],
    b"BZh": bz2.BZ2Decompressor,
    b"\xfd7zXZ\x00": partial(lzma.LZMADecompressor, memlimit=WINDOW),
    b"\x28\xb5\x2f\xfd": SUFFIXES[".zst"],
    b"\x50\x2a\x4d\x18": SUFFIXES[".zst"],    # a frame to skip, with which pzstd begins
}


def kind_of(file):
    """The function that makes a decompressor for an open file, by its first bytes; None: plain."""
    begin = file.peek(8)
    for magic, make in FIRST_BYTES.items():
        if begin.startswith(magic):
            return make
    return None


class DumpLines:
    """Iterates over the lines of a dump, as bytes without their ends.

    position: bytes read from disk so far; number: lines given so far; open_end: True if the line
    just given is the last one and has no line break; cut: None, or where damage ended the dump and
    how. The first bytes tell a dump's kind: some have lost their suffix, others have a wrong one.
    Damage raises nothing: all whole lines before it are given. Raises OSError if the disk fails,
    and MemoryError.
    """

    def __init__(self, path):
        self.path, self.position, self.number = Path(path), 0, 0
        self.open_end, self.cut = False, None

    def __iter__(self):
        with open(self.path, "rb") as file:
            text = Decompressed(file, kind_of(file))
            try:
                for lines in text.lines():
                    self.position, self.open_end = text.position, text.open_end
                    for line in lines:
                        self.number += 1
                        yield line
            except Damaged as error:
                self.cut = (f"{error} after line {self.number}, within the first {text.position} "
                            "bytes of the file")
            self.position = text.position
