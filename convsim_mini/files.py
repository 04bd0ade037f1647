"""Plain, gzip or zstd text, read to its very end; JSON; files written whole or not at all."""

import codecs
import gzip
import json
import os
import zlib
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import zstandard
from safetensors import SafetensorError

from .cli import UserError, user_errors


def read_lines(path, progress=lambda position: None):
    """Yield the lines of a file as bytes, without their ends; .gz and .zst are decompressed.

    A byte-order mark is left out.

    progress(position) is told now and then how many bytes have been read from disk. Raises
    UserError for a file that cannot be read or is empty, and for damaged or cut compressed data.
    """
    path, number = Path(path), 0
    reader = {".gz": gzip.open, ".zst": _zstd_lines}.get(path.suffix, iter)
    try:
        with open(path, "rb") as file:
            seekable = file.seekable()                        # a pipe has no position
            for number, line in enumerate(reader(file), start=1):
                line = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
                yield line.rstrip(b"\r\n")
                if seekable and number % 1_000 == 0:
                    progress(file.tell())
            if seekable:
                progress(file.tell())
    except OSError as error:
        reason = error.strerror or error
        raise UserError(f"{path}: cannot be read: {reason}; give the name of a text file") from None
    except (EOFError, zlib.error, zstandard.ZstdError) as error:
        fault = f"the compressed data is damaged or cut short after line {number} ({error})"
        raise UserError(f"{path}: {fault}; fetch or write the file again") from None
    if number == 0:
        raise UserError(f"{path}: is empty; expected one or more lines of text")


def decoded(name, lines, advice):
    """Lines of bytes as str, without a byte-order mark. Raises UserError where they are not UTF-8.

    name, advice: of the file, and of what to do, for the error's line
    """
    for number, line in enumerate(lines, start=1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise UserError(f"{name}, line {number}: is not UTF-8 text ({error.reason} at byte "
                            f"{error.start}); {advice}") from None


def _zstd_lines(file):
    """Lines of a zstd file. A cut stream ends silently in zstandard, so its end is checked here."""
    rest, stream = b"", None
    while block := file.read(1 << 18):
        while block:
            if stream is None:
                stream = zstandard.ZstdDecompressor(max_window_size=2**31).decompressobj()
            *lines, rest = (rest + stream.decompress(block)).split(b"\n")
            yield from lines
            block = b""
            if stream.eof:                                    # another frame may follow
                block, stream = stream.unused_data, None
    if rest:
        yield rest
    if stream is not None:
        raise EOFError("the zstd stream has no end")


def read_object(path, fault, advice, option=""):
    """The object in a JSON file, as a dict. Raises UserError: "OPTION PATH: FAULT (…); ADVICE"."""
    where = f"{option} {path}".lstrip()
    with user_errors(f"{where}: {fault}", advice, (OSError, ValueError)):
        value = json.loads(Path(path).read_text(encoding="utf-8"))
    if not isinstance(value, dict):
        raise UserError(f"{where}: holds no JSON object; {advice}")
    return value


def write_text(path, text):
    """Write a text file whole or not at all."""
    replace_file(path, lambda temporary: Path(temporary).write_text(text, encoding="utf-8"))


def write_rows(path, blocks, width):
    """Write float32 blocks, each (n, width), below each other as one .npy file; → number of rows.

    The file is written whole or not at all. Raises UserError as `replace_file` does.
    """
    header = {"descr": "<f4", "fortran_order": False, "shape": (0, width)}

    def write(temporary):
        with open(temporary, "wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            for block in blocks:
                block.tofile(file)
                header["shape"] = (header["shape"][0] + len(block), width)
            file.seek(0)
            np.lib.format.write_array_header_1_0(file, header)    # NumPy pads it to one length

    replace_file(path, write)
    return header["shape"][0]


def replace_file(path, write):
    """Let write(name) fill a temporary file, then sync it and rename it to path.

    A link stays one: the file that it names is replaced. Raises UserError; nothing is then changed.
    """
    path = os.path.realpath(path)
    if os.path.exists(path) and not os.path.isfile(path):
        raise UserError(f"{path}: is no file that could be replaced; choose another name")
    temporary, advice = f"{path}.tmp", "make room there or choose another folder"
    try:
        with user_errors(f"{path}: cannot be written", advice, (OSError, SafetensorError)):
            with open(temporary, "wb") as file:
                mode = os.fstat(file.fileno()).st_mode        # as the user's umask wants it
            write(temporary)
            os.chmod(temporary, mode & 0o777)                 # safetensors makes files private
            _sync(temporary)
            os.replace(temporary, path)
            _sync(Path(path).parent)                          # or a power cut may undo renaming
    finally:
        with suppress(OSError):                               # there only if something went wrong
            os.unlink(temporary)


@contextmanager
def new_folder(path, advice):
    """A folder beside `path` to fill; it becomes `path` at the end, or nothing after an error.

    advice: what to do where path cannot be used. Raises UserError where it is anything but an empty
    folder, or cannot be written.
    """
    target = Path(os.path.realpath(path))
    with user_errors(f"{path}: cannot be written", advice, (OSError, SafetensorError)):
        if target.exists() and not (target.is_dir() and not any(target.iterdir())):
            raise UserError(f"{path}: exists already and is left as it is; {advice}")
        target.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as beside:
            folder = Path(beside, target.name)
            folder.mkdir()                                    # not private, as `beside` is
            yield folder
            os.replace(folder, target)


def _sync(path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
