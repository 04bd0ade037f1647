"""data_scripts/download.py against a local server: fetching, resuming, unpacking, checking, and a user's own copies."""

import hashlib
import io
import json
import stat
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from convsim_mini.cli import UserError, errors_in_one_line
from convsim_mini.evaluation.cqa import find_cqa, read_questions
from convsim_mini.evaluation.sts import find_sts, read_sts
from data_scripts import download, fetch, unpack
from data_scripts.check import check, fingerprint
from data_scripts.registry import REGISTRY, File

from conftest import ROOT
from loopback import Answer, Loopback
from official_archives import PAIRS, archives, pairs_of, registry, sts_rows, tabbed, tarred, zipped

WIKI, SBERT = "/ixa2.si.ehu.es/Stsbenchmark.tar.gz", "/sbert.net/stsbenchmark.tsv.gz"
ARCHIVED = "/web.archive.org/Stsbenchmark.tar.gz"
SNLI = "/nlp.stanford.edu/snli_1.0.zip"
BODY = bytes(range(256)) * 4_000                              # several chunks


@pytest.fixture(scope="module")
def contents():
    """Archive name → bytes."""
    return archives()


@pytest.fixture
def server(monkeypatch):
    """A Loopback; its clients do not wait between tries."""
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setattr(fetch, "wait", lambda seconds: None)
    loopback = Loopback()
    yield loopback
    loopback.close()


@pytest.fixture
def official(server, contents, monkeypatch):
    """The server with all the archives in order, and a registry that points to it."""
    local = registry(server.address, contents)
    monkeypatch.setattr(download, "REGISTRY", local)
    for dataset in local.values():
        for archive in dataset.archives:
            for source in archive.sources:
                path = source.url.removeprefix(server.address)
                server.answers[path] = [Answer(contents[path.rsplit("/", 1)[1]])]
    return server


def files_below(folder):
    """Relative name → bytes of every file."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def run(folder, *arguments):
    """The command with --data folder."""
    download.main([*map(str, arguments), "--data", str(folder)])


# ---------------------------------------------------------------- every set, as --data expects it

@pytest.mark.parametrize("name", REGISTRY)
def test_each_set_is_fetched_into_its_layout(name, official, tmp_path, capsys):
    run(tmp_path, name)
    dataset = REGISTRY[name]
    wanted = {f"{dataset.folder}/{file.name}" for archive in dataset.archives for file in archive.files}
    found = files_below(tmp_path)
    assert wanted <= found.keys() <= wanted | {f"{dataset.folder}/{extra}" for extra in dataset.extras}
    assert all(b"of the same name" not in data for data in found.values())
    assert [path.name for path in tmp_path.iterdir()] == [dataset.folder]         # neither archive nor .part stays
    assert len(official.requests) == len(dataset.archives)
    told = capsys.readouterr().out
    unknown = [file for archive in dataset.archives for file in archive.files if file.first is None]
    assert told.count("first pair not checked: not known") == len(unknown)
    assert told.count("sha256") == told.count("not checked: not known") - len(unknown) + (name in ("snli", "stsbenchmark"))

    run(tmp_path, name)                                       # all here: checked, not fetched
    assert len(official.requests) == len(dataset.archives) and files_below(tmp_path) == found


def test_the_layout_is_what_the_evaluations_find(official, tmp_path):
    run(tmp_path, "stsbenchmark", "cqa", "snli")
    assert {split: read_sts(path).sentences1 for split, path in find_sts(tmp_path).items()} == {
        split: [pair[0] for pair in pairs_of(split)] for split in ("train", "dev", "test")}
    questions = {name: read_questions(path) for name, path in find_cqa(tmp_path).items()}
    assert len(questions) == 5 and all(len(found[0].candidates) == 3 for found in questions.values())
    assert (tmp_path / "snli_1.0" / "snli_1.0_dev.jsonl").read_bytes().count(b"\n") == 3
    assert (tmp_path / "stsbenchmark" / "LICENSE.txt").read_bytes() == b"licence"


def test_only_what_is_missing_is_fetched(official, tmp_path):
    run(tmp_path, "cqa", "sick")
    (tmp_path / "cqa" / "SemEval2016-Task3-CQA-QL-test.xml").unlink()
    dev = tmp_path / "cqa" / "SemEval2016-Task3-CQA-QL-dev.xml"
    dev.write_bytes(dev.read_bytes() + b"<!-- mine -->")
    del official.requests[:]
    run(tmp_path, "cqa", "sick")
    assert [path for path, _ in official.requests] == ["/alt.qcri.org/semeval2016_task3_test.zip"]
    assert dev.read_bytes().endswith(b"<!-- mine -->") and len(find_cqa(tmp_path)) == 5


# ---------------------------------------------------------------- sources and fallbacks

@pytest.mark.parametrize("answer", [Answer(status=404), Answer(status=500), Answer(b"<html>moved</html>"), Answer(BODY)])
def test_the_next_source_is_tried_and_its_columns_put_in_order(answer, official, tmp_path, capsys):
    official.answers[WIKI] = [answer]
    run(tmp_path, "stsbenchmark")
    assert files_below(tmp_path) == {f"stsbenchmark/sts-{split}.csv": tabbed(sts_rows(split)) for split in ("train", "dev", "test")}
    told = capsys.readouterr()
    assert f"fetching {official.address}{SBERT}" in told.out and official.address + WIKI in told.err


def test_the_archived_copy_comes_last_and_must_be_the_same(official, tmp_path):
    official.answers[WIKI] = official.answers[SBERT] = [Answer(status=404)]
    run(tmp_path, "stsbenchmark")
    assert [path for path, _ in official.requests] == [WIKI, SBERT, ARCHIVED]
    assert len(find_sts(tmp_path)) == 3


def test_without_any_source_nothing_is_left_and_the_way_out_is_told(official, tmp_path, capsys):
    for path in (WIKI, SBERT, ARCHIVED):
        official.answers[path] = [Answer(status=404)]
    with pytest.raises(UserError, match="stsbenchmark: no source gave it.* get Stsbenchmark.tar.gz .* --from PATH"):
        run(tmp_path, "stsbenchmark", "snli")
    assert capsys.readouterr().err.count("answered 404 Not Found") == 3
    assert {path.split("/")[0] for path in files_below(tmp_path)} == {"snli_1.0"}      # the other set came all the same
    assert len(official.requests) == 4                        # a 404 is not asked for twice


def test_a_table_without_the_columns_is_refused(tmp_path):
    for text in ("split\tgenre\nx\ty\n", "nothing", ""):
        path = tmp_path / "stsbenchmark.tsv.gz"
        path.write_bytes(unpack.gzip.compress(text.encode()))
        with pytest.raises(UserError, match="whose header names the columns split, genre"):
            unpack.unpack(path, ["sts-train.csv"], tmp_path, 1_000)
    assert list(tmp_path.iterdir()) == [path]


# ---------------------------------------------------------------- checksums

@pytest.mark.parametrize("damage", ["one bit", "cut at the end", "cut inside"])
@pytest.mark.parametrize("name, path", [("snli", SNLI), ("cqa", "/alt.qcri.org/semeval2016_task3_test.zip"),
                                        ("stsbenchmark", SBERT)])
def test_a_damaged_archive_keeps_nothing(name, path, damage, official, contents, tmp_path, capsys):
    """With a checksum (SNLI) and without; the server does not tell the length, so a cut is not seen at once."""
    body = bytearray(contents[path.rsplit("/", 1)[1]])
    if damage == "one bit":
        body[100] ^= 16                                       # in the first member, which is wanted
    else:
        body = body[:-9] if damage == "cut at the end" else body[:len(body) // 2]
    for other in (WIKI, ARCHIVED, path.replace("alt.qcri", "web.archive")):
        official.answers[other] = [Answer(status=404)]
    official.answers[path] = [Answer(bytes(body), length=False)]
    with pytest.raises(UserError, match=f"{name}: no source gave it"):
        run(tmp_path, name)
    assert ("sha256" in capsys.readouterr().err) == (name == "snli")
    kept = files_below(tmp_path)
    assert all(file.startswith("cqa/") and "test.xml" not in file.replace("English-test", "") for file in kept), kept

    official.answers[path] = [Answer(contents[path.rsplit("/", 1)[1]])]
    run(tmp_path, name)


def test_of_a_checksum_known_in_part_the_beginning_counts_and_is_said(server, tmp_path):
    server.answers["/a.zip"] = [Answer(BODY)]
    source = REGISTRY["snli"].archives[0].sources[0]._replace(url=f"{server.address}/a.zip")
    whole = hashlib.sha256(BODY).hexdigest()
    for known, told in ((whole, "sha256 as expected"), (None, f"sha256 {whole} not checked: not known"),
                        (whole[:8] + "…", f"sha256 begins with {whole[:8]} as expected, no more of it is known")):
        path, found = fetch.fetch(source._replace(sha256=known), tmp_path)
        assert (path.read_bytes(), found) == (BODY, told)
        path.unlink()
    wrong = "0" if whole[7] != "0" else "1"
    for known in (whole[:8], whole[:7] + wrong + "…", whole[:63] + ("0" if whole[63] != "0" else "1")):
        with pytest.raises(UserError, match=f"sha256 is {whole}, expected {known}"):
            fetch.fetch(source._replace(sha256=known), tmp_path)
        assert not list(tmp_path.iterdir())


# ---------------------------------------------------------------- going on where it ended

def ask(server, answers, part):
    """Download /file into part → the requests' (Range, If-Range)."""
    server.answers["/file"] = answers
    del server.requests[:]
    fetch.download(f"{server.address}/file", part)
    return [(headers.get("Range"), headers.get("If-Range")) for _, headers in server.requests]


def test_a_dropped_connection_resumes(server, tmp_path):
    part = tmp_path / "file.part"
    cuts = (1, 700_000, 50_000)
    asked = ask(server, [Answer(BODY, cut=cut) for cut in cuts] + [Answer(BODY)], part)
    assert asked == [(None, None), ("bytes=1-", '"1"'), ("bytes=700001-", '"1"'), ("bytes=750001-", '"1"')]
    assert part.read_bytes() == BODY and server.sent == len(BODY)       # each byte once


def test_the_next_run_goes_on(server, tmp_path):
    source = REGISTRY["sick"].archives[0].sources[0]._replace(url=f"{server.address}/file")
    server.answers["/file"] = [Answer(BODY, cut=300_000), Answer(status=503)]
    with pytest.raises(UserError, match="answered 503 .*; gave up after 5 tries .* 300,000 bytes are kept: run"):
        fetch.fetch(source, tmp_path)
    assert len(server.requests) == 5
    server.answers["/file"] = [Answer(BODY)]
    path, _ = fetch.fetch(source, tmp_path)
    assert path.read_bytes() == BODY and server.sent == len(BODY)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("again", [Answer(BODY, ranges=False), Answer(BODY[::-1] + b"more", tag='"2"')])
def test_a_server_without_ranges_or_with_a_changed_file_starts_again(again, server, tmp_path):
    part = tmp_path / "file.part"
    assert len(ask(server, [Answer(BODY, cut=300_000), again], part)) == 2
    assert part.read_bytes() == again.body


def test_a_changed_file_that_drops_too_is_not_joined_to_the_first(server, tmp_path):
    part, new = tmp_path / "file.part", BODY[::-1]
    asked = ask(server, [Answer(BODY, cut=300_000), Answer(new, tag='"2"', cut=310_000), Answer(new, tag='"2"')], part)
    assert asked[2] == ("bytes=310000-", '"2"') and part.read_bytes() == new


def test_weak_and_absent_tags(server, tmp_path):
    """A weak tag does not vouch for bytes: the date does, if there is one; with neither, the checksum must do."""
    dated = Answer(BODY, tag='W/"1"', headers=(("Last-Modified", "Thu, 01 Mar 2018 00:00:00 GMT"),))
    asked = ask(server, [dated._replace(cut=300_000), dated._replace(ranges=False)], tmp_path / "dated.part")
    assert asked[1] == ("bytes=300000-", "Thu, 01 Mar 2018 00:00:00 GMT")
    plain = Answer(BODY, tag="")
    asked = ask(server, [plain._replace(cut=300_000), plain], tmp_path / "plain.part")
    assert asked[1] == ("bytes=300000-", None) and (tmp_path / "plain.part").read_bytes() == BODY


def test_nothing_left_to_send(server, tmp_path):
    """A run killed between the last byte and the renaming asks for nothing: 416 with the size that is here."""
    part = tmp_path / "file.part"
    ask(server, [Answer(BODY)], part)
    server.sent = 0
    assert ask(server, [Answer(BODY)], part) == [(f"bytes={len(BODY)}-", '"1"')]
    assert part.read_bytes() == BODY and server.sent == 0


@pytest.mark.parametrize("odd", [
    Answer(BODY[:1_000], tag='"1"'),                                                    # shorter than what is here
    Answer(status=416), Answer(status=416, headers=(("Content-Range", "bytes */*"),)),
    Answer(BODY, status=206), Answer(BODY, status=206, headers=(("Content-Range", "bytes 5-9/10"),))])
def test_an_answer_that_does_not_fit_starts_again(odd, server, tmp_path):
    part = tmp_path / "file.part"
    asked = ask(server, [Answer(BODY, cut=300_000), odd, Answer(BODY)], part)
    assert asked[2] == (None, None) and part.read_bytes() == BODY


def test_a_part_of_another_address_or_without_a_note_starts_again(server, tmp_path):
    part = tmp_path / "file.part"
    part.write_bytes(b"?" * 1_000)
    assert ask(server, [Answer(BODY)], part) == [(None, None)] and part.read_bytes() == BODY
    part.write_bytes(b"?" * 1_000)
    Path(f"{part}.version").write_text('http://elsewhere/file\n"1"')
    assert ask(server, [Answer(BODY)], part) == [(None, None)] and part.read_bytes() == BODY


@pytest.mark.parametrize("status", [500, 502, 503, 429, 408])
def test_a_passing_failure_is_tried_again(status, server, tmp_path):
    part = tmp_path / "file.part"
    assert len(ask(server, [Answer(status=status)] * 4 + [Answer(BODY)], part)) == 5 and part.read_bytes() == BODY


@pytest.mark.parametrize("answers, tries", [([Answer(status=404)], 1), ([Answer(status=403)], 1), ([Answer(status=500)], 5),
                                            ([Answer(BODY, cut=9, ranges=False)], 5), ([Answer(status=416)], 5)])
def test_trying_again_has_an_end(answers, tries, server, tmp_path):
    with pytest.raises(UserError, match="answered 40" if tries == 1 else "gave up after 5 tries"):
        ask(server, answers, tmp_path / "file.part")
    assert len(server.requests) == tries


def test_tries_that_bring_something_are_not_counted(server, tmp_path):
    part = tmp_path / "file.part"
    assert len(ask(server, [Answer(BODY, cut=1_000)] * 20 + [Answer(BODY)], part)) == 21
    assert part.read_bytes() == BODY and server.sent == len(BODY)


def test_waits_grow(server, tmp_path, monkeypatch):
    waits = []
    monkeypatch.setattr(fetch, "wait", waits.append)
    ask(server, [Answer(status=500)] * 4 + [Answer(BODY)], tmp_path / "file.part")
    assert waits == [1, 2, 4, 8]


def test_nobody_there(server, tmp_path):
    server.close()
    with pytest.raises(UserError, match="gave up after 5 tries in a row that brought nothing new; 0 bytes are kept"):
        fetch.download(f"{server.address}/file", tmp_path / "file.part")


def test_a_gzip_file_called_an_encoding_stays_a_gzip_file(official, contents, tmp_path):
    official.answers[WIKI] = [Answer(contents["Stsbenchmark.tar.gz"], cut=100, headers=(("Content-Encoding", "x-gzip"),)),
                              Answer(contents["Stsbenchmark.tar.gz"], headers=(("Content-Encoding", "gzip"),))]
    run(tmp_path, "stsbenchmark")
    assert [path for path, _ in official.requests] == [WIKI, WIKI]


# ---------------------------------------------------------------- archives that mean harm

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


OUTSIDE = ["../sts-train.csv", "a/../../sts-train.csv", "/tmp/sts-train.csv", "..\\sts-train.csv", "C:\\sts-train.csv",
           "\\\\host\\share\\sts-train.csv", "../other.txt"]
HARMFUL = {
    **{f"zip {name}": (zipped({name: b"harm", "sts-dev.csv": b""}), "a name outside its folder") for name in OUTSIDE},
    **{f"tar {name}": (tarred({"sts-dev.csv": b"", name: b"harm"}), "a name outside its folder") for name in OUTSIDE},
    **{f"tar type {kind}": (tar_with(kind), "a link or a device") for kind in (
        tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE)},
    "tar link beside": (tar_with(tarfile.SYMTYPE, "stsbenchmark", ".."), "a link or a device"),
    "zip link": (zip_with_link("stsbenchmark/sts-train.csv"), "a link or a device"),
}


@pytest.mark.parametrize("case", HARMFUL)
def test_no_archive_writes_outside_its_folder(case, tmp_path):
    data, message = HARMFUL[case]
    folder = tmp_path / "deep" / "folder"
    folder.mkdir(parents=True)
    path = tmp_path / "archive"
    path.write_bytes(data)
    with pytest.raises(UserError, match=message):
        unpack.unpack(path, ["sts-train.csv", "sts-dev.csv"], folder, 1_000_000)
    assert list(tmp_path.rglob("*")) == [tmp_path / "deep", path, folder] or not list(folder.iterdir())
    assert {file.name for file in tmp_path.rglob("*")} == {"deep", "folder", "archive"}


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
            (zipped(bomb), 6_000_000, "expands to more than 6,000,000 bytes"),
            (tarred(bomb), 6_000_000, "expands to more than 6,000,000 bytes"),
            (tarred({"unwanted": b"\0" * 7_000_000}), 6_000_000, "expands to more than 6,000,000 bytes"),
            (declaring(zipped(bomb), "sts-train.csv", 10), 6_000_000, "is damaged"))):
        path = tmp_path / f"archive{number}"
        path.write_bytes(data)
        folder = tmp_path / f"folder{number}"
        folder.mkdir()
        with pytest.raises(UserError, match=message):
            unpack.unpack(path, list(bomb), folder, limit)
        assert sum(file.stat().st_size for file in folder.iterdir()) <= (limit if number == 3 else 0)
        assert number == 3 or unpack.unpack(path, list(bomb), folder, 7_000_000) == (set(bomb) if number < 2 else set())
    path = tmp_path / "stsbenchmark.tsv.gz"
    path.write_bytes(unpack.gzip.compress(b"\0" * 1_001))
    with pytest.raises(UserError, match="expands to more than 1,000 bytes"):
        unpack.unpack(path, ["sts-train.csv"], tmp_path, 1_000)


def test_archives_that_cannot_be_read(tmp_path):
    whole = zipped({"sts-train.csv": b"text"})
    locked = bytearray(whole)
    for marker, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):    # the bit that says "encrypted", in both headers
        locked[locked.find(marker) + flags] |= 1
    for data in (b"", b"<html>", whole[:-5], bytes(locked), tarred({"sts-train.csv": b"text" * 1_000})[:-40]):
        path = tmp_path / "archive"
        path.write_bytes(data)
        with pytest.raises(UserError, match="^[^\n]*archive: is damaged, cut short or no archive [^\n]*$"):
            unpack.unpack(path, ["sts-train.csv"], tmp_path, 1_000_000)


# ---------------------------------------------------------------- checks after unpacking

TRANSLATED = [("Ein Flugzeug hebt ab.", "Ein Flugzeug startet."), *PAIRS[1:]]


def sts_archive(pairs):
    """The STS Benchmark with other pairs in train."""
    rows = [[*row[:5], *pair] for row, pair in zip(sts_rows("train") * len(pairs), pairs)]
    return {**{f"stsbenchmark/sts-{split}.csv": tabbed(sts_rows(split)) for split in ("dev", "test")},
            "stsbenchmark/sts-train.csv": tabbed(rows)}


@pytest.mark.parametrize("pairs, message", [
    (TRANSLATED, 'the first pair is "Ein Flugzeug hebt ab." and "Ein Flugzeug startet.", not the official one'),
    (PAIRS[:2], "2 rows where the official file has 3"), (PAIRS + PAIRS[:1], "4 rows where the official file has 3")])
def test_a_fetched_set_must_be_the_official_one(pairs, message, official, tmp_path, capsys, monkeypatch):
    body = tarred(sts_archive(pairs))
    dataset = download.REGISTRY["stsbenchmark"]
    source = dataset.archives[0].sources[0]._replace(sha256=None)
    archive = dataset.archives[0]._replace(sources=(source,))
    monkeypatch.setitem(download.REGISTRY, "stsbenchmark", dataset._replace(archives=(archive,)))
    official.answers[WIKI] = [Answer(body)]
    with pytest.raises(UserError, match="no source gave it"):
        run(tmp_path, "stsbenchmark")
    assert f"Stsbenchmark.tar.gz: sts-train.csv: 3 rows; {message}" in capsys.readouterr().err or len(pairs) != 3
    assert not files_below(tmp_path)


def test_a_fetched_set_must_be_complete_and_readable(official, tmp_path, capsys):
    for members, message in (({"sts-train.csv": tabbed(sts_rows("train"))}, "holds no sts-dev.csv"),
                             ({f"sts-{split}.csv": b"no table" for split in ("train", "dev", "test")},
                              "sts-train.csv, line 1: 1 columns, expected 7 or more")):
        body = tarred(members)
        archive = download.REGISTRY["stsbenchmark"].archives[0]
        source = archive.sources[0]._replace(sha256=hashlib.sha256(body).hexdigest())
        download.REGISTRY["stsbenchmark"] = download.REGISTRY["stsbenchmark"]._replace(
            archives=(archive._replace(sources=(source,)),))
        official.answers[WIKI] = [Answer(body)]
        with pytest.raises(UserError, match="no source gave it"):
            run(tmp_path, "stsbenchmark")
        told = capsys.readouterr().err
        assert message in told and ".unpacked" not in told and not files_below(tmp_path)


def test_a_fingerprint_ignores_tokenisation_and_nothing_else():
    assert fingerprint(("I don't.", "It rains!")) == fingerprint(("i do n't .", "It rains !"))
    assert len({fingerprint(pair) for pair in (("ab", "c"), ("a", "bc"), ("abc", ""), ("äbc", ""), ("c", "ab"))}) == 5


def test_files_that_are_not_of_their_kind(tmp_path):
    path = tmp_path / "file"
    for kind, data, message in (("snli", b"no json\n", "line 1: expected a JSON object with the fields sentence1"),
                                ("snli", b"[1]\n", "line 1: expected a JSON object"), ("snli", b"\n\n", "holds no row"),
                                ("convokit", b'{"id": 1}\n', "line 1: expected a JSON object with the fields speaker"),
                                ("sick", b"a\tb\n1\t2\n", "line 1: expected a header with the columns sentence_A"),
                                ("sick", b"pair_ID\tsentence_A\tsentence_B\n", "holds no row"),
                                ("sts_year", b"\xff\xfe\n", "is no UTF-8 text"), ("sts_year", b"", "is empty")):
        path.write_bytes(data)
        with pytest.raises(UserError, match=f"{path}.*{message}"):
            check(path, File("file"), kind)


def test_the_registry_is_complete():
    for name, dataset in REGISTRY.items():
        files = [file for archive in dataset.archives for file in archive.files]
        assert len({file.name for file in files}) == len(files) and dataset.limit > 0
        for archive in dataset.archives:
            for source in archive.sources:
                digits = (source.sha256 or "").rstrip("…")
                assert source.sha256 is None or len(digits) == 64 or (source.sha256.endswith("…") and len(digits) >= 8), name
                assert not source.sha256 or int(digits, 16)
        assert all(file.first is None or (len(file.first) == 16 and int(file.first, 16)) for file in files)


@pytest.mark.parametrize("name", ["stsbenchmark", "snli", "cqa"])
def test_the_registry_agrees_with_the_official_files(name, data_folder):
    """Where the files at hand are the whole official ones, rows too; SNLI's lack the unlabelled pairs, and most of train."""
    dataset, compared = REGISTRY[name], 0
    for archive in dataset.archives:
        for file in archive.files:
            path = data_folder / dataset.folder / file.name
            if path.exists() and file.name != "snli_1.0_train.jsonl":
                checked = check(path, file, dataset.kind)
                assert checked.first_right and file.first and (checked.rows_right or name == "snli"), checked.told
                compared += 1
    assert compared == {"stsbenchmark": 2, "snli": 2, "cqa": 3}[name]


def test_the_registry_agrees_with_other_official_copies(data_folder):
    record = json.loads((data_folder / "snli_official_samples" / "Deltaus_dev_1288.jsonl").read_text().split("\n", 1)[0])
    assert fingerprint((record["sentence1"], record["sentence2"])) == REGISTRY["snli"].archives[0].files[1].first
    rows = (data_folder / "cqa" / "semeval2016_train_part1_subtaskB_merged.tsv").read_text().splitlines()
    columns = rows[1].split("\t")
    part1 = REGISTRY["cqa"].archives[0].files[0]
    assert (len(rows) - 1, fingerprint(("".join(columns[4:6]), "".join(columns[6:8])))) == (part1.rows, part1.first)


# ---------------------------------------------------------------- a user's own copy

def extracted(contents, folder):
    """The folder with archives' files as a user would have unpacked them."""
    for name in ("Stsbenchmark.tar.gz", "snli_1.0.zip", "semeval2016_task3_test.zip"):
        file = io.BytesIO(contents[name])
        with tarfile.open(fileobj=file) if "tar" in name else zipfile.ZipFile(file) as archive:
            archive.extractall(folder, **({"filter": "data"} if "tar" in name else {}))
    return folder


def test_a_users_own_folder_is_taken_as_it_is(official, contents, tmp_path, capsys):
    own = extracted(contents, tmp_path / "own")
    before = files_below(own)
    run(tmp_path / "data", "stsbenchmark", "snli", "cqa", "--from", own)
    found = files_below(tmp_path / "data")
    assert sorted(found) == [
        "cqa/SemEval2016-Task3-CQA-QL-test.xml", "snli_1.0/README.txt", *(f"snli_1.0/snli_1.0_{split}.jsonl" for split in ("dev", "test", "train")),
        "stsbenchmark/LICENSE.txt", "stsbenchmark/readme.txt", *(f"stsbenchmark/sts-{split}.csv" for split in ("dev", "test", "train"))]
    assert all(before[name.replace("cqa", "SemEval2016_task3_test/English")] == data for name, data in found.items())
    assert "without SemEval2016-Task3-CQA-QL-train-part1.xml, " in capsys.readouterr().out
    assert files_below(own) == before and not official.requests


def test_a_users_own_archives_are_taken_and_kept(official, contents, tmp_path):
    own = tmp_path / "own" / "Downloads"
    own.mkdir(parents=True)
    for name in ("semeval2016_task3_test.zip", "semeval2017_task3_test.zip", "stsbenchmark.tsv.gz"):
        (own / name).write_bytes(contents[name])
    before = files_below(own)
    run(tmp_path / "data", "cqa", "stsbenchmark", "--from", own.parent)
    assert len(find_cqa(tmp_path / "data")) == 2 and len(find_sts(tmp_path / "data")) == 3
    (own / "renamed").write_bytes(contents["snli_1.0.zip"])
    run(tmp_path / "data", "snli", "--from", own / "renamed")
    assert len(list((tmp_path / "data" / "snli_1.0").iterdir())) == 4
    (own / "renamed").unlink()
    assert files_below(own) == before and not official.requests


def test_of_a_users_own_set_parts_are_taken_and_translations_refused(official, tmp_path, capsys):
    for number, (pairs, message) in enumerate(((PAIRS[:2], None), (TRANSLATED[:2], None), (TRANSLATED, "translation"))):
        own = tmp_path / f"own{number}"
        own.mkdir()
        (own / "sts-train.csv").write_bytes(sts_archive(pairs)["stsbenchmark/sts-train.csv"])
        data = tmp_path / f"data{number}"
        if message:
            with pytest.raises(UserError, match=f"{own}/sts-train.csv: .* this is a translation or another data set"):
                run(data, "stsbenchmark", "--from", own)
            assert not files_below(data)
        else:
            run(data, "stsbenchmark", "--from", own)
            assert "2 rows where the official file has 3; " in capsys.readouterr().out
            assert list(files_below(data)) == ["stsbenchmark/sts-train.csv"]


def test_what_stands_there_is_never_replaced(official, tmp_path):
    folder = tmp_path / "stsbenchmark"
    folder.mkdir()
    mine = tabbed(sts_rows("train")[:2])
    (folder / "sts-train.csv").write_bytes(mine)
    (folder / "notes.txt").write_text("mine")
    (folder / "readme.txt").write_text("mine")
    run(tmp_path, "stsbenchmark")
    assert (folder / "sts-train.csv").read_bytes() == mine and len(find_sts(tmp_path)) == 3
    assert (folder / "notes.txt").read_text() == (folder / "readme.txt").read_text() == "mine"


def test_what_a_killed_run_left_is_no_obstacle(official, contents, tmp_path):
    """A half-unpacked folder and an archive that is complete, but was not unpacked yet."""
    stage, downloads = tmp_path / "snli_1.0" / ".unpacked", tmp_path / "downloads"
    stage.mkdir(parents=True)
    (stage / "snli_1.0_dev.jsonl").write_text("half")
    downloads.mkdir()
    (downloads / "snli_1.0.zip").write_bytes(contents["snli_1.0.zip"])
    run(tmp_path, "snli")
    assert not official.requests and [path.name for path in tmp_path.iterdir()] == ["snli_1.0"]
    assert (tmp_path / "snli_1.0" / "snli_1.0_dev.jsonl").read_bytes().count(b"\n") == 3 and not stage.exists()


# ---------------------------------------------------------------- the command

def test_list_tells_what_is_here(official, contents, tmp_path, capsys):
    run(tmp_path, "stsbenchmark")
    (tmp_path / "own.zip").write_bytes(contents["semeval2016_task3_test.zip"])
    run(tmp_path, "cqa", "--from", tmp_path / "own.zip")
    capsys.readouterr()
    run(tmp_path, "--list")
    told = capsys.readouterr().out
    assert "stsbenchmark: here\n" in told and "cqa: 1 of 5 files here\n" in told and "snli: not here\n" in told
    for name, dataset in REGISTRY.items():
        assert name in told and all(fact in told for fact in (dataset.use, dataset.licence, dataset.size))
    assert f"source   {official.address}{WIKI} (else 127.0.0.1, 127.0.0.1)" in told


@pytest.mark.parametrize("arguments, message", [
    ([], "no data set is named; --list shows them"), (["stsb"], '"stsb": no such data set; expected stsbenchmark, snli,'),
    (["snli", "--from", "nowhere"], "--from nowhere: is not there"), (["--lost"], "unrecognized arguments: --lost"),
    (["snli", "--from", "empty"], "--from empty: holds no file of snli; expected snli_1.0_train.jsonl,"),
    (["snli", "--from", "text"], "text: is damaged, cut short or no archive"),
    (["snli", "--from", "empty", "--data", "text"], "snli: ")])
def test_mistakes_are_one_line(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").write_text("text")
    with pytest.raises(SystemExit) as stopped, errors_in_one_line():
        download.main(arguments)
    told = capsys.readouterr().err.split("\r")[-1].lstrip()  # after what is left of a progress bar
    assert stopped.value.code == 2 and told.startswith("error: ") and told.count("\n") == 1 and message in told
    assert set(files_below(tmp_path)) == {"text"} and (tmp_path / "text").read_text() == "text"


def test_a_full_disk_is_one_line_and_keeps_what_was_fetched(official, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")
    with monkeypatch.context() as patch:
        patch.setattr(download, "unpack", full)
        with pytest.raises(UserError, match="snli: .*No space left on device; make room, or choose another folder with --data"):
            run(tmp_path, "snli")
    assert list(files_below(tmp_path)) == ["downloads/snli_1.0.zip"]
    with monkeypatch.context() as patch:
        patch.setattr(fetch, "_write", full)
        with pytest.raises(UserError, match="no source gave it"):
            run(tmp_path, "stsbenchmark")
    run(tmp_path, "snli")
    assert [path for path, _ in official.requests].count(SNLI) == 1


def test_the_command_lists_from_anywhere(tmp_path):
    done = subprocess.run([sys.executable, ROOT / "data_scripts" / "download.py", "--list"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == "" and done.stdout.startswith("stsbenchmark: not here\n")
    assert done.stdout.count("\n") > 4 * len(REGISTRY) and not list(tmp_path.iterdir())
