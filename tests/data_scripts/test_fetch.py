"""`fetch` against a local server that drops, truncates, changes its mind and fails."""

import hashlib
from pathlib import Path

import pytest

from convsim_mini.common.cli import UserError
from data_scripts import fetch
from data_scripts.registry import Source

from loopback import Answer

BODY = bytes(range(256)) * 4_000                              # several chunks


def ask(server, answers, part):
    """Download /file into part → the requests' (Range, If-Range)."""
    server.answers["/file"] = answers
    del server.requests[:]
    fetch.download(f"{server.address}/file", part, 10**9)
    assert all(headers["Accept-Encoding"] == "identity" for _, headers in server.requests)
    return [(headers.get("Range"), headers.get("If-Range")) for _, headers in server.requests]


def test_a_dropped_connection_resumes(server, tmp_path):
    part = tmp_path / "file.part"
    cuts = (1, 700_000, 50_000)
    asked = ask(server, [Answer(BODY, cut=cut) for cut in cuts] + [Answer(BODY)], part)
    assert asked == [(None, None), ("bytes=1-", '"1"'), ("bytes=700001-", '"1"'),
                     ("bytes=750001-", '"1"')]
    assert part.read_bytes() == BODY and server.sent == len(BODY)       # each byte once


def test_the_next_run_goes_on(server, tmp_path):
    source = Source(f"{server.address}/file")
    server.answers["/file"] = [Answer(BODY, cut=300_000), Answer(status=503)]
    told = "answered 503 .*; gave up after 5 tries .* 300,000 bytes are kept: run"
    with pytest.raises(UserError, match=told):
        fetch.fetch(source, tmp_path, 10**9)
    assert len(server.requests) == 5
    server.answers["/file"] = [Answer(BODY)]
    path, *_ = fetch.fetch(source, tmp_path, 10**9)
    assert path.read_bytes() == BODY and server.sent == len(BODY)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("again", [Answer(BODY, ranges=False),
                                   Answer(BODY[::-1] + b"more", tag='"2"')])
def test_a_server_without_ranges_or_with_a_changed_file_starts_again(again, server, tmp_path):
    part = tmp_path / "file.part"
    assert len(ask(server, [Answer(BODY, cut=300_000), again], part)) == 2
    assert part.read_bytes() == again.body


def test_weak_and_absent_tags(server, tmp_path):
    """A weak tag does not name exact bytes, so the date counts; without one, nothing is joined."""
    dated = Answer(BODY, tag='W/"1"', headers=(("Last-Modified", "Thu, 01 Mar 2018 00:00:00 GMT"),))
    asked = ask(server, [dated._replace(cut=300_000), dated._replace(ranges=False)],
                tmp_path / "dated.part")
    assert asked[1] == ("bytes=300000-", "Thu, 01 Mar 2018 00:00:00 GMT")
    plain = Answer(BODY, tag="")
    asked = ask(server, [plain._replace(cut=300_000), plain], tmp_path / "plain.part")
    assert asked[1] == (None, None) and (tmp_path / "plain.part").read_bytes() == BODY


def test_nothing_left_to_send(server, tmp_path):
    """A run killed between the last byte and the renaming gets 416, with the size that is here."""
    part = tmp_path / "file.part"
    ask(server, [Answer(BODY)], part)
    server.sent = 0
    assert ask(server, [Answer(BODY)], part) == [(f"bytes={len(BODY)}-", '"1"')]
    assert part.read_bytes() == BODY and server.sent == 0


REST = ("Content-Range", f"bytes 300000-{len(BODY) - 1}/{len(BODY)}")


@pytest.mark.parametrize("odd", [
    Answer(BODY[300_000:], tag='"2"', status=206, headers=(REST,)),       # of another version
    Answer(BODY[300_000:], tag="", status=206, headers=(REST,)),
    Answer(BODY[:1_000], tag='"1"'),                          # shorter than what is here
    Answer(status=416), Answer(status=416, headers=(("Content-Range", "bytes */*"),)),
    Answer(BODY, status=206),
    Answer(BODY, status=206, headers=(("Content-Range", "bytes 5-9/10"),))])
def test_an_answer_that_does_not_fit_starts_again(odd, server, tmp_path):
    part = tmp_path / "file.part"
    asked = ask(server, [Answer(BODY, cut=300_000), odd, Answer(BODY)], part)
    assert asked[2] == (None, None) and part.read_bytes() == BODY


def test_a_part_of_another_address_or_without_a_note_starts_again(server, tmp_path):
    part = tmp_path / "file.part"
    for note in (None, 'http://elsewhere/file\n"1"', "\n\n"):
        part.write_bytes(b"?" * 1_000)
        if note is not None:
            Path(f"{part}.version").write_text(note)
        assert ask(server, [Answer(BODY)], part) == [(None, None)] and part.read_bytes() == BODY


def test_passing_failures_are_tried_again_after_growing_waits(server, tmp_path, monkeypatch):
    part, waits = tmp_path / "file.part", []
    monkeypatch.setattr(fetch, "wait", waits.append)
    failures = [Answer(status=status) for status in (500, 503, 429, 408)]
    assert len(ask(server, [*failures, Answer(BODY)], part)) == 5
    assert part.read_bytes() == BODY and waits == [1, 2, 4, 8]
    # tries that bring something are not counted
    part.unlink()
    assert len(ask(server, [Answer(BODY, cut=1_000)] * 20 + [Answer(BODY)], part)) == 21


@pytest.mark.parametrize("answer, tries", [
    (Answer(status=404), 1), (Answer(status=403), 1), (Answer(status=500), 5),
    (Answer(BODY, cut=9, ranges=False), 5), (Answer(status=416), 5), (None, 0)])
def test_trying_again_has_an_end(answer, tries, server, tmp_path):
    if not answer:
        server.close()                                        # nobody there
    with pytest.raises(UserError, match="answered 40" if tries == 1 else "gave up after 5 tries"):
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


# ---------------------------------------------------------------- servers that never end

@pytest.mark.parametrize("answer", [Answer(BODY, pause=0.01), Answer(BODY, cut=1)])
def test_drips_and_one_byte_a_connection_end_after_a_stated_time(
        answer, server, tmp_path, monkeypatch):
    monkeypatch.setattr(fetch, "LONGEST", 1)
    told = "/file: not complete after 1 seconds, the limit; [0-9,]+ bytes are kept: run the command"
    with pytest.raises(UserError, match=told):
        ask(server, [answer], tmp_path / "file.part")
    assert (tmp_path / "file.part").stat().st_size
    monkeypatch.setattr(fetch, "LONGEST", 60)
    ask(server, [Answer(BODY)], tmp_path / "file.part")       # the next run goes on
    assert (tmp_path / "file.part").read_bytes() == BODY


@pytest.mark.parametrize("answer", [
    Answer(BODY), Answer(BODY, length=False),
    Answer(b"", length=False, headers=(("Content-Length", "9" * 15),))])
def test_what_is_or_says_it_is_larger_than_the_limit_is_not_fetched(answer, server, tmp_path):
    server.answers["/file"] = [answer]
    with pytest.raises(UserError, match="/file: sends more than 100,000 bytes, the limit"):
        fetch.fetch(Source(f"{server.address}/file"), tmp_path, 100_000)
    assert len(server.requests) == 1 and not list(tmp_path.iterdir())


@pytest.mark.parametrize("odd", [
    Answer(status=302, headers=(("Location", place),))
    for place in ("http://[::1", "http://a..b/", "file:///etc/passwd", "http://127.0.0.1:x/", "",
                  "/file")] + [
    Answer(BODY, length=False, headers=(("Content-Length", "9" * 5_000),))])
def test_a_malformed_redirect_or_length_is_a_line(odd, server, tmp_path):
    server.answers["/file"] = [odd]
    with pytest.raises(UserError, match="^[^\n]*/file: [^\n]*$"):
        fetch.download(f"{server.address}/file", tmp_path / "file.part", 10**9)
