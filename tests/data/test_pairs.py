"""The paper's filters, and reading pair files of every kind, whole and damaged."""

import gzip
import json
import os
from itertools import chain

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from convsim_mini.common import decompress
from convsim_mini.data import tables_and_logs
from convsim_mini.common.cli import UserError
from convsim_mini.data import pairs as pairs_module
from convsim_mini.data.pairs import (
    CHUNK,
    RULES,
    Pair,
    default_corpus,
    parse,
    read_chunks,
    removed_by,
)

from bombs import limited, line_bombs, peak_below

# Texts that do not compress to nothing: a cut or a flipped byte shall fall among real data.
LINES = [f"{a:x} asks\t{b:x} answers".encode()
         for a, b in np.random.default_rng(0).integers(2**60, size=(5_000, 2))]
TEXT = b"\n".join(LINES) + b"\n"


def zstd(data, **parameters):
    """One zstd frame that carries a checksum, as the zstd command writes it."""
    return zstandard.ZstdCompressor(write_checksum=True, **parameters).compress(data)


def write(path, data):
    path.write_bytes(data)
    return path


def read(path):
    """All lines of a pair file, without their ends."""
    return [record.rstrip(b"\n") for chunk in read_chunks(path) for record in chunk.records]


# ---------------------------------------------------------------- filters

@pytest.mark.parametrize("text, rule", [
    ("a" * 349, None),
    ("a" * 350, "long"),
    ("\u00e9" * 349, None),
    ("\u00e9" * 350, "long"),                                 # characters, not bytes
    ("https://a.b is where it all began", "link or mention"),
    ("http is where it all began", None),
    ("it all began at https", None),
    ("/r/cooking", "link or mention"),
    ("/u/someone", None),
    ("@someone hello", "link or mention"),
    ("someone@home", None),
    (" @someone hello", None),                                # the text counts as it arrives
    ("", "no text"),
    ("   ", "no text"),
    ("\u3000" * 400, "no text"),
    ("!?!", "not alphabetic"),
    ("2010", "not alphabetic"),
    ("a b c d e f g", None),                                  # spaces do not count against a text
    ("\u00e9\u00df\u0436\u4f60\u03b1\u05d0\u3042 ...", "not alphabetic"),   # 7 of 10
    ("\u00e9\u00df\u0436\u4f60\u03b1\u05d0\u3042 ..", None),                # 7 of 9: any script
])
def test_filter(text, rule):
    assert removed_by(text) == rule
    assert rule is None or rule in RULES


@pytest.mark.parametrize("filler", ["1", "\u00bd"])           # ASCII goes another way than the rest
def test_exactly_seventy_per_cent_of_letters_is_too_few_and_one_letter_more_is_enough(filler):
    def text(letters, visible):
        return "a" * letters + filler * (visible - letters)

    lengths = range(10, 350, 10)                              # those of which 70% is a whole number
    assert ({n: removed_by(text(7 * n // 10, n)) for n in lengths}
            == dict.fromkeys(lengths, "not alphabetic"))
    assert {n: removed_by(text(7 * n // 10 + 1, n)) for n in lengths} == dict.fromkeys(lengths)


@pytest.mark.parametrize("author, rule", [
    ("AutoModerator", None), (None, None), ("", None),
    ("robot9000", "bot"), ("CoolBOT", "bot"), ("Bot", "bot"), ("b0t", None),
])
def test_authors_called_bot_are_removed_in_any_case(author, rule):
    assert removed_by("hello there", author) == rule


# ---------------------------------------------------------------- records

def test_a_tsv_line_is_input_and_response():
    assert (parse(".tsv", b"how are you?\tfine, \xc3\xa9t\xc3\xa9")
            == Pair("how are you?", "fine, \u00e9t\u00e9"))
    assert parse(".tsv", b"a\t") == Pair("a", "")         # for the filters to remove


def test_a_json_line_may_name_authors_and_hold_other_fields():
    line = {"input": "a\tb", "response": "c\nd",
            "input_author": "x", "response_author": "y", "score": 3}
    assert parse(".jsonl", json.dumps(line).encode()) == Pair("a\tb", "c\nd", "x", "y")
    assert (parse(".jsonl", b'{"input": "a", "response": "b", "input_author": null}')
            == Pair("a", "b"))


def test_the_last_suffix_but_the_compression_decides_the_kind(tmp_path):
    line = b'{"input": "a", "response": "b"}'
    path = write(tmp_path / "converted.tsv.jsonl", line + b"\r\n")
    assert [parse(chunk.kind, record) for chunk in read_chunks(path)
            for record in chunk.records] == [Pair("a", "b")]


@pytest.mark.parametrize("kind, line, reason", [
    (".tsv", b"no tab", "1 columns, expected 2"),
    (".tsv", b"a\tb\tc", "3 columns, expected 2"),
    (".tsv", b"", "1 columns, expected 2"),
    (".tsv", b"caf\xe9\tb", "utf-8"),
    (".jsonl", b'{"input": "caf\xe9"}', "utf-8"),
    (".jsonl", b"", "Expecting value"),
    (".jsonl", b'{"input": "a", "response": "b"', "Expecting"),
    (".jsonl", b'["a", "b"]', "no JSON object"),
    (".jsonl", b'{"input": 3, "response": "b"}', '"input"'),
    (".jsonl", b"[" * 100_000, ""),                           # deeper than the parser can follow
])
def test_a_malformed_line_is_a_value_error_that_says_why(kind, line, reason):
    with pytest.raises(ValueError) as error:
        parse(kind, line)
    assert reason in str(error.value)


# ---------------------------------------------------------------- files

@pytest.mark.parametrize("name, data", [
    ("a.tsv", TEXT),
    ("a.jsonl", TEXT),                                        # reading does not look into lines
    ("a.tsv.gz", gzip.compress(TEXT, mtime=0)),
    ("a.tsv.gz", gzip.compress(TEXT[:70_001], mtime=0) + gzip.compress(TEXT[70_001:], mtime=0)),
    ("a.jsonl.gz", gzip.compress(TEXT, mtime=0)),
    ("a.tsv.zst", zstd(TEXT)),
    ("a.jsonl.zst", zstd(TEXT)),
    ("a.tsv.zst", zstd(TEXT[:70_001]) + zstd(TEXT[70_001:])),    # the cut is inside a line
    ("b.2.tsv", TEXT[:-1]),                                   # no line break at the end
    ("b.tsv.zst", zstd(TEXT[:-1])),
])
def test_every_kind_of_file_gives_the_same_lines(tmp_path, name, data):
    path, positions = write(tmp_path / name, data), []
    chunks = list(read_chunks(path, positions.append))
    assert [record.rstrip(b"\n") for chunk in chunks for record in chunk.records] == LINES
    assert [chunk.first for chunk in chunks] == list(range(1, len(LINES) + 1, CHUNK))
    assert {chunk.kind for chunk in chunks} == {".jsonl" if ".jsonl" in name else ".tsv"}
    assert positions == sorted(positions) and positions[-1] == len(data)


def test_zstd_with_a_window_as_long_as_in_the_reddit_dumps(tmp_path):
    # Without a size in the header the frame asks for its whole window of 2 GiB, however little it
    # holds.
    parameters = zstandard.ZstdCompressionParameters(window_log=31, hash_log=12, chain_log=12,
                                                     write_content_size=False)
    stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    path = write(tmp_path / "a.tsv.zst", stream.compress(TEXT) + stream.flush())
    with pytest.raises(zstandard.ZstdError):                  # which a plain decompressor refuses
        zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes())
    assert read(path) == LINES


def flipped(data, place):
    return data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1:]


@pytest.mark.parametrize("name, data, reason", [
    ("a.tsv", b"", "empty"),
    ("a.tsv.gz", gzip.compress(b"", mtime=0), "empty"),
    ("a.tsv.zst", zstd(b""), "empty"),
    ("a.tsv.zst", b"", "empty"),
    ("a.xlsx", TEXT, "unknown kind"),
    ("pairs", TEXT, "unknown kind"),
    ("a.gz", gzip.compress(TEXT, mtime=0), "unknown kind"),
    ("a.tsv.bz2", TEXT, "unknown kind"),
    ("a.tsv.gz", gzip.compress(TEXT, mtime=0)[:40_000], "cut short"),
    ("a.tsv.gz", gzip.compress(TEXT, mtime=0)[:-1], "cut short"),
    ("a.tsv.gz", flipped(gzip.compress(TEXT, mtime=0), 40_000), ""),
    ("a.tsv.gz", TEXT, "damaged"),
    ("a.tsv.zst", zstd(TEXT)[:40_000], "cut short"),
    ("a.tsv.zst", zstd(TEXT)[:-1], "cut short"),
    ("a.tsv.zst", zstd(TEXT) + zstd(TEXT)[:1_000], "cut short"),
    ("a.tsv.zst", flipped(zstd(TEXT), 40_000), "damaged"),
    ("a.tsv.zst", TEXT, "damaged"),
])
def test_a_file_that_cannot_be_read_is_a_user_error_that_names_it(tmp_path, name, data, reason):
    path = write(tmp_path / name, data)
    with pytest.raises(UserError) as error:
        read(path)
    assert str(path) in str(error.value) and reason in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["nothing.tsv", "folder.tsv", "folder.tsv.gz", "folder.jsonl.zst"])
def test_a_missing_file_and_a_folder_are_user_errors_that_name_them(tmp_path, name):
    if name.startswith("folder"):
        (tmp_path / name).mkdir()
    with pytest.raises(UserError) as error:
        read(tmp_path / name)
    assert str(tmp_path / name) in str(error.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_permission_is_a_user_error_that_names_it(tmp_path):
    path = write(tmp_path / "a.tsv", TEXT)
    path.chmod(0)
    with pytest.raises(UserError, match="a.tsv: cannot be read: Permission denied"):
        read(path)


# ---------------------------------------------------------------- the default corpus

def test_the_default_corpus_has_131_569_pairs():
    path = default_corpus()
    pairs = list(chain.from_iterable(chunk.records for chunk in read_chunks(path)))
    assert len(pairs) == 131_569
    assert parse("", pairs[0]) == pairs[0]

    first = next(iter(json.loads(path.read_text(encoding="utf-8")).values()))["messages"]
    turns = [" ".join(message["text"] for message in turn) for turn in first if turn]
    assert pairs[0] == Pair(turns[0], turns[1])
    assert pairs[1].input == turns[1]                         # a response is the next pair's input


def test_only_adjacent_turns_of_different_speakers_make_a_pair(tmp_path, monkeypatch):
    def turn(sender, *texts):
        return [{"text": text, "sender": sender} for text in texts]

    conversations = {
        "1": {"messages": [turn("ann", "hi", "there"), turn("bob", "hey"), [], turn("bob", "you?"),
                           turn("ann", "fine")]},
        "2": {"messages": [turn("bob", "no answer")]},
        "3": {"messages": []}, "4": {"messages": [turn("bob", "one"), turn("ann", "two")]},
    }
    path = tmp_path / "dataset.json"
    path.write_text(json.dumps(conversations))
    monkeypatch.setattr(pairs_module, "default_corpus", lambda: path)
    assert list(chain.from_iterable(chunk.records for chunk in read_chunks(path))) == [
        Pair("hi there", "hey"), Pair("you?", "fine"), Pair("one", "two")]


@given(st.sampled_from([".tsv", ".jsonl"]),
       st.one_of(st.binary(max_size=60), st.text(max_size=40).map(str.encode),
                 st.text(max_size=20).map(lambda text: json.dumps({"input": text}).encode())))
def test_whatever_a_line_holds_it_is_a_pair_or_a_value_error(kind, line):
    try:
        pair = parse(kind, line)
    except ValueError:
        return
    assert isinstance(pair.input, str) and isinstance(pair.response, str)
    removed_by(pair.input)


@given(st.lists(st.tuples(*[st.text(st.characters(exclude_categories=["Cs"],
                                                  exclude_characters="\t\r\n"))] * 2), min_size=1))
def test_pairs_are_read_as_they_were_written(tmp_path_factory, some):
    folder = tmp_path_factory.mktemp("pairs")
    tsv = "".join(f"{text}\t{response}\n" for text, response in some).encode()
    jsonl = "".join(json.dumps({"input": text, "response": response}) + "\n"
                    for text, response in some).encode()
    for name, data in (("a.tsv", tsv), ("a.tsv.zst", zstd(tsv)), ("a.jsonl", jsonl),
                       ("a.jsonl.gz", gzip.compress(jsonl))):
        path = write(folder / name, data)
        read_pairs = [parse(chunk.kind, record) for chunk in read_chunks(path)
                      for record in chunk.records]
        assert [(pair.input, pair.response) for pair in read_pairs] == some


@pytest.mark.parametrize("line, is_heading", [
    ("input\tresponse", True), ("Context\tReply", True), ('"question"\t"answer"', True),
    ("\ufeffinput\tresponse", True), ("hello\tresponse", False), ("question\tyes, ask", False),
    ("input", False), ("text\ttext\ttext", False)])
def test_a_first_line_that_names_the_columns_is_no_pair(tmp_path, capsys, line, is_heading):
    path = tmp_path / "pairs.tsv"
    path.write_text(f"{line}\nhello\tinput\ninput\tresponse\n", encoding="utf-8")
    (chunk,) = read_chunks(path)
    assert len(chunk.records) == 3 - is_heading and chunk.first == 1 + is_heading
    last = parse(chunk.kind, chunk.records[-1], chunk.fields)
    assert last == Pair("input", "response")                  # later in the file it is a pair
    assert (f"{path}: a pair in each row (input = " in capsys.readouterr().err) == is_heading


# ---------------------------------------------------------------- limits

@pytest.fixture(scope="module")
def bombs(tmp_path_factory):
    """A folder with line.tsv.gz, .zst and .xz: a line of 2 GB each."""
    folder = tmp_path_factory.mktemp("bombs")
    for suffix, data in line_bombs().items():
        write(folder / f"line.tsv{suffix}", data)
    return folder


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_line_of_gigabytes_is_not_read(bombs, suffix):
    told = "line.tsv.*: after line 0 there is a line of more than 16,777,216 bytes, the limit; exp"
    with peak_below(200_000_000), pytest.raises(UserError, match=told):
        read(bombs / f"line.tsv{suffix}")


@pytest.mark.parametrize("line", ["train --pairs line.tsv.zst --cache c --run new",
                                  "train --pairs line.tsv.gz --cache c --run new",
                                  "encode RUN --file line.tsv.zst --out v.npy",
                                  "encode RUN one --search line.tsv.gz",
                                  "encode RUN --out v.npy",
                                  "evaluation.sts RUN --vectors line.tsv.zst"])
def test_commands_meet_a_line_of_gigabytes_with_two_of_memory(bombs, trained, line):
    line = line.replace("RUN", str(trained[0]))
    with open("/dev/zero", "rb") as endless:
        done = limited(*f"convsim_mini.{line}".split(), cwd=bombs, stdin=endless)
    assert done.returncode == 2 and "a line of more than 16,777,216 bytes" in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd])
def test_the_longest_line_is_read_and_one_byte_more_is_too_much(tmp_path, monkeypatch, pack, end):
    monkeypatch.setattr(decompress, "MOST", 300_000)
    name = {bytes: "a.tsv", gzip.compress: "a.tsv.gz", zstd: "a.tsv.zst"}[pack]
    most = 300_000 - end.count("\r")                          # what ends a line is part of it
    text = "a\tb\n" + "x" * most + end
    assert read(write(tmp_path / name, pack(text.encode()))) == [b"a\tb", b"x" * most]
    text = "a\tb\n" + "x" * (most + 1) + end
    with pytest.raises(UserError, match="after line 1 there is a line of more than 300,000 bytes"):
        read(write(tmp_path / name, pack(text.encode())))


def test_a_file_may_expand_a_thousand_fold(tmp_path, monkeypatch):
    monkeypatch.setattr(decompress, "FREE", 1 << 20)
    path = write(tmp_path / "a.tsv.zst", zstd(b"a\tb\n" * 1_000_000))
    told = "after line [0-9]+ [0-9,]+ bytes of it expand to more than [0-9,]+ bytes, the limit"
    with pytest.raises(UserError, match=told):
        read(path)
    monkeypatch.setattr(decompress, "FREE", 1 << 22)
    assert len(read(path)) == 1_000_000


def test_long_records_make_short_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr("convsim_mini.common.files.MOST", 10_000)
    long = "x" * 4_000
    for name, text in (("a.tsv", f"{long}\t{long}\n" * 10),
                       ("a.csv", "input,response\n" + f"{long},{long}\n" * 10),
                       ("a.csv", "thread,text\n" + f"1,{long}\n" * 21)):
        path = write(tmp_path / name, text.encode())
        chunks = [len(chunk.records) for chunk in read_chunks(path)]
        assert sum(chunks) in (10, 20) and max(chunks) == 2


def test_a_row_without_an_end_is_not_gathered(tmp_path, monkeypatch):
    monkeypatch.setattr(tables_and_logs, "MOST", 10_000)
    path = write(tmp_path / "a.csv", b'input,response\n"a","' + b'b\n","' * 5_000)
    with pytest.raises(UserError, match="a.csv, line [0-9]+: stands in a row of more than 10,000"):
        read(path)
