"""The prepared corpus: split, round trip, cache, malformed input, batches."""

import dataclasses
import gzip
import itertools
import json
import multiprocessing
import os
import shutil
import signal
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from convsim_mini.common.cli import UserError
from convsim_mini.config import TextConfig
from convsim_mini.data import pairs as pairs_module
from convsim_mini.data import prepare
from convsim_mini.core.pairs import batch_order
from convsim_mini.data.corpus import SPLITS, share_of_pairs, split_of, text_key
from convsim_mini.data.prepare import load_corpus
from convsim_mini.core.text import stable_hash, tokenize
from convsim_mini.training.options import parse_config
from convsim_mini.common.workspace import PREFIX

from conftest import generate_pairs


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
    """The prepared corpora in a cache folder; nothing else may be left there."""
    assert not [path for path in Path(cache).iterdir()
                if path.name.startswith(PREFIX) or not path.is_dir()]
    return sorted(Path(cache).iterdir())


@pytest.fixture
def cache_copy(cache_folder, corpus, tmp_path):
    """A copy of the cache that a test may damage: cache folder, folder of the one corpus in it."""
    name = Path(corpus.train.ids.filename).parent.name   # other tests have prepared others there
    folder = shutil.copytree(cache_folder / name, tmp_path / "cache" / name)
    return folder.parent, folder


# ---------------------------------------------------------------- split

def test_all_replies_to_one_input_fall_into_one_split(corpus, pairs):
    inputs = {name: set(split.keys[:, 0].tolist()) for name, split in splits(corpus).items()}
    assert not any(inputs[one] & inputs[other] for one, other in itertools.combinations(SPLITS, 2))
    assert set.union(*inputs.values()) == {key(text) for text, _ in pairs}
    # or the test has looked at nothing
    assert max(Counter(corpus.train.keys[:, 0].tolist()).values()) > 1


def test_an_input_written_differently_but_tokenised_equally_stays_in_its_split():
    assert split_of(key("Do n't go !")) == split_of(key("don\u2019t   GO!"))


def test_the_split_of_a_pair_does_not_depend_on_the_other_pairs(
        corpus, pairs, write_tsv, text_config, tmp_path):
    # Other files, another order, other neighbours, replies left out.
    path = write_tsv(tmp_path / "others.tsv", pairs[::-1][:3_000] + generate_pairs(1_000, seed=8))
    other = load_corpus([path], text_config, tmp_path / "cache")
    for name, split in splits(corpus).items():
        here = set(split.keys[:, 0].tolist())
        for other_name, other_split in splits(other).items():
            assert bool(here & set(other_split.keys[:, 0].tolist())) == (name == other_name)


def test_a_tenth_of_the_inputs_is_test_and_a_small_part_dev():
    names = Counter(split_of(key(f"sentence number {n}")) for n in range(20_000))
    assert names["test"] / 20_000 == pytest.approx(0.1, abs=0.01)          # 5 standard deviations
    assert names["dev"] / 20_000 == pytest.approx(0.036, abs=0.007)


def test_the_hash_that_splits_is_the_same_in_every_version():
    # Were it to change, pairs that a saved run was trained on would turn up in its test.
    assert text_key("how are you ?") == 14204832666870755459


# ---------------------------------------------------------------- round trip

def test_the_ids_on_disk_are_those_of_the_texts_in_the_file(corpus, pairs):
    vocabulary = corpus.vocabulary
    first_bucket = 1 + len(vocabulary.words)
    assert first_bucket == 301                # some words must be left over for the buckets
    expected = {name: [pair for pair in pairs if split_of(key(pair[0])) == name] for name in SPLITS}
    buckets_seen = 0
    for name, split in splits(corpus).items():
        assert split.pairs == len(expected[name])
        for n, text in enumerate(itertools.chain.from_iterable(expected[name])):
            ids, tokens = sentence(split, n), tokenize(text)
            assert len(ids) == len(tokens)
            for i, token in zip(ids, tokens):
                if i < first_bucket:
                    assert vocabulary.words[i - 1] == token
                else:
                    assert (token not in vocabulary.words
                            and i == first_bucket + stable_hash(token) % 20)
                    buckets_seen += 1
            assert split.keys[n // 2, n % 2] == key(text)
    assert buckets_seen > 100


def test_offsets_go_on_where_a_block_of_50_000_lines_ends(write_tsv, text_config, tmp_path):
    pairs = [(f"remember friend {n}", f"remembering {n} always") for n in range(60_000)]
    train = load_corpus([write_tsv(tmp_path / "a.tsv", pairs)], text_config,
                        tmp_path / "cache").train
    assert train.pairs > 50_000
    # three tokens in every sentence
    assert train.offsets.tolist() == list(range(0, 6 * train.pairs + 1, 3))
    assert len(train.ids) == 6 * train.pairs


def test_the_vocabulary_counts_the_words_of_train_alone(corpus, pairs):
    counts = Counter(token for pair in pairs if split_of(key(pair[0])) == "train"
                     for text in pair for token in tokenize(text))
    assert corpus.vocabulary.total == counts.total()
    assert dict(zip(corpus.vocabulary.words, corpus.vocabulary.counts)).items() <= counts.items()
    assert corpus.vocabulary.counts == sorted(counts.values(), reverse=True)[:300]


def test_the_report_accounts_for_every_line(pairs, write_tsv, text_config, tmp_path):
    extra = [("x" * 400, "hello"), ("hello", "@you hello"), ("1 2 3 4 5", "hello"),
             ("1 2 3 4 5", "@you"), ("hello", "")]
    corpus = load_corpus([write_tsv(tmp_path / "a.tsv", pairs + extra)], text_config,
                         tmp_path / "cache")
    assert corpus.report["read"] == len(pairs) + len(extra)
    assert corpus.report["malformed"] == 0
    assert corpus.report["removed"] == {"input: long": 1, "input: not alphabetic": 2,
                                        "response: link or mention": 1,
                                        "response: no text": 1}
    assert corpus.report["kept"] == {name: split.pairs for name, split in splits(corpus).items()}
    assert sum(corpus.report["kept"].values()) == len(pairs)


def test_several_files_are_one_corpus_in_their_order(corpus, pairs, write_tsv, text_config,
                                                     tmp_path):
    first = write_tsv(tmp_path / "first.tsv", pairs[:2_500])
    second = tmp_path / "second.jsonl"
    second.write_text("".join(json.dumps({"input": i, "response": r}) + "\n"
                              for i, r in pairs[2_500:]), encoding="utf-8")
    assert_equal_corpora(load_corpus([first, second], text_config, tmp_path / "cache"), corpus)


def test_a_share_of_the_pairs_is_part_of_a_larger_share(corpus):
    def texts(split):
        return [(*map(tuple, (sentence(split, 2 * k), sentence(split, 2 * k + 1))),
                 *split.keys[k]) for k in range(split.pairs)]
    quarter, half, other = (share_of_pairs(corpus.train, share, seed)
                            for share, seed in ((0.25, 1), (0.5, 1), (0.5, 2)))
    assert [split.pairs for split in (quarter, half)] == [
        round(share * corpus.train.pairs) for share in (0.25, 0.5)]
    assert not Counter(texts(quarter)) - Counter(texts(half))
    assert not Counter(texts(half)) - Counter(texts(corpus.train))
    assert texts(half) != texts(other) and share_of_pairs(corpus.train, 1, 1) is corpus.train


# ---------------------------------------------------------------- cache

def test_a_second_load_reads_the_cache(corpus, pair_file, text_config, cache_copy):
    cache, folder = cache_copy
    before = (folder / "meta.json").stat().st_mtime_ns
    assert_equal_corpora(load_corpus([pair_file], text_config, cache), corpus)
    assert (folder / "meta.json").stat().st_mtime_ns == before
    assert caches(cache) == [folder]


def cut(path):
    os.truncate(path, path.stat().st_size - 8)


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def rename_report(path):
    path.write_text(path.read_text().replace('"report"', '"repord"'))


def other_report(path):
    path.write_text(path.read_text().replace('"read": ', '"read": 1'))


def replace_by_list(path):
    path.write_text("[]")


@pytest.mark.parametrize("damage, name", [
    *itertools.product((cut, flip, Path.unlink),
                       ("train.ids", "dev.offsets", "test.keys", "vocabulary.json")),
    *itertools.product((cut, Path.unlink, rename_report, other_report, replace_by_list),
                       ("meta.json",)),
])
def test_a_damaged_cache_is_told_and_built_again(corpus, pair_file, text_config, cache_copy, capsys,
                                                 damage, name):
    cache, folder = cache_copy
    damage(folder / name)
    assert_equal_corpora(load_corpus([pair_file], text_config, cache), corpus)
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 1 and told[0].startswith(f"{folder}: the prepared corpus is damaged (")
    assert (folder / "meta.json").read_bytes()
    assert caches(cache) == [folder]


def test_a_damaged_cache_is_no_obstacle_to_other_words(corpus, pair_file, text_config, cache_copy,
                                                        capsys):
    cache, folder = cache_copy
    flip(folder / "train.ids")
    other = dataclasses.replace(corpus.vocabulary, words=corpus.vocabulary.words[::-1])
    for told in (1, 0):
        load_corpus([pair_file], text_config, cache, vocabulary=other)
        assert len(capsys.readouterr().err.splitlines()) == told
    assert len(caches(cache)) == 1 and folder not in caches(cache)


def test_a_changed_pair_file_and_other_settings_get_a_cache_of_their_own(
        pairs, write_tsv, text_config, tmp_path):
    path = write_tsv(tmp_path / "a.tsv", pairs)
    before = load_corpus([path], text_config, tmp_path / "cache")
    write_tsv(path, pairs + generate_pairs(100, seed=9))
    after = load_corpus([path], text_config, tmp_path / "cache")
    assert after.report["read"] == before.report["read"] + 100
    fewer = load_corpus([path], TextConfig(words=100, oov_buckets=20), tmp_path / "cache")
    assert len(fewer.vocabulary.words) == 100
    assert len(caches(tmp_path / "cache")) == 3


def test_a_pair_file_changed_with_its_size_and_time_kept_is_prepared_again(
        pairs, write_tsv, text_config, tmp_path):
    path = write_tsv(tmp_path / "a.tsv", pairs)
    before = load_corpus([path], text_config, tmp_path / "cache")
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    path.write_bytes(path.read_bytes().translate(bytes.maketrans(b"aeiou", b"eioua")))
    os.utime(path, ns=times)
    after = load_corpus([path], text_config, tmp_path / "cache")
    assert before.vocabulary.words != after.vocabulary.words


def test_a_cache_that_cannot_be_written_is_a_user_error(pair_file, text_config):
    # Below a regular file not even root can make a folder.
    with pytest.raises(UserError, match="--cache") as error:
        load_corpus([pair_file], text_config, pair_file / "cache")
    assert str(pair_file / "cache") in str(error.value)


# ---------------------------------------------------------------- files that cannot be used

def with_malformed(pairs, numbers):
    """The pairs as TSV lines; those with the given numbers, counted from 1, have no tab."""
    lines = [f"{text}\t{response}\n" for text, response in pairs]
    for number in numbers:
        lines[number - 1] = "no tab here\n"
    return "".join(lines)


def test_one_malformed_line_in_a_hundred_is_left_out_and_reported(
        pairs, text_config, tmp_path, capsys):
    numbers = list(range(2_041, 2_081))           # 40 of 4,000, all in the second chunk of lines
    path = tmp_path / "a.tsv"
    path.write_text(with_malformed(pairs, numbers), encoding="utf-8")
    corpus = load_corpus([path], text_config, tmp_path / "cache")
    assert corpus.report["malformed"] == 40
    assert sum(corpus.report["kept"].values()) == 3_960
    reported = capsys.readouterr().err
    for number in numbers[:5]:
        assert f"{path}, line {number}: left out: 1 columns, expected 2" in reported
    assert "line 2046:" not in reported                       # five examples are enough
    assert f"{path}: 40 malformed lines left out in all" in reported


@pytest.mark.parametrize("numbers", [range(2_041, 2_082), range(3, 4_000, 90), range(1, 4_001)])
def test_more_than_one_malformed_line_in_a_hundred_stops(pairs, text_config, tmp_path, numbers):
    path = tmp_path / "a.tsv"
    path.write_text(with_malformed(pairs, numbers), encoding="utf-8")
    with pytest.raises(UserError) as error:
        load_corpus([path], text_config, tmp_path / "cache")
    assert f"{path}: " in str(error.value)
    assert f"line {numbers[0]}: 1 columns, expected 2" in str(error.value)
    assert caches(tmp_path / "cache") == []


def test_the_share_of_malformed_lines_counts_for_each_file(pairs, write_tsv, text_config, tmp_path):
    good = write_tsv(tmp_path / "good.tsv", pairs)
    bad = tmp_path / "bad.tsv"
    bad.write_text("no tab\n" * 10, encoding="utf-8")         # 10 of 4,010 lines in all
    with pytest.raises(UserError, match="bad.tsv: 10 of the first 10 lines"):
        load_corpus([good, bad], text_config, tmp_path / "cache")


def test_too_few_pairs_are_a_user_error(pairs, write_tsv, text_config, tmp_path):
    path = write_tsv(tmp_path / "a.tsv", pairs[:500])
    with pytest.raises(UserError, match="500 pairs are left after the filters") as error:
        load_corpus([path], text_config, tmp_path / "cache")
    assert str(path) in str(error.value)
    assert caches(tmp_path / "cache") == []


def test_a_file_that_breaks_off_leaves_no_cache_behind(pair_file, text_config, tmp_path):
    path = tmp_path / "a.tsv.gz"
    path.write_bytes(gzip.compress(pair_file.read_bytes())[:-100])
    with pytest.raises(UserError, match="cut short"):
        load_corpus([path], text_config, tmp_path / "cache")
    assert caches(tmp_path / "cache") == []


def killed(chunk, **_):
    """A worker that dies as the out-of-memory killer ends it."""
    os.kill(os.getpid(), signal.SIGKILL)


def failing(chunk, **_):
    """A worker with a mistake in it."""
    raise ZeroDivisionError


@pytest.mark.parametrize("work, error, message", [
    (killed, UserError, "a process of this command was killed, perhaps for want of memory; stop"),
    (failing, ZeroDivisionError, None)])
def test_a_worker_that_dies_ends_the_preparation(
        work, error, message, pair_file, text_config, tmp_path, monkeypatch):
    monkeypatch.setattr(prepare, "_tokenize_chunk", work)
    with pytest.raises(error, match=message):
        load_corpus([pair_file], text_config, tmp_path / "cache")
    assert caches(tmp_path / "cache") == []


@pytest.mark.parametrize("damage", ["cut", "malformed"])
def test_a_file_of_many_chunks_that_cannot_be_read_ends_the_preparation(
        damage, pairs, text_config, tmp_path, monkeypatch):
    """More chunks than are taken beforehand: whoever waits for room must hear of the end."""
    monkeypatch.setattr(pairs_module, "CHUNK", 10)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    path = tmp_path / "a.tsv.gz"
    wrong = range(1_000, 4_001, 3) if damage == "malformed" else []
    text = gzip.compress(with_malformed(pairs, wrong).encode())
    path.write_bytes(text[:-100] if damage == "cut" else text)
    with pytest.raises(UserError, match="cut short" if damage == "cut" else "1 in 100"):
        load_corpus([path], text_config, tmp_path / "cache")
    assert caches(tmp_path / "cache") == [] and not multiprocessing.active_children()


def test_a_link_is_of_the_kind_that_its_own_name_tells(pairs, text_config, tmp_path):
    """A hub's cache is made of links to files without a suffix."""
    (tmp_path / "blob").write_text(with_malformed(pairs, []), encoding="utf-8")
    for name in ("link.tsv", "link.jsonl"):
        (tmp_path / name).symlink_to(tmp_path / "blob")
        paths = parse_config(["--pairs", str(tmp_path / name)]).pairs
        if name == "link.tsv":
            assert load_corpus(paths, text_config, tmp_path / "cache").report["read"] == 4_000
        else:                                                 # and is not taken for the other
            with pytest.raises(UserError, match="link.jsonl: .* are malformed"):
                load_corpus(paths, text_config, tmp_path / "cache")


# ---------------------------------------------------------------- batches

MILLIONS = 5 * 2**19 + 1    # pairs, which are not shuffled all at once


@pytest.mark.parametrize("pairs, size", [(1_000, 64), (1_024, 128), (769, 100), (70, 70),
                                         (2_000, 700), (MILLIONS, 300_000)])
def test_an_epoch_visits_each_pair_at_most_once_and_all_but_the_remainder(pairs, size):
    order = batch_order(pairs, size, seed=1)
    for _ in range(3):
        epoch = [next(order) for _ in range(pairs // size)]
        assert {batch.shape for batch in epoch} == {(size,)}
        visited = np.concatenate(epoch)
        assert len(np.unique(visited)) == len(visited) == pairs - pairs % size
        assert visited.min() >= 0 and visited.max() < pairs


@pytest.mark.parametrize("pairs", [1_000, MILLIONS])
def test_the_order_differs_between_epochs_and_seeds_and_repeats_with_the_seed(pairs):
    def epochs(seed):
        order = batch_order(pairs, pairs // 10, seed)
        return [np.concatenate([next(order) for _ in range(10)]).tolist() for _ in range(2)]

    first, second = epochs(1)
    assert first != second and first != sorted(first)
    assert epochs(1) == [first, second]
    assert epochs(2)[0] not in (first, second)


@pytest.mark.parametrize("pairs, first_step", [*((1_050, k) for k in (0, 1, 9, 10, 11, 25)),
                                               (MILLIONS, 12)])
def test_first_step_continues_exactly(pairs, first_step):
    whole = list(itertools.islice(batch_order(pairs, pairs // 10, seed=3), 30))
    rest = batch_order(pairs, pairs // 10, seed=3, first_step=first_step)
    np.testing.assert_array_equal([*itertools.islice(rest, 30 - first_step)], whole[first_step:])


def test_a_batch_is_the_inputs_and_then_their_responses(corpus):
    which = np.array([5, 0, 17, 305])
    sentences = corpus.train.batch(which).sentences
    expected = ([sentence(corpus.train, 2 * n) for n in which]
                + [sentence(corpus.train, 2 * n + 1) for n in which])
    assert [sentences.ids[a:b].tolist()
            for a, b in zip(sentences.offsets, sentences.offsets[1:])] == expected
    assert (sentences.ids.dtype, sentences.offsets.dtype) == (np.int32, np.int64)


def test_false_negatives_are_all_pairs_of_equal_inputs_or_equal_responses(corpus):
    which = np.random.default_rng(0).permutation(corpus.train.pairs)[:400]
    keys = corpus.train.keys[which].tolist()
    expected, by_input, by_response = set(), 0, 0
    for i, (text, response) in enumerate(keys):
        for j, (other_text, other_response) in enumerate(keys):
            if i != j and (text == other_text or response == other_response):
                expected.add((i, j))
                by_input += text == other_text
                by_response += response == other_response
    rows, columns = corpus.train.batch(which).false_negatives
    assert set(zip(rows.tolist(), columns.tolist())) == expected
    assert by_input and by_response                           # or the test has looked at nothing


def test_a_batch_without_repetitions_or_without_the_mask_has_no_false_negatives(corpus):
    keys = corpus.train.keys
    texts, count = np.unique(keys[:, 0], return_counts=True)
    repeated = np.flatnonzero(keys[:, 0] == texts[count.argmax()])
    assert corpus.train.batch(repeated).false_negatives is not None
    assert corpus.train.batch(repeated, mask_false_negatives=False).false_negatives is None
    assert corpus.train.batch(repeated[:1]).false_negatives is None
