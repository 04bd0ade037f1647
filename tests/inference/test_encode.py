"""A trained run at work: vectors of sentences on their own, tables, search, files of any length."""

import gzip
import io
import os
import subprocess
import sys
import threading
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import convsim_mini
from convsim_mini.common import decompress
from convsim_mini import encode
from convsim_mini.core.text import tokenize
from convsim_mini.evaluation import sts
from convsim_mini.inference import rows
from convsim_mini.inference.sentence_encoder import encoder_of
from convsim_mini.core.model import embed
from convsim_mini.core.counting import word_directions
from convsim_mini.training.run import load_run

from conftest import ROOT, command


@pytest.fixture(scope="module")
def encoder(trained):
    return convsim_mini.load(trained[0])


SENTENCES = ["How old are you?", "What is your age?", "", "fudazi vobamu",
             "fudazi vobamu setodi " * 30, "\U0001f600", "a"]


def test_embeddings_are_float32_unit_vectors(encoder):
    vectors = encoder.encode(SENTENCES)
    assert vectors.shape == (7, 528) and vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-6)
    of_none = encoder.vocabulary.encode([])
    for none, numbers in ((encoder.encode([]), 528), (encoder.embed(of_none), 528),
                          (embed(encoder.model, of_none), 16)):
        assert none.shape == (0, numbers) and none.dtype == np.float32
    np.testing.assert_array_equal(encoder.encode("How old are you?"),
                                  encoder.encode(["How old are you?"])[0])


@given(st.lists(st.one_of(st.sampled_from(SENTENCES), st.text(max_size=20)), min_size=1,
                max_size=12), st.randoms(), st.integers(1, 13))
@settings(max_examples=50)
def test_an_embedding_does_not_depend_on_its_batch(trained, sentences, random, batch_size):
    encoder = convsim_mini.load(trained[0])
    together = encoder.encode(sentences)
    alone = np.concatenate([encoder.encode([sentence]) for sentence in sentences])
    order = list(range(len(sentences)))
    random.shuffle(order)
    shuffled = encoder.encode([sentences[k] for k in order], batch_size=batch_size)
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-6)
    np.testing.assert_allclose(shuffled, together[order], rtol=0, atol=1e-6)


def test_a_progress_bar_is_shown_when_asked_for(encoder, capsys):
    encoder.encode(["a"] * 10, batch_size=2, show_progress_bar=True)
    assert "encoding: 100%" in capsys.readouterr().err
    encoder.encode(["a"] * 10, batch_size=2)
    assert capsys.readouterr().err == ""


# ---------------------------------------------------------------- the half that counts words

def test_a_vector_is_the_learned_half_beside_the_weighted_count_of_all_words(trained, encoder):
    learned = convsim_mini.load(trained[0], words=False)
    assert learned.dimension == 16 and learned.word_weight == 0
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


def test_a_row_with_words_of_sts_is_the_cosine_of_what_encode_gives(trained, encoder):
    pairs = sts.read(sts.OWN)
    a, b = encoder.encode(pairs.sentences1), encoder.encode(pairs.sentences2)
    found = sts.scores(load_run(trained[0]), pairs)["trained, all but the top + words"]
    np.testing.assert_allclose(found, (a * b).sum(axis=1), atol=1e-6)


def test_a_run_whose_words_weigh_nothing_has_the_learned_half_alone(trained):
    run = load_run(trained[0])
    plain = replace(run.config, model=replace(run.config.model, word_weight=0.0))
    found = encoder_of(run._replace(config=plain))
    assert found.dimension == 16
    np.testing.assert_array_equal(found.encode(SENTENCES),
                                  convsim_mini.load(trained[0], words=False).encode(SENTENCES))


def test_the_command_leaves_the_words_out_where_asked(trained, tmp_path, capsys):
    encode.main([str(trained[0]), "--no_words", "fudazi", "a", "--out", str(tmp_path / "v.npy")])
    assert "2 vectors of 16 numbers" in capsys.readouterr().out
    np.testing.assert_array_equal(
        np.load(tmp_path / "v.npy"),
        convsim_mini.load(trained[0], words=False).encode(["fudazi", "a"]))


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


# ---------------------------------------------------------------- the command

def stdin(monkeypatch, data):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_sentences_are_compared(encoder, trained, capsys):
    encode.main([str(trained[0]), "How old are you?", "What is your age?"])
    header, _, *rows = capsys.readouterr().out.splitlines()
    cosine = encoder.encode("How old are you?") @ encoder.encode("What is your age?")
    assert header.split() == ["cosine", "1", "2"]
    assert [row.split()[-2:] for row in rows] == [["1.00", f"{cosine:.2f}"],
                                                  [f"{cosine:.2f}", "1.00"]]
    assert [row[:18].strip() for row in rows] == ["1 How old are you?", "2 What is your age"]


def test_lines_of_standard_input_are_compared(trained, monkeypatch, capsys):
    encode.main([str(trained[0]), "one", "two"])
    expected = capsys.readouterr().out
    stdin(monkeypatch, b"one\r\ntwo")
    encode.main([str(trained[0])])
    assert capsys.readouterr().out == expected


@pytest.mark.parametrize("words", [["--search", "FILE", "fudazi vobamu", "you?"],
                                   ["fudazi vobamu", "you?", "--search", "FILE"]])
def test_search_finds_the_nearest_lines_of_a_file(
        encoder, trained, tmp_path, monkeypatch, capsys, words):
    monkeypatch.setattr(rows, "CHUNK", 3)
    lines = [*SENTENCES[:2], "fudazi vobamu", *SENTENCES[2:], "fudazi vobamu"]
    (tmp_path / "lines.txt").write_text("\n".join(lines), encoding="utf-8")
    path = str(tmp_path / "lines.txt")
    encode.main([str(trained[0]), "--top", "4", *[path if a == "FILE" else a for a in words]])
    first, second, rest = capsys.readouterr().out.split("\n\n")
    assert rest == "" and second.startswith("you?\n")
    title, *hits = first.splitlines()
    assert title == "fudazi vobamu"
    # equal ones in order
    assert hits[:3] == [f"  1.000  line {number}: fudazi vobamu" for number in (3, 5, 9)]
    cosines = encoder.encode(lines) @ encoder.encode("fudazi vobamu")
    assert float(hits[3].split()[0]) == pytest.approx(np.sort(cosines)[-4], abs=1e-3)


@pytest.mark.parametrize("source", ["arguments", "file", "stdin"])
def test_vectors_are_written_as_npy(encoder, trained, tmp_path, monkeypatch, capsys, source):
    monkeypatch.setattr(rows, "CHUNK", 2)
    sentences = ["one", "two", "", "caf\u00e9", "one two three"]
    out = tmp_path / "out.npy"
    out.write_bytes(b"older")
    data = "\n".join(sentences).encode()
    (tmp_path / "in.txt").write_bytes(data)
    stdin(monkeypatch, data)
    options = {"arguments": sentences, "file": ["--file", str(tmp_path / "in.txt")],
               "stdin": []}[source]
    encode.main([str(trained[0]), *options, "--out", str(out)])
    vectors = np.load(out)
    assert vectors.dtype == np.float32 and vectors.flags.c_contiguous
    np.testing.assert_allclose(vectors, encoder.encode(sentences), rtol=0, atol=1e-6)
    assert "5 vectors of 528 numbers" in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "out.npy"]


def test_empty_standard_input_is_one_line(trained, tmp_path):
    done = subprocess.run([sys.executable, "-m", "convsim_mini.encode", trained[0]], input=b"",
                          capture_output=True, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)})
    assert done.returncode == 2
    assert (done.stderr.decode().rsplit("\r", 1)[-1]
            == "error: standard input: is empty; expected one or more lines of text\n")


@pytest.fixture
def refused(trained, tmp_path, monkeypatch, capsys):
    """A function: encode's options → its one line of error, in a folder with lines.txt.

    It leaves the folder as it was.
    """
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lines.txt").write_text("one\ntwo\n")
    (tmp_path / "lines.txt.gz").write_bytes(gzip.compress(b"one\ntwo\n"))
    (tmp_path / "link").symlink_to("lines.txt")
    (tmp_path / "hard").hardlink_to("lines.txt")

    def run(*options):
        before = {path: path.read_bytes() for path in tmp_path.iterdir()}
        with pytest.raises(SystemExit) as left:
            encode.main([str(trained[0]), *options])
        assert left.value.code == 2
        assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
        line = capsys.readouterr().err.rsplit("\r", 1)[-1]
        assert line.startswith("error: ") and line.count("\n") == 1
        return line
    return run


def test_a_file_is_not_replaced_by_its_own_vectors(refused, monkeypatch):
    told = "--out is the file that the sentences come from"
    for name in ("lines.txt", "link", "hard"):
        for out in ("lines.txt", "link", "hard"):
            assert f"{out}: {told}" in refused("--file", name, "--out", out)
    assert told in refused("--file", "lines.txt.gz", "--out", "lines.txt.gz")
    with open("lines.txt") as file:
        monkeypatch.setattr(sys, "stdin", file)
        assert told in refused("--out", "link")


def test_what_cannot_be_read_or_written_is_one_line(refused, monkeypatch):
    assert "no/v.npy: cannot be written" in refused("--file", "link", "--out", "no/v.npy")
    assert "none.txt: cannot be read" in refused("--file", "none.txt", "--out", "v.npy")
    for options in ([], ["--out", "v.npy"]):
        stdin(monkeypatch, b"")
        assert "standard input: is empty" in refused(*options)
        monkeypatch.setattr(sys, "stdin", None)               # what Python makes of `<&-`
        assert "standard input: is closed; give sentences" in refused(*options)
    monkeypatch.setattr(decompress, "MOST", 100_000)
    stdin(monkeypatch, b"one\r\ntwo\n" + b"x" * 200_000)
    told = "standard input: after line 2 there is a line of more than 100,000 bytes"
    assert told in refused("--out", "v.npy")


def test_a_pipe_is_a_file(encoder, trained, tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe")
    for number, options in enumerate((["--file"], ["one", "two", "--search"])):
        writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=[b"one\ntwo\n"])
        writer.start()
        encode.main([str(trained[0]), *options, str(tmp_path / "pipe")])
        writer.join()
        out = capsys.readouterr().out
        assert out.count("one") == out.count("two") == (1, 3)[number]


@pytest.mark.parametrize("options", [["--out", "out.npy"], ["--search", "lines.txt", "fudazi"]])
def test_memory_does_not_grow_with_the_file(trained, tmp_path, monkeypatch, options):
    monkeypatch.setattr(rows, "CHUNK", 500)
    monkeypatch.chdir(tmp_path)
    peaks = []
    for lines in (1_000, 20_000):
        (tmp_path / "lines.txt").write_text(
            "fudazi vobamu setodi and others that it does not know\n" * lines)
        source = [] if "--search" in options else ["--file", "lines.txt"]
        tracemalloc.start()
        encode.main([str(trained[0]), *source, *options])
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 300_000                      # the text alone is a megabyte longer


def test_the_package_is_used_from_elsewhere(trained, tmp_path):
    code = (f"import convsim_mini; "
            f"print(convsim_mini.load({str(trained[0])!r}).encode(['a', 'b']).shape)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=tmp_path,
                          env={"PYTHONPATH": str(ROOT)})
    assert done.stdout.decode().strip() == "(2, 528)", done.stderr


def test_the_command_by_name(trained, tmp_path):
    done = command("encode", trained[0], "fudazi", "a fudazi", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("cosine")


@pytest.mark.parametrize("sentences, number", [([1], 0), (["a", None], 1), (["a", "b", b"c"], 2),
                                               ([["a", "b"]], 0), (np.arange(2), 0)])
def test_what_is_no_string_is_refused_by_name(encoder, sentences, number):
    with pytest.raises(TypeError, match=f"sentence {number} is .*, expected a str"):
        encoder.encode(sentences)


@pytest.mark.parametrize("sentences", [None, b"bytes", 7, {"a": 1}],
                         ids=lambda sentences: type(sentences).__name__)
def test_what_is_no_list_is_refused_by_its_type(encoder, sentences):
    name = type(sentences).__name__
    with pytest.raises(TypeError, match=f"sentences is a {name}, expected a str or a list of str"):
        encoder.encode(sentences)


# ---------------------------------------------------------------- as sentence-transformers is used

@pytest.mark.parametrize("container", [tuple, np.array, iter])
def test_any_iterable_is_a_list(encoder, container):
    np.testing.assert_array_equal(encoder.encode(container(SENTENCES)), encoder.encode(SENTENCES))


def test_what_asks_for_numpy_is_accepted_and_what_asks_for_tensors_is_refused(encoder):
    plain = encoder.encode(SENTENCES)
    for options in ({"normalize_embeddings": False, "convert_to_numpy": True, "batch_size": 3},
                    {"normalize_embeddings": True, "show_progress_bar": None}):
        np.testing.assert_allclose(encoder.encode(SENTENCES, **options), plain, rtol=0, atol=1e-6)
    for options in ({"convert_to_tensor": True}, {"convert_to_numpy": False}):
        with pytest.raises(ValueError, match="NumPy arrays alone"):
            encoder.encode(SENTENCES, **options)
    for size in (0, -1):
        for sentences in (SENTENCES, []):
            with pytest.raises(ValueError, match=f"batch_size is {size}, expected 1 or more"):
                encoder.encode(sentences, batch_size=size)


def test_similarity_is_the_cosine_of_vectors_of_any_length(encoder):
    a, b = encoder.encode(SENTENCES[:2]), encoder.encode(SENTENCES[2:5])
    cosines = encoder.similarity(3 * a, b)
    assert cosines.shape == (2, 3) and cosines.dtype == np.float32
    np.testing.assert_allclose(cosines, a @ b.T, rtol=0, atol=1e-6)
    np.testing.assert_allclose(encoder.similarity(a[1], b), cosines[1:], rtol=0, atol=1e-6)
    np.testing.assert_allclose(encoder.similarity(a[1].tolist(), b[2]), cosines[1:, 2:], atol=1e-6)
    with pytest.raises(ValueError):
        encoder.similarity(a, b[:, 1:])


def test_an_encoder_says_what_it_is(encoder):
    assert repr(encoder) == "SentenceEncoder(encoder=dan, dimension=528, words=300, device=cpu)"


def test_a_single_sentence_shows_its_vector_and_says_what_else_there_is(trained, tmp_path):
    done = command("encode", trained[0], "hello fudazi", cwd=tmp_path)
    vector = convsim_mini.load(trained[0]).encode("hello fudazi")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"528 numbers of unit length, from {vector.min():.3f} to "
                                  f"{vector.max():.3f}: {vector[0]:.3f} ")
    assert "two sentences or more" in done.stdout and "--out FILE.npy" in done.stdout


def test_an_encoder_is_a_step_of_a_scikit_learn_pipeline(encoder):
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_score
    from sklearn.pipeline import make_pipeline, make_union

    texts = [f"{word} {k}" for k in range(10) for word in ("fudazi vobamu", "setodi")]
    steps = make_pipeline(encoder, LogisticRegression())
    assert cross_val_score(steps, texts, ["a", "b"] * 10, cv=2).tolist() == [1, 1]
    both = make_union(make_pipeline(encoder), encoder).fit_transform(texts)
    np.testing.assert_array_equal(both, np.hstack([encoder.encode(texts)] * 2))
