"""Small files that expand to gigabytes, and two ways to see what memory they take."""

import gzip
import lzma
import subprocess
import sys
import tarfile
import tracemalloc
from contextlib import contextmanager

from convsim_mini.common.files import zstd

from conftest import ROOT

PIECE = bytes(1 << 24)
LIMITED = """
import resource, runpy, sys
resource.setrlimit(resource.RLIMIT_AS, (2 * 10**9, 2 * 10**9))
sys.argv = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__")
"""


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
    return {".gz": gzip.compress(PIECE) * 128, ".xz": lzma.compress(PIECE, preset=0) * 128,
            ".zst": one_stream(zstd.ZstdCompressor())}


def tar_bomb(kind):
    """A gzipped tar whose first header, of this kind, is followed by 2 GB about a member."""
    header = tarfile.TarInfo("header")
    header.type, header.size = kind, len(PIECE) * 128
    return gzip.compress(header.tobuf(tarfile.USTAR_FORMAT)) + gzip.compress(PIECE) * 128


@contextmanager
def peak_below(most):
    """Fail if more bytes than that are held at any time."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


def limited(module, *arguments, cwd, **options):
    """Run python -m MODULE with 2 GB of addresses, so few threads; → CompletedProcess."""
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1",
                   "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
    return subprocess.run([sys.executable, "-c", LIMITED, module, *map(str, arguments)], cwd=cwd,
                          env=environment, capture_output=True, text=True, **options)
