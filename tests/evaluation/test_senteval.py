"""SentEval's tasks: official files and their traps; which rows are learned from; tables."""

import inspect
import math
import os
import sys
import warnings

import numpy as np
import pytest

from convsim_mini.common.cli import UserError
from convsim_mini.core.text import tokenize
from convsim_mini.evaluation import __main__ as evaluation, baselines, senteval
from convsim_mini.evaluation.metrics import correlation, pearson, spearman
from convsim_mini.evaluation.senteval import FILES, TransferTask
from convsim_mini.inference.sentence_encoder import encoder_of
from convsim_mini.training.run import load_run

FORMS = {    # a line of each file, as published
    "SST-2": "{one} \t{label}\n", "SST-5": "{label} {one}\n", "TREC": "{label}:other {one}\n",
    "MRPC": "{label}\t1\t2\t{one}\t{other}\r\n",
    "SICK-E": "{k}\t{one}\t{other}\t{score}\t{label}\n",
    "STS-B": "main-news\tfile\t2012\t1\t{score}\t{one}\t{other}\tfree\n"}
PLACES = {"STS-B": "senteval/downstream/STS/STSBenchmark"}
HEADERS = {"MRPC": "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n",
           "SICK-E": "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"}


def row(name, k):
    """The fields of a task's row k: label, score, two sentences with all traps of the originals."""
    accent = "\x85" if FILES[name].encoding == "latin-1" else "cr\u00e8me \u20ac"
    words = ("good", "bad", "film", "who")
    one, other = (f"a {words[(k + side) % 4]} \"{accent} {words[k % 3]}" for side in (0, 1))
    if "label" not in FILES[name].row and k == 3:
        one = ""                                              # an empty line is a row, too
    names, (low, high) = FILES[name].labels, FILES[name].grades or (1, 5)
    return {"k": k, "label": names[k % len(names)] if names else "NEUTRAL",
            "score": low + k % (2 * (high - low) + 1) / 2, "one": one, "other": other}


@pytest.fixture
def classifiers():
    """The module, whose classifiers learn in this process."""
    joblib = pytest.importorskip("joblib", reason="scikit-learn is not installed")
    from convsim_mini.evaluation import classifiers
    with joblib.parallel_config(backend="sequential"):
        yield classifiers


@pytest.fixture
def processes(classifiers):
    """A function → a context in which classifiers learn in processes, as in the command."""
    from joblib import parallel_config
    return lambda: parallel_config(backend="loky")


@pytest.fixture
def small(classifiers, tmp_path, monkeypatch):
    """A folder with all tasks in miniature; official numbers of rows become 60, 61 and 62."""
    for name, files in FILES.items():
        monkeypatch.setattr(files, "counts", {
            file: 60 + place for place, file in enumerate(files.counts)})
        for file, count in files.counts.items():
            path = tmp_path / PLACES.get(name, "senteval/downstream") / file
            path.parent.mkdir(parents=True, exist_ok=True)
            if name != "SICK-R":                              # it shares SICK-E's files
                form = FORMS.get(name, "{one} \n")
                text = HEADERS.get(name, "") + "".join(
                    form.format(**row(name, k)) for k in range(count))
                path.write_bytes(text.encode(files.encoding.removesuffix("-sig")))
    return tmp_path


def found_in(folder):
    """Task name → its files in a folder."""
    (found,) = senteval.find(folder).values()
    return found


def task_of(labels, *counts, sides=1, **settings):
    """A TransferTask of sentences or pairs; counts: rows of train, dev and test."""
    parts = np.repeat(["train", "dev", "test"], counts or (0, 0, len(labels)))
    return TransferTask(["x"] * sides * len(labels), labels, parts, **settings)


# ---------------------------------------------------------------- the official files

@pytest.mark.parametrize("name", FILES)
def test_a_task_of_the_official_shape_is_read_whole(small, name):
    task = senteval.read({name: found_in(small)[name]})[name]
    files, rows = FILES[name], [row("SICK-E" if name == "SICK-R" else name, k)
                                for count in FILES[name].counts.values() for k in range(count)]
    sides = ["one", "other"] if name in ("MRPC", "SICK-E", "SICK-R", "STS-B") else ["one"]
    assert task.texts == [one[side] for side in sides for one in rows]
    assert not task.on_dev
    assert task.parts.tolist() == [part for part, count in zip(files.parts, files.counts.values())
                                   for _ in range(count)]
    if len(sides) == 1 and "label" not in files.row:
        assert task.labels.tolist() == [0] * 60 + [1] * 61 and task.texts.count("") == 2
        assert (task.parts == "test").all()
    else:
        assert task.labels.tolist() == [files.labels.index(one["label"]) if files.labels
                                        else one["score"] for one in rows]
    assert len(task.tested) == (121 if name in ("MR", "CR", "SUBJ", "MPQA") else 60 + len(
        files.counts) - 1)


@pytest.mark.parametrize("task, file, old, new, message", [
    ("MR", "MR/rt-polarity.neg", b"a good", b"\n", ": 61 rows, expected the official 60; fetch it"),
    ("CR", "CR/custrev.pos", b"\n \n", b"\n", ": 60 rows, expected the official 61"),
    ("MRPC", "MRPC/msr_paraphrase_test.txt", b"\n1\t", b"\n2\t", ', line 3: label "2", expected'),
    ("MRPC", "MRPC/msr_paraphrase_train.txt", b"\t2\t", b"\t", ", line 2: no sentence2, expected"),
    ("TREC", "TREC/TREC_10.label", b"NUM:", b"NAME:", ', line 6: label "NAME", expected a label i'),
    ("SST-2", "SST/binary/sentiment-dev", b"\t", b" ", ", line 1: no label"),
    ("SST-5", "SST/fine/sentiment-test", b"\xc3\xa8", b"\xe8", ": cannot be read as utf-8-sig"),
    ("SICK-R", "SICK/SICK_trial.txt", b"\t1.5\t", b"\t0.9\t", ', line 3: label "0.9", expected'),
    ("SICK-R", "SICK/SICK_trial.txt", b"\t5.0\t", b"\t5.1\t", ', line 10: label "5.1"'),
    ("STS-B", "STS/STSBenchmark/sts-dev.csv", b"\t1.0\t", b"\tnan\t", ', line 3: label "nan"'),
])
def test_what_is_wrong_with_a_file_is_said(small, task, file, old, new, message):
    path = small / "senteval" / "downstream" / file
    path.write_bytes(path.read_bytes().replace(old, new, 1))
    with pytest.raises(UserError) as raised:
        senteval.read({task: found_in(small)[task]})
    assert str(raised.value).startswith(f"{path}{message}"), raised.value


def test_where_test_is_missing_dev_is_measured_and_only_train_chooses(small, classifiers):
    rng = np.random.default_rng(0)
    folder = small / "senteval" / "downstream"
    (folder / "SST" / "fine" / "sentiment-test").unlink()
    (folder / "STS" / "STSBenchmark" / "sts-test.csv").unlink()
    (folder / "TREC" / "TREC_10.label").unlink()              # TREC has no dev
    found = found_in(small)
    assert FILES.keys() - found.keys() == {"TREC"}
    for name, task in senteval.read({name: found[name] for name in ("SST-5", "STS-B")}).items():
        assert task.on_dev and task.parts.tolist() == ["train"] * 60 + ["test"] * 61
        vectors = rng.standard_normal((len(task.texts), 8))
        said = classifiers.learn(vectors, task)
        other = task._replace(labels=np.where(task.parts == "test", task.labels[::-1], task.labels))
        assert (classifiers.learn(vectors, other) == said).all()
        assert f"{name} dev" in senteval.figures({name: task}, {name: said})
        assert ("TREC: not measured. folder lacks TREC/train_5500.label or TREC/TREC_10"
                in senteval.note("folder", {name: task}, {}))


def test_without_data_or_scikit_learn_it_says_what_it_needs(tmp_path, monkeypatch):
    with pytest.raises(UserError, match="--data is missing: name the folder that holds MR and CR"):
        senteval.find(None)
    with pytest.raises(UserError, match=f"{tmp_path}: lacks MR/rt-polarity.neg"):
        senteval.find(tmp_path)
    paths = [tmp_path / "stsbenchmark" / f"sts-{part}.csv" for part in ("train", "dev")]
    paths[0].parent.mkdir()                                   # where other evaluations expect it
    for path in paths:
        path.write_text("")
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(UserError, match="scikit-learn is missing .*; .* -m pip install scikit-l"):
        senteval.find(tmp_path)
    monkeypatch.setitem(sys.modules, "sklearn", sys)
    assert found_in(tmp_path) == {"STS-B": {path.name: path for path in paths}}


def test_the_official_files_have_the_official_counts(data_folder, classifiers):
    tasks = senteval.read(found_in(data_folder))
    assert list(tasks) == list(FILES)
    classes = {name: np.bincount(task.labels).tolist() for name, task in tasks.items()
               if FILES[name].labels}
    assert classes["MR"] == [5_331, 5_331] and classes["CR"] == [1_368, 2_407]
    assert classes["SUBJ"] == [5_000, 5_000] and classes["MPQA"] == [7_294, 3_312]
    assert classes["MRPC"] == [1_901, 3_900] and sum(classes["TREC"]) == 5_952
    assert [tasks[name].texts.count("") for name in ("MR", "CR", "SUBJ", "MPQA")] == [0, 4, 0, 3]
    assert len(tasks["TREC"].tested) == 500 and len(tasks["MRPC"].tested) == 1_725
    assert sum('"' in text for text in tasks["MRPC"].texts) > 1_000
    assert classes["SICK-E"] == [739, 2_818, 1_443] or not tasks["SICK-E"].on_dev
    assert (tasks["STS-B"].parts == "train").sum() == 5_749
    for name, low, high in (("SICK-R", 1, 5), ("STS-B", 0, 5)):
        assert (tasks[name].labels.min(), tasks[name].labels.max()) == (low, high)


# ---------------------------------------------------------------- which rows are learned from

@pytest.fixture
def fits(classifiers, monkeypatch):
    """A list of (rows learned from, rows predicted), one per prediction in this process.

    The feature of row k is k.
    """
    calls = []

    class Spy(classifiers.Classifier):
        def fit(self, x, labels):
            self.seen, self.answer = {*x[:, 0].tolist()}, labels[0]
            return self

        def predict(self, x):
            calls.append((self.seen, {*x[:, 0].tolist()}))
            return np.full(len(x), self.answer)

    monkeypatch.setattr(classifiers, "Classifier", Spy)
    return calls


def test_no_row_is_judged_or_tested_by_a_classifier_that_saw_it(classifiers, fits):
    rows, labels = np.arange(100.0)[:, None], np.arange(100) % 2
    classifiers.learn(rows, task_of(labels))
    assert len(fits) == 10 * (4 * 10 + 1) and not any(train & tested for train, tested in fits)
    finals = [(train, tested) for train, tested in fits if len(train) == 90]
    assert len(finals) == 10 and set().union(*(tested for _, tested in finals)) == {*range(100)}
    for train, tested in fits:                                # strengths are chosen within train
        assert any(train | tested <= whole for whole, _ in finals) or (train, tested) in finals
        assert abs(2 * sum(int(k) % 2 for k in tested) - len(tested)) <= 1    # stratified
    fits.clear()
    classifiers.learn(rows, task_of(labels, 60, 20, 20))
    train, dev, test = {*range(60)}, {*range(60, 80)}, {*range(80, 100)}
    assert fits == [(train, dev)] * 4 + [(train, test)]
    fits.clear()
    classifiers.learn(rows, task_of(labels, 60, 0, 40))
    assert fits[-1] == (train, dev | test) and len(fits) == 41
    assert all(one | two == train and len(two) == 6 for one, two in fits[:-1])


def test_processes_find_what_one_process_finds_and_a_killed_one_ends_the_command(
        classifiers, processes, monkeypatch):
    """Results are bit-identical every time."""
    x, labels = np.random.default_rng(0).standard_normal((90, 6)), np.arange(90) % 3
    monkeypatch.setattr(classifiers, "STRENGTHS", (1e-3, 1e-2))
    for task in (task_of(labels), task_of(labels, 50, 20, 20), task_of(labels / 2, 50, 0, 40)):
        found = classifiers.learn(x, task)
        with processes():
            assert (classifiers.learn(x, task) == found).all()

    class Killed(classifiers.Classifier):
        def fit(self, x, labels):
            os._exit(9)

    monkeypatch.setattr(classifiers, "Classifier", Killed)
    with processes(), pytest.raises(UserError, match="a worker process was killed"):
        classifiers.learn(x, task_of(labels))


@pytest.mark.parametrize("scored", [False, True])
def test_the_strength_is_the_best_one_on_dev(classifiers, monkeypatch, scored):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((400, 80))
    labels = (x[:, 0] + rng.standard_normal(400) > 0).astype(int)
    x[:, 0] *= 5                                              # a small weight, hardly penalised
    if scored:
        labels = np.clip(2.5 + x[:, 0] / 5 + rng.normal(0, 0.3, 400), 1, 4)
    strengths = (1e-5, 0.3)                                   # the first one overfits
    monkeypatch.setattr(classifiers, "STRENGTHS", strengths)
    models = [classifiers.Classifier(strength).fit(x[:100], labels[:100]) for strength in strengths]
    measure = pearson if scored else lambda said, true: np.mean(said == true)
    figures = [measure(model.predict(x[100:300]), labels[100:300]) for model in models]
    assert figures[1] > figures[0] + 0.02
    found = classifiers.learn(x, task_of(labels, 100, 200, 100))
    assert (found == models[1].predict(x[300:])).all()


def test_pairs_are_seen_as_differences_and_products(classifiers):
    u, v = np.random.default_rng(0).standard_normal((2, 60, 3))
    x = np.hstack([abs(u - v), u * v])
    labels = (x @ [1, -1, 1, 1, 1, -1] > 1).astype(int)
    found = classifiers.learn(np.concatenate([u, v]), task_of(labels, 30, 10, 20, sides=2))
    assert (found == classifiers.learn(x, task_of(labels, 30, 10, 20))).all()


def test_a_score_is_shared_among_its_two_grades(classifiers):
    x, scores = np.repeat(np.eye(4), 50, axis=0), np.repeat([1, 3.6, 4, 2.25], 50)
    model = classifiers.Classifier(1e-5).fit(x, scores)
    np.testing.assert_allclose(model.predict(x), scores, atol=0.05)
    assert model.model.n_iter_.max() < 1_000


def test_the_penalty_is_half_the_strength_times_the_squared_weights(classifiers):
    """By the formula: the gradient of the mean loss plus λ/2 ‖W‖² is 0."""
    rng = np.random.default_rng(0)
    x, labels = rng.standard_normal((80, 3)), rng.integers(0, 2, 80)
    model = classifiers.Classifier(0.05).fit(x, labels).model
    error = model.predict_proba(x)[:, 1] - labels             # two classes: one row of weights
    np.testing.assert_allclose(x.T @ error / 80 + 0.05 * model.coef_[0], 0, atol=1e-3)


def test_no_warning_reaches_the_user(classifiers, processes, capfd, monkeypatch):
    rng = np.random.default_rng(0)
    x, labels = 100 * rng.standard_normal((60, 30)), (np.arange(60) % 15 == 0).astype(int)
    monkeypatch.setattr(classifiers, "STRENGTHS", (1e-5,))
    with warnings.catch_warnings(record=True) as caught, processes():
        warnings.simplefilter("always")
        classifiers.learn(x, task_of(labels, 40, 10, 10))
        classifiers.learn(x, task_of(labels))
    assert not [one for one in caught if one.category is UserWarning]
    assert "Warning" not in capfd.readouterr().err


# ---------------------------------------------------------------- tables

def test_the_figures_of_scores_are_correlations_and_the_baseline_is_the_mean():
    rng = np.random.default_rng(0)
    task = task_of(rng.random(30), 20, 4, 6)
    said, constant = task.tested + 0.1 * rng.random(6), senteval.most_frequent(task)
    assert constant.tolist() == [task.labels[:20].mean()] * 6
    figures = senteval.figures({"STS-B": task}, {"STS-B": said})
    assert figures["STS-B"] == correlation(said, task.tested)
    assert figures["STS-B rho"][0] == pytest.approx(100 * spearman(said, task.tested))
    figures = senteval.figures({"STS-B": task}, {"STS-B": constant})
    assert figures.pop("mean")[0] == 0 and np.isnan([*figures.values()]).all()


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
    for row in ("trained", "most frequent class", "mean of own vectors",
                "weighted mean of own vectors", "InferSent (Conneau 2018)"):
        assert row in header
    names = [name for name in FILES if not name.startswith("SICK")]
    found = {line.split("  ")[0]: line.split() for line in lines}
    assert [*found][:12] == ["mean", *names, "MRPC F1", "STS-B rho"] and "MR 121" in title
    assert found["MR"][-3:] == ["77.4", "81.1", "83.6"]
    assert found["STS-B"][-3:] == ["64.7", "75.6", "–"]
    assert f"\nSICK-E: not measured. {small} lacks SICK/SICK_train.txt or " in "\n".join(lines)


def test_each_row_learns_from_its_own_vectors(trained, classifiers, monkeypatch):
    """A run's vectors are those of `encode`."""
    run = load_run(trained[0])
    seen = []
    monkeypatch.setattr(classifiers, "learn", lambda vectors, task: seen.append(vectors))
    tasks = {"CR": task_of(np.arange(3))._replace(texts=["fudazi vobamu", "a", "setodi a a"]),
             "MR": task_of(np.arange(2))._replace(texts=["a", "b"])}
    senteval.scores(run, tasks, encoder_of(run).encode)
    senteval.scores(None, tasks, lambda texts: texts[::-1])
    rows = senteval.baselines(run, tasks)
    assert [np.shape(vectors) for vectors in seen] == [
        (3, 16), (2, 16), (3,), (2,), (3, 16), (2, 16), (3, 16), (2, 16)]
    assert [*rows] == ["most frequent class", "mean of own vectors", "weighted mean of own vectors"]
    np.testing.assert_allclose(seen[0], encoder_of(run).encode(tasks["CR"].texts), atol=1e-6)
    setodi, a = baselines.means_of_words(run, ["setodi", "a"])
    weight = baselines.frequency_weight(run.vocabulary)
    np.testing.assert_allclose(seen[4][2], (setodi + 2 * a) / 3, atol=1e-6)
    np.testing.assert_allclose(seen[6][1], weight("a") * a, atol=1e-6)


# ---------------------------------------------------------------- SentEval's own engine

def vectors_of(texts):
    """Means of random vectors of words, on which the engine's 100 steps of scikit-learn suffice."""
    tokens = [tokenize(text) or [""] for text in texts]
    table = {token: np.random.default_rng([*token.encode()]).standard_normal(50)
             for some in tokens for token in some}
    return np.array([np.mean([table[token] for token in some], axis=0) for some in tokens],
                    np.float32)


@pytest.mark.filterwarnings("ignore")                         # from the engine's classifiers
@pytest.mark.parametrize(
    "name", [pytest.param("MR", marks=pytest.mark.long), "TREC", "MRPC"])
def test_sentevals_own_engine_finds_what_ours_finds(
        name, data_folder, monkeypatch, classifiers, processes):
    """The two accuracies differ by at most one standard error.

    Each chooses a regularisation strength from its own grid and folds. On TREC, with 500 tested,
    our four strengths are within 0.2 points in the folds and 0.4 on test.
    """
    pytest.importorskip("torch", reason="PyTorch is not installed")
    monkeypatch.syspath_prepend(data_folder / "senteval" / "engine")
    monkeypatch.setattr(inspect, "getargspec", lambda of: inspect.getfullargspec(of)[:4],
                        raising=False)                        # removed in Python 3.11
    engine = pytest.importorskip("senteval.engine", reason="SentEval's engine is missing")
    task = senteval.read({name: found_in(data_folder)[name]})[name]
    settings = {"task_path": str(data_folder / "senteval"), "kfold": 5, "usepytorch": False}
    theirs = engine.SE(settings, lambda params, batch: vectors_of([*map(" ".join, batch)]),
                       lambda params, samples: None).eval(name)["acc"]
    with processes():
        said = classifiers.learn(vectors_of(task.texts), task)
    error = math.sqrt(theirs * (100 - theirs) / len(task.tested))
    assert 100 * np.mean(said == task.tested) == pytest.approx(theirs, abs=error)
