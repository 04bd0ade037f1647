"""Reading lines, plain and compressed, whole and damaged; writing files whole or not at all."""

import gzip
import os
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock, Timeout

from convsim_mini.common.cli import UserError
from convsim_mini.common.files import (
    locked, new_folder, replace_file, write_rows, write_text)
from convsim_mini.common.lines import (
    chunked, parse_object, read_lines, read_object, text_lines, zstd)
from convsim_mini.common.processes import local_processes, map_in_order

from bombs import line_bombs, long_window, peak_below

# Texts that do not compress to nothing: cut or flipped bytes must be in real data.
LINES = [f"{a:x} asks\t{b:x} answers".encode()
         for a, b in np.random.default_rng(0).integers(2**60, size=(3_000, 2))]
TEXT = b"\n".join(LINES) + b"\n"
gzipped = partial(gzip.compress, mtime=0)    # otherwise workers disagree on the cases


def written(path, data):
    path.write_bytes(data)
    return path


def flipped(data, place):
    return data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1:]


def checked(data):
    """One zstd frame with a checksum, as the zstd command writes it."""
    return zstd.compress(data, options={zstd.CompressionParameter.checksum_flag: True})


# ---------------------------------------------------------------- lines

@pytest.mark.parametrize("name, data", [
    ("a.tsv", TEXT), ("a.tsv", TEXT[:-1]), ("a", TEXT.replace(b"\n", b"\r\n")),
    ("a.gz", gzipped(TEXT)), ("a.zst", checked(TEXT)),
    ("a.gz", gzipped(TEXT[:70_001]) + gzipped(TEXT[70_001:]) + bytes(600)),
    ("a.zst", checked(TEXT[:70_001]) + checked(TEXT[70_001:])), ("a.zst", long_window(TEXT))])
def test_every_kind_of_file_gives_the_same_lines(tmp_path, name, data):
    path, positions = written(tmp_path / name, data), []
    assert list(read_lines(path, positions.append)) == LINES
    assert len(positions) > 2 and positions == sorted(positions) and positions[-1] == len(data)


@pytest.mark.parametrize("name, data, words", [
    ("a", b"", "is empty"), ("a.gz", gzipped(b""), "is empty"), ("a.zst", b"", "cut short"),
    ("a.gz", gzipped(TEXT)[:40_000], "cut short after line"),
    ("a.gz", gzipped(TEXT)[:-1], "cut short after line 3000"),
    ("a.gz", flipped(gzipped(TEXT), 40_000), "damaged"), ("a.gz", TEXT, "after line 0"),
    ("a.zst", checked(TEXT)[:40_000], "cut short"), ("a.zst", checked(TEXT)[:-1], "cut short"),
    ("a.zst", checked(TEXT) + checked(TEXT)[:1_000], "cut short after line 3000"),
    ("a.zst", flipped(checked(TEXT), 40_000), "damaged"), ("a.zst", TEXT, "after line 0"),
    (".", None, "it is a folder"), ("nothing", None, "No such file")])
def test_a_file_that_cannot_be_read_is_named_with_the_place(tmp_path, name, data, words):
    path = written(tmp_path / name, data) if data is not None else tmp_path / name
    with pytest.raises(UserError, match=f"^{path}: .*{words}"):
        list(read_lines(path))


@pytest.mark.parametrize("end", ["", "\n"])
@pytest.mark.parametrize("name, pack", [("a", bytes), ("a.gz", gzipped), ("a.zst", checked)])
def test_the_longest_line_is_read_and_one_byte_more_is_too_much(
        tmp_path, monkeypatch, name, pack, end):
    monkeypatch.setattr("convsim_mini.common.lines.LONGEST_LINE", 300_000)
    for more, lines in ((0, [b"a\tb", b"x" * 300_000]), (1, None)):
        text = ("a\tb\n" + "x" * (300_000 + more) + end).encode()
        path = written(tmp_path / name, pack(text))
        if lines:
            assert list(read_lines(path)) == lines
        else:
            with pytest.raises(UserError, match="after line 1 has more than 300,000 bytes"):
                list(read_lines(path))


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_line_of_gigabytes_is_not_read(tmp_path, suffix):
    path = written(tmp_path / f"line{suffix}", line_bombs()[suffix])
    with peak_below(200_000_000), pytest.raises(UserError, match="has more than 16,777,216 bytes"):
        list(read_lines(path))


def test_what_is_read_is_text_and_json_in_pieces(tmp_path):
    assert list(text_lines(written(tmp_path / "a", b"\xef\xbb\xbfa\n\xc3\xa9"))) == ["a", "\u00e9"]
    for marked in ("utf-16", "utf-16-le", "utf-16-be"):
        mark = "" if marked == "utf-16" else "\ufeff"
        data = f"{mark}a\r\n\u00e9\u0a0d".encode(marked)
        assert list(text_lines(written(tmp_path / "a", data))) == ["a", "\u00e9\u0a0d"]
    assert list(text_lines(written(tmp_path / "a", b"a\rb\r"))) == ["a", "b"]
    assert list(text_lines(written(tmp_path / "a", b"a\rb\nc"))) == ["a\rb", "c"]
    with pytest.raises(UserError, match="cannot be read: .*utf-16"):
        list(text_lines(written(tmp_path / "a", "\ufeffabc".encode("utf-16-le") + b"d")))
    with pytest.raises(UserError, match="/a, line 2: is not UTF-8 .* 1: .*--encoding cp1252"):
        list(text_lines(written(tmp_path / "a", b"a\nb\xff")))
    for data in (b"\x80", "\u20ac".encode("utf-8-sig"), "\u20ac".encode("utf-16")):
        assert [*text_lines(written(tmp_path / "a", data), encoding="cp1252")] == ["\u20ac"]
    with pytest.raises(UserError, match="line 1: is not CP1252 text .*0x81 in position 0"):
        list(text_lines(written(tmp_path / "a", b"\x81"), encoding="cp1252"))
    for name in ("utf-16", "utf-7", "cp500", "rot13", "latin-x", "", "a\0", "undefined"):
        with pytest.raises(UserError, match="^--encoding .*: cannot be used .*; expected a name"):
            list(text_lines(tmp_path / "a", encoding=name))
    assert list(chunked("abcde", 2)) == [["a", "b"], ["c", "d"], ["e"]]
    assert parse_object(b'{"a": 1}') == {"a": 1}
    for text, words in (("[1]", "not a JSON object"), ("{", "not a JSON object: Exp"),
                        ("[" * 100_000, "not a JSON object: .*recursion")):
        with pytest.raises(UserError, match=f"--x .*: broken .{words}.*; mend"):
            read_object(written(tmp_path / "a", text.encode()), "broken", "mend", "--x")


# ---------------------------------------------------------------- whole or not at all

def test_a_file_is_replaced_whole_with_its_mode_and_its_neighbours_stay(tmp_path):
    path, precious = tmp_path / "v.npy", tmp_path / "v.npy.tmp"
    precious.write_text("mine")
    (tmp_path / "link").symlink_to(path)
    write_text(path, "old")
    path.chmod(0o604)
    for error in (OSError(28, "full"), KeyboardInterrupt()):
        def fail(temporary, error=error):
            Path(temporary).write_text("half")
            raise error
        with pytest.raises((UserError, KeyboardInterrupt)):
            replace_file(path, fail)
        assert path.read_text() == "old"
    blocks = [np.ones((2, 3), np.float32), np.zeros((1, 3), np.float32)]
    assert write_rows(tmp_path / "link", iter(blocks), 3) == 3
    assert np.load(path).tolist() == np.concatenate(blocks).tolist()
    assert path.stat().st_mode & 0o777 == 0o604 and precious.read_text() == "mine"
    assert {one.name for one in tmp_path.iterdir()} == {"v.npy", "v.npy.tmp", "link"}
    for name in ("none/file", "."):
        with pytest.raises(UserError):
            write_text(tmp_path / name, "text")


def test_of_two_that_write_the_result_is_that_of_one(tmp_path):
    def slower(temporary):
        write_text(path, "faster")
        Path(temporary).write_text("slower")

    path = tmp_path / "out"
    replace_file(path, slower)
    assert path.read_text() == "slower"
    with pytest.raises(UserError, match="folder: cannot be written .Directory not empty.; choose"):
        with new_folder(tmp_path / "folder", "choose") as late:
            write_text(late / "file", "late")
            with new_folder(tmp_path / "folder", "choose") as early:
                write_text(early / "file", "early")
    assert (tmp_path / "folder" / "file").read_text() == "early"
    with pytest.raises(UserError, match="already exists"), new_folder(tmp_path / "folder", ""):
        pass
    assert {path.name for path in tmp_path.iterdir()} == {"out", "folder"}


def test_a_folder_of_the_users_is_filled_and_stays_his(tmp_path):
    (empty := tmp_path / "empty").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(empty)
    before = empty.stat()
    with pytest.raises(ZeroDivisionError), new_folder(empty, "choose") as new:
        write_text(new / "file", f"{1 / 0}")
    assert not [*empty.iterdir()]
    with pytest.raises(UserError, match="meanwhile"), new_folder(empty, "choose") as new:
        write_text(new / "file", "text")
        (empty / "file").write_text("mine")
    assert (empty / "file").read_text() == "mine" and len([*empty.iterdir()]) == 1
    (empty / "file").unlink()
    with new_folder(tmp_path / "link", "choose") as new:
        write_text(new / "file", "text")
    assert (tmp_path / "link").is_symlink() and [path.name for path in empty.iterdir()] == ["file"]
    after = empty.stat()
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may")
def test_a_replaced_file_keeps_its_owner(tmp_path):
    (path := tmp_path / "file").write_text("old")
    os.chown(path, 1_000, 1_001)
    path.chmod(0o640)
    write_text(path, "new")
    found = path.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (1_000, 1_001, 0o640)


def test_who_waits_for_a_lock_says_so(tmp_path, capsys, monkeypatch):
    class Taken:
        def __init__(self, path):
            self.tries = []

        def acquire(self, timeout=None):
            self.tries.append(timeout)
            if timeout == 10:
                raise Timeout("taken")

        def release(self):
            assert self.tries == [10, None]

    monkeypatch.setattr("convsim_mini.common.files.FileLock", Taken)
    with locked(tmp_path):
        assert f"{tmp_path}: waiting for another process" in capsys.readouterr().err


def test_a_lock_has_one_holder_and_leaves_nothing(tmp_path):
    with locked(tmp_path, "busy"), pytest.raises(UserError, match="^busy$"):
        with locked(tmp_path, "busy"):
            pass
    with locked(tmp_path, "busy"), locked(tmp_path, name="another.lock"):
        pass
    assert not [*tmp_path.iterdir()]


@pytest.mark.skipif(os.name == "nt", reason="Windows deletes no open file")
def test_who_takes_a_lock_as_it_is_released_holds_the_one_that_the_next_will_find(
        tmp_path, monkeypatch):
    def release_and_be_overtaken(lock):
        real(lock)
        second.enter_context(locked(tmp_path, "busy"))

    real = FileLock.release
    with ExitStack() as second:
        with monkeypatch.context() as patch, locked(tmp_path):
            patch.setattr(FileLock, "release", release_and_be_overtaken)
        with pytest.raises(UserError, match="^busy$"), locked(tmp_path, "busy"):
            pass


# ---------------------------------------------------------------- processes

def test_processes_give_results_in_order_and_one_that_is_killed_is_a_line():
    taken = []
    with local_processes(2, "") as workers:
        items = (taken.append(n) or n for n in range(30))
        results = map_in_order(workers, str, items, 3)
        assert next(results) == "0" and len(taken) == 4
        assert [*results] == [str(n) for n in range(1, 30)]
    with pytest.raises(UserError, match="process was killed.*; wait"):
        with local_processes(1, "wait") as workers:
            workers.submit(os._exit, 1).result()


def test_zstd_is_asked_for_where_it_is_met(tmp_path, monkeypatch):
    (tmp_path / "a.zst").write_bytes(zstd.compress(b"a line\n"))
    monkeypatch.setattr("convsim_mini.common.lines.zstd", None)
    with pytest.raises(UserError, match=r"\.zst: reading .* needs a package; .*backports\.zstd"):
        list(read_lines(tmp_path / "a.zst"))
