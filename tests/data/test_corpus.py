"""The prepared corpus: split, round trip, counts, cache, input that cannot be used."""

import errno
import itertools
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from convsim_mini.common.cli import UserError
from convsim_mini.config import TextConfig
from convsim_mini.data import pairs as pairs_module
from convsim_mini.data import passes, prepare, units
from convsim_mini.data.prepare import corpus_report, load_corpus
from convsim_mini.data.split import SPLITS, split_pairs
from convsim_mini.data.units import origins_of, text_key
from convsim_mini.data.layouts import Reading
from convsim_mini.core.batches import share_of
from convsim_mini.core.text import tokenize

from conftest import PATH, SMALL, command, ended, generate_pairs, parse_config, wait_for


def splits(corpus):
    return {name: getattr(corpus, name) for name in SPLITS}


def key(text):
    return text_key(" ".join(tokenize(text)))


def sentence(split, number):
    return split.ids[split.offsets[number]:split.offsets[number + 1]].tolist()


def assert_equal_corpora(one, other):
    assert one.vocabulary == other.vocabulary
    assert one.report == other.report
    for name in SPLITS:
        for array, twin in zip(splits(one)[name][:3], splits(other)[name][:3]):
            assert array.dtype == twin.dtype
            np.testing.assert_array_equal(array, twin)


def caches(cache):
    """The prepared corpora in a cache folder, which may hold nothing else."""
    assert {path.suffix for path in Path(cache).iterdir()} <= {".safetensors"}
    return sorted(Path(cache).iterdir())


@pytest.fixture
def prepared(write_tsv, text_config, tmp_path):
    """A function: pairs, or a list of files → their Corpus, cached in tmp_path / "cache"."""
    def prepared(pairs, text=text_config, **how):
        paths = pairs if isinstance(pairs[0], Path) else [write_tsv(tmp_path / "a.tsv", pairs)]
        return load_corpus(paths, text, tmp_path / "cache", **how)
    return prepared


@pytest.fixture
def own_cache(pair_file, text_config, tmp_path):
    """A cache that a test may damage: the folder and the file of its only corpus."""
    load_corpus([pair_file], text_config, tmp_path / "cache")
    (path,) = (tmp_path / "cache").iterdir()
    return path.parent, path


def split_of(pairs):
    """The name of each pair's split."""
    sentences = [tokenize(text) for pair in pairs for text in pair]
    origins = origins_of(sentences, len(pairs) * [("", "")])
    return [[*SPLITS, ""][code] for code in split_pairs(origins).codes]


def test_equal_texts_have_equal_keys_however_they_are_written():
    assert key("Do n't go !") == key("don\u2019t   GO!")
    assert text_key("how are you ?") == 14204832666870755459  # on every machine, in every version


# ---------------------------------------------------------------- round trip

def test_the_ids_on_disk_are_pieces_that_spell_the_texts_in_the_file(corpus, pairs):
    vocabulary = corpus.vocabulary
    assert len(vocabulary.pieces) <= 300                      # otherwise each word could be a piece
    names = split_of(pairs)
    expected = {name: [pair for pair, own in zip(pairs, names) if own == name] for name in SPLITS}
    lengths = Counter()
    for name, split in splits(corpus).items():
        assert split.pairs == len(expected[name])
        for n, text in enumerate(itertools.chain.from_iterable(expected[name])):
            pieces = [vocabulary.token(i) for i in sentence(split, n)]
            words = "".join(f" {piece}" for piece in pieces).replace(" ##", "").split()
            assert words == tokenize(text) and split.keys[n // 2, n % 2] == key(text)
            lengths.update(len(vocabulary.split(word)) for word in words)
    assert lengths[1] > 100 and lengths[2] > 100 and lengths[3] > 100


def test_the_vocabulary_counts_the_pieces_of_train_alone(corpus, pairs):
    vocabulary = corpus.vocabulary
    counts = Counter(vocabulary.token(i) for pair, name in zip(pairs, split_of(pairs))
                     if name == "train" for text in pair for i in vocabulary.encode([text]).ids)
    assert Counter(dict(zip(vocabulary.pieces, vocabulary.counts))) == counts
    assert vocabulary.counts == sorted(vocabulary.counts, reverse=True)


def test_the_report_accounts_for_every_line(pairs, prepared):
    extra = [("x" * 400, "hello"), ("hello", "@you hello"), ("1 2 3 4 5", "hello"),
             ("1 2 3 4 5", "@you"), ("hello", "")]
    again = pairs[:600]                                       # repeated pairs are kept
    corpus = prepared(pairs + again + extra)
    kept = {name: split.pairs for name, split in splits(corpus).items()}
    report = {name: value for name, value in corpus.report.items()
              if name in ("read", "malformed", "kept", "removed", "examples")}
    assert sum(kept.values()) == len(pairs + again) and report == {
        "read": len(pairs + again + extra), "malformed": 0, "kept": kept,
        "removed": {"input: long": 1, "input: not_alphabetic": 2, "response: link_or_mention": 1,
                    "response: no_text": 1},
        "examples": [list(pair) for pair in pairs[:3]]}


def test_several_files_in_many_parts_are_one_corpus_in_their_order(
        corpus, pairs, write_tsv, prepared, tmp_path, monkeypatch):
    monkeypatch.setattr(pairs_module, "CHUNK", 70)
    monkeypatch.setattr(units, "AT_ONCE", 90)
    first = write_tsv(tmp_path / "first.tsv", pairs[:2_500])
    second = tmp_path / "second.jsonl"
    second.write_text("".join(json.dumps({"input": i, "response": r}) + "\n"
                              for i, r in pairs[2_500:]), encoding="utf-8")
    assert_equal_corpora(prepared([first, second]), corpus)


@pytest.mark.parametrize("number", [4_000, 1_500, 700])
def test_few_pairs_are_enough_with_and_without_a_runs_words(corpus, pairs, prepared, number):
    other = replace(corpus.vocabulary, pieces=corpus.vocabulary.pieces[::-1])
    few = prepared(pairs[:number], vocabulary=other)
    assert few.vocabulary == other
    own = prepared(pairs[:number])
    for name, split in splits(few).items():
        assert split.pairs >= 100
        assert split.keys.tolist() == getattr(own, name).keys.tolist()
    names = split_of(pairs[:number])
    texts = [text for (text, _), name in zip(pairs, names) if name == "train"]
    first = few.train.ids[:few.train.offsets[1]].tolist()
    assert first == other.encode(texts[:1]).ids.tolist()


def test_a_share_of_the_pairs_is_part_of_a_larger_share(corpus):
    def texts(split):
        return [(*map(tuple, (sentence(split, 2 * k), sentence(split, 2 * k + 1))),
                 *split.keys[k]) for k in range(split.pairs)]
    quarter, half, other = (share_of(corpus.train, share, seed)
                            for share, seed in ((0.25, 1), (0.5, 1), (0.5, 2)))
    assert [split.pairs for split in (quarter, half)] == [
        round(share * corpus.train.pairs) for share in (0.25, 0.5)]
    assert not Counter(texts(quarter)) - Counter(texts(half))
    assert not Counter(texts(half)) - Counter(texts(corpus.train))
    assert texts(half) != texts(other)


# ---------------------------------------------------------------- cache

def test_a_second_load_reads_the_cache(corpus, pair_file, text_config, own_cache):
    cache, file = own_cache
    before = file.stat().st_mtime_ns
    again = load_corpus([pair_file], text_config, cache)
    assert_equal_corpora(again, corpus)
    assert all(isinstance(array, np.memmap) for split in splits(again).values()
               for array in split[:3])
    assert file.stat().st_mtime_ns == before
    assert caches(cache) == [file]


@pytest.mark.parametrize("change", [
    lambda data: data[:-8], lambda data: data[:-99] + bytes(99), lambda data: b"[]",
    lambda data: data.replace(b'read\\": ', b'read\\": 1')])
def test_a_damaged_cache_is_told_and_built_again(corpus, pair_file, text_config, own_cache, capsys,
                                                 change):
    cache, file = own_cache
    before = file.read_bytes()
    file.write_bytes(change(before))
    assert file.read_bytes() != before
    again = load_corpus([pair_file], text_config, cache)
    assert_equal_corpora(again, corpus)
    assert again.checksum == corpus.checksum and file.read_bytes() == before
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 1 and told[0].startswith(f"{file}: is missing, damaged or cannot be read (")
    assert told[0].endswith("; it will be prepared again")
    assert caches(cache) == [file]


def test_another_of_our_files_in_the_cache_is_told_and_replaced(
        corpus, pair_file, text_config, own_cache, trained, capsys):
    cache, file = own_cache
    shutil.copy(trained[0] / "model.safetensors", file)
    assert_equal_corpora(load_corpus([pair_file], text_config, cache), corpus)
    assert capsys.readouterr().err.startswith(f"{file}: is not a prepared corpus (")


def test_a_changed_pair_file_and_other_settings_get_a_cache_of_their_own(
        pairs, prepared, tmp_path):
    path, before = tmp_path / "a.tsv", prepared(pairs)
    after = prepared(pairs + generate_pairs(100, seed=9))
    assert after.report["read"] == before.report["read"] + 100
    fewer = prepared([path], TextConfig(pieces=100))
    assert len(fewer.vocabulary.pieces) <= 100 < len(after.vocabulary.pieces)
    prepared([path], reading=Reading(encoding="cp1252"))
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    path.write_bytes(path.read_bytes().translate(bytes.maketrans(b"aeiou", b"eioua")))
    os.utime(path, ns=times)                                  # its size is unchanged, too
    assert prepared([path]).vocabulary.pieces != after.vocabulary.pieces
    assert len(caches(tmp_path / "cache")) == 5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the test starts processes by fork")
def test_of_two_that_prepare_one_corpus_the_second_takes_the_firsts(
        corpus, pair_file, text_config, tmp_path):
    """The second process starts while the first is preparing the corpus."""
    def prepare_another(*arguments):
        process.start()
        return real(*arguments)

    real, fork = prepare._prepare, multiprocessing.get_context("fork")
    process = fork.Process(target=load_corpus, args=([pair_file], text_config, tmp_path / "cache"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prepare, "_prepare", prepare_another)
        load_corpus([pair_file], text_config, tmp_path / "cache")
    (file,) = (tmp_path / "cache").glob("*.safetensors")
    inode = file.stat().st_ino
    process.join()
    assert process.exitcode == 0 and file.stat().st_ino == inode
    assert caches(tmp_path / "cache") == [file]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the signal would end Python's own processes")
def test_a_signal_while_pairs_are_prepared_leaves_nothing(
        pair_file, tmp_path):
    words = ["convsim_mini.train", *SMALL, "--pairs", *[pair_file] * 25, "--cache", "cache"]
    process = subprocess.Popen(
        [sys.executable, "-m", *map(str, words), "--run", "run"], cwd=tmp_path,
        start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": PATH})
    wait_for(lambda: any(path.stat().st_size for path in tmp_path.glob("cache/.*/*")),
             process)
    os.killpg(process.pid, signal.SIGINT)                     # like a terminal: to all processes
    output, errors = ended(process)
    assert (output, errors.strip(), process.returncode) == (b"", b"", 130)
    assert not [*(tmp_path / "cache").iterdir()] and not (tmp_path / "run").exists()


# ---------------------------------------------------------------- files that cannot be used

def test_the_share_of_malformed_lines_counts_for_each_file(pairs, write_tsv, prepared, tmp_path):
    good = write_tsv(tmp_path / "good.tsv", pairs)
    bad = tmp_path / "bad.tsv"
    bad.write_text("no tab\n" * 10, encoding="utf-8")         # 10 of 4,010 lines in all
    with pytest.raises(UserError, match="bad.tsv: 10 of the first 10 rows"):
        prepared([good, bad])


def test_a_filter_that_is_off_removes_nothing(pairs, text_config, prepared):
    some = [*pairs, ("so " * 150, "yes"), ("https is a word here", "yes"), ("", "no")]
    for off, removed in (([], 3), (["long"], 2), (["long", "link_or_mention"], 1)):
        corpus = prepared(some, replace(text_config, filters_off=off))
        assert sum(corpus.report["removed"].values()) == removed


def test_a_filter_that_removes_much_shows_a_text_and_how_to_keep_such(pairs, prepared):
    some = [*pairs, *[("12 34 56", "why")] * 45, *[("well", "@you")] * 44]
    text = corpus_report(prepared(some).report)
    shown = [line for line in text.splitlines() if line.startswith("Removed")]
    assert shown == [f"Removed, for example (--text.filters_off {rule} keeps such texts): {text}"
                     for rule, text in (("not_alphabetic", "12 34 56"),
                                        ("link_or_mention", "@you"))]


@pytest.mark.parametrize("change, told", [
    (lambda text, reply: (text, text), "4,000 of 4,000 inputs and their responses are the same"),
    (lambda text, reply: ("why is it so?", reply), "4,000 of 4,000 inputs are the same text; exp"),
    (lambda text, reply: (text, "it is so"), "4,000 of 4,000 responses are the same text; expe")])
def test_pairs_without_different_texts_are_refused(change, told, pairs, prepared):
    with pytest.raises(UserError, match=told):
        prepared([change(*pair) for pair in pairs])


def test_too_few_pairs_are_told(pairs, write_tsv, tmp_path):
    path = write_tsv(tmp_path / "few.tsv", pairs[:300])
    done = command("train", "--pairs", path, "--cache", tmp_path / "cache", cwd=tmp_path)
    assert done.returncode == 2
    assert "about 500 in all; add files to --pairs, or pairs" in done.stderr
    assert not [*tmp_path.glob("runs/*")]


def killed(task, **_):
    """A worker that dies as if the out-of-memory killer had ended it."""
    os.kill(os.getpid(), signal.SIGKILL)


def failing(task, **_):
    """A worker with a bug."""
    raise ZeroDivisionError


@pytest.mark.parametrize("work, error, message", [
    (killed, UserError, "a worker process was killed, perhaps because memory ran out; stop"),
    (failing, ZeroDivisionError, None)])
def test_a_worker_that_dies_ends_the_preparation(
        work, error, message, pair_file, prepared, tmp_path, monkeypatch):
    monkeypatch.setattr(passes, "_filter_and_tokenize", work)
    with pytest.raises(error, match=message):
        prepared([pair_file])
    assert caches(tmp_path / "cache") == []


@pytest.mark.parametrize("full", ["all", "train"])
def test_a_disk_that_fills_up_in_either_pass_leaves_nothing(
        full, pair_file, prepared, tmp_path, monkeypatch):
    def append(path, *given, **others):
        if path.name == full and path.with_suffix(".ids").exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(path, *given, **others)

    real = passes.append
    monkeypatch.setattr(pairs_module, "CHUNK", 1_000)
    monkeypatch.setattr(units, "AT_ONCE", 1_000)
    monkeypatch.setattr(passes, "append", append)
    with pytest.raises(UserError, match="No space .*; make room there or .*--cache"):
        prepared([pair_file])
    assert caches(tmp_path / "cache") == []


def test_a_link_is_of_the_kind_that_its_own_name_tells(pairs, write_tsv, prepared, tmp_path):
    """The cache of a model hub consists of links to files without a suffix."""
    write_tsv(tmp_path / "blob", pairs)
    for name in ("link.tsv", "link.jsonl"):
        (tmp_path / name).symlink_to(tmp_path / "blob")
        paths = [*map(Path, parse_config(["--pairs", str(tmp_path / name)]).pairs)]
        if name == "link.tsv":
            assert prepared(paths).report["read"] == 4_000
        else:                                                 # not mistaken for link.tsv
            with pytest.raises(UserError, match="link.jsonl: .* are malformed"):
                prepared(paths)


def test_parts_of_one_table_are_one_file(pairs, prepared, tmp_path):
    """A conversation may continue in the next part, and a reply may answer a message in another."""
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [{"thread": f"c{k // 4}", "id": f"{2 * k + side}", "text": text,
             "reply_to": f"{2 * k}" if side else None}
            for k, pair in enumerate(pairs) for side, text in enumerate(pair)]
    (tmp_path / "folder").mkdir()
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "whole.parquet")
    for part, some in enumerate((rows[0::2], rows[1::2])):
        parquet.write_table(pyarrow.Table.from_pylist(some), tmp_path / f"folder/{part}.parquet")
    whole, parts = prepared([tmp_path / "whole.parquet"]), prepared([tmp_path / "folder"])
    for split in SPLITS:
        one, other = (Counter(map(tuple, getattr(corpus, split).keys.tolist()))
                      for corpus in (whole, parts))
        assert one == other and one
