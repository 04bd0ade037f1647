"""Lines of monthly dumps: plain, gzip, bzip2, xz or zstd. A damaged dump yields its intact part."""

import bz2
import lzma
from pathlib import Path

from convsim_mini.common.lines import DAMAGE, LONGEST_LINE, SUFFIXES

FIRST_BYTES = {
    b"\x1f\x8b": SUFFIXES[".gz"],
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
    b"\x28\xb5\x2f\xfd": SUFFIXES[".zst"],
    b"\x50\x2a\x4d\x18": SUFFIXES[".zst"],    # the skippable frame that pzstd starts with
}


def decompressed(file):
    """An open file, decompressed according to its first bytes."""
    begin = file.peek(8)
    for magic, opened in FIRST_BYTES.items():
        if begin.startswith(magic):
            return opened(file)
    return file


class DumpLines:
    """Iterates over the lines of a dump, as bytes without their ends.

    number: lines given so far; open_end: True if the line just given is the last one and has no
    line break; cut: None, or where damage ended the dump and how. The first bytes show a dump's
    kind, because some have lost their suffix and others have a wrong one. Damage raises nothing:
    all whole lines before it are given. Raises OSError if the disk fails, and MemoryError.
    """

    def __init__(self, path):
        self.path, self.number = Path(path), 0
        self.open_end, self.cut = False, None

    def __iter__(self):
        with open(self.path, "rb") as file:
            text = decompressed(file)
            try:
                while line := text.readline(LONGEST_LINE + 1):
                    self.open_end = not line.endswith(b"\n")
                    if self.open_end and len(line) > LONGEST_LINE:
                        raise EOFError(f"a line exceeds the limit of {LONGEST_LINE:,} bytes")
                    self.number += 1
                    yield line.rstrip(b"\r\n")
            except (*DAMAGE, lzma.LZMAError, OSError) as error:
                if getattr(error, "errno", None) is not None:    # the disk's; bzip2's have none
                    raise
                if "not enough memory" in str(error):         # for a window: not damage
                    raise MemoryError(f"{self.path}: {error}; a dump written with --long=31 takes "
                                      "2 GiB") from None
                self.cut = f"{error} after line {self.number}"
