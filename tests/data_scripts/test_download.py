"""`download` against a local server: fetching, resuming, unpacking, checking, own copies."""

import hashlib
import io
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest

from convsim_mini.common.cli import UserError
from convsim_mini.evaluation import cqa, sts
from convsim_mini.common.files import OURS, locked
from data_scripts import download
from data_scripts.check import compare, fingerprint
from data_scripts.registry import REGISTRY, File

from conftest import ROOT
from loopback import Answer
from official_archives import (
    PAIRS, SETS, archives, pairs_of, registry, sts_rows, tabbed, tarred,
)

WIKI = "/ixa2.si.ehu.eus/Stsbenchmark.tar.gz"
ARCHIVED = "/web.archive.org/Stsbenchmark.tar.gz"
SNLI = "/nlp.stanford.edu/snli_1.0.zip"
SPLITS = ("dev", "test", "train")


@pytest.fixture(scope="module")
def contents():
    """Archive name → bytes."""
    return archives()


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


@pytest.mark.parametrize("library, command, arguments", [
    ("requests", "download", ["snli", "--data"]), ("duckdb", "prepare_reddit", ["RC", "--out"])])
def test_without_a_library_a_command_says_how_to_install_it(library, command, arguments, tmp_path):
    code = (f"import sys; sys.modules[{library!r}] = None\n"
            f"from data_scripts.{command} import main; main({[*arguments, str(tmp_path / 'out')]})")
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert library in done.stderr
    assert "-m pip install -r data_scripts/requirements.txt" in done.stderr


def files_below(folder):
    """Relative name → bytes of every file."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def folders(data):
    """The first parts of these names."""
    return sorted({name.split("/")[0] for name in files_below(data)})


def run(folder, *arguments):
    """The command with --data folder, without the end that it gives to errors."""
    download.main.__wrapped__([*map(str, arguments), "--data", str(folder)])


# ---------------------------------------------------------------- every set, as --data expects it

@pytest.mark.parametrize("name", SETS)
def test_each_set_is_fetched_into_its_layout(name, official, tmp_path, capsys):
    run(tmp_path, name)
    dataset = REGISTRY[name]
    wanted = {f"{dataset.folder}/{file.name}"
              for archive in dataset.archives for file in archive.files}
    found = files_below(tmp_path)
    extras = {f"{dataset.folder}/{extra}" for extra in dataset.extras}
    assert wanted <= found.keys() <= wanted | extras
    assert all(b"of the same name" not in data for data in found.values())
    assert folders(tmp_path) == [dataset.folder.split("/")[0]]  # no other
    assert len(official.requests) == len(dataset.archives)
    told = capsys.readouterr().out
    unknown = [file for archive in dataset.archives for file in archive.files if file.first is None]
    assert told.count("first pair not checked: not known") == len(unknown)
    assert told.count("sha256 as expected") == {"snli": 1, "trec": 2}.get(name, 0)
    assert told.count(", no more of it is known") == (name == "stsbenchmark")
    assert told.count("sha256") == len(dataset.archives)

    run(tmp_path, name)                                       # all here: checked, not fetched
    assert capsys.readouterr().out.count(" rows") == len(wanted)
    assert len(official.requests) == len(dataset.archives) and files_below(tmp_path) == found


def test_the_layout_is_what_the_evaluations_find(official, tmp_path):
    run(tmp_path, "stsbenchmark", "cqa", "snli")
    files = sts.find(tmp_path, None)
    assert {split: sts.read(files[split]).sentences1 for split in files if split != sts.GENRES} == {
        split: [pair[0] for pair in pairs_of(split)] for split in ("train", "dev", "test")}
    questions = {name: cqa.read(path) for name, path in cqa.find(tmp_path, None).items()}
    assert len(questions) == 5
    assert all(len(found[0].candidates) == 3 for found in questions.values())
    assert (tmp_path / "snli_1.0" / "snli_1.0_dev.jsonl").read_bytes().count(b"\n") == 3
    assert (tmp_path / "stsbenchmark" / "LICENSE.txt").read_bytes() == b"licence"


def test_only_what_is_missing_is_fetched(official, tmp_path):
    run(tmp_path, "cqa", "trec")
    (tmp_path / "cqa" / "SemEval2016-Task3-CQA-QL-test.xml").unlink()
    dev = tmp_path / "cqa" / "SemEval2016-Task3-CQA-QL-dev.xml"
    dev.write_bytes(dev.read_bytes() + b"<!-- mine -->")
    del official.requests[:]
    run(tmp_path, "cqa", "trec")
    assert [path for path, _ in official.requests] == ["/alt.qcri.org/semeval2016_task3_test.zip"]
    assert dev.read_bytes().endswith(b"<!-- mine -->") and len(cqa.find(tmp_path, None)) == 5


# ---------------------------------------------------------------- sources and fallbacks

def test_sources_are_asked_in_turn_and_without_any_the_way_out_is_told(official, tmp_path, capsys):
    official.answers[WIKI] = [Answer(b"<html>moved</html>")]
    run(tmp_path / "archived", "stsbenchmark")
    assert [path for path, _ in official.requests] == [WIKI, ARCHIVED]
    assert len(sts.find(tmp_path / "archived", None)) == 4
    shutil.rmtree(tmp_path / "archived")
    del official.requests[:]
    official.answers[WIKI] = [Answer(status=404)]
    capsys.readouterr()
    official.answers[ARCHIVED] = [Answer(status=404)]
    told = "stsbenchmark: no source gave it.* get Stsbenchmark.tar.gz .* --from PATH"
    with pytest.raises(UserError, match=told):
        run(tmp_path, "stsbenchmark", "snli")
    assert capsys.readouterr().err.count("answered 404 Not Found") == 2
    assert folders(tmp_path) == ["snli_1.0"]     # this set came anyway
    assert len(official.requests) == 3                        # a 404 is not asked for twice


def test_what_one_source_sent_is_not_continued_by_another(official, tmp_path):
    official.answers[WIKI] = [Answer(bytes(400), cut=100)]
    run(tmp_path, "stsbenchmark")
    assert [headers.get("Range") for _, headers in official.requests] == [None, None]
    assert folders(tmp_path) == ["stsbenchmark"]              # without the .part of the first


# ---------------------------------------------------------------- checksums

@pytest.mark.parametrize("damage", ["one bit", "cut"])
def test_a_damaged_archive_keeps_nothing(damage, official, contents, tmp_path, capsys):
    """The server does not tell the length: cuts show late."""
    body = bytearray(contents["snli_1.0.zip"])
    body[100] ^= 16                                           # in the first member, which is wanted
    body = body if damage == "one bit" else body[:len(body) // 2]
    official.answers[SNLI] = [Answer(bytes(body), length=False)]
    with pytest.raises(UserError, match="snli: no source gave it"):
        run(tmp_path, "snli")
    assert "sha256" in capsys.readouterr().err and not [*tmp_path.iterdir()]


# ---------------------------------------------------------------- checks after unpacking

TRANSLATED = [("Ein Flugzeug hebt ab.", "Ein Flugzeug startet."), *PAIRS[1:]]


def sts_archive(pairs):
    """Name → bytes of the STS Benchmark with other pairs in train."""
    rows = [[*row[:5], *pair] for row, pair in zip(sts_rows("train") * len(pairs), pairs)]
    return {**{f"stsbenchmark/sts-{split}.csv": tabbed(sts_rows(split))
               for split in ("dev", "test")},
            "stsbenchmark/sts-train.csv": tabbed(rows)}


@pytest.mark.parametrize("members, message", [
    (sts_archive(TRANSLATED), ': sts-train.csv: 3 rows; the first pair is "Ein Flugzeug hebt ab." '
                              'and "Ein Flugzeug startet.", not the official one'),
    (sts_archive(PAIRS[:2]), ": sts-train.csv: 2 rows where the official file has 3; "
                             "first pair as expected; expected"),
    ({"sts-train.csv": tabbed(sts_rows("train"))}, ": holds no sts-dev.csv"),
    ({f"sts-{split}.csv": b"no table" for split in SPLITS},
     '/sts-train.csv, line 1: no score, expected a score from 0 to 5')])
def test_a_fetched_set_must_be_the_official_one(members, message, official, tmp_path, capsys):
    """Here only the checks after unpacking can tell: the checksum is the archive's."""
    body = tarred(members)
    dataset = download.REGISTRY["stsbenchmark"]
    source = dataset.archives[0].sources[0]._replace(sha256=hashlib.sha256(body).hexdigest())
    archive = dataset.archives[0]._replace(sources=(source,))
    download.REGISTRY["stsbenchmark"] = dataset._replace(archives=(archive,))
    official.answers[WIKI] = [Answer(body)]
    with pytest.raises(UserError, match="no source gave it"):
        run(tmp_path, "stsbenchmark")
    assert f"{tmp_path}/downloads/Stsbenchmark.tar.gz{message}" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_fingerprint_ignores_tokenisation_and_nothing_else():
    assert fingerprint(("I don't.", "It rains!")) == fingerprint(("i do n't .", "It rains !"))
    pairs = [("ab", "c"), ("a", "bc"), ("abc", ""), ("äbc", ""), ("c", "ab")]
    assert len(set(map(fingerprint, pairs))) == 5


@pytest.mark.parametrize("kind, data, message", [
    ("snli", b"no json\n", "expected rows with the fields sentence1 and sentence2"),
    ("sts_year", b"\xff\n", "is not UTF-8 text"), ("sts_year", b"", "is empty"),
    ("sts_year", b"\n \n", "holds no row")])
def test_files_that_are_not_of_their_kind(kind, data, message, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(UserError, match=f"{path}.*{message}"):
        compare(path, File("file"), kind)


@pytest.mark.parametrize("name", ["stsbenchmark", "snli", "cqa", "mr-cr-subj-mpqa", "sst", "trec",
                                  "mrpc", "sick"])
def test_the_registry_agrees_with_the_official_files(name, data_folder):
    """Rows too, but not SNLI's: the files at hand lack its unlabelled pairs, and most of train."""
    dataset, compared = REGISTRY[name], 0
    for archive in dataset.archives:
        for file in archive.files:
            path = data_folder / dataset.folder / file.name
            if path.exists() and file.name != "snli_1.0_train.jsonl":
                report, problem = compare(path, file, dataset.kind)
                assert "first pair as expected" in report
                assert not problem or name == "snli", report
                compared += 1
    assert compared == {"stsbenchmark": 2, "snli": 2, "cqa": 3, "mr-cr-subj-mpqa": 8, "sst": 6,
                        "trec": 2, "mrpc": 2, "sick": 2}[name]


# ---------------------------------------------------------------- a user's own copy

def test_a_users_own_folder_is_taken_as_it_is(official, contents, tmp_path, capsys):
    own = tmp_path / "own"
    for name in ("Stsbenchmark.tar.gz", "snli_1.0.zip", "semeval2016_task3_test.zip"):
        file = io.BytesIO(contents[name])
        with tarfile.open(fileobj=file) if "tar" in name else zipfile.ZipFile(file) as archive:
            archive.extractall(own, **({"filter": "data"} if "tar" in name else {}))
    before = files_below(own)
    run(tmp_path / "data", "stsbenchmark", "snli", "cqa", "--from", own)
    found = files_below(tmp_path / "data")
    assert sorted(found) == [
        "cqa/SemEval2016-Task3-CQA-QL-test.xml",
        "snli_1.0/README.txt", *(f"snli_1.0/snli_1.0_{split}.jsonl" for split in SPLITS),
        "stsbenchmark/LICENSE.txt", "stsbenchmark/readme.txt",
        *(f"stsbenchmark/sts-{split}.csv" for split in SPLITS)]
    assert all(before[f"set/{name.split('/')[1]}"] == data for name, data in found.items())
    assert "without SemEval2016-Task3-CQA-QL-train-part1.xml, " in capsys.readouterr().out
    assert files_below(own) == before and not official.requests


def test_the_folder_that_sentevals_script_fills_is_taken_each_file_from_its_place(
        official, tmp_path):
    years = "sts2012", "sts2015", "sts2016", "trec"
    run(tmp_path / "own", *years)
    own = tmp_path / "own" / "senteval"
    for path in own.rglob("STS.input.*"):                     # the same names in several years
        path.write_bytes(path.read_bytes().replace(b"chess", path.parent.name.encode()))
    before = files_below(own)
    del official.requests[:]
    run(tmp_path / "data", *years, "--from", own)
    assert files_below(tmp_path / "data" / "senteval") == before and not official.requests


@pytest.mark.parametrize("number, translated", [(2, False), (2, True), (3, True)])
def test_of_a_users_own_set_parts_are_taken_and_translations_refused(
        number, translated, official, tmp_path, capsys):
    own, data = tmp_path / "own", tmp_path / "data"
    own.mkdir()
    pairs = (TRANSLATED if translated else PAIRS)[:number]
    (own / "sts-train.csv").write_bytes(sts_archive(pairs)["stsbenchmark/sts-train.csv"])
    if number == 3:
        told = f"{own}/sts-train.csv: .* this is a translation or another data set"
        with pytest.raises(UserError, match=told):
            run(data, "stsbenchmark", "--from", own)
        assert not files_below(data)
    else:
        run(data, "stsbenchmark", "--from", own)
        assert "2 rows where the official file has 3; " in capsys.readouterr().out
        assert list(files_below(data)) == ["stsbenchmark/sts-train.csv"]


def test_what_a_killed_run_left_is_no_obstacle(official, contents, tmp_path):
    """A half-unpacked folder and an archive that is complete, but was not unpacked yet."""
    stage, downloads = tmp_path / "snli_1.0" / f"{OURS}-killed", tmp_path / "downloads"
    stage.mkdir(parents=True)
    (stage / "snli_1.0_dev.jsonl").write_text("half")
    downloads.mkdir()
    (downloads / "snli_1.0.zip").write_bytes(contents["snli_1.0.zip"])
    run(tmp_path, "snli")
    assert not official.requests and folders(tmp_path) == ["snli_1.0"]
    assert (tmp_path / "snli_1.0" / "snli_1.0_dev.jsonl").read_bytes().count(b"\n") == 3


def test_a_second_download_into_one_folder_is_told(official, tmp_path, capsys):
    (tmp_path / "downloads").mkdir()
    with locked(tmp_path / "downloads"), pytest.raises(UserError, match="another download"):
        run(tmp_path, "snli")
    assert not official.requests


# ---------------------------------------------------------------- the command

def test_list_tells_what_is_here(official, contents, tmp_path, capsys):
    run(tmp_path, "stsbenchmark")
    (tmp_path / "own.zip").write_bytes(contents["semeval2016_task3_test.zip"])
    run(tmp_path, "cqa", "--from", tmp_path / "own.zip")
    capsys.readouterr()
    before = files_below(tmp_path)
    run(tmp_path, "--list")
    told = capsys.readouterr().out
    assert files_below(tmp_path) == before
    for line in ("stsbenchmark: here\n", "cqa: 1 of 5 files here\n", "snli: not here\n",
                 "No address above has been tried"):
        assert line in told
    for name in SETS:
        dataset = REGISTRY[name]
        for fact in (name, dataset.use, dataset.licence):
            assert fact in told
    assert f"source   {official.address}{WIKI} (else 127.0.0.1)" in told


@pytest.mark.parametrize("arguments, message", [
    ([], "no data set is named; --list shows them"),
    (["stsb"], '"stsb": no such data set; expected stsbenchmark, snli,'),
    (["snli", "--from", "nowhere"], "--from nowhere: is not there"),
    (["--lost"], "unrecognized arguments: --lost"),
    (["snli", "--from", "empty"],
     "--from empty: holds no file of snli; expected snli_1.0_train.jsonl,"),
    (["snli", "--from", "text"], "text: is damaged, cut short or not an archive"),
    (["snli", "--from", "empty", "--data", "text"], "snli: ")])
def test_mistakes_are_one_line(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").write_text("text")
    with pytest.raises(SystemExit) as stopped:
        download.main(arguments)
    told = capsys.readouterr().err.split("\r")[-1].lstrip()  # after what is left of a progress bar
    assert stopped.value.code == 2 and told.startswith("error: ") and told.count("\n") == 1
    assert message in told
    assert set(files_below(tmp_path)) == {"text"} and (tmp_path / "text").read_text() == "text"


def test_each_set_that_fails_has_a_line(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    with pytest.raises(SystemExit):
        download.main(["snli", "cqa", "--from", str(tmp_path / "empty"), "--data", str(tmp_path)])
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition("; ")[0] for line in lines] == [
        f"error: --from {tmp_path}/empty: holds no file of {name}" for name in ("snli", "cqa")]


def test_a_full_disk_is_one_line_and_keeps_what_was_fetched(official, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")
    with monkeypatch.context() as patch:
        patch.setattr(download, "unpack_archive", full)
        told = "snli: .*No space left on device; make room, or choose another folder"
        with pytest.raises(UserError, match=told):
            run(tmp_path, "snli")
    assert list(files_below(tmp_path)) == ["downloads/snli_1.0.zip"]
    run(tmp_path, "snli")
    assert [path for path, _ in official.requests].count(SNLI) == 1
