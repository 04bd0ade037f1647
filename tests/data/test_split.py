"""The split by conversations: nothing in train stands next to dev or test."""

import json
from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given, strategies as st

from convsim_mini.core.text import tokenize
from convsim_mini.data import prepare
from convsim_mini.data.formats import default_corpus
from convsim_mini.data.pairs import left_out, read_rows
from convsim_mini.data.prepare import corpus_report, load_corpus
from convsim_mini.data.split import SPLITS, Splits, split_pairs
from convsim_mini.data.units import (
    BLOCK, LONG, Origins, cut_into_blocks, origins_of, text_key)

WORDS = "ham jam egg tea oat rye fig nut yam pea soy leek".split()


def joined(text):
    return " ".join(tokenize(text))


def sentence(rng):
    """A long text that is unlikely to be said twice."""
    return " ".join(rng.choice(WORDS, 12))


def threads(rng, number=700):
    """Messages of conversations of 2 to 12 messages: lists of texts; "Yes!" is said in most."""
    return [[sentence(rng) if rng.random() < 0.9 else "Yes!" for _ in range(rng.integers(2, 13))]
            for _ in range(number)]


def log_of_threads(path, rng):
    rows = [{"thread": k, "text": text} for k, some in enumerate(threads(rng)) for text in some]
    return write(path, rows)


def log_of_replies(path, rng):
    """Trees of replies, in no order; thread-less, so that only the replies connect them."""
    rows = []
    for k, some in enumerate(threads(rng)):
        rows += [{"id": f"{k}-{i}", "reply_to": f"{k}-{rng.integers(i)}" if i else None,
                  "text": text} for i, text in enumerate(some)]
    return write(path, [rows[k] for k in rng.permutation(len(rows))])


def bare_pairs(path, rng):
    rows = [pair for some in threads(rng) for pair in zip(some, some[1:])]
    return write(path, [dict(zip(("input", "response"), rows[k]))
                        for k in rng.permutation(len(rows))])


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def by_input(origins):
    """The split of former versions: by a hash of the input."""
    digit = origins.keys[:, 0] % 10
    dev = origins.keys[:, 0] // 10 % 25 == 0
    codes = np.where(digit < 1, 2, np.where(dev, 1, 0))
    return Splits(codes, np.arange(len(codes)), 0)


def spoken_twice(path):
    """Texts of LONG characters or more in several conversations, which nothing can keep apart.

    A conversation is found by a walk over its messages, not by the package's graph.
    """
    told, texts, partners = defaultdict(set), set(), defaultdict(set)
    for part in read_rows(path):
        for pair in part.pairs:
            if not left_out(pair):
                sides = [joined(text) for text in pair[:2]]
                names = pair.conversation if pair.conversation[0] else sides
                partners[names[0]].add(names[1])
                partners[names[1]].add(names[0])
                for name, text in zip(names, sides):
                    told[text].add(name)
                    texts.add(text)
    group = {}
    for start in partners:
        waiting = [start]
        while waiting:
            if (name := waiting.pop()) not in group:
                group[name] = start
                waiting += [] if len(joined(name)) < LONG and name in texts else partners[name]
    return {text for text in texts if len({group[name] for name in told[text]}) > 1}, texts


@pytest.mark.parametrize("made", [default_corpus, log_of_threads, log_of_replies, bare_pairs])
@pytest.mark.parametrize("planted", [False, True])
def test_no_text_of_dev_or_test_is_in_train(made, planted, text_config, tmp_path, monkeypatch):
    """Except those that several conversations hold. With the former split, it finds many."""
    path = default_corpus() if made is default_corpus else made(tmp_path / "some.jsonl",
                                                                np.random.default_rng(5))
    if planted:
        monkeypatch.setattr(prepare, "split_pairs", by_input)
    corpus = load_corpus([path], text_config, tmp_path / "cache")
    twice, texts = spoken_twice(path)
    alone = {text_key(text) for text in texts - twice if len(text) >= LONG}
    train, others = (set(np.concatenate([getattr(corpus, split).keys.ravel() for split in some])
                         .tolist()) for some in (SPLITS[:1], SPLITS[1:]))
    found = len(alone & train & others)
    assert found > 100 if planted else found == 0
    in_test = {text_key(text) for text in texts if len(text) >= LONG} & set(
        corpus.test.keys.ravel().tolist())
    assert corpus.report["texts"] == len(in_test)
    assert corpus.report["known"] == len(in_test & train)


conversations = st.lists(st.lists(st.integers(0, 60), min_size=2, max_size=6), min_size=1,
                         max_size=40)


@given(conversations, st.booleans(), st.integers(0, 2**32))
def test_no_unit_is_cut(some, named, seed):
    """Random conversations whose messages are drawn from few texts, a third of them short."""
    pairs = [(k, *pair) for k, texts in enumerate(some) for pair in zip(texts, texts[1:])]
    pairs = [pairs[k] for k in np.random.default_rng(seed).permutation(len(pairs))]
    tokens = [["ok", str(n)] if n % 3 == 0 else ["text", "number", "of", "many", str(n)]
              for n in range(61)]
    names = [(f"c{k}", f"c{k}") if named else ("", "") for k, *_ in pairs]
    splits = split_pairs(origins_of([tokens[n] for _, *pair in pairs for n in pair], names))
    replies = Counter(reply for _, _, reply in pairs)
    ends = [((k,) if named else tuple(n for n in pair if n % 3 and replies[n] <= 2))
            for k, *pair in pairs]
    for one, ours, unit in zip(ends, splits.codes, splits.units):
        for other, theirs, another in zip(ends, splits.codes, splits.units):
            if {*one} & {*other}:
                assert (ours, unit) == (theirs, another)
    for unit, number in Counter(splits.units.tolist()).items():               # nor glued
        if number > 1 and not named:
            inside = {end for end, own in zip(ends, splits.units) if own == unit}
            assert all(inside) or len(inside) == 1


def test_the_same_pairs_go_to_the_same_split_whatever_files_and_threads_are_called(
        text_config, tmp_path):
    rng = np.random.default_rng(7)
    some = threads(rng)
    rows = [{"thread": f"{k}", "text": text} for k, texts in enumerate(some) for text in texts]
    renamed = [{"thread": f"x{k}", "text": text} for k, texts in enumerate(some) for text in texts]
    one = load_corpus([write(tmp_path / "a.jsonl", rows)], text_config, tmp_path / "cache")
    half = sum(len(texts) for texts in some[:350])
    files = [write(tmp_path / "b.jsonl", renamed[half:]), write(tmp_path / "c.jsonl", rows[:half])]
    other = load_corpus(files, text_config, tmp_path / "cache")
    for split in SPLITS:
        keys = [sorted(getattr(corpus, split).keys.tolist()) for corpus in (one, other)]
        assert keys[0] == keys[1]


def test_several_files_do_not_mix_their_threads(text_config, tmp_path):
    rng = np.random.default_rng(8)
    files = [write(tmp_path / f"{name}.jsonl", [{"thread": k, "text": text}
             for k, texts in enumerate(threads(rng, 400)) for text in texts]) for name in "ab"]
    corpus = load_corpus(files, text_config, tmp_path / "cache")
    assert sum(corpus.report["conversations"].values()) > 700         # a few have no pair


def test_one_thread_of_4000_messages_is_cut_into_blocks_that_share_no_message(
        text_config, tmp_path):
    rng = np.random.default_rng(9)
    rows = [{"thread": "Ann and Bo", "text": f"{sentence(rng)} {k}"} for k in range(4_000)]
    corpus = load_corpus([write(tmp_path / "a.jsonl", rows)], text_config, tmp_path / "cache")
    report, splits = corpus.report, [getattr(corpus, split) for split in SPLITS]
    kept = sum(split.pairs for split in splits)
    assert (report["cut"], report["known"], kept) == (1, 0, 3_999 - report["between"])
    assert 0 < report["between"] < 60
    assert sum(report["conversations"].values()) == -(-3_999 // BLOCK)
    assert min(split.pairs for split in splits) >= 100
    shown = corpus_report(report)
    assert f"too long for one split, cut every {BLOCK} pairs" in shown
    assert str(report["between"]) in shown


def test_a_pairs_table_names_its_conversations(text_config, tmp_path):
    """By a thread, a post (as prepare_reddit does) or the ids of messages; floats and NaN too."""
    rng = np.random.default_rng(10)
    some = threads(rng)
    for columns in (lambda k, i: {"conversation_id": float(k)}, lambda k, i: {"link_id": f"t3_{k}"},
                    lambda k, i: {"link_id": "", "input_id": 99 * k + i,    # pandas writes 1.0
                                  "response_id": 99.0 * k + i + 1}):
        rows = [{"input": one, "response": other, **columns(k, i)} for k, texts in enumerate(some)
                for i, (one, other) in enumerate(zip(texts, texts[1:]))]
        (part,) = read_rows(write(tmp_path / "a.jsonl", rows))
        sentences = [tokenize(text) for pair in part.pairs for text in pair[:2]]
        units = split_pairs(origins_of(sentences, [pair.conversation for pair in part.pairs])).units
        number = [k for k, texts in enumerate(some) for _ in texts[1:]]
        assert len({*zip(number, units.tolist())}) == len({*units.tolist()}) == len({*number})
    rows = [{"input": "a", "response": "b", "thread": None},
            {"input": "a", "response": "b", "thread": float("nan")},
            {"input": "a", "response": "b", "thread": ["c"]}]
    (part,) = read_rows(rows)
    assert [pair.conversation for pair in part.pairs] == [("", ""), ("", ""), ("['c']", "['c']")]


def test_few_pairs_go_to_dev_and_test_in_tenths():
    """Whatever the corpus, dev and test have 100 pairs and more, if there are 500."""
    rng = np.random.default_rng(11)
    for number, least in ((20_000, 0.02), (1_500, 0.09), (600, 0.19)):
        sentences = [sentence(rng).split() for _ in range(2 * number)]
        codes = split_pairs(origins_of(sentences, number * [("", "")])).codes
        shares = [(codes == code).mean() for code in (1, 2)]
        assert all(least <= share <= 0.31 and share * number >= 100 for share in shares)


def test_pairs_that_do_not_fit_are_split_alone_and_it_is_told(capsys, monkeypatch):
    chain = np.arange(10_000, dtype=np.uint64).repeat(2)[1:-1].reshape(-1, 2) * 2**40 + 7
    joined = Origins(chain, np.zeros_like(chain), np.ones(chain.shape, bool))
    assert len(np.unique(split_pairs(joined).units)) < len(chain)
    assert not capsys.readouterr().err
    monkeypatch.setattr("convsim_mini.data.units.BYTES", 10**12)
    assert len(np.unique(split_pairs(joined).units)) == len(chain)
    assert "9,999 pairs without a conversation would need 1e+07 GB" in capsys.readouterr().err


def test_a_unit_has_pairs_of_one_conversation():
    component = np.random.default_rng(0).permutation([0] * 300 + [1] * 200 + [*range(2, 60)])
    units, cut = cut_into_blocks(component.astype(np.int32))
    assert sorted(map(len, cut)) == [200, 300]
    owners = defaultdict(set)
    for unit, conversation in zip(units.tolist(), component.tolist()):
        owners[unit].add(conversation)
    assert len(owners) == 300 // BLOCK + 200 // BLOCK + 58 and {*map(len, owners.values())} == {1}
