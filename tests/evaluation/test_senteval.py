"""SentEval's tasks: official files and their traps; which rows are learned from; tables."""

import sys
import warnings

import numpy as np
import pytest

from convsim_mini.common.cli import UserError
from convsim_mini.evaluation import __main__ as evaluation, senteval
from convsim_mini.evaluation.senteval import FILES, TransferTask, learn
from convsim_mini.inference.sentence_encoder import encoder_of
from convsim_mini.training.run import load_run

FORMS = {    # a line of each file, as published
    "SST-2": "{one} \t{label}\n", "SST-5": "{label} {one}\n", "TREC": "{label}:other {one}\n",
    "MRPC": "{label}\t1\t2\t{one}\t{other}\r\n", "SICK-E": "{k}\t{one}\t{other}\t3.5\t{label}\n"}
HEADERS = {"MRPC": "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n",
           "SICK-E": "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"}


def row(name, k):
    """The fields of a task's row k: label, two sentences with all traps of the originals."""
    accent = "\x85" if FILES[name].encoding == "latin-1" else "cr\u00e8me \u20ac"
    words = ("good", "bad", "film", "who")
    one, other = (f"a {words[(k + side) % 4]} \"{accent} {words[k % 3]}" for side in (0, 1))
    if "label" not in FILES[name].row and k == 3:
        one = ""                                              # an empty line is a row, too
    names = FILES[name].labels
    return {"k": k, "label": names[k % len(names)], "one": one, "other": other}


@pytest.fixture
def backend():
    """Where classifiers learn: in this process, if it does not say otherwise."""
    joblib = pytest.importorskip("joblib", reason="scikit-learn is not installed")
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    with joblib.parallel_config(backend="sequential"):
        yield joblib.parallel_config


@pytest.fixture
def small(backend, tmp_path, monkeypatch):
    """A folder with all tasks in miniature; official numbers of rows become 60, 61 and 62."""
    for name, files in FILES.items():
        monkeypatch.setattr(files, "counts", {
            file: 60 + place for place, file in enumerate(files.counts)})
        for file, count in files.counts.items():
            path = tmp_path / "senteval" / "downstream" / file
            path.parent.mkdir(parents=True, exist_ok=True)
            form = FORMS.get(name, "{one} \n")
            text = HEADERS.get(name, "") + "".join(
                form.format(**row(name, k)) for k in range(count))
            path.write_bytes(text.encode(files.encoding.removesuffix("-sig")))
    return tmp_path


def found_in(folder):
    """Task name → its files in a folder."""
    (found,) = senteval.find(folder).values()
    return found


def task_of(labels, *counts, sides=1):
    """A TransferTask of sentences or pairs; counts: rows of train, dev and test."""
    parts = np.repeat(["train", "dev", "test"], counts or (0, 0, len(labels)))
    return TransferTask(["x"] * sides * len(labels), labels, parts)


# ---------------------------------------------------------------- the official files

@pytest.mark.parametrize("name", FILES)
def test_a_task_of_the_official_shape_is_read_whole(small, name):
    task = senteval.read({name: found_in(small)[name]})[name]
    files, rows = FILES[name], [row(name, k) for count in FILES[name].counts.values()
                                for k in range(count)]
    sides = ["one", "other"] if name in ("MRPC", "SICK-E") else ["one"]
    assert task.texts == [one[side] for side in sides for one in rows]
    assert task.parts.tolist() == [part for part, count in zip(files.parts, files.counts.values())
                                   for _ in range(count)]
    if "label" not in files.row:
        assert task.labels.tolist() == [0] * 60 + [1] * 61 and task.texts.count("") == 2
    else:
        assert task.labels.tolist() == [files.labels.index(one["label"]) for one in rows]


@pytest.mark.parametrize("task, file, old, new, message", [
    ("MR", "MR/rt-polarity.neg", b"a good", b"\n", ": 61 rows, expected the official 60; fetch it"),
    ("CR", "CR/custrev.pos", b"\n \n", b"\n", ": 60 rows, expected the official 61"),
    ("MRPC", "MRPC/msr_paraphrase_test.txt", b"\n1\t", b"\n2\t", ", line 3: '2\\t1\\t2\\ta "),
    ("MRPC", "MRPC/msr_paraphrase_train.txt", b"\t2\t", b"\t", ", line 2: "),
    ("TREC", "TREC/TREC_10.label", b"NUM:", b"NAME:", ", line 6: 'NAME:"),
    ("SST-5", "SST/fine/sentiment-test", b"\xc3\xa8", b"\xe8", ": cannot be read as utf-8-sig"),
])
def test_what_is_wrong_with_a_file_is_said(small, task, file, old, new, message):
    path = small / "senteval" / "downstream" / file
    path.write_bytes(path.read_bytes().replace(old, new, 1))
    with pytest.raises(UserError) as raised:
        senteval.read({task: found_in(small)[task]})
    assert str(raised.value).startswith(f"{path}{message}"), raised.value


def test_without_data_or_scikit_learn_it_says_what_it_needs(tmp_path, small, monkeypatch):
    with pytest.raises(UserError, match="--data is missing: name the folder that holds MR and CR"):
        senteval.find(None)
    with pytest.raises(UserError, match="MR: lacks MR/rt-polarity.neg"):
        senteval.find(tmp_path / "MR")
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(UserError, match="scikit-learn is missing .*; .* -m pip install scikit-l"):
        senteval.find(small)


def test_the_official_files_have_the_official_counts(data_folder, backend):
    tasks = senteval.read(found_in(data_folder))
    classes = {name: np.bincount(task.labels).tolist() for name, task in tasks.items()}
    assert classes["MR"] == [5_331, 5_331] and classes["CR"] == [1_368, 2_407]
    assert classes["SUBJ"] == [5_000, 5_000] and classes["MPQA"] == [7_294, 3_312]
    assert classes["MRPC"] == [1_901, 3_900] and sum(classes["TREC"]) == 5_952
    assert [tasks[name].texts.count("") for name in ("MR", "CR", "SUBJ", "MPQA")] == [0, 4, 0, 3]
    assert len(tasks["TREC"].tested) == 500 and len(tasks["MRPC"].tested) == 1_725
    assert sum('"' in text for text in tasks["MRPC"].texts) > 1_000
    assert {*tasks} == {*FILES} - {"SICK-E"} or len(tasks["SICK-E"].tested) == 4_927


# ---------------------------------------------------------------- which rows are learned from

@pytest.fixture
def fits(backend, monkeypatch):
    """A list of (rows learned from, rows predicted), one per prediction in this process.

    The feature of row k is k.
    """
    from sklearn.linear_model import LogisticRegression
    calls = []

    class Spy(LogisticRegression):
        def fit(self, x, labels):
            self.seen, self.answer, self.classes_ = {*x[:, 0].tolist()}, labels[0], [0, 1]
            return self

        def predict(self, x):
            calls.append((self.seen, {*x[:, 0].tolist()}))
            return np.full(len(x), self.answer)

    monkeypatch.setattr("sklearn.linear_model.LogisticRegression", Spy)
    return calls


def test_no_row_is_judged_or_tested_by_a_classifier_that_saw_it(fits):
    rows, labels = np.arange(100.0)[:, None], np.arange(100) % 2
    learn(rows, task_of(labels))
    assert len(fits) == 10 * (4 * 10 + 1) and not any(train & tested for train, tested in fits)
    finals = [(train, tested) for train, tested in fits if len(train) == 90]
    assert len(finals) == 10 and set().union(*(tested for _, tested in finals)) == {*range(100)}
    for train, tested in fits:                                # strengths are chosen within train
        assert any(train | tested <= whole for whole, _ in finals) or (train, tested) in finals
        assert abs(2 * sum(int(k) % 2 for k in tested) - len(tested)) <= 1    # stratified
    fits.clear()
    learn(rows, task_of(labels, 60, 20, 20))
    train, dev, test = {*range(60)}, {*range(60, 80)}, {*range(80, 100)}
    assert fits == [(train, dev)] * 4 + [(train, test)]
    fits.clear()
    learn(rows, task_of(labels, 60, 0, 40))
    assert fits[-1] == (train, dev | test) and len(fits) == 41
    assert all(one | two == train and len(two) == 6 for one, two in fits[:-1])


def test_the_strength_is_the_best_one_on_dev(backend, monkeypatch):
    """λ/2 times the squared weights, beside the mean loss of the 100 that are learned from."""
    from sklearn.linear_model import LogisticRegression
    rng = np.random.default_rng(0)
    x = rng.standard_normal((400, 80))
    labels = (x[:, 0] + rng.standard_normal(400) > 0).astype(int)
    x[:, 0] *= 5                                              # a small weight, hardly penalised
    monkeypatch.setattr(senteval, "STRENGTHS", (1e-5, 0.3))   # the first one overfits
    models = [LogisticRegression(C=1 / (100 * strength), max_iter=1_000).fit(x[:100], labels[:100])
              for strength in senteval.STRENGTHS]
    right = [model.score(x[100:300], labels[100:300]) for model in models]
    assert right[1] > right[0] + 0.02
    found = learn(x, task_of(labels, 100, 200, 100))
    assert (found == models[1].predict(x[300:])).all()


def test_pairs_are_seen_as_differences_and_products(backend):
    u, v = np.random.default_rng(0).standard_normal((2, 60, 3))
    x = np.hstack([abs(u - v), u * v])
    labels = (x @ [1, -1, 1, 1, 1, -1] > 1).astype(int)
    found = learn(np.concatenate([u, v]), task_of(labels, 30, 10, 20, sides=2))
    assert (found == learn(x, task_of(labels, 30, 10, 20))).all()


def test_processes_find_what_one_process_finds_without_a_warning(backend, capfd, monkeypatch):
    """Results are bit-identical every time."""
    rng = np.random.default_rng(0)
    x, labels = 100 * rng.standard_normal((60, 30)), (np.arange(60) % 15 == 0).astype(int)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for task in (task_of(labels, 40, 10, 10), task_of(labels, 40, 0, 20), task_of(labels)):
            found = learn(x, task)
            with backend(backend="loky"):
                assert (learn(x, task) == found).all()
    assert not [one for one in caught if one.category is UserWarning]
    assert "Warning" not in capfd.readouterr().err


# ---------------------------------------------------------------- tables

def test_f1_the_mean_and_the_most_frequent_class_are_their_definitions():
    predicted, true = np.array([1, 1, 1, 0, 0]), np.array([1, 1, 0, 1, 0])
    tasks = {"MRPC": task_of(true), "CR": task_of(predicted)}
    one, other = dict.fromkeys(tasks, predicted), dict.fromkeys(tasks, true)
    figures = senteval.figures(tasks, one)
    assert {metric: value for metric, (value, *_) in figures.items()} == pytest.approx(
        {"mean": 80, "MRPC": 60, "CR": 100, "MRPC F1": 200 / 3})
    assert senteval.lead(tasks, one, other)[0] == pytest.approx(0)    # 60 and 100, 100 and 60
    assert senteval.figures({"MRPC": task_of(0 * true)}, {"MRPC": 0 * true})["MRPC F1"][0] == 0
    labels = np.array([1, 1, 0, 0, 0])
    assert senteval.most_frequent(task_of(labels, 3, 0, 2)).tolist() == [1, 1]
    assert senteval.most_frequent(task_of(labels)).tolist() == [0] * 5


@pytest.mark.long
def test_a_run_is_measured_on_all_tasks_there(small, run_copy, capsys):
    (small / "senteval" / "downstream" / "SICK" / "SICK_train.txt").unlink()
    evaluation.main([str(run_copy), "--data", str(small), "--on", "senteval"])
    title, _, header, _, *lines = capsys.readouterr().out.strip().splitlines()
    for row in ("trained", "most frequent class", "InferSent (Conneau 2018)"):
        assert row in header
    found = {line.split("  ")[0]: line.split() for line in lines}
    assert [*found][:10] == ["mean", *list(FILES)[:-1], "MRPC F1"] and "MR 121" in title
    assert found["MR"][-3:] == ["77.4", "81.1", "83.6"]
    assert f"\nSICK-E: not measured. {small} lacks SICK/SICK_train.txt or " in "\n".join(lines)


def test_a_task_learns_from_the_vectors_of_its_texts(trained, monkeypatch):
    run, seen = load_run(trained[0]), []
    monkeypatch.setattr(senteval, "learn", lambda vectors, task: seen.append(vectors))
    tasks = {"CR": task_of(np.arange(3))._replace(texts=["fudazi vobamu", "a", "setodi a a"]),
             "MR": task_of(np.arange(2))._replace(texts=["a", "b"])}
    senteval.scores(run, tasks, encoder_of(run).encode)
    senteval.scores(None, tasks, lambda texts: texts[::-1])
    assert seen[3] == ["b", "a"]
    np.testing.assert_allclose(seen[0], encoder_of(run).encode(tasks["CR"].texts), atol=1e-6)
