"""Initial values of a model: co-occurrence vectors, identity matrices."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse
from safetensors.numpy import save_file

from convsim_mini.common.cli import UserError
from convsim_mini.config import ModelConfig
from convsim_mini.core.batches import Split
from convsim_mini.core.packed import Packed
from convsim_mini.core.text import Vocabulary
from convsim_mini.core.initial import initial_parameters
from convsim_mini.training.start import (
    A, cooccurrences, given_vectors, initial_table, left_singular_vectors, ppmi_svd)
from convsim_mini.core.model import Model, embed
from convsim_mini.training.options import config_of


def test_left_singular_vectors_are_those_of_the_exact_decomposition():
    rng = np.random.default_rng(0)
    u, _ = np.linalg.qr(rng.standard_normal((60, 40)))
    v, _ = np.linalg.qr(rng.standard_normal((50, 40)))
    matrix = (u * 0.7 ** np.arange(40)) @ v.T
    found = left_singular_vectors(scipy.sparse.csr_matrix(matrix), 5, rng)
    assert found.shape == (60, 5)
    assert np.abs(np.abs((found * u[:, :5]).sum(axis=0)) - 1).max() < 1e-5       # up to sign


def toy_split():
    """Words 1 and 2 appear next to 5 or 6, words 3 and 4 next to 7 or 8; 9 appears alone."""
    rng, sentences = np.random.default_rng(1), []
    for _ in range(400):
        topic = rng.integers(2)
        sentences.append([1 + 2 * topic + rng.integers(2), 5 + 2 * topic + rng.integers(2)])
    sentences.append([9])
    lengths = [len(sentence) for sentence in sentences]
    return Split(np.concatenate(sentences).astype(np.int32), np.cumsum([0, *lengths]), None)


def test_cooccurrences_count_neighbours_in_a_sentence_alone():
    split = Split(np.array([1, 2, 1, 3, 2], np.int32), np.array([0, 3, 5]), None)
    expected = np.zeros((4, 4))
    for one, two in ((1, 2), (2, 1), (1, 1), (3, 2)):
        expected[one, two] += 1
        expected[two, one] += 1
    assert (cooccurrences(split, 4).toarray() == expected).all()
    counts = cooccurrences(Split(np.arange(7, dtype=np.int32), np.array([0, 7]), None), 7)
    one, two = np.nonzero(np.triu(counts.toarray()))
    assert sorted(set(two - one)) == [1, 2, 3, 4, 5]          # words apart


def test_words_with_the_same_neighbours_start_side_by_side():
    vectors = ppmi_svd(toy_split(), 10, 4, np.random.default_rng(0))
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    cosine = unit @ unit.T
    assert vectors.shape == (10, 4) and not vectors[9].any()
    assert cosine[1, 2] > 0.9 and cosine[3, 4] > 0.9 and abs(cosine[1, 3]) < 0.1
    assert np.allclose(np.linalg.norm(vectors[1:9], axis=1), 2, atol=1e-5)       # √4


@pytest.mark.parametrize("start", ["corpus", "random"])
def test_a_table_is_normal_numbers_or_svd_weighted_by_rarity(start):
    """Rows of pieces: their SVD times a/(a + p), of bigrams: zero; or all normal."""
    vocabulary = Vocabulary([f"w{k}" for k in range(1, 10)], list(range(90, 0, -10)))
    corpus = SimpleNamespace(vocabulary=vocabulary, train=toy_split())
    model = ModelConfig(embedding_dim=12, start=start)
    table = initial_table(corpus, 400, model, np.random.default_rng(0))
    rng = np.random.default_rng(0)
    expected = rng.standard_normal((10, 12), np.float32)
    if start == "corpus":
        found = ppmi_svd(toy_split(), 10, 12, rng)            # 10 ids give 9 columns
        assert not found[[0, 9]].any()                        # no neighbours: stay random
        expected[1:9, :9] = found[1:9]
        expected *= [[A / (A + p)] for p in vocabulary.probabilities()]
    np.testing.assert_allclose(table[:10], expected, rtol=1e-6)
    assert table.shape == (410, 12) and table.dtype == np.float32
    assert table[10:].std() == (0 if start == "corpus" else pytest.approx(1, abs=0.1))


def vector_files(folder):
    """The vectors of "w1" and "w2", (1, 2, 2) and (0, 3, 4), in every kind of file."""
    text = folder / "vectors.txt"
    text.write_text("w1 1 2 2\nother 5 5 5\nw2 0 3 4\n")
    np.savez(folder / "vectors.npz", words=np.array(["w2", "w1"]),
             vectors=np.array([[0, 3, 4], [1, 2, 2]], np.float16))
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    model = tokenizers.models.WordLevel({"[UNK]": 0, "w2": 1, "w1": 2}, unk_token="[UNK]")
    table = folder / "model"
    table.mkdir()
    tokenizers.Tokenizer(model).save(str(table / "tokenizer.json"))
    rows = np.array([[0, 0, 0], [1, 2, 2], [0, 3, 4]], np.float32)
    save_file({"embeddings": rows, "mapping": np.array([0, 2, 1])}, table / "model.safetensors")
    return text, folder / "vectors.npz", table, table / "model.safetensors"


def test_given_vectors_are_the_first_columns_and_co_occurrences_the_rest(tmp_path):
    vocabulary = Vocabulary(["w1", "##w2", *(f"x{k}" for k in range(3, 10))], [1] * 9)
    corpus = SimpleNamespace(vocabulary=vocabulary, train=toy_split())
    for path in vector_files(tmp_path):
        for dim in (3, 12):
            model = ModelConfig(embedding_dim=dim, start=str(path))
            table = initial_table(corpus, 4, model, np.random.default_rng(0))
            table /= [[A / (A + p)] for p in [*vocabulary.probabilities(), 1, 1, 1, 1]]
            given = np.array([[1, 2, 2], [0, 3, 4]]) / [[3], [5]] * np.sqrt(3)
            np.testing.assert_allclose(table[1:3, :3], given, rtol=1e-5)
            rng = np.random.default_rng(0)
            drawn = rng.standard_normal((10, dim), np.float32)
            np.testing.assert_allclose(table[3:10, :3], drawn[3:, :3], rtol=1e-5)
            if dim > 3:
                found = ppmi_svd(toy_split(), 10, 9, rng)
                np.testing.assert_allclose(table[1:9, 3:12], found[1:9], rtol=1e-4)
            assert not table[10:].any()


@pytest.mark.parametrize("text, dim, told", [
    ("w1 1 2 2\n", 2, "vectors of 3 dimensions, expected 1 to 2"),
    ("w1 1 2 x\n", 5, "line 1:"), ("w7 1 2 2\n", 5, "contains none of the 1 words")])
def test_vectors_that_do_not_fit_are_told(text, dim, told, tmp_path):
    (tmp_path / "v.txt").write_text(text)
    model = ModelConfig(embedding_dim=dim, start=str(tmp_path / "v.txt"))
    with pytest.raises(UserError, match=told):
        given_vectors(model, Vocabulary(["w1"], [1]))


def test_a_folder_without_a_table_or_its_tokenizer_says_which_is_missing(tmp_path):
    pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    for missing, rows in ((".safetensors", None), ("array .n, d.", np.zeros(3)),
                          ("tokenizer.json", np.zeros((3, 2)))):
        if rows is not None:
            save_file({"rows": rows}, tmp_path / "model.safetensors")
        with pytest.raises(UserError, match=rf"cannot be read \(it has no {missing}\); expected"):
            given_vectors(ModelConfig(start=str(tmp_path)), Vocabulary(["w1"], [1]))


@pytest.mark.parametrize("encoder", ["dan", "transformer"])
def test_matrices_are_uniform_within_the_bound_of_glorot(encoder):
    config = ModelConfig(encoder, embedding_dim=40, layers=[30, 50], response_hidden=[60],
                         encoder_bias=True, transformer_layers=1, hidden=70)
    params = initial_parameters(config, np.zeros((9, 40), np.float32), np.random.default_rng(0))
    assert params["encoder.linear1.bias"].shape == (50,)      # the last one has it on request
    small = {"response.linear1.weight": 0.1}                  # last layer of a residual network
    for name, p in params.items():
        if p.ndim == 1:
            assert (p == (1 if name.endswith("norm.weight") else 0)).all(), name
        elif not name.endswith("embedding.weight"):
            fans = 80 if name.endswith("qkv.weight") else sum(p.shape)    # three square matrices
            bound = small.get(name, 1) * np.sqrt(6 / fans)
            assert 0.98 < np.abs(p).max() / bound <= 1 and abs(p.mean()) < 0.1 * bound, name


@pytest.mark.parametrize("layers, square, start", [
    ([8], [0], "corpus"), ([6, 6, 8], [1], "corpus"), ([5], [], "corpus"), ([8, 8], [], "random")])
def test_square_layers_start_as_the_identity_and_the_last_has_no_bias(layers, square, start):
    config = ModelConfig(embedding_dim=8, layers=layers, start=start)
    params = initial_parameters(config, np.zeros((9, 8), np.float32), np.random.default_rng(0))
    for k in range(len(layers)):
        weight = params[f"encoder.linear{k}.weight"]
        assert (k in square) == (weight.shape[0] == weight.shape[1]
                                 and np.array_equal(weight, np.eye(len(weight))))
        assert (f"encoder.linear{k}.bias" in params) == (k < len(layers) - 1)


def test_a_transformer_with_a_bag_starts_as_the_dan_of_its_table():
    dan = ModelConfig(embedding_dim=8, layers=[8])
    bag = replace(dan, encoder="transformer", bag=True, heads=2, hidden=12)
    table = np.random.default_rng(0).standard_normal((30, 8), np.float32)
    sentences = Packed(np.array([3, 1, 3, 4, 0, 7, 3, 2, 2, 2], np.int32), np.array([0, 4, 5, 10]))
    vectors = [embed(Model(initial_parameters(config, rows, np.random.default_rng(1)), config, 9),
                     sentences) for config, rows in ((dan, table), (bag, table / np.sqrt(8)))]
    assert np.abs(vectors[0] - vectors[1]).max() < 1e-6
    rows = [config_of({"encoder": "transformer", **more}).bigram_rows
            for more in ({"model.bag": False}, {})]
    assert rows == [0, config_of({}).bigram_rows]
