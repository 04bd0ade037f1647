"""A trained run at work: vectors of sentences on their own, tables, files of any length."""

import gzip
import io
import sys
import tracemalloc
from collections import UserDict
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tqdm import tqdm

import convsim_mini
from convsim_mini import encode
from convsim_mini.common.cli import UserError
from convsim_mini.core.text import tokenize
from convsim_mini.inference import rows, sentence_encoder
from convsim_mini.inference.projection import all_but_the_top, with_matrix
from convsim_mini.inference.sentence_encoder import SentenceEncoder, encoder_of, tell_cut
from convsim_mini.core.model import embed
from convsim_mini.core.counting import word_directions
from convsim_mini.training.run import load_run

SENTENCES = ["How old are you?", "What is your age?", "", "fudazi vobamu",
             "fudazi vobamu setodi " * 30, "\U0001f600", "a"]


@pytest.fixture(scope="module")
def encoder(trained):
    return sentence_encoder.load(trained[0])


def test_embeddings_are_float32_unit_vectors(encoder, monkeypatch):
    vectors = encoder.encode(SENTENCES)
    assert vectors.shape == (7, 528) and vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-6)
    packed, of_none = (encoder.vocabulary.encode(texts) for texts in (SENTENCES, []))
    for none, numbers in ((encoder.encode([]), 528), (encoder.embed(of_none), 528),
                          (embed(encoder.model, of_none), 16)):
        assert none.shape == (0, numbers) and none.dtype == np.float32
    np.testing.assert_array_equal(encoder.encode(SENTENCES[0]), encoder.encode(SENTENCES[:1])[0])
    monkeypatch.setattr(sentence_encoder, "AT_ONCE", 3)
    np.testing.assert_allclose(encoder.embed(packed), vectors, rtol=0, atol=1e-6)


@given(st.lists(st.one_of(st.sampled_from(SENTENCES), st.text(max_size=20)), min_size=1,
                max_size=12), st.randoms())
@settings(max_examples=50)
def test_an_embedding_does_not_depend_on_its_batch(encoder, sentences, random):
    together = encoder.encode(sentences)
    alone = np.concatenate([encoder.encode([sentence]) for sentence in sentences])
    order = list(range(len(sentences)))
    random.shuffle(order)
    shuffled = encoder.encode([sentences[k] for k in order])
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-6)
    np.testing.assert_allclose(shuffled, together[order], rtol=0, atol=1e-6)


def test_a_progress_bar_is_shown_when_asked_for(encoder, capsys, monkeypatch):
    monkeypatch.setattr(sentence_encoder, "progress", lambda *given, delay, **options: tqdm(
        *given, **options))                                   # not only after a second
    for shown in (True, False):
        encoder.encode(["a"], show_progress_bar=shown)
        assert ("encoding: 100%" in capsys.readouterr().err) == shown


@pytest.mark.parametrize("sentences, said", [
    (["a", None], "sentence 1 is None, expected a str"), ([["a"]], r"sentence 0 is \['a'\]"),
    (b"bytes", "sentence 0 is 98"), (None, "not iterable"), (7, "not iterable"),
    ({"text": ["a"]}, "is a table"), (UserDict(text=["a"]), "is a table"),
    (SimpleNamespace(columns=["text"]), "is a table")])
def test_what_is_no_string_is_refused_by_name(encoder, sentences, said):
    with pytest.raises(TypeError, match=said):
        encoder.encode(sentences)


def test_a_device_that_there_is_not_is_named(trained):
    for device in ("tpu", None, ""):
        with pytest.raises(UserError, match=f'device {device!r}: expected "cpu" or "gpu"'):
            convsim_mini.load(trained[0], device=device)


def test_any_iterable_is_a_list(encoder):
    for container in (tuple, np.array, iter):
        np.testing.assert_array_equal(encoder.encode(container(SENTENCES)),
                                      encoder.encode(SENTENCES))


def test_similarity_is_the_cosine_of_vectors_of_any_length(encoder):
    a, b = encoder.encode(SENTENCES[:2]), encoder.encode(SENTENCES[2:5])
    for scale in (3, 1e-30, 1e30):
        cosines = encoder.similarity(scale * a, b)
        assert cosines.shape == (2, 3) and cosines.dtype == np.float32
        np.testing.assert_allclose(cosines, a @ b.T, rtol=0, atol=1e-6)
    np.testing.assert_allclose(encoder.similarity(a[1].tolist(), b), cosines[1:], atol=1e-6)
    with pytest.raises(ValueError, match="shapes .1, 2, 528. and .*, expected"):
        encoder.similarity(a[None], b)


def test_an_encoder_is_a_step_of_a_scikit_learn_pipeline(encoder):
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, cross_val_score
    from sklearn.pipeline import make_pipeline

    texts = [f"{word} {k}" for k in range(10) for word in ("fudazi vobamu", "setodi")]
    labels, steps = ["a", "b"] * 10, make_pipeline(encoder, LogisticRegression())
    assert cross_val_score(steps, texts, labels, cv=2).tolist() == [1, 1]
    search = GridSearchCV(steps, {"logisticregression__C": [0.1, 1]}, cv=2).fit(texts, labels)
    assert search.predict(texts).tolist() == labels
    np.testing.assert_array_equal(encoder.transform(texts), encoder.encode(texts))


def test_what_a_transformer_cuts_is_counted(encoder, capsys):
    config = replace(encoder.model.config, encoder="transformer", max_tokens=3)
    lengths = np.array([3, 4, 2, 9])
    tell_cut(config, lengths)
    tell_cut(config, lengths[:1])
    tell_cut(encoder.model.config, lengths)
    assert capsys.readouterr().out == "2 of 4 sentences have more than 3 words and are cut there\n"


# ---------------------------------------------------------------- the half that counts words

def test_a_vector_is_the_learned_half_beside_the_weighted_count_of_all_words(trained, encoder):
    learned = convsim_mini.load(trained[0], words=0)
    assert learned.dimension == 16 and learned.word_weight == 0
    two = learned.model._replace(config=replace(learned.model.config, layers=[12, 16]))
    assert SentenceEncoder(two, learned.vocabulary).dimension == 16
    both, u = encoder.encode(SENTENCES), learned.encode(SENTENCES)
    np.testing.assert_allclose(both[:, :16] * np.sqrt(1.4), u, rtol=0, atol=1e-6)
    vocabulary = encoder.vocabulary
    directions = word_directions(vocabulary.probabilities())
    ids = [[vocabulary.id(token) for token in tokenize(text)] or [0] for text in SENTENCES]
    counts = np.array([directions[of_one].sum(axis=0) for of_one in ids])
    counts /= np.linalg.norm(counts, axis=1, keepdims=True)
    np.testing.assert_allclose(both[:, 16:] * np.sqrt(1.4 / 0.4), counts, rtol=0, atol=1e-6)
    np.testing.assert_allclose(both @ both.T, (u @ u.T + 0.4 * counts @ counts.T) / 1.4,
                               rtol=0, atol=1e-5)
    run = load_run(trained[0])
    plain = replace(run.config, model=replace(run.config.model, word_weight=0.0))
    np.testing.assert_array_equal(encoder_of(run._replace(config=plain)).encode(SENTENCES), u)


def test_the_learned_half_is_the_models_times_the_runs_matrix(trained):
    """Which takes out the direction in which all vectors agree most."""
    run, u = load_run(trained[0]), convsim_mini.load(trained[0], words=0).encode(SENTENCES)
    plain = embed(run.model, run.vocabulary.encode(SENTENCES))
    matrix = run.matrices["all_but_the_top"]
    expected = plain @ matrix
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(u, expected, rtol=0, atol=1e-5)
    with pytest.raises(UserError, match="holds no tuned matrix; make it: .*tune"):
        encoder_of(run, tuned=True)
    tuned = run._replace(matrices={"tuned": matrix})
    np.testing.assert_array_equal(encoder_of(tuned, True, False).encode(SENTENCES), u)
    for weight in (-0.1, float("nan"), float("inf")):
        with pytest.raises(UserError, match="words .*: expected a weight of 0 or more"):
            encoder_of(run, words=weight)
    assert np.abs(encoder_of(tuned, False, False).encode(SENTENCES) - plain).max() < 1e-6
    assert with_matrix(run.model, None) is run.model
    vectors = np.array([[3, 4], [3, 4.1]])                    # they agree most along (3, 4)/5
    left = vectors @ all_but_the_top(vectors)
    assert abs(left @ [0.6, 0.8]).max() < 0.05 and (left * vectors).sum() > 1e-4


# ---------------------------------------------------------------- the command

def stdin(monkeypatch, data):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


@pytest.mark.parametrize("options", [[], ["--search", "lines.txt"], ["--index", "index"]])
def test_a_sentence_whose_words_are_all_unknown_is_named(
        trained, tmp_path, monkeypatch, capsys, options):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lines.txt").write_text("zucchini quiche.\nfudazi\n")
    encode.main([str(trained[0]), "--file", "lines.txt", "--index", "index"])
    assert "known" not in capsys.readouterr().err             # of lines to search nothing is said
    encode.main([str(trained[0]), "zucchini quiche.", "fudazi quiche", ".", "\u2603 !", *options])
    told = [line for line in capsys.readouterr().err.split("\n") if "known" in line]
    assert told == [f'"{text}": 0 of 2 words are known, so its vector says little'
                    for text in ("zucchini quiche.", "\u2603 !")]    # the point is known


def test_sentences_are_compared_also_those_of_standard_input(encoder, trained, monkeypatch, capsys):
    encode.main([str(trained[0]), "How old are you?", "What is your age?"])
    out = capsys.readouterr().out
    header, _, *rows = out.splitlines()
    cosine = encoder.encode("How old are you?") @ encoder.encode("What is your age?")
    assert header.split() == ["cosine", "1", "2"]
    assert [row.split()[-2:] for row in rows] == [["1.00", f"{cosine:.2f}"],
                                                  [f"{cosine:.2f}", "1.00"]]
    assert [row[:18].strip() for row in rows] == ["1 How old are you?", "2 What is your age"]
    stdin(monkeypatch, b"How old are you?\r\nWhat is your age?")
    encode.main([str(trained[0])])
    assert capsys.readouterr().out == out


def test_a_single_sentence_shows_its_vector(encoder, trained, capsys):
    encode.main([str(trained[0]), "hello fudazi"])
    begin, shown = capsys.readouterr().out.split("\n")[0].removesuffix(" …").split(": ")
    assert begin == "528 numbers of unit length"
    shown = np.array(shown.split(), float)
    np.testing.assert_allclose(shown, encoder.encode("hello fudazi")[:8], atol=5.1e-4)


@pytest.mark.parametrize("source", ["arguments", "file", "stdin"])
def test_vectors_are_written_as_npy(encoder, trained, tmp_path, monkeypatch, capsys, source):
    monkeypatch.setattr(rows, "CHUNK", 2)
    sentences = ["one", "two", "", "caf\u00e9", "one two three"]
    out = tmp_path / "out.npy"
    out.write_bytes(b"older")
    (tmp_path / "in.txt").write_bytes("\n".join(sentences).encode())
    stdin(monkeypatch, "\n".join(sentences).encode())
    options = {"arguments": sentences, "file": ["--file", str(tmp_path / "in.txt")],
               "stdin": []}[source]
    encode.main([str(trained[0]), *options, "--out", str(out)])
    vectors = np.load(out)
    assert vectors.dtype == np.float32 and vectors.flags.c_contiguous
    np.testing.assert_allclose(vectors, encoder.encode(sentences), rtol=0, atol=1e-6)
    assert "5 vectors of 528 numbers" in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "out.npy"]
    encode.main([str(trained[0]), "--words", "0", *sentences, "--out", str(out)])
    learned = convsim_mini.load(trained[0], words=0).encode(sentences)
    np.testing.assert_allclose(np.load(out), learned, rtol=0, atol=1e-6)    # batches of other sizes


@pytest.mark.parametrize("options, told", [
    ("--file lines.txt --out lines.txt", "--out is the file of --file"),
    ("--file lines.txt --out no/v.npy", "no/v.npy: cannot be written"),
    ("one --search lines.txt --index i", "--index: not allowed with argument --search"),
    ("", "standard input: is empty")])
def test_what_cannot_be_done_is_one_line(trained, tmp_path, monkeypatch, capsys, options, told):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lines.txt").write_text("one\n")
    stdin(monkeypatch, b"")
    with pytest.raises(SystemExit) as left:
        encode.main([str(trained[0]), *options.split()])
    line = capsys.readouterr().err.rsplit("\r", 1)[-1]
    assert left.value.code == 2 and told in line
    assert line.startswith("error: ") and line.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["lines.txt"]
    assert (tmp_path / "lines.txt").read_text() == "one\n"


def test_memory_does_not_grow_with_a_file_whose_vectors_are_written(
        trained, tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "CHUNK", 500)
    monkeypatch.chdir(tmp_path)
    peaks = []
    for lines in (1_000, 20_000):
        (tmp_path / "a.gz").write_bytes(gzip.compress(
            b"fudazi vobamu setodi and others that it does not know\n" * lines))
        tracemalloc.start()
        encode.main([str(trained[0]), "--file", "a.gz", "--out", "out.npy"])
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 300_000                      # the text alone is a megabyte longer
