"""Unpacking archives that mean harm, expand too far, are damaged or are something else."""

import gzip
import io
import stat
import tarfile
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convsim_mini.common.cli import UserError
from data_scripts.archives import choose_outermost, unpack_archive

from official_archives import tarred, zipped


def tar_with(kind, name="stsbenchmark/sts-train.csv", target="/etc/passwd"):
    """A tar with one member that is no file."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, target
        archive.addfile(info)
    return file.getvalue()


def zip_with_link(name):
    """A zip with a symbolic link."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        info = zipfile.ZipInfo(name)
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, "/etc/passwd")
    return file.getvalue()


OUTSIDE = ["a/../../sts-train.csv", "/tmp/sts-train.csv", "..\\sts-train.csv", "C:\\sts-train.csv",
           "../other.txt"]
LINKS = tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE


@pytest.mark.parametrize("data", [
    *(zipped({name: b"harm", "sts-dev.csv": b""}) for name in OUTSIDE),
    *(tarred({"sts-dev.csv": b"", name: b"harm"}) for name in OUTSIDE), *map(tar_with, LINKS),
    tar_with(tarfile.SYMTYPE, "stsbenchmark", ".."), zip_with_link("stsbenchmark/sts-train.csv")])
def test_no_archive_writes_outside_its_folder(data, tmp_path):
    folder = tmp_path / "deep" / "folder"
    folder.mkdir(parents=True)
    (tmp_path / "archive").write_bytes(data)
    wanted = ["sts-train.csv", "sts-dev.csv"]
    found = unpack_archive(tmp_path / "archive", wanted, folder, 1_000_000)
    assert {path.name for path in tmp_path.rglob("*")} == {"deep", "folder", "archive", *found}
    assert all(path.is_file() and not path.is_symlink() for path in folder.iterdir())


def declaring(data, name, size):
    """A zip whose directory and header declare another size for a member."""
    data = bytearray(data)
    with zipfile.ZipFile(io.BytesIO(bytes(data))) as archive:
        true = archive.getinfo(name).file_size.to_bytes(4, "little")
    assert data.count(true) >= 2
    return bytes(data.replace(true, size.to_bytes(4, "little")))


def test_archives_do_not_expand_past_the_limit(tmp_path):
    bomb = {"sts-train.csv": b"\0" * 3_000_001, "sts-dev.csv": b"1" * 3_000_000}
    for number, (data, limit, message) in enumerate((
            (zipped(bomb), 6_000_000, "expands to more than 6,000,000 bytes, the limit"),
            (tarred(bomb), 6_000_000, "expands to more than 6,000,000 bytes, the limit"),
            (tarred({"x" * 15_000_000: b""}), 6_000_000,
             "expands to more than 6,000,000 bytes, the limit"),
            (declaring(zipped(bomb), "sts-train.csv", 10), 6_000_000, "is damaged"))):
        path = tmp_path / f"archive{number}"
        path.write_bytes(data)
        folder = tmp_path / f"folder{number}"
        folder.mkdir()
        with pytest.raises(UserError, match=message):
            unpack_archive(path, list(bomb), folder, limit)
        written = sum(file.stat().st_size for file in folder.iterdir())
        assert written <= (limit if number == 3 else 0)
        if number < 2:
            assert unpack_archive(path, list(bomb), folder, 7_100_000) == set(bomb)


def test_of_files_with_one_name_the_outermost_is_taken_that_macos_did_not_add():
    names = ["a/b/file", "__MACOSX/file", "a/file", "__MACOSX/a/._other", "a/__MACOSX/other",
             "another"]
    assert choose_outermost(names, {"file", "other"}) == {"file": "a/file"}


def test_archives_that_cannot_be_read(tmp_path):
    whole = zipped({"sts-train.csv": b"text"})
    locked = bytearray(whole)
    for marker, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):    # the "encrypted" bit of both headers
        locked[locked.find(marker) + flags] |= 1
    tar = tarred({"sts-train.csv": b"text" * 1_000})
    for data in (b"", b"<html>", bytes(locked), tar[:-40]):
        path = tmp_path / "archive"
        path.write_bytes(data)
        told = "^[^\n]*archive: is damaged, cut short or not an archive [^\n]*$"
        with pytest.raises(UserError, match=told):
            unpack_archive(path, ["sts-train.csv"], tmp_path, 1_000_000)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 10_239), st.binary(min_size=1, max_size=8)), min_size=1,
                max_size=4), st.sampled_from(["tar", "tar.gz", "zip"]))
def test_whatever_bytes_are_wrong_it_is_unpacked_or_one_line(tmp_path_factory, harm, kind):
    files = {"sts-train.csv": b"text\n" * 500, "sts-dev.csv": b"more"}
    tar = tarred(files)
    data = bytearray({"tar": gzip.decompress(tar), "tar.gz": tar, "zip": zipped(files)}[kind])
    for place, wrong in harm:
        data[place % len(data):place % len(data) + len(wrong)] = wrong
    folder = tmp_path_factory.mktemp("harm")
    (folder / "archive").write_bytes(data)
    try:
        unpack_archive(folder / "archive", list(files), folder, 1_000_000)
    except UserError as error:
        assert "\n" not in str(error) and str(folder / "archive") in str(error)
