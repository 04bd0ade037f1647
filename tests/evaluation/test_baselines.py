"""Baselines from words, compared with their formulas; files of vectors."""

import gzip
import math
from collections import Counter
from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convsim_mini.common.cli import UserError
from convsim_mini.common.lines import zstd
from convsim_mini.core.text import Vocabulary, tokenize
from convsim_mini.evaluation import baselines, metrics, sts
from convsim_mini.evaluation.baselines import (
    bm25_documents, fitted_on_train, frequency_weight, word_cosines)
from convsim_mini.data.vectors import read_vectors
from convsim_mini.inference.tfidf import term_counts, tfidf

from small_transformer import pack

WORDS = "a cat sat on the mat while two dogs ran home".split()


# ---------------------------------------------------------------- words alone

@pytest.mark.parametrize("one, other, cosine", [
    ("the cat", "The CAT", 1),
    ("the cat", "a dog", 0),
    ("the cat sat", "the cat", 2 / math.sqrt(6)),
    ("the the cat", "the cat", 1),                            # binary: repeats do not count
    ("", "the cat", 0),
    ("", "", 0),
])
def test_word_cosine(one, other, cosine):
    assert word_cosines([one, other], [0], [1]) == pytest.approx(cosine)


def test_a_weighted_word_cosine_is_that_of_weighted_vectors():
    weight = {"the": 0.1, "cat": 2.0, "sat": 1.0, "dog": 3.0}
    expected = (0.1**2 + 1) / math.sqrt((0.1**2 + 4 + 1) * (0.1**2 + 9 + 1))
    found = word_cosines(["x", "the cat sat", "the dog sat"], [1], [2], {"x": 1, **weight}.get)
    assert found == pytest.approx(expected)


def test_the_frequency_weight_falls_from_1_with_the_probability():
    weight = frequency_weight(Vocabulary(["the", "cat", "dog"], [900, 1, 99]), a=1e-3)
    assert weight("the") == pytest.approx(1e-3 / (1e-3 + 0.9))
    assert weight("cat") == pytest.approx(0.5)
    assert weight("unheard") == 1


def random_documents(seed, documents=40, words=30):
    rng = np.random.default_rng(seed)
    return pack(*(rng.integers(words, size=rng.integers(1, 12)).tolist() for _ in range(documents)))


def ids_of(packed):
    """A list of ids per sentence."""
    return [some.tolist() for some in np.split(packed.ids, packed.offsets[1:-1])]


def frequencies(packed, words=30):
    """Document frequencies, counted directly: N, df."""
    df = Counter(word for ids in ids_of(packed) for word in set(ids))
    return len(packed.lengths), np.array([df[word] for word in range(words)])


def test_term_counts_counts_and_leaves_its_input_as_it_is():
    # SciPy sums duplicates in place, which once reordered the ids of the corpus.
    packed = pack([3, 1, 3, 0, 3], [2], [1, 1])
    ids, offsets = packed.ids.copy(), packed.offsets.copy()
    assert term_counts(packed, 4).toarray().tolist() == [[1, 1, 0, 3], [0, 0, 1, 0], [0, 2, 0, 0]]
    assert packed.ids.tolist() == ids.tolist() and packed.offsets.tolist() == offsets.tolist()


@pytest.mark.parametrize("most", [200_000, 100])
def test_document_frequencies_count_sentences_of_train(corpus, monkeypatch, most):
    monkeypatch.setattr(baselines, "FITTED_ON", most)
    number = min(most, 2 * corpus.train.pairs)
    sentences, df = fitted_on_train(corpus.train, corpus.vocabulary.size)
    expected = frequencies(corpus.train.sentences(np.arange(number)), corpus.vocabulary.size)
    assert sentences == expected[0] == number and df.tolist() == expected[1].tolist()


def test_tfidf_rows_have_unit_length_and_follow_the_formula():
    packed = random_documents(0)
    sentences, df = frequencies(packed)
    rows = tfidf(packed, sentences, df).toarray()
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    for ids, row in zip(ids_of(packed), rows):
        expected = np.zeros(30)
        for word, tf in Counter(ids).items():
            expected[word] = (1 + math.log(tf)) * math.log((1 + sentences) / (1 + df[word]))
        np.testing.assert_allclose(row, expected / np.linalg.norm(expected), atol=1e-6)


def test_a_word_found_everywhere_weighs_nothing_and_leaves_no_nan():
    packed = pack([0], [0, 1], [0, 0])
    rows = tfidf(packed, *frequencies(packed, 2)).toarray()
    assert np.abs(rows).tolist() == [[0, 0], [0, 1], [0, 0]]


def test_bm25_is_the_formula_in_a_double_loop():
    documents, queries = random_documents(1), random_documents(2, documents=10)
    sentences, df = frequencies(documents)
    scores = (term_counts(queries, 30) @ bm25_documents(documents, sentences, df).T).toarray()
    mean_length = len(documents.ids) / sentences
    for q, query in enumerate(ids_of(queries)):
        for d, document in enumerate(ids_of(documents)):
            expected, slack = 0, 1.2 * (0.25 + 0.75 * len(document) / mean_length)
            for word in query:
                tf = document.count(word)
                idf = math.log(1 + (sentences - df[word] + 0.5) / (df[word] + 0.5))
                expected += idf * tf * 2.2 / (tf + slack)
            assert scores[q, d] == pytest.approx(expected, rel=1e-5)


@pytest.mark.filterwarnings("error")
def test_a_text_is_like_itself_and_an_empty_one_like_nothing_not_even_another():
    rng = np.random.default_rng(0)
    texts = [*(" ".join(rng.choice(WORDS, rng.integers(1, 9))) for _ in range(11)), "", ""]
    left, right = np.repeat(np.arange(13), 13), np.tile(np.arange(13), 13)
    run = SimpleNamespace(vocabulary=Vocabulary(WORDS, [*range(110, 0, -10)]))
    found = baselines.pair_baselines(texts, left, right, run)
    assert [*found] == ["binary word cosine", "word cosine weighted a/(a+p)",
                        "piece cosine, each once"]
    for cosines in found.values():
        np.testing.assert_allclose(cosines[(left == right) & (left < 11)], 1, rtol=1e-6)
        assert (cosines[(left > 10) | (right > 10)] == 0).all()
    assert [*baselines.pair_baselines(texts, left, right)] == ["binary word cosine"]


# ---------------------------------------------------------------- STS

def test_known_figures_on_sts_dev(data_folder):
    counts = Counter()
    for path in sorted((data_folder / "conversations").glob("*.tsv.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in islice(lines, 5_000):
                counts.update(tokenize(line))
    dev = sts.read(sts.find(data_folder)["dev"])
    weights = frequency_weight(Vocabulary.of_pieces(counts, 30_000))
    binary, weighted = (
        100 * metrics.pearson(word_cosines(sts.texts_of(dev), *sts.sides(dev), *some), dev.labels)
        for some in ((), (weights,)))
    assert binary == pytest.approx(63.0, abs=1) and weighted == pytest.approx(76.0, abs=2)


# ---------------------------------------------------------------- files of vectors

VECTORS = {"cat": [0.5, -1, 2], "the": [1e-3, 0, 3]}


def write(path, text):
    pack = {".gz": gzip.compress, ".zst": zstd.compress}.get(path.suffix, bytes)
    path.write_bytes(pack(text.encode()))
    return path


@pytest.mark.parametrize("name", ["v.txt", "v.vec", "v.txt.gz", "v.txt.zst"])
@pytest.mark.parametrize("head", ["", "6 3\n"])
@pytest.mark.parametrize("end", ["\n", " \n", "\r\n"])
def test_text_files_of_word2vec_and_glove(tmp_path, name, head, end):
    lines = ["the 1e-3 0 3", "zebra 1 2 3", ". . . 1 2 3", "cat 0.5 -1 2", "cat 9 9 9",
             "\u00e9t\u00e9 1 1 1"]
    path = write(tmp_path / name, head + end.join(lines) + end)
    found = read_vectors(path, {"cat", "the", "absent", "."})
    assert found["cat"].dtype == np.float32
    assert {word: pytest.approx(vector) for word, vector in found.items()} == VECTORS


@pytest.mark.parametrize("text, message", [
    ("", "v.txt: is empty"),
    ("cat 1 2 3\nthe 1 2\n", 'v.txt, line 2: "the 1 2", expected a word and 3 numbers'),
    ("cat 1 2 3\n2 3\n", 'v.txt, line 2: "2 3", expected a word and 3 numbers'),
    ("2 2\ncat 1 2 3\nthe 1 2 3\n", "v.txt: contains none of the 2 words in these texts"),
    ("cat 1 2 3\nthe 1 nan 3\n", 'v.txt, line 2: "the 1 nan 3"'),
    ("the" + " x" * 100, 'v.txt, line 1: "the x x x x x x x x x x x x x x x x x x ", expected'),
])
def test_a_malformed_text_file_is_one_line_that_names_the_place(tmp_path, text, message):
    with pytest.raises(UserError) as error:
        read_vectors(write(tmp_path / "v.txt", text), {"cat", "the"})
    assert str(error.value).startswith(f"{tmp_path}/{message}")


PARTS = st.lists(st.sampled_from(["cat", "the", " ", "\n", "1", "-2.5", "nan", "3 2", "\r", "é"]),
                 max_size=20)


@given(st.one_of(st.binary(max_size=60), PARTS.map(lambda parts: "".join(parts).encode())))
def test_whatever_a_text_file_holds_it_is_vectors_or_one_line(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("vectors") / "v.txt"
    path.write_bytes(data)
    try:
        found = read_vectors(path, {"cat", "the", "1"})
        assert len({vector.shape for vector in found.values()}) == 1
    except UserError as error:
        assert str(path) in str(error) and "\n" not in str(error)
