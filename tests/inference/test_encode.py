"""Using a trained run: vectors of single sentences, tables, and files of any length."""

import gzip
import importlib
import io
import multiprocessing
import pickle
import sys
import tracemalloc
from collections import UserDict
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import convsim_mini
from convsim_mini import encode
from convsim_mini.common.cli import UserError
from convsim_mini.export import __main__ as export
from convsim_mini.inference.rows import rows_of_texts
from convsim_mini.inference.sentence_encoder import encoder_of
from convsim_mini.inference.stored import build_index
from convsim_mini.core.model import embed, encoder_forward, respond
from convsim_mini.training.run import load_run

SENTENCES = ["How old are you?", "What is your age?", "", "fudazi vobamu",
             "fudazi vobamu setodi " * 30, "\U0001f600", "a"]


def test_embeddings_are_float32_unit_vectors(encoder):
    vectors = encoder.encode(SENTENCES)
    assert vectors.shape == (7, 16) and vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-6)
    packed, of_none = (encoder.vocabulary.encode(texts) for texts in (SENTENCES, []))
    for none in (encoder.encode([]), embed(encoder.model, of_none),
                 encoder_forward(encoder.model, of_none)[0]):
        assert none.shape == (0, 16) and none.dtype == np.float32
    np.testing.assert_array_equal(encoder.encode(SENTENCES[0]), encoder.encode(SENTENCES[:1])[0])
    np.testing.assert_allclose(embed(encoder.model, packed, 3), vectors, rtol=0, atol=1e-6)


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


@pytest.mark.parametrize("sentences, said", [
    (["a", {"a": 1}], "sentence 1: dict {'a': 1} is not text; expected a str or a number"),
    ([b"a"], "sentence 0: bytes b'a' is"), (None, "NoneType; expected texts"), (7, "int; ex"),
    (b"bytes", "bytes; expected texts"), ({"text": ["a"]}, "dict; expected texts"),
    (np.zeros(16, np.float32), "ndarray; expected texts"),
    (UserDict(text=["a"]), "column of a table"), (SimpleNamespace(columns=["text"]), "of a table")])
def test_what_is_no_string_is_refused_by_name(encoder, sentences, said):
    with pytest.raises(TypeError, match=said):
        encoder.encode(sentences)


def test_numbers_are_their_digits_and_what_is_missing_is_empty(encoder):
    found = encoder.encode([None, float("nan"), 4711.0, ["a", {"type": "text", "text": "b"}]])
    np.testing.assert_array_equal(found, encoder.encode(iter(["", "", "4711", "a b"])))


def test_a_device_that_there_is_not_is_named(trained):
    for device in ("tpu", None, ""):
        with pytest.raises(UserError, match=f'device {device!r}: expected "cpu" or "gpu"'):
            convsim_mini.load(trained[0], device=device)


def test_similarity_is_the_cosine_of_vectors_of_any_length(encoder):
    a, b = encoder.encode(SENTENCES[:2]), encoder.encode(SENTENCES[2:5])
    for scale in (3, 1e-30, 1e30):
        cosines = encoder.similarity(scale * a, b)
        assert cosines.shape == (2, 3) and cosines.dtype == np.float32
        np.testing.assert_allclose(cosines, a @ b.T, rtol=0, atol=1e-6)
    np.testing.assert_allclose(encoder.similarity(a[1].tolist(), b), cosines[1:], atol=1e-6)


def test_an_encoder_is_any_step_of_scikit_learns(encoder):
    pandas = pytest.importorskip("pandas")
    compose = pytest.importorskip("sklearn.compose", reason="scikit-learn is not installed")
    from sklearn.frozen import FrozenEstimator
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import Pipeline, make_pipeline, make_union

    texts, labels = [f"{word} {k}" for k in range(10) for word in ("fudazi", "setodi")], [0, 1] * 10
    search = GridSearchCV(make_pipeline(encoder, LogisticRegression()),
                          {"logisticregression__C": [0.1, 1]}, cv=2).fit(texts, labels)
    assert search.predict(texts).tolist() == labels
    texts = ["fudazi vobamu", "setodi", "vobamu"]
    expected = encoder.encode(texts)
    for last in (make_pipeline(encoder), make_pipeline(make_pipeline(encoder)), make_union(encoder),
                 make_pipeline(FrozenEstimator(encoder)), Pipeline([("a", encoder), ("b", None)])):
        np.testing.assert_array_equal(last.fit(texts).transform(texts), expected)
        assert last._repr_html_()
    table = pandas.DataFrame({"question": texts, "votes": [1, 2, 3]}, index=[7, 8, 9])
    columns = compose.make_column_transformer((encoder, "question"), ("passthrough", ["votes"]))
    frame = columns.set_output(transform="pandas").fit_transform(table)
    names = [f"sentenceencoder__meaning{k}" for k in range(16)]
    assert [*frame.columns] == [*names, "passthrough__votes"]
    np.testing.assert_array_equal(frame.to_numpy(np.float32)[:, :16], expected)
    own = make_pipeline(encoder).set_output(transform="pandas").fit_transform(texts)
    assert [*own.columns] == [f"meaning{k}" for k in range(16)]
    np.testing.assert_array_equal(own.to_numpy(), expected)
    assert isinstance(encoder.set_output(transform="default").transform(texts), np.ndarray)


@pytest.mark.parametrize("kind", ["encoder", "index", "exported"])
def test_a_public_object_can_be_copied_forked_and_shared_and_keeps_no_text(
        kind, trained, tmp_path, monkeypatch):
    one = convsim_mini.load(trained[0])
    if kind == "index":
        build_index(one, rows_of_texts(SENTENCES), tmp_path / "index")
        one = one.index(tmp_path / "index")
    if kind == "exported":
        export.write_model(tmp_path, one)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "model", raising=False)
        one = importlib.import_module("model").load()

    def use(one):
        texts = ["fudazi hunter2zzqx"]
        return [hit[:4] for hit in one.search(texts)[0]] if kind == "index" else one.encode(texts)

    expected = use(one)
    pickled = pickle.dumps(one)
    assert b"hunter2zzqx" not in pickled
    with ThreadPoolExecutor(2) as threads:
        for found in [use(pickle.loads(pickled)), use(deepcopy(one)), *threads.map(use, [one] * 8)]:
            np.testing.assert_array_equal(found, expected)
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    context.Process(target=lambda: queue.put(use(one))).start()
    np.testing.assert_array_equal(queue.get(), expected)


def test_vectors_are_the_models_own_or_times_the_tuned_matrix(trained):
    run = load_run(trained[0])
    packed = run.vocabulary.encode(SENTENCES)
    assert packed.lengths[2] == 1                             # of "": run trained on the corpus
    plain = embed(run.model, packed)
    np.testing.assert_allclose(encoder_of(run).encode(SENTENCES), plain, rtol=0, atol=1e-6)
    for unit in (True, False):                                # with False, not of unit length
        config = replace(run.model.config, unit_response=unit)
        model = run.model._replace(config=config)
        found = encoder_of(run._replace(model=model)).encode(SENTENCES, as_responses=True)
        np.testing.assert_allclose(found, respond(model, plain), rtol=0, atol=1e-6)
    with pytest.raises(UserError, match="has no tuned matrix; make one: .*tune"):
        encoder_of(run, tuned=True)
    tuned = run._replace(tuned=np.random.default_rng(0).standard_normal((16, 16)).astype("f4"))
    np.testing.assert_allclose(encoder_of(tuned).encode(SENTENCES), plain, rtol=0, atol=1e-6)
    expected = plain @ tuned.tuned
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(encoder_of(tuned, True).encode(SENTENCES), expected, atol=1e-5)


# ---------------------------------------------------------------- the command

def stdin(monkeypatch, data):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(data))))


@pytest.mark.parametrize("options", [[], ["--search", "lines.txt"], ["--index", "index"]])
def test_a_sentence_whose_words_are_all_unknown_is_named(
        trained, tmp_path, monkeypatch, capsys, options):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lines.txt").write_text("\u2603 \u2604\nfudazi\n")
    encode.main([str(trained[0]), "--file", "lines.txt", "--index", "index"])
    assert "known" not in capsys.readouterr().err             # searched lines are not reported
    encode.main([str(trained[0]), "\u2603 \u2604", "\u2603 fudazi", ".", "", *options])
    told = [line for line in capsys.readouterr().err.split("\n") if "known" in line]
    assert told == [f'"{text}": none of its words is known, so its vector says little'
                    for text in ("\u2603 \u2604", "")]


def test_sentences_are_compared_also_those_of_standard_input(encoder, trained, monkeypatch, capsys):
    encode.main([str(trained[0]), "How old are you?", "What is your age?"])
    out = capsys.readouterr().out
    header, _, *rows = out.splitlines()
    score = encoder.scores(["How old are you?"], ["What is your age?"])[0, 0]
    assert header.split() == "cosine of meaning + 1 · cosine of words 1 2".split()
    assert [row.split()[-2:] for row in rows] == [["2.00", f"{score:.2f}"],
                                                  [f"{score:.2f}", "2.00"]]
    assert [row[:18].strip() for row in rows] == ["1 How old are you?", "2 What is your age"]
    stdin(monkeypatch, b"How old are you?\r\nWhat is your age?")
    encode.main([str(trained[0])])
    assert capsys.readouterr().out == out
    encode.main([str(trained[0]), "hello fudazi"])            # a single one shows its vector
    shown = np.array(capsys.readouterr().out.split(), float)
    np.testing.assert_allclose(shown, encoder.encode("hello fudazi"), atol=5.1e-4)


def test_similarity_is_meaning_plus_words_each_counted_once(encoder):
    """By a loop over the pieces; an unknown word is like no other."""
    vocabulary = encoder.vocabulary
    texts = ["fudazi vobamu fudazi", "vobamu setodi ы", "ы", ""]
    weight = [0, *(3e-3 / (3e-3 + p) for p in vocabulary.probabilities()[1:])]
    ids = [{*vocabulary.encode([text]).ids.tolist()} - {0} for text in texts]
    for words in (0.0, 0.7, 1.0):
        found = encoder.scores(texts, texts[:2], words)
        assert found.shape == (4, 2) and found.dtype == np.float32
        for i, one in enumerate(ids):
            for j, other in enumerate(ids[:2]):
                squares = [sum(weight[k] ** 2 for k in some) for some in (one & other, one, other)]
                cosine = squares[0] / np.sqrt(squares[1] * squares[2]) if one and other else 0
                meaning = encoder.encode(texts[i]) @ encoder.encode(texts[j])
                assert found[i, j] == pytest.approx(meaning + words * cosine, abs=1e-5)


@pytest.mark.parametrize("replies", [False, True])
@pytest.mark.parametrize("source", ["arguments", "file", "stdin"])
def test_vectors_are_written_as_npy(
        encoder, trained, tmp_path, monkeypatch, capsys, source, replies):
    monkeypatch.setattr(encode, "CHUNK", 2)
    sentences = ["one", "two", "", "caf\u00e9", "one two three"]
    out = tmp_path / "out.npy"
    out.write_bytes(b"\x93NUMPY\2 older")
    (tmp_path / "in.txt").write_bytes("\n".join(sentences).encode())
    stdin(monkeypatch, "\n".join(sentences).encode())
    options = {"arguments": sentences, "file": ["--file", str(tmp_path / "in.txt")],
               "stdin": []}[source]
    encode.main([str(trained[0]), *options, "--out", str(out), *["--replies"] * replies])
    vectors = np.load(out)
    assert vectors.dtype == np.float32 and vectors.flags.c_contiguous
    right = encoder.encode(sentences, as_responses=replies)
    np.testing.assert_allclose(vectors, right, rtol=0, atol=1e-6)
    assert "5 vectors of 16 dimensions" in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "out.npy"]


def test_memory_does_not_grow_with_a_file_whose_vectors_are_written(
        trained, tmp_path, monkeypatch):
    monkeypatch.setattr(encode, "CHUNK", 500)
    monkeypatch.chdir(tmp_path)
    peaks = []
    for lines in (1_000, 20_000):
        (tmp_path / "a.gz").write_bytes(gzip.compress(
            b"fudazi vobamu setodi and others that it does not know\n" * lines))
        tracemalloc.start()
        encode.main([str(trained[0]), "--file", "a.gz", "--out", "out.npy"])
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 300_000                      # the text itself is 1 MB longer
