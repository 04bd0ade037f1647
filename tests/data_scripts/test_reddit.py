"""Raw Reddit dumps: reading them in every form and state, cleaning comments, pairing them."""

import bz2
import gzip
import html
import json
import lzma
import re
from types import SimpleNamespace

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convsim_mini.common.lines import read_lines, zstd
from convsim_mini.data.pairs import read_rows
from data_scripts import buckets, comments, prepare_reddit
from data_scripts.buckets import join_bucket, parse_dump
from data_scripts.comments import DumpLines, clean, read_comment

import synthetic_dumps
from bombs import long_window

DELETED = ("[deleted]", "[removed]", "[deleted by user]", "[ Removed by Reddit ]")


def line(id="c2", link="t3_p", parent="t1_c1", body="these are plain words", author="someone",
         **others):
    """A line of a dump."""
    fields = {"id": id, "link_id": link, "parent_id": parent, "author": author, "body": body,
              **others}
    return json.dumps(fields).encode()


def pairs_of(tmp_path, *dumps, number=1):
    """Parse dumps (lists of lines), join their buckets: → sorted (ids and texts of both sides).

    "someone" is another person in each line.
    """
    for k, lines in enumerate(dumps):
        tmp_path.mkdir(exist_ok=True)
        path = tmp_path / f"dump{k}"
        path.write_bytes(b"".join(one.replace(b'"someone"', b'"%d"' % place) + b"\n"
                                  for place, one in enumerate(lines)))
        parse_dump(path, k, number, tmp_path)
    for bucket in range(number):
        join_bucket(bucket, len(dumps), tmp_path)
    return sorted(parquet_rows(f"{tmp_path}/joined/*/pairs.parquet"))


def parquet_rows(files):
    query = f"SELECT input_id, response_id, input, response FROM read_parquet('{files}')"
    return duckdb.execute(query).fetchall()


def report_of(folder):
    return json.loads((folder / "report.json").read_text(encoding="utf-8"))


# ---------------------------------------------------------------- the real files

def brute_force(lines):
    """All pairs the slow and short way, by the comments' ids alone: (ids and texts)."""
    comments, pairs = {}, []
    for text in lines:
        fields = json.loads(text)
        if "text" in fields:
            names = ("conversation_id", "reply-to", "speaker", "text")
            if fields["reply-to"] is None:                    # a post
                continue
        else:
            names = ("link_id", "parent_id", "author", "body")
        link, parent, author, body = (fields[name] for name in names)
        body = html.unescape(body)
        visible = [character for character in body if not character.isspace()]
        if (body.strip() in DELETED or len(body) >= 350 or not visible
                or sum(map(str.isalpha, visible)) / len(visible) <= 7 / 10
                or re.match("https|/r/|@", body) or "bot" in author.lower()):
            continue
        body = re.sub(r'\[([^][]*)\]\([^()\s]*(?:\([^()\s]*\)[^()\s]*)*(?: "[^"]*")?\)',
                      lambda match: match[1], body)
        if body.strip():
            comment = link.removeprefix("t3_"), parent, body.replace("\0", ""), author
            comments.setdefault(fields["id"], comment)
    for own, (link, parent, body, author) in comments.items():
        parent = parent.removeprefix("t1_")                   # one with t3_ is no comment's id
        to_oneself = parent in comments and author == comments[parent][3] not in ("", *DELETED)
        if parent in comments and parent != link and not to_oneself:
            pairs.append((parent, own, comments[parent][2], body))
    return sorted(pairs)


@pytest.mark.parametrize("source, number", [("raw/comments.ndjson.gz", 8_618),
                                            ("raw/convokit", 514)])
def test_the_real_files_give_the_pairs_of_a_brute_force_join(data_folder, tmp_path, source, number):
    source = data_folder / "reddit" / source
    prepare_reddit.prepare_pairs([source], tmp_path / "out", 1, None)
    expected = brute_force(read_lines(source / "utterances.jsonl" if source.is_dir() else source))
    assert len(expected) == number
    rows = parquet_rows(f"{tmp_path}/out/pairs/*.parquet")
    assert sorted(rows) == expected
    query = f"SELECT link_id, input_id, response_id FROM '{tmp_path}/out/pairs/*.parquet'"
    order = duckdb.execute(query).fetchall()
    assert order == sorted(order)                             # by ids, in whatever order they came
    # What training reads holds the same pairs in the same order.
    parts = read_rows(tmp_path / "out" / "pairs.jsonl.zst")
    assert [pair[:2] for part in parts for pair in part.pairs] == [row[2:] for row in rows]


# ---------------------------------------------------------------- fields

@pytest.mark.parametrize("fields, expected", [
    ({}, ("p", "c2", "c1", "someone")),
    ({"link_id": "p", "parent_id": "c1", "id": "t1_c2"}, ("p", "c2", "c1", "someone")),
    ({"parent_id": "t3_p"}, ("p", "c2", "", "someone")),
    ({"parent_id": "t3_c1"}, ("p", "c2", "", "someone")),     # a post whose id is also a comment's
    ({"parent_id": "p"}, ("p", "c2", "", "someone")),         # without prefixes
    ({"parent_id": "t1_p"}, ("p", "c2", "p", "someone")),     # a comment with its post's id
    ({"parent_id": None}, ("p", "c2", "", "someone")),
    ({"parent_id": 41786007802}, ("p", "c2", "j72b5yy", "someone")),
    ({"parent_id": True, "link_id": 7}, ("", "c2", "", "someone")),
    ({"parent_id": 0}, ("p", "c2", "", "someone")),
    ({"link_id": "t6qbc9"}, ("t6qbc9", "c2", "c1", "someone")),
    ({"author": None}, ("p", "c2", "c1", None)),
    ({"created_utc": None, "score": "7", "edited": 1.5e9, "body_html": {"a": [1]}},
     ("p", "c2", "c1", "someone")),
])
def test_fields_of_every_time(fields, expected):
    assert read_comment(line(**{"id": "c2", **fields}))[:4] == expected


NEW = {"id": "c2", "conversation_id": "p", "reply-to": "c1", "speaker": "someone", "text": "hello"}
OLD = {"id": "c2", "root": "p", "reply_to": "c1", "user": "someone", "text": "hello"}


def test_utterances_of_convokit_new_and_old():
    for fields in (NEW, OLD):
        assert read_comment(json.dumps(fields).encode()) == ("p", "c2", "c1", "someone", "hello")
    post = read_comment(json.dumps(NEW | {"id": "p", "reply-to": None}).encode())
    assert post.parent == "" and clean(post) == (None, "post")
    assert read_comment(json.dumps(NEW | {"reply-to": "p"}).encode()).parent == ""


@pytest.mark.parametrize("text, reason", [
    (b"{", ""), (b"[1]", "not a JSON object"), (b"null", "not a JSON object"),
    (b"{}", '"body"'), (b'{"id": "c", "body": null}', '"body"'), (b'{"body": "x"}', '"id"'),
    (b'{"id": 7, "body": "x"}', '"id"'), (b'{"id": "", "body": "x"}', '"id"'),
    (b'{"id": "c", "body": "caf\xe9"}', "utf-8"), (b"[" * 100_000, ""),
])
def test_a_malformed_line_is_a_value_error_that_says_why(text, reason):
    with pytest.raises(ValueError) as error:
        read_comment(text)
    assert reason in str(error.value)


def test_half_surrogates_and_nan_do_not_cost_the_line():
    halves = rb'{"id": "c", "body": "a \ud83d b \ud83d\ude00 \udc00"}'
    assert read_comment(halves).body == "a \ufffd b \U0001f600 \ufffd"
    assert read_comment(b'{"id": "c", "body": "a", "score": NaN}').body == "a"


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats()
                    | st.text(st.characters(exclude_categories=()))
                    | st.sampled_from(["c1", "c2", "t1_c1", "t3_p", "p", "[x](y)", "\ud800", "\0"]),
                    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5)
NAMES = st.sampled_from(["id", "link_id", "parent_id", "author", "body",
                         "text", "conversation_id", "reply-to", "speaker"])
RECORDS = st.dictionaries(NAMES, JSON).map(lambda fields: json.dumps(fields).encode())


@settings(max_examples=40)
@given(st.lists(st.binary() | RECORDS | RECORDS.map(lambda text: text[:-3])))
def test_no_line_crashes_the_reader_and_every_line_is_accounted_for(tmp_path_factory, lines):
    lines = [line(id="good"), *(text.replace(b"\n", b" ") for text in lines),
             line(id="good2", parent="t1_good")]
    folder = tmp_path_factory.mktemp("lines")
    pairs = pairs_of(folder, lines)
    assert ("good", "good2", "these are plain words", "these are plain words") in pairs
    report = report_of(folder / "parsed" / "00000")
    removed = sum(report["removed"].values())
    assert report["lines"] == len(lines) == report["malformed"] + removed + report["kept"]


# ---------------------------------------------------------------- text

@pytest.mark.parametrize("body, expected", [
    ("plain words", ("plain words", None)),
    ("less &lt;than&gt; &amp;amp; caf&eacute;", ("less <than> &amp; caf\u00e9", None)),
    ("a" * 348 + "&gt;", ("a" * 348 + ">", None)),            # 352 as written, 349 characters
    ("a" * 349 + "&gt;", (None, "long")),
    ("aaaaaaa &amp;&amp;&amp;", (None, "not_alphabetic")),    # 7 of 10; 16 of 22 as written
    ("aaaaaaa &amp;&amp;", ("aaaaaaa &&", None)),
    ("https it is", (None, "link_or_mention")),
    ("&#104;ttps it is", (None, "link_or_mention")),
    ("/r/all and all", (None, "link_or_mention")),
    ("@you there", (None, "link_or_mention")),
    ("[@you](/wiki) are the one we mean", ("@you are the one we mean", None)),    # begins with "["
    ("[these words](http://a.bc/d) and more", ("these words and more", None)),
    ("see [a thing](/wiki/Thing_(film)) now", ("see a thing now", None)),
    ('see [a thing](/wiki &quot;its title&quot;) now', ("see a thing now", None)),
    ("a [quoted] word (in brackets) is no [link] (here)",
     ("a [quoted] word (in brackets) is no [link] (here)", None)),
    ("[](/happysmileyfacesongs)", (None, "only_links")),
    ("[everyone](/wiki)[everybody](/wiki)", ("everyoneeverybody", None)),
    ("the end.\0", ("the end.", None)),
    ("", (None, "no_text")),
    *[(body, (None, "deleted")) for body in DELETED],
    (" [deleted]\n", (None, "deleted")),
    ("[deleted] was what they wrote", ("[deleted] was what they wrote", None)),
])
def test_cleaning(body, expected):
    assert clean(read_comment(line(body=body))) == expected


# ---------------------------------------------------------------- pairing

def test_children_before_parents_parents_that_never_come_and_threads_apart(tmp_path):
    lines = [line(id="c2", parent="t1_c1", body="two words"),
             line(id="c1", parent="t3_p", body="one word"),
             line(id="c3", parent="t1_c1", body="three words"),
             line(id="c4", parent="t1_c9", body="four words"),
             line(id="c5", link="t3_q", parent="t1_c1", body="five words"),
             line(id="c6", parent="t3_c1", body="six words"),
             line(id="c7", parent="c1", link="p", body="seven words")]
    assert pairs_of(tmp_path, lines) == [("c1", "c2", "one word", "two words"),
                                         ("c1", "c3", "one word", "three words"),
                                         ("c1", "c7", "one word", "seven words")]
    assert report_of(tmp_path / "joined" / "000") == {
        "comments": 7, "duplicates": 0, "replies": 5, "pairs": 3}


def test_what_people_answer_to_themselves_is_no_pair_and_nobody_knows_who_is_deleted(tmp_path):
    lines = [line(id="c1", parent="t3_p", body="one word", author="ann"),
             line(id="c2", body="two words", author="ann"),
             line(id="c3", parent="t1_c2", body="three words", author="[deleted]"),
             line(id="c4", parent="t1_c3", body="four words", author="[deleted]")]
    assert pairs_of(tmp_path, lines) == [("c2", "c3", "two words", "three words"),
                                         ("c3", "c4", "three words", "four words")]


def test_of_a_comment_that_comes_twice_the_first_that_may_stay_counts(tmp_path):
    first = [line(id="c1", parent="t3_p", body="[deleted]"),
             line(id="c1", parent="t3_p", body="as it was"),
             line(id="c2", parent="t3_p", body="answers no comment")]
    second = [line(id="c1", parent="t3_p", body="as it became"),
              line(id="c2", parent="t1_c1", body="answers one, says a copy"),
              line(id="c3", parent="t1_c1", body="well")]
    assert pairs_of(tmp_path, first, second) == [("c1", "c3", "as it was", "well")]
    assert report_of(tmp_path / "joined" / "000") == {
        "comments": 5, "duplicates": 2, "replies": 1, "pairs": 1}


def test_neither_the_number_of_buckets_nor_how_much_is_held_in_memory_changes_the_pairs(
        tmp_path, monkeypatch):
    lines = [text.rstrip(b"\n") for text in synthetic_dumps.lines(5_000, 2016, seed=3)]
    whole = pairs_of(tmp_path / "all", lines)
    monkeypatch.setattr(buckets, "AT_A_TIME", 300)
    parts = pairs_of(tmp_path / "less", lines[:2_000], lines[2_000:], number=7)
    assert len(whole) > 1_000 and parts == whole
    parsed, joined = tmp_path / "less" / "parsed", tmp_path / "less" / "joined"
    kept = sum(report_of(folder)["kept"] for folder in parsed.iterdir())
    assert sum(report_of(folder)["comments"] for folder in joined.iterdir()) == kept
    sizes = [path.stat().st_size for path in joined.glob("*/pairs.parquet")]
    assert len(sizes) == 7 and max(sizes) < 3 * min(sizes)


# ---------------------------------------------------------------- files

LINES = [line(id=f"c{k}", body=f"words and more words {k * 7919:x}") for k in range(3_000)]
TEXT = b"".join(text + b"\n" for text in LINES)


SKIPPED = b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd"
COMPRESS = {"plain": bytes, "gzip": gzip.compress, "bzip2": bz2.compress, "xz": lzma.compress,
            "zstd": long_window, "pzstd": lambda data: SKIPPED + zstd.compress(data)}


@pytest.mark.parametrize("kind", list(COMPRESS))
def test_dumps_of_every_kind_whatever_their_name(tmp_path, kind):
    compress, half = COMPRESS[kind], len(TEXT) // 2 + 5       # inside a line
    for data in (compress(TEXT), compress(TEXT[:-1]),
                 compress(TEXT[:half]) + compress(TEXT[half:])):
        (tmp_path / "RC_2012-01").write_bytes(data)
        lines = DumpLines(tmp_path / "RC_2012-01")
        assert list(lines) == LINES and (lines.cut, lines.number) == (None, len(LINES))


@pytest.mark.parametrize("kind", [kind for kind in COMPRESS if kind != "plain"])
@pytest.mark.parametrize("harm", ["cut", "flipped", "cut by a byte"])
def test_a_damaged_dump_gives_what_came_before_and_says_where_it_ended(
        tmp_path, kind, harm):
    # In two streams: a block of bzip2 is whole or nothing.
    data = COMPRESS[kind](TEXT[:60_000]) + COMPRESS[kind](TEXT[60_000:])
    place = len(COMPRESS[kind](TEXT[:60_000])) + 5_000
    flipped = data[:place] + bytes([data[place] ^ 0xff]) + data[place + 1:]
    data = {"cut": data[:place], "flipped": flipped,
            "cut by a byte": data[:-1]}[harm]
    (tmp_path / "dump").write_bytes(data)
    lines = DumpLines(tmp_path / "dump")
    found = list(lines)
    assert len(found) >= TEXT[:60_000].count(b"\n")
    if harm != "flipped" or kind == "xz":                     # the others notice late or never
        assert lines.cut.endswith(f" after line {len(found)}")
        assert found == LINES[:len(found)]


def test_malformed_lines_and_an_end_inside_a_line_are_in_the_report(tmp_path):
    bad = [b"{not json}", b"caf\xe9"] * 8
    lines = [*LINES[:100], *bad, *LINES[100:200], LINES[200][:30]]
    (tmp_path / "dump").write_bytes(b"\n".join(lines))
    parse_dump(tmp_path / "dump", 0, 2, tmp_path)
    report = report_of(tmp_path / "parsed" / "00000")
    assert (report["kept"], report["malformed"]) == (200, 16)
    assert report["cut"] == "in the middle of line 217"
    assert report["lines"] == 216
    assert [sample["line"] for sample in report["samples"]] == list(range(101, 111))
    assert report["samples"][1]["text"] == "caf\ufffd" and "utf-8" in report["samples"][1]["reason"]


def test_a_disk_that_fails_and_memory_that_lacks_are_not_taken_for_the_end_of_a_dump(
        tmp_path, monkeypatch):
    def no_room(file):
        raise zstd.ZstdError("Allocation error : not enough memory")

    with pytest.raises(FileNotFoundError):
        list(DumpLines(tmp_path / "nothing"))
    (tmp_path / "dump").write_bytes(TEXT)
    monkeypatch.setattr(comments, "decompressed", lambda file: SimpleNamespace(readline=no_room))
    with pytest.raises(MemoryError, match="2 GiB"):
        list(DumpLines(tmp_path / "dump"))
