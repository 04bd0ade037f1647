"""`fetch` against a local server that drops, truncates, changes its mind and fails."""

import hashlib

import pytest

from convsim_mini.common.cli import UserError
from data_scripts import fetch
from data_scripts.registry import Source

from loopback import Answer

BODY = bytes(range(256)) * 4_000                              # several chunks


def ask(server, answers, part):
    """Download /file into part → the Range of each request."""
    server.answers["/file"] = answers
    del server.requests[:]
    fetch.download(f"{server.address}/file", part, 10**9)
    assert all(headers["Accept-Encoding"] == "identity" for _, headers in server.requests)
    return [headers.get("Range") for _, headers in server.requests]


def test_a_dropped_connection_resumes(server, tmp_path):
    part = tmp_path / "file.part"
    cuts = (1, 700_000, 50_000)
    asked = ask(server, [Answer(BODY, cut=cut) for cut in cuts] + [Answer(BODY)], part)
    assert asked == [None, "bytes=1-", "bytes=700001-", "bytes=750001-"]
    assert part.read_bytes() == BODY and server.sent == len(BODY)       # each byte once


def test_the_next_run_goes_on(server, tmp_path):
    source = Source(f"{server.address}/file")
    server.answers["/file"] = [Answer(BODY, cut=300_000), Answer(status=503)]
    told = "answered 503 .*; gave up after 5 tries .* 300,000 bytes are kept: run"
    with pytest.raises(UserError, match=told):
        fetch.fetch(source, tmp_path, 10**9)
    server.answers["/file"] = [Answer(BODY)]
    path, *_ = fetch.fetch(source, tmp_path, 10**9)
    assert path.read_bytes() == BODY and server.sent == len(BODY)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("again", [Answer(BODY, ranges=False), Answer(BODY[:1_000])])
def test_a_server_without_ranges_or_with_a_shorter_file_starts_again(again, server, tmp_path):
    part = tmp_path / "file.part"
    ask(server, [Answer(BODY, cut=300_000), again], part)
    assert part.read_bytes() == again.body


def test_nothing_left_to_send(server, tmp_path):
    """A run killed between the last byte and the renaming gets 416, with the size that is here."""
    part = tmp_path / "file.part"
    ask(server, [Answer(BODY)], part)
    server.sent = 0
    assert ask(server, [Answer(BODY)], part) == [f"bytes={len(BODY)}-"]
    assert part.read_bytes() == BODY and server.sent == 0


def test_passing_failures_are_tried_again_after_growing_waits(server, tmp_path, monkeypatch):
    part, waits = tmp_path / "file.part", []
    monkeypatch.setattr(fetch, "sleep", waits.append)
    failures = [Answer(status=status) for status in (500, 503, 429, 408)]
    assert len(ask(server, [*failures, Answer(BODY)], part)) == 5
    assert part.read_bytes() == BODY and waits == [1, 2, 4, 8]
    # tries that bring something are not counted
    part.unlink()
    assert len(ask(server, [Answer(BODY, cut=1_000)] * 20 + [Answer(BODY)], part)) == 21


@pytest.mark.parametrize("answer, tries", [
    (Answer(status=404), 1), (Answer(status=500), 5), (Answer(status=416), 5), (None, 0)])
def test_trying_again_has_an_end(answer, tries, server, tmp_path):
    if not answer:
        server.close()                                        # nobody there
    told = "answered 40" if tries == 1 else "gave up after 5 tries"
    with pytest.raises(UserError, match=f"^[^\n]*/file: [^\n]*{told}"):
        ask(server, [answer], tmp_path / "file.part")
    assert len(server.requests) == tries


def test_of_a_checksum_known_in_part_the_beginning_counts_and_is_said(server, tmp_path):
    server.answers["/a.zip"] = [Answer(BODY)]
    source = Source(f"{server.address}/a.zip")
    whole = hashlib.sha256(BODY).hexdigest()
    for known, told in (
            (whole, "sha256 as expected"), (None, f"sha256 {whole} not checked: not known"),
            (whole[:8] + "…", f"sha256 begins with {whole[:8]}, no more of it is known")):
        path, found = fetch.fetch(source._replace(sha256=known), tmp_path, 10**9)
        assert (path.read_bytes(), found) == (BODY, told)
        path.unlink()
    wrong = "0" if whole[7] != "0" else "1"
    for known in (whole[:7] + wrong + "…", whole[:7] + wrong + whole[8:]):
        with pytest.raises(UserError, match=f"sha256 is {whole}, expected {known}"):
            fetch.fetch(source._replace(sha256=known), tmp_path, 10**9)
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("length", [True, False])
def test_what_is_larger_than_the_limit_is_not_fetched(length, server, tmp_path):
    server.answers["/file"] = [Answer(BODY, length=length)]
    with pytest.raises(UserError, match="/file: sends more than 100,000 bytes, the limit"):
        fetch.fetch(Source(f"{server.address}/file"), tmp_path, 100_000)
    assert len(server.requests) == 1 and not list(tmp_path.iterdir())
