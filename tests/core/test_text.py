"""Tokens, vocabulary, packed sentences, bigram rows and word dropout."""

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import asdict
from types import SimpleNamespace

import numpy as np
import pytest
import regex
from hypothesis import example, given
from hypothesis import strategies as st

from convsim_mini.core import text as text_module
from convsim_mini.core.packed import drop_words, words_and_bigrams
from convsim_mini.core.text import (
    LONGEST_PIECE, UNKNOWN, URL, Pieces, Vocabulary, normalize, stable_hash, tokenize)

from conftest import PATH
from small_transformer import pack


packed_sentences = st.lists(st.lists(st.integers(0, 49), min_size=1, max_size=12), min_size=1,
                            max_size=8)
chances = st.sampled_from([0.0, 0.25, 0.5, 1.0])


# ---------------------------------------------------------------- tokens

@pytest.mark.parametrize("text, tokens", [
    ("", []),
    (" \n\t ", []),
    ("The CAT sat", ["the", "cat", "sat"]),
    ("Wait... what?!", ["wait", ".", ".", ".", "what", "?", "!"]),
    ("(a,b)", ["(", "a", ",", "b", ")"]),
    ('"No," she said', ['"', "no", ",", '"', "she", "said"]),
    ("well-known #1 @you", ["well", "-", "known", "#", "1", "@", "you"]),
    ("don't y'all'd've o'clock", ["don't", "y'all'd've", "o'clock"]),
    ("don\u2019t \u2018quoted\u2019 \u201cso\u201d", ["don't", "'", "quoted", "'", '"', "so", '"']),
    ("the dogs' bowl", ["the", "dogs", "'", "bowl"]),
    ("1,000.50 at 12:30", ["1,000.50", "at", "12:30"]),
    ("in 2010, 7.", ["in", "2010", ",", "7", "."]),
    ("the 2nd and 21st", ["the", "2nd", "and", "21st"]),
    ("see https://a.b/c?d=(e), ok", ["see", URL, "ok"]),
    ("HTTP://A.B www.a.org/x", [URL, URL]),
    ("www. http", ["www", ".", "http"]),
    ("ok \U0001F44D\U0001F3FD!", ["ok", "\U0001F44D\U0001F3FD", "!"]),           # skin tone
    ("\U0001F468\u200d\U0001F469\u200d\U0001F467",
     ["\U0001F468\u200d\U0001F469\u200d\U0001F467"]),                          # ZWJ family
    ("\U0001F1E9\U0001F1EA\U0001F1EB\U0001F1F7",
     ["\U0001F1E9\U0001F1EA", "\U0001F1EB\U0001F1F7"]),                         # two flags
    ("\u2764\ufe0f\u2764\ufe0f", ["\u2764\ufe0f", "\u2764\ufe0f"]),
    ("\ufb01ne \uff21\uff22", ["fine", "ab"]),                                 # NFKC
    ("cafe\u0301 Stra\u00dfe", ["caf\u00e9", "stra\u00dfe"]),
    ("a\u00a0b\u3000c", ["a", "b", "c"]),
    ("a\ud83d", ["a", "\ufffd"]),                                            # half surrogate
    ("-LRB- x -RRB- -lsb- -rcb-", ["(", "x", ")", "[", "}"]),
    ("club-house", ["club", "-", "house"]),
    ("``So''", ['"', "so", '"']),
    ("\ufeffhow \ufeff are\ufeff you?", ["how", "are", "you", "?"]),    # byte-order marks
    ("\ufeff", []),
])
def test_tokens(text, tokens):
    assert tokenize(text) == tokens


@pytest.mark.parametrize("treebank, plain", [
    ("do n't", "don't"),
    ("ca n't", "can't"),
    ("wo n\u2019t", "won't"),
    ("it 's", "it's"),
    ("I 'm , you 're", "I'm, you're"),
    ("we 'll they 've he 'd", "we'll they've he'd"),
    ("the 80 's", "the 80's"),
    ("John 's dog -LRB- ca n't run -RRB- .", "John's dog (can't run)."),
    ("`` It 's , '' he said", '"It\'s," he said'),
])
def test_treebank_text_gives_the_tokens_of_plain_text(treebank, plain):
    assert tokenize(treebank) == tokenize(plain)


@pytest.mark.parametrize("text", ["rock 'n' roll", "the boys 'sit", "he said 'dare'", "n't"])
def test_quotation_marks_are_not_taken_for_treebank_pieces(text):
    assert tokenize(text) == regex.findall(r"n't|\w+|'", text)


# Marks that the patterns speak of are rare among random characters: they get a strategy of their
# own.
awkward = st.sampled_from(["'", "\u2019", "`", "''", " n't", " 's", "-lrb-", "\t", "\n", "\u2028",
                           "\x85", "www.", "http://", "1", ",", ".", "_", "\u0301", "\u200d",
                           "\ufe0f", "\U0001F468", "\U0001F1E9", "\ud83d", "\udc4d", " ", "fig"])


texts = st.lists(st.one_of(st.characters(), awkward)).map("".join)


@given(texts)
def test_tokens_are_those_of_the_whole_text_and_lose_nothing_but_white_space(text):
    whole = text_module._TOKEN.findall(normalize(text))
    assert "".join(whole) == regex.sub(r"[\s\ufeff]", "", normalize(text))
    tokens = tokenize(text)
    assert tokens == [URL if token.startswith(("http://", "https://", "www.")) else token
                      for token in whole]
    for token in tokens:
        assert token and not regex.search(r"\s", token)
        token.encode("utf-8")                                 # a half surrogate would raise


@given(st.lists(texts, max_size=9))
def test_encoding_is_packing_tokens(some):
    vocabulary = Vocabulary(["fig", "'", "1", ","], [4, 3, 2, 1], 10, 7)
    one, other = vocabulary.encode(some), vocabulary.pack(map(tokenize, some))
    assert np.array_equal(one.ids, other.ids) and np.array_equal(one.offsets, other.offsets)
    assert ((0 <= one.ids) & (one.ids < vocabulary.size)).all()


def test_pieces_are_computed_once_and_forgotten_when_they_are_many(monkeypatch):
    monkeypatch.setattr(text_module, "MOST_PIECES", 3)
    calls = []
    pieces = Pieces(lambda piece: calls.append(piece) or len(piece))
    kept, long = "x" * LONGEST_PIECE, "x" * (LONGEST_PIECE + 1)
    assert list(pieces.of(f"ab {kept} ab {long} {long} {kept}")) == [2, 40, 2, 41, 41, 40]
    assert calls == ["ab", kept, long, long] and list(pieces) == ["ab", kept]
    assert list(pieces.of("d e")) == [1, 1] and list(pieces) == ["e"]


def test_treebank_pieces_are_joined_in_the_whole_of_snli_dev(data_folder):
    pieces = {"n't", "'s", "'re", "'ll"}
    with_piece = 0
    for line in open(data_folder / "snli_1.0" / "snli_1.0_dev.jsonl", encoding="utf-8"):
        record = json.loads(line)
        for sentence in (record["sentence1"], record["sentence2"]):
            with_piece += not pieces.isdisjoint(sentence.split())
            assert "n't" not in tokenize(sentence)
    assert with_piece > 100                                   # or the test has looked at nothing


# ---------------------------------------------------------------- vocabulary

@pytest.fixture
def vocabulary():
    return Vocabulary.from_counts(Counter(pear=3, apple=3, fig=5, kiwi=1, lime=1), size=4,
                                  oov_buckets=10)


def test_ids_go_by_frequency_and_ties_by_the_alphabet(vocabulary):
    assert vocabulary.words == ["fig", "apple", "pear", "kiwi"]
    assert [vocabulary.id(word) for word in vocabulary.words] == [1, 2, 3, 4]
    assert vocabulary.counts == [5, 3, 3, 1]
    assert vocabulary.total == 13                             # lime counts, though it has no id
    assert vocabulary.size == 1 + 4 + 10
    assert [vocabulary.token(i) for i in (0, 1, 4, 5, 14)] == [
        "<unknown>", "fig", "kiwi", "<bucket 0>", "<bucket 9>"]


def test_the_bucket_of_an_unknown_word_is_the_same_in_every_version(vocabulary):
    # Saved runs depend on these numbers: a change of the hash would move every rare word.
    assert stable_hash("lime") == 4198098741
    assert stable_hash("na\u00efve") == 3574563174
    assert vocabulary.id("lime") == 5 + 4198098741 % 10
    assert vocabulary.id("na\u00efve") == 5 + 3574563174 % 10


def test_an_empty_sentence_is_one_unknown_token(vocabulary):
    packed = vocabulary.encode(["Fig pear", "", "kiwi", " "])
    assert packed.ids.tolist() == [1, 3, UNKNOWN, 4, UNKNOWN]
    assert packed.offsets.tolist() == [0, 2, 3, 4, 5]
    assert (packed.ids.dtype, packed.offsets.dtype) == (np.int32, np.int64)


def test_probabilities_sum_to_one_and_agree_with_probability(vocabulary):
    p = vocabulary.probabilities()
    assert len(p) == vocabulary.size
    assert p.sum() == pytest.approx(1, abs=1e-12)
    assert p[UNKNOWN] == 0
    assert p[vocabulary.id("fig")] == vocabulary.probability("fig") == 5 / 13
    assert p[5:] == pytest.approx(1 / 13 / 10)                # lime's, shared by the buckets
    assert vocabulary.probability("lime") == 0


def test_a_vocabulary_is_rebuilt_through_json(vocabulary):
    assert Vocabulary(**json.loads(json.dumps(asdict(vocabulary)))) == vocabulary


# ---------------------------------------------------------------- packed sentences

@given(packed_sentences, st.data())
def test_a_part_holds_the_same_sentences(sentences, data):
    first = data.draw(st.integers(0, len(sentences)))
    last = data.draw(st.integers(first, len(sentences)))
    part = pack(*sentences).part(first, last)
    assert part.offsets[0] == 0
    assert ([part.ids[a:b].tolist() for a, b in zip(part.offsets, part.offsets[1:])]
            == sentences[first:last])


# ---------------------------------------------------------------- bigrams

def bigram_row(left, right, words, buckets):
    """The hash in Python's integers, which cannot overflow: the reference."""
    mask = 2**64 - 1
    key = left << 32 | right
    key = (key ^ key >> 29) * 0xBF58476D1CE4E5B9 & mask
    key = (key ^ key >> 32) * 0x94D049BB133111EB & mask
    return words + ((key >> 32) * buckets >> 32)


def test_bigram_rows_are_the_same_in_every_version():
    # Saved runs depend on these numbers: a change of the hash would shuffle all learned bigrams.
    rows = words_and_bigrams(pack([1, 2, 3], [7], [2, 1], [0, 0]), 1_000, 200_000)
    assert rows.ids.tolist() == [1, 78314, 2, 131236, 3, 7, 2, 118312, 1, 0, 1000, 0]


@given(packed_sentences, st.integers(50, 2**20), st.integers(1, 2**20))
def test_bigrams_stand_between_the_words_of_each_sentence_alone(sentences, words, buckets):
    rows = words_and_bigrams(pack(*sentences), words, buckets)
    assert rows.ids.dtype == np.int32 and len(rows.offsets) == len(sentences) + 1
    for b, (first, *rest) in enumerate(sentences):
        expected = [first]
        for word in rest:
            expected += [bigram_row(expected[-1], word, words, buckets), word]
        assert rows.part(b, b + 1).ids.tolist() == expected
        assert all(words <= row < words + buckets for row in expected[1::2])


# ---------------------------------------------------------------- word dropout

@given(st.lists(st.lists(st.tuples(st.integers(0, 49), chances), min_size=1), min_size=1), chances)
@example([[(1, 0.5), (2, 0.25)], [(3, 0.0)]], 1.0)
def test_a_word_stays_where_its_chance_is_the_share_or_more_and_each_sentence_keeps_one(
        sentences, share):
    drawn = np.array([chance for sentence in sentences for _, chance in sentence], np.float32)
    kept = drop_words(pack(*([word for word, _ in sentence] for sentence in sentences)), share,
                      SimpleNamespace(random=lambda *given: drawn))
    for b, sentence in enumerate(sentences):
        words = [word for word, chance in sentence if chance >= share] or [sentence[0][0]]
        assert kept.part(b, b + 1).ids.tolist() == words


def test_dropping_takes_the_share_asked_for():
    kept = drop_words(pack(np.zeros(100_000)), 0.4, np.random.default_rng(0))
    # 5 standard deviations
    assert len(kept.ids) == pytest.approx(60_000, abs=5 * np.sqrt(100_000 * 0.4 * 0.6))


RUNS = [
    "\U0001F1E6", "\u0301\u094d", "\uff9e\u0301", "\u0f71\u0f72", "\U0001F44D\U0001F3FB", "\u200d",
    "\U0001F469\u200d", "\ufe0f", "#\ufe0f\u20e3", "a\u0301", "1.", "1,", "'", "a'", " 's", "-lrb-",
    "``", "http://", "www.", "\u1100", "_", "\ufeff", "\ud800"]


def test_no_long_run_takes_quadratic_time():
    """All take some ten seconds. By a quadratic pattern one of them takes five minutes or more."""
    script = ("import sys; from convsim_mini.core.text import tokenize\n"
              "for unit in eval(sys.argv[1]): tokenize(unit * (600_000 // len(unit)))")
    subprocess.run([sys.executable, "-c", script, ascii(RUNS)], check=True, timeout=150,
                   env={**os.environ, "PYTHONPATH": PATH})


def test_of_a_run_of_combining_marks_30_are_kept():
    assert tokenize("e" + 100 * "\u0323" + " a") == ["\u1eb9" + 29 * "\u0323", "a"]
    assert tokenize("\U0001F1E9\U0001F1EA\U0001F1EB") == ["\U0001F1E9\U0001F1EA", "\U0001F1EB"]
