"""Baselines from word vectors against their formulas in loops, and the files of the vectors."""

import gzip
import math
from collections import Counter

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from convsim_mini.common.cli import UserError
from convsim_mini.core.text import Vocabulary, tokenize
from convsim_mini.evaluation import baselines, command, cqa, metrics, sts
from convsim_mini.evaluation.cqa import Candidate, Question
from convsim_mini.evaluation.task_files import read_vectors
from convsim_mini.training.run import load_run

from glove import glove_file

WORDS = "a cat sat on the mat while two dogs ran home".split()


@pytest.fixture(scope="module")
def setting():
    """12 texts with repeated words and an empty one, vectors without two words, pairs of texts."""
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, rng.integers(1, 9), p=np.arange(1, 12) / 66))
             for _ in range(11)] + [""]
    vectors = {word: rng.standard_normal(6) for word in WORDS[2:]}
    left, right = np.repeat(np.arange(12), 12), np.tile(np.arange(12), 12)
    return texts, vectors, left, right


def similarities(setting, vocabulary=None):
    texts, vectors, left, right = setting
    found = baselines.pair_similarities(texts, left, right, {"x": vectors}, vocabulary)
    assert list(found) == ["mean of x", "SIF of x", "soft cosine of x"]
    return list(found.values())


def cosine(x, y):
    norms = np.linalg.norm(x) * np.linalg.norm(y)
    return x @ y / norms if norms else 0


# ---------------------------------------------------------------- the formulas, in loops

def means_by_hand(texts, vectors, weight):
    rows = []
    for text in texts:
        some = [weight(word) * vectors[word] for word in text.split() if word in vectors]
        rows.append(np.mean(some, axis=0) if some else np.zeros(6))
    return np.array(rows)


def test_means_are_those_of_the_words_that_have_a_vector(setting):
    texts, vectors, left, right = setting
    rows = means_by_hand(texts, vectors, lambda word: 1)
    np.testing.assert_allclose(similarities(setting)[0],
                               [cosine(rows[x], rows[y]) for x, y in zip(left, right)], atol=1e-12)


@pytest.mark.parametrize("vocabulary",
                         [None, Vocabulary(["the", "on", "ran"], [50, 20, 1], 100, 5)])
def test_sif_is_a_weighted_mean_without_the_first_singular_vector(setting, vocabulary):
    texts, vectors, left, right = setting
    counts = Counter(word for text in texts for word in text.split())
    p = dict(zip(vocabulary.words, np.array(vocabulary.counts) / 100)) if vocabulary else {
        word: count / counts.total() for word, count in counts.items()}
    rows = means_by_hand(texts, vectors, lambda word: 1e-3 / (1e-3 + p.get(word, 0)))
    _, _, directions = np.linalg.svd(rows)
    rows -= rows @ np.outer(directions[0], directions[0])
    np.testing.assert_allclose(similarities(setting, vocabulary)[1],
                               [cosine(rows[x], rows[y]) for x, y in zip(left, right)], atol=1e-9)


def test_the_soft_cosine_is_its_double_sum(setting):
    texts, vectors, left, right = setting
    df = Counter(word for text in texts for word in set(text.split()))

    def weights(text):
        return {word: (1 + math.log(tf)) * math.log((1 + len(texts)) / (1 + df[word]))
                for word, tf in Counter(text.split()).items()}

    def like(one, other):
        if one == other:
            return 1
        return (max(0, cosine(vectors[one], vectors[other])) ** 2
                if {one, other} <= vectors.keys() else 0)

    def product(x, y):
        return sum(x[one] * like(one, other) * y[other] for one in x for other in y)

    x = [weights(text) for text in texts]
    expected = [product(x[i], x[j]) / (math.sqrt(product(x[i], x[i]) * product(x[j], x[j])) or 1)
                for i, j in zip(left, right)]
    np.testing.assert_allclose(similarities(setting)[2], expected, atol=1e-6)


def test_a_text_is_like_itself_and_an_empty_one_like_nothing_not_even_another(setting):
    texts, vectors, left, right = setting
    for found in similarities(([*texts, ""], vectors, np.append(left, 11), np.append(right, 12))):
        same = (left == right) & (left < 11)
        np.testing.assert_allclose(found[:-1][same], 1)
        assert (found[:-1][(left == 11) | (right == 11)] == 0).all() and found[-1] == 0


@pytest.mark.filterwarnings("error")
def test_texts_without_any_word_are_like_nothing():
    found = baselines.pair_similarities(["", ""], np.array([0]), np.array([1]), {"x": {}})
    assert [some.tolist() for some in found.values()] == [[0]] * 3


def test_words_that_mean_the_same_count_in_the_soft_cosine():
    vectors = {word: np.array(vector) for word, vector in
               {"cat": [1.0, 0], "kitten": [1, 0.1], "tax": [0, 1.0], "dull": [-1.0, 0]}.items()}
    found = baselines.pair_similarities([*vectors], np.zeros(3, int), np.arange(1, 4),
                                             {"x": vectors})
    assert found["soft cosine of x"] == pytest.approx([1 / 1.01, 0, 0])


# ---------------------------------------------------------------- STS and question ranking

def test_known_figures_on_sts_dev(data_folder, tmp_path):
    """GloVe 6B 50d on STS dev, where installed: 40 (mean) and 67.5 (SIF), tokenised otherwise."""
    dev = sts.read(data_folder / "stsbenchmark" / "sts-dev.csv")
    texts = sts.texts_of(dev)
    counts = Counter(token for text in texts for token in tokenize(text))
    words = baselines.words_of(texts)
    vectors = read_vectors(glove_file(tmp_path, words), words)
    left, vocabulary = np.arange(len(dev.labels)), Vocabulary.from_counts(counts, None, 1)
    found = baselines.pair_similarities(texts, left, len(left) + left, {"x": vectors},
                                             vocabulary)
    mean, sif, _ = (100 * metrics.pearson(some, dev.labels) for some in found.values())
    assert mean == pytest.approx(42.6, abs=0.1)
    assert sif == pytest.approx(67.5, abs=1.5)


def test_a_runs_own_vectors_are_rows_of_its_table(trained):
    run = load_run(trained[0])
    words = {run.vocabulary.words[4], "neverheard"}
    found = baselines.run_vectors(run, words)
    table = run.model.params["encoder.embedding.weight"]
    assert found.keys() == words
    assert (found[run.vocabulary.words[4]] == table[5]).all()
    assert (found["neverheard"] == table[run.vocabulary.id("neverheard")]).all()


def test_scores_of_questions_are_those_of_their_own_candidates():
    questions = [Question("Q1", "cat",
                          [Candidate("R1", 1, True, "cat"), Candidate("R2", 2, False, "tax")]),
                 Question("Q2", "tax",
                          [Candidate("R3", 1, True, "tax tax"), Candidate("R4", 2, False, "cat"),
                           Candidate("R5", 3, False, "")])]
    vectors = {"cat": np.array([1.0, 0]), "tax": np.array([0.0, 1])}
    found = cqa.baselines(None, questions, {"x": vectors})
    for row in ("mean of x", "soft cosine of x"):
        assert found[row] == pytest.approx([1, 0, 1, 0, 0])


def test_both_commands_show_the_rows_of_a_run_and_of_a_file(run_copy, tmp_path, capsys):
    (tmp_path / "some.vec").write_text("the 1 0 2\na 0 1 1\nis 1 1 0\nhow 2 1 0\n")
    command.main("sts", "--vectors", argv=[str(run_copy), "--vectors", str(tmp_path / "some.vec")])
    shown = {"sts": capsys.readouterr().out}
    command.main("cqa", "--vectors", data="folder", argv=[
        str(run_copy), "--vectors", str(tmp_path / "some.vec")])
    shown["cqa"] = capsys.readouterr().out
    for out in shown.values():
        for kind in ("mean", "SIF", "soft cosine"):
            for source in ("own vectors", "some.vec"):
                assert sum(line.startswith(f"{kind} of {source}  ")
                           for line in out.splitlines()) == 1
    assert "\nWilliams' test at p < 0.05: trained is\n" in shown["sts"]
    assert "\nMAP of resampled questions, 95% intervals: trained is\n" in shown["cqa"]


# ---------------------------------------------------------------- files of vectors

VECTORS = {"cat": [0.5, -1, 2], "the": [1e-3, 0, 3]}


def write(path, text):
    pack = {".gz": gzip.compress,
            ".zst": zstandard.ZstdCompressor().compress}.get(path.suffix, bytes)
    path.write_bytes(pack(text.encode()))
    return path


def as_lists(found):
    return {word: pytest.approx(vector.tolist()) for word, vector in found.items()}


@pytest.mark.parametrize("name", ["v.txt", "v.vec", "v.txt.gz", "v.txt.zst"])
@pytest.mark.parametrize("head", ["", "6 3\n"])
@pytest.mark.parametrize("end", ["\n", " \n", "\r\n"])
def test_text_files_of_word2vec_and_glove(tmp_path, name, head, end):
    lines = ["the 1e-3 0 3", "zebra 1 2 3", ". . . 1 2 3", "cat 0.5 -1 2", "cat 9 9 9",
             "\u00e9t\u00e9 1 1 1"]
    path = write(tmp_path / name, head + end.join(lines) + end)
    found = read_vectors(path, {"cat", "the", "absent", "."})
    assert as_lists(found) == VECTORS and found["cat"].dtype == np.float32


@pytest.mark.parametrize("text, message", [
    ("", "v.txt: is empty"),
    ("cat 1 2 3\nthe 1 2\n", 'v.txt, line 2: "the 1 2", expected a word and 3 numbers'),
    ("cat 1 2 3\nzebra 1 2\n", 'v.txt, line 2: "zebra 1 2", expected a word and 3 numbers'),
    ("cat 1 2 3\n2 3\n", 'v.txt, line 2: "2 3", expected a word and 3 numbers'),
    ("2 3\ncat 1 2 3\nzebra 1 2 3 4\n",
     'v.txt, line 3: "zebra 1 2 3 4", expected a word and 3 numbers'),
    ("cat 1 2 3\nthe 1 x 3\n", 'v.txt, line 2: "the 1 x 3"'),
    ("cat 1 2 3\nthe 1  3\n", 'v.txt, line 2: "the 1  3"'),
    ("cat 1 2 3\nthe 1 nan 3\n", 'v.txt, line 2: "the 1 nan 3"'),
    ("cat 1 2 3\nthe 1 1e99 3\n", 'v.txt, line 2: "the 1 1e99 3"'),
    ("cat\t1\t2\t3\n", "v.txt, line 1: "),
    ("cat 1 2 3\n\nthe 1 2 3\n", 'v.txt, line 2: "", expected'),
    ("3 3\ncat 1 2 3\nthe 1 2 3\n", "v.txt: ends after 2 vectors, but its first line says 3"),
    ("Cat 1 2 3\nTHE 1 2 3\n", "v.txt: holds none of the 2 words of these texts"),
    ("word " + "1 " * 100 + "\n" + "the 1\n",
     'v.txt, line 2: "the 1", expected a word and 100 numbers'),
    ("the" + " x" * 100, 'v.txt, line 1: "the x x x x x x x x x x x x x x x x x x …", expected'),
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
