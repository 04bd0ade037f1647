"""Fetching an archive from a local server that drops, truncates and fails."""

import hashlib

import pytest

from convsim_mini.common.cli import UserError
from data_scripts import archives
from data_scripts.registry import Source

from loopback import Answer

BODY = bytes(range(256)) * 4_000                              # several chunks


def ask(server, answers, part):
    """Download /file into part → the Range of each request."""
    server.answers["/file"] = answers
    del server.requests[:]
    archives.download_file(f"{server.address}/file", part, 10**9)
    assert all(headers["Accept-Encoding"] == "identity" for _, headers in server.requests)
    return [headers.get("Range") for _, headers in server.requests]


def test_a_broken_download_is_resumed_by_the_next_run(server, tmp_path):
    source = Source(f"{server.address}/file")
    server.answers["/file"] = [Answer(BODY, cut=300_000), Answer(BODY, cut=50_000), Answer(BODY)]
    for kept in ("300,000", "350,000"):
        with pytest.raises(UserError, match=f"^[^\n]*/file: .*; {kept} bytes are kept: run"):
            archives.fetch_archive(source, tmp_path, 10**9)
    path, *_ = archives.fetch_archive(source, tmp_path, 10**9)
    assert path.read_bytes() == BODY and server.sent == len(BODY)       # each byte once
    assert [headers.get("Range") for _, headers in server.requests] == [
        None, "bytes=300000-", "bytes=350000-"]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("again", [Answer(BODY, ranges=False), Answer(BODY[:1_000])])
def test_a_server_without_ranges_or_with_a_shorter_file_starts_again(again, server, tmp_path):
    part = tmp_path / "file.part"
    part.write_bytes(BODY[:300_000])
    ask(server, [again], part)
    assert part.read_bytes() == again.body


def test_nothing_left_to_send(server, tmp_path):
    """A run killed between the last byte and the renaming gets 416, with the size that is here."""
    part = tmp_path / "file.part"
    part.write_bytes(BODY)
    assert ask(server, [Answer(BODY)], part) == [f"bytes={len(BODY)}-"]
    assert part.read_bytes() == BODY and server.sent == 0


@pytest.mark.parametrize("failures, told", [
    ([500, 503, 429, 408], None), ([404], "answered 404 Not Found"), ([500] * 5, "answered 500"),
    ([416], "answered 416"), ([], "; 0 bytes are kept")])
def test_passing_failures_are_tried_again_but_not_for_ever(failures, told, server, tmp_path):
    if not failures:
        server.close()                                        # nobody there
    answers = [*(Answer(status=status) for status in failures), Answer(BODY)]
    if told:
        with pytest.raises(UserError, match=f"^[^\n]*/file: [^\n]*{told}"):
            ask(server, answers, tmp_path / "file.part")
        assert len(server.requests) == len(failures)
    else:
        assert len(ask(server, answers, tmp_path / "file.part")) == 5


def test_of_a_checksum_known_in_part_the_beginning_counts_and_is_said(server, tmp_path):
    server.answers["/a.zip"] = [Answer(BODY)]
    source = Source(f"{server.address}/a.zip")
    whole = hashlib.sha256(BODY).hexdigest()
    for known, told in (
            (whole, "sha256 as expected"), (None, f"sha256 {whole} not checked: not known"),
            (whole[:8] + "…", f"sha256 begins with {whole[:8]}, no more of it is known")):
        path, found = archives.fetch_archive(source._replace(sha256=known), tmp_path, 10**9)
        assert (path.read_bytes(), found) == (BODY, told)
        path.unlink()
    wrong = "0" if whole[7] != "0" else "1"
    for known in (whole[:7] + wrong + "…", whole[:7] + wrong + whole[8:]):
        with pytest.raises(UserError, match=f"sha256 is {whole}, expected {known}"):
            archives.fetch_archive(source._replace(sha256=known), tmp_path, 10**9)
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("length", [True, False])
def test_what_is_larger_than_the_limit_is_not_fetched(length, server, tmp_path):
    server.answers["/file"] = [Answer(BODY, length=length)]
    with pytest.raises(UserError, match="/file: sends more than 100,000 bytes, the limit"):
        archives.fetch_archive(Source(f"{server.address}/file"), tmp_path, 100_000)
    assert len(server.requests) == 1 and not list(tmp_path.iterdir())
