"""Small files that expand to gigabytes, and a way to see what memory they take."""

import gzip
import tracemalloc
from contextlib import contextmanager

from convsim_mini.common.lines import zstd

PIECE = bytes(1 << 24)


def one_stream(make, pieces=128):
    """Zeros, 16 MiB a piece, as one compressed stream. make: a compressor."""
    return b"".join(make.compress(PIECE) for _ in range(pieces)) + make.flush()


def long_window(data):
    """A zstd frame as --long=31 writes it: without a size in its header, it asks for 2 GiB."""
    names = zstd.CompressionParameter
    return zstd.ZstdCompressor(options={
        names.window_log: 31, names.hash_log: 12, names.chain_log: 12,
        names.content_size_flag: False}).compress(data, zstd.ZstdCompressor.FLUSH_FRAME)


def line_bombs():
    """Suffix → a file of one line of 2 GB; but for zstd, of many streams one after another."""
    return {".gz": gzip.compress(PIECE) * 128, ".zst": one_stream(zstd.ZstdCompressor())}


@contextmanager
def peak_below(most):
    """Fail if more bytes than that are held at any time."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()
