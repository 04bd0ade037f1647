"""Tokens, pieces of words, packed sentences and bigram rows."""

import itertools
import os
import subprocess
import sys
from collections import Counter
from unittest import mock

import numpy as np
import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from convsim_mini.core import packed as packed_module, text as text_module
from convsim_mini.core.packed import bigram_keys, frequent_bigrams, words_and_bigrams
from convsim_mini.core.text import (
    INSIDE, UNKNOWN, URL, Vocabulary, learn_pieces, normalize, tokenize)

from conftest import PATH
from small_transformer import pack


packed_sentences = st.lists(st.lists(st.integers(0, 49), min_size=1, max_size=12), min_size=1,
                            max_size=8)


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
    ("cafe\u0301 Stra\u00dfe", ["caf\u00e9", "strasse"]),
    ("a\u00a0b\u3000c", ["a", "b", "c"]),
    ("a\ud83d", ["a", "\ufffd"]),                                            # half surrogate
    ("-LRB- x -RRB- -lsb- -rcb-", ["(", "x", ")", "[", "}"]),
    ("club-house", ["club", "-", "house"]),
    ("``So''", ['"', "so", '"']),
    ("\ufeffhow \ufeff are\ufeff you?", ["how", "are", "you", "?"]),    # byte-order marks
    ("\ufeff", []),
    ("\0nul\0 l", ["nul", "l"]),
    ("Lego\u2122 \u24621\u00bd foo\u00b9 m\u00b2",
     ["lego", "tm", "3", "1", "1", "\u2044", "2", "foo", "1", "m2"]),
    ("R&amp;D &lt;3 a&nbsp;b &amp;#x200B; &amp;quot; &#39; &xyz;",
     ["r", "&", "d", "<", "3", "a", "b", '"', "'", "&", "xyz", ";"]),
    ("STRASSE \u0130zmir I\u0307zmir", ["strasse", "izmir", "izmir"]),
    ("a well @-@ known", ["a", "well", "-", "known"]),
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
    ("I ’ m sorry , I can ’ t", "I'm sorry, I can't"),        # DailyDialog
    ("don 't , John ' s", "don't, John's"),
    ("I don &apos;t say &quot; yes &quot;", "I don't say \"yes\""),    # Moses
    *((f"don{mark}t", "don't") for mark in "’´`′ʼʹ‛｀"),
    *((f"{first}So{last}", '"So"') for first, last in ("“”", "„“", "«»", "»«", "‟”", "〝〞")),
])
def test_treebank_text_gives_the_tokens_of_plain_text(treebank, plain):
    assert tokenize(treebank) == tokenize(plain)


@pytest.mark.parametrize("text", ["rock 'n' roll", "the boys 'sit", "he said 'dare'", "n't",
                                  "men 't-shirt", "a ' d' b"])
def test_quotation_marks_are_not_taken_for_treebank_pieces(text):
    assert tokenize(text) == regex.findall(r"n't|\w+|['-]", text)


# Characters that the patterns mention are rare among random ones, so they have their own
# strategy.
awkward = st.sampled_from(["'", "\u2019", "`", "''", " n't", " 's", "-lrb-", "\t", "\n", "\u2028",
                           "\x85", "www.", "http://", "1", ",", ".", "_", "\u0301", "\u200d",
                           "\ufe0f", "\U0001F468", "\U0001F1E9", "\ud83d", "\udc4d", " ", "fig"])


texts = st.lists(st.one_of(st.characters(), awkward)).map("".join)


@given(texts)
def test_tokens_are_those_of_the_whole_text_and_lose_nothing_but_white_space(text):
    whole = text_module._TOKEN.findall(normalize(text))
    assert "".join(whole) == regex.sub(r"[\s\ufeff\0]", "", normalize(text))
    tokens = tokenize(text)
    assert tokens == [URL if token.startswith(("http://", "https://", "www.")) else token
                      for token in whole]
    for token in tokens:
        assert token and not regex.search(r"\s", token)
        token.encode("utf-8")                                 # a half surrogate would raise


@given(st.lists(texts, max_size=9))
def test_encoding_is_packing_tokens(some):
    vocabulary = Vocabulary(["fig", "'", "f", "##i", "##g", "1", ","], [4, 3, 2, 1, 1, 1, 1])
    one, other = vocabulary.encode(some), vocabulary.pack(map(tokenize, some))
    assert np.array_equal(one.ids, other.ids) and np.array_equal(one.offsets, other.offsets)
    assert ((0 <= one.ids) & (one.ids < vocabulary.size)).all()


# ---------------------------------------------------------------- pieces of words

def plain_pieces(counts, size):
    """Byte-pair encoding without an index: all pairs are recounted before each merge."""
    words = {word: [word[0], *(INSIDE + c for c in word[1:])]
             for word, number in counts.items() if number >= 5}
    characters = Counter()
    for word, pieces in words.items():
        characters.update({piece: pieces.count(piece) * counts[word] for piece in pieces})
    learned = [piece for piece, _ in characters.most_common(size)]
    while len(learned) < size:
        pairs = Counter()
        for word, pieces in words.items():
            for pair in zip(pieces, pieces[1:]):
                pairs[pair] += counts[word]
        number, pair = min(((-number, pair) for pair, number in pairs.items()), default=(0, None))
        if -number < 5:
            break
        merged = pair[0] + pair[1][len(INSIDE):]
        learned += [merged] * (merged not in learned)
        for pieces in words.values():
            k = 0
            while k < len(pieces) - 1:
                if (pieces[k], pieces[k + 1]) == pair:
                    pieces[k:k + 2] = [merged]
                k += 1
    return learned


@given(st.dictionaries(st.text("abc", min_size=1, max_size=7), st.integers(1, 30), max_size=12),
       st.integers(0, 40))
def test_pieces_are_those_of_byte_pair_encoding_without_an_index(counts, size):
    assert learn_pieces(counts, size) == plain_pieces(counts, size)


@pytest.fixture
def vocabulary():
    return Vocabulary.of_words(Counter(pear=3, apple=3, fig=5, kiwi=1))


def test_ids_go_by_frequency_and_ties_by_the_alphabet(vocabulary):
    assert vocabulary.pieces == ["fig", "apple", "pear", "kiwi"]
    assert [vocabulary.split(word) for word in vocabulary.pieces] == [(1,), (2,), (3,), (4,)]
    assert vocabulary.counts == [5, 3, 3, 1] and vocabulary.size == 5
    assert [vocabulary.token(i) for i in (0, 1, 4)] == ["<unknown>", "fig", "kiwi"]
    assert vocabulary.split("figs") == vocabulary.split("pea") == (UNKNOWN,)


def test_a_word_is_split_into_the_longest_pieces_from_its_start():
    vocabulary = Vocabulary(["un", "unf", "##f", "##riend", "##ly", "##l", "u"], [1] * 7)
    split = [vocabulary.token(i) for i in vocabulary.split("unfriendly")]
    assert split == ["unf", "##riend", "##ly"]                # not un, ##f, ##riend
    assert vocabulary.split("unfriendlier") == (UNKNOWN,)     # "##i" is not a piece
    assert vocabulary.split("ly") == (UNKNOWN,) and vocabulary.split("") == ()


@given(st.dictionaries(st.text("abcd", min_size=1, max_size=9), st.integers(5, 30), min_size=1,
                       max_size=12), st.integers(8, 40))
def test_the_pieces_of_a_word_spell_it_and_their_counts_add_up(counts, size):
    vocabulary = Vocabulary.of_pieces(counts, size)
    expected = Counter()
    for word, number in counts.items():
        pieces = [vocabulary.token(i) for i in vocabulary.split(word)]
        assert "".join(piece.removeprefix(INSIDE) for piece in pieces) == word
        assert all(piece.startswith(INSIDE) == (k > 0) for k, piece in enumerate(pieces))
        expected.update({piece: number * pieces.count(piece) for piece in pieces})
    assert Counter(dict(zip(vocabulary.pieces, vocabulary.counts))) == expected
    assert vocabulary.counts == sorted(vocabulary.counts, reverse=True)


def test_a_new_word_of_known_letters_has_pieces():
    vocabulary = Vocabulary.of_pieces({"abc": 9, "bca": 9, "cab": 9}, 30)
    assert vocabulary.counts[vocabulary.ids["##a"] - 1] == 0  # no word uses it any longer
    assert [vocabulary.token(i) for i in vocabulary.split("abcacb")] == ["abc", "##a", "##c", "##b"]


def test_an_empty_sentence_is_one_unknown_token(vocabulary):
    packed = vocabulary.encode(["Fig pear", "", "kiwi", " "])
    assert packed.ids.tolist() == [1, 3, UNKNOWN, 4, UNKNOWN]
    assert packed.offsets.tolist() == [0, 2, 3, 4, 5]
    assert (packed.ids.dtype, packed.offsets.dtype) == (np.int32, np.int64)


def test_probabilities_are_shares_of_all_pieces(vocabulary):
    np.testing.assert_allclose(vocabulary.probabilities(), np.array([0, 5, 3, 3, 1]) / 12)
    assert Vocabulary([], []).probabilities().tolist() == [0]


# ---------------------------------------------------------------- bigrams

@given(packed_sentences, st.integers(0, 2**32))
def test_frequent_bigrams_stand_between_the_words_of_each_sentence_alone(sentences, seed):
    words, rng = 50, np.random.default_rng(seed)
    packed = pack(*sentences)
    two = [pair for some in sentences for pair in itertools.pairwise(some)]
    known = {pair for pair in two if rng.random() < 0.5} | {(3, 49), (0, 0), (49, 49)}
    row_of = {pair: words + k for k, pair in enumerate(sorted(known))}
    keys = bigram_keys(*np.array(sorted(known)).T, words)
    rows = words_and_bigrams(packed, words, keys)
    assert rows.ids.dtype == np.int32 and len(rows.offsets) == len(sentences) + 1
    for b, (first, *rest) in enumerate(sentences):
        expected = [first]
        for pair in itertools.pairwise([first, *rest]):
            expected += [*filter(None, [row_of.get(pair)]), pair[1]]
        assert rows.part(b, b + 1).ids.tolist() == expected
    assert words_and_bigrams(packed, words, keys[:0]) is packed


@given(packed_sentences, st.integers(1, 8))
def test_the_most_frequent_bigrams_get_a_row(sentences, number):
    with mock.patch.object(packed_module, "TOKENS_AT_ONCE", 7):
        found = frequent_bigrams(pack(*sentences), 50, number)
    counts = Counter(pair for some in sentences for pair in itertools.pairwise(some))
    ranked = sorted(counts, key=lambda pair: (-counts[pair], pair))[:number]
    assert [divmod(key, 50) for key in found.tolist()] == sorted(ranked)


RUNS = [
    "\U0001F1E6", "\u0301\u094d", "\uff9e\u0301", "\u0f71\u0f72", "\U0001F44D\U0001F3FB", "\u200d",
    "\U0001F469\u200d", "\ufe0f", "#\ufe0f\u20e3", "a\u0301", "1.", "1,", "'", "a'", " 's", "-lrb-",
    "``", "&amp;", "&", "amp;", " ' t", "http://", "www.", "\u1100", "_", "\ufeff", "\ud800"]


def test_no_long_run_takes_quadratic_time():
    """All take about ten seconds; a quadratic pattern would need five minutes or more for one."""
    script = ("import sys; from convsim_mini.core.text import tokenize\n"
              "for unit in eval(sys.argv[1]): tokenize(unit * (600_000 // len(unit)))")
    subprocess.run([sys.executable, "-c", script, ascii(RUNS)], check=True, timeout=150,
                   env={**os.environ, "PYTHONPATH": PATH})


def test_of_a_run_of_combining_marks_30_are_kept():
    assert tokenize("e" + 100 * "\u0323" + " a") == ["\u1eb9" + 29 * "\u0323", "a"]
    assert tokenize("\U0001F1E9\U0001F1EA\U0001F1EB") == ["\U0001F1E9\U0001F1EA", "\U0001F1EB"]


def test_only_some_short_chunks_are_remembered(monkeypatch):
    monkeypatch.setattr(text_module, "MOST_CHUNKS", 3)
    asked = []
    kept = text_module.Remembered(lambda chunk: asked.append(chunk) or len(chunk))
    long, longer = "a" * 40, "b" * 41
    assert [kept[chunk] for chunk in (long, long, longer, longer, "c", "d")] == [
        40, 40, 41, 41, 1, 1]
    assert asked == [long, longer, longer, "c", "d"] and [*kept] == [long, "c", "d"]
    assert kept["e"] == 1 and [*kept] == ["e"]
