"""SentEval's tasks: official files and their traps; who learns from which rows; tables."""

import dataclasses
import multiprocessing
import os
import sys
import types
import warnings
from importlib.util import find_spec

import numpy as np
import pytest

from convsim_mini.common.cli import UserError
from convsim_mini.evaluation import baselines, command, senteval
from convsim_mini.evaluation.metrics import pearson, spearman
from convsim_mini.evaluation.senteval import FILES, Task
from convsim_mini.inference.sentence_encoder import encoder_of
from convsim_mini.training.run import load_run

if find_spec("sklearn"):
    from convsim_mini.evaluation import classifiers
needs_scikit_learn = pytest.mark.skipif(find_spec("sklearn") is None,
                                        reason="scikit-learn is not installed")

SENTENCE = 'he said "yes , we \x85 can'.encode("latin-1")     # a quote that never ends, and 0x85


def lines_of(file, count, seed=0):
    """Bytes of a file of the official shape with `count` rows, every trap of the original in it."""
    rng = np.random.default_rng(seed)
    words = [" ".join(rng.choice(["a", "good", "bad", "film", "who", "where"], 5))
             for _ in range(2 * count)]
    task = next(name for name, files in FILES.items() if file in files.counts)
    names = FILES[task].labels or ("1.5", "3.25", "5", "2", "3")
    labels = [names[k % len(names)] for k in range(count)]
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
            f"{k}\t{one}\t{other}\t{1 + k % 9 / 2}\t{label}"
            for k, (label, one, other) in enumerate(zip(labels, words, words[count:]))]
    elif task == "STS-B":
        lines = [f'main-news\tfile\t2012\t1\t{label}\t{one} "quoted\t{other}' + "\tfree" * (k % 2)
                 for k, (label, one, other) in enumerate(zip(labels, words, words[count:]))]
    elif task == "SNLI":
        pair = '{"gold_label": "%s", "sentence1": "s1 a film %s", "sentence2": "s2 a %s film"}'
        lines = [pair % (label, k, label) for k, label in enumerate(labels)]
    else:
        lines = [*words[:count - 2], ""]                      # an empty line is a row
    content = "".join(line + "\n" for line in lines).encode()
    if FILES[task].row == "sentence" and task != "SNLI":
        content += SENTENCE + b" \n"
    elif task == "TREC":
        content = content.replace(b" ?", b" \x85?", 1)
    return content


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A folder with all tasks in small, whose official numbers of rows are 70, 71 and 72."""
    for name, files in FILES.items():
        counts = {file: 70 + place for place, file in enumerate(files.counts)}
        monkeypatch.setattr(files, "counts", counts)
        for file, count in counts.items():
            path = tmp_path / "senteval" / "downstream" / files.folders[0] / file
            if name == "SNLI":
                path = tmp_path / "snli_1.0" / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(lines_of(file, count))
    return tmp_path


def found_in(folder):
    """Task name → its files in a folder."""
    (found,) = senteval.find(folder).values()
    return found


def task_of(labels, *counts, **settings):
    """A Task of single sentences; counts: of train, dev and test."""
    parts = np.repeat(["train", "dev", "test"], counts) if counts else None
    return Task((["x"] * len(labels),), labels, parts, **settings)


# ---------------------------------------------------------------- the official files

@needs_scikit_learn
@pytest.mark.parametrize("name", FILES)
def test_a_task_of_the_official_shape_is_read_whole(small, name):
    task = senteval.read({name: found_in(small)[name]})[name]
    files = FILES[name]
    n = sum(files.counts.values())
    pairs = name in ("MRPC", "SICK-E", "SICK-R", "STS-B", "SNLI")
    assert [len(side) for side in task.sides] == [n] * (1 + pairs)
    assert len(task.labels) == n and task.large == (name == "SNLI")
    if files.grades is None:
        assert set(task.labels) == set(range(len(files.labels)))
    if files.parts:
        assert list(task.parts) == [part for part, count in zip(files.parts, files.counts.values())
                                    for _ in range(count)]
        assert task.tested.sum() == list(files.counts.values())[-1]
    else:
        assert task.parts is None and task.tested.all()
        assert task.texts.count("") == 2 and task.texts.count(SENTENCE.decode("latin-1")) == 2
        assert list(task.labels) == [0] * 70 + [1] * 71
    assert not any(text != text.strip() or "\t" in text for text in task.texts)
    assert not any("\ufeff" in text or "ID" in text for text in task.texts)
    if name == "MRPC":
        assert all(text.endswith('"quoted') for text in task.sides[0])
        assert all(text.endswith("\u20ac") for text in task.sides[1])
    if name == "SST-5":
        assert all(text.endswith("cr\u00e8me") for text in task.texts)
    if name == "TREC":
        assert sum("\x85" in text for text in task.texts) == 2
    if name == "SICK-R":
        assert list(task.labels[:10]) == [1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 1]
    if name == "STS-B":
        assert list(task.labels[:3]) == [1.5, 3.25, 5] and task.grades[0] == 0
        assert all(text.endswith('"quoted') for text in task.sides[0])
        assert not any("free" in text for text in task.sides[1])
    if name == "SNLI":
        assert task.sides[0][1] == "s1 a film 1" and task.sides[1][1] == "s2 a neutral film"
    if files.labels and files.parts:
        assert list(task.labels[:6]) == [k % len(files.labels) for k in range(6)]


@needs_scikit_learn
@pytest.mark.parametrize("task, file, old, new, message", [
    ("MR", "MR/rt-polarity.neg", b"we ", b"we\n", ": 71 rows, expected the official 70; fetch it"),
    ("CR", "CR/custrev.pos", b"\n\n", b"\n", ": 70 rows, expected the official 71"),
    ("MRPC", "MRPC/msr_paraphrase_test.txt", b"\n1\t", b"\n2\t", ', line 3: label "2", expected'),
    ("MRPC", "MRPC/msr_paraphrase_train.txt", b"\t2\t", b"\t", ", line 2: no sentence2, expected"),
    ("TREC", "TREC/TREC_10.label", b"NUM:", b"NAME:", ', line 6: label "NAME", expected label: a'),
    ("SST-2", "SST/binary/sentiment-dev", b"\t", b" ", ", line 1: no label"),
    ("SST-5", "SST/fine/sentiment-test", b"\xc3\xa8", b"\xe8", ": cannot be read as utf-8-sig"),
    ("SICK-R", "SICK/SICK_trial.txt", b"\t1.5\t", b"\t0.9\t", ', line 3: label "0.9", expected'),
    ("SICK-R", "SICK/SICK_trial.txt", b"\t5.0\t", b"\t5.1\t", ', line 10: label "5.1"'),
    ("STS-B", "STS/STSBenchmark/sts-dev.csv", b"\t5\t", b"\tnan\t", ', line 3: label "nan"'),
])
def test_what_is_wrong_with_a_file_is_said(small, task, file, old, new, message):
    path = small / "senteval" / "downstream" / file
    path.write_bytes(path.read_bytes().replace(old, new, 1))
    with pytest.raises(UserError) as raised:
        senteval.read({task: found_in(small)[task]})
    assert str(raised.value).startswith(f"{path}{message}"), raised.value


@needs_scikit_learn
def test_where_test_is_missing_dev_is_measured_and_train_alone_chooses(small):
    rng = np.random.default_rng(0)
    folder = small / "senteval" / "downstream"
    (folder / "SST" / "fine" / "sentiment-test").unlink()
    (folder / "STS" / "STSBenchmark" / "sts-test.csv").unlink()
    (folder / "TREC" / "TREC_10.label").unlink()              # TREC has no dev
    (small / "snli_1.0" / "snli_1.0_dev.jsonl").unlink()
    found = found_in(small)
    assert FILES.keys() - found.keys() == {"TREC", "SNLI"}
    for name, task in senteval.read({name: found[name] for name in ("SST-5", "STS-B")}).items():
        assert task.on_dev and (task.parts == "dev").sum() == task.tested.sum() == 71
        assert set(task.parts) == {"train", "dev"}
        vectors = rng.standard_normal((len(task.texts), 8))
        said = senteval.learn(vectors, task)
        other = task._replace(labels=np.where(task.tested, task.labels[::-1], task.labels))
        assert (senteval.learn(vectors, other) == said).all()
        shown = senteval.summary("folder", {name: task}, {"trained": {name: said}}, {})
        assert f"{name} dev, 71" in shown and "\ndev: measured where the test file is mi" in shown
        assert "TREC: not measured. folder lacks TREC/train_5500.label or TREC/TREC_10" in shown


def test_without_data_or_scikit_learn_it_says_what_it_needs(tmp_path, monkeypatch):
    with pytest.raises(UserError, match="--data is missing: name the folder that holds MR and CR"):
        senteval.find(None)
    with pytest.raises(UserError, match=f"{tmp_path}: holds no MR/rt-polarity.neg"):
        senteval.find(tmp_path)
    for part in ("train", "dev"):                             # where other evaluations have it
        path = tmp_path / "stsbenchmark" / f"sts-{part}.csv"
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(UserError, match="scikit-learn is missing .*; .* -m pip install scikit-l"):
        senteval.find(tmp_path)
    monkeypatch.setitem(sys.modules, "sklearn", sys)
    assert found_in(tmp_path) == {"STS-B": {
        f"sts-{part}.csv": tmp_path / "stsbenchmark" / f"sts-{part}.csv"
        for part in ("train", "dev")}}


@needs_scikit_learn
def test_the_official_files_have_the_official_counts(data_folder):
    tasks = senteval.read(found_in(data_folder))
    assert list(tasks) == list(FILES)
    classes = {name: np.bincount(task.labels).tolist() for name, task in tasks.items()
               if task.grades is None}
    assert classes["MR"] == [5_331, 5_331] and classes["CR"] == [1_368, 2_407]
    assert classes["SUBJ"] == [5_000, 5_000] and classes["MPQA"] == [7_294, 3_312]
    assert classes["MRPC"] == [1_901, 3_900] and sum(classes["TREC"]) == 5_952
    assert [tasks[name].texts.count("") for name in ("MR", "CR", "SUBJ", "MPQA")] == [0, 4, 0, 3]
    assert tasks["TREC"].tested.sum() == 500 and tasks["MRPC"].tested.sum() == 1_725
    assert sum('"' in text for text in tasks["MRPC"].texts) > 1_000
    assert classes["SICK-E"] == [739, 2_818, 1_443] or not tasks["SICK-E"].on_dev
    assert (tasks["STS-B"].parts == "train").sum() == 5_749
    for name, low, high in (("SICK-R", 1, 5), ("STS-B", 0, 5)):
        assert (tasks[name].labels.min(), tasks[name].labels.max()) == (low, high)


# ---------------------------------------------------------------- who learns from which rows

@needs_scikit_learn
def test_folds_have_their_share_of_each_class_and_are_the_same_every_time():
    labels, rows = np.random.default_rng(0).integers(0, 3, 997), np.arange(100, 900)
    found = classifiers.folds(rows, labels)
    again = classifiers.folds(rows, labels)
    assert all((one == other).all() for split, same in zip(found, again)
               for one, other in zip(split, same))
    for seen, held_out in found:
        assert sorted([*seen, *held_out]) == rows.tolist()
    counts = np.array([np.bincount(labels[held_out]) for _, held_out in found])
    assert np.ptp(counts, axis=0).max() <= 1
    assert sorted(np.concatenate([held_out for _, held_out in found])) == rows.tolist()


@needs_scikit_learn
def test_no_row_is_judged_or_tested_by_a_classifier_that_saw_it(monkeypatch):
    calls = []

    def fit_all(x, task, jobs):
        calls.extend((set(train), set(rows)) for train, rows, _ in jobs)
        return [task.labels[rows] for _, rows, _ in jobs]

    monkeypatch.setattr(classifiers, "fit_all", fit_all)
    labels = np.arange(100) % 2
    assert (classifiers.learn(np.zeros((100, 1)), task_of(labels)) == labels).all()
    assert len(calls) == 10 * (4 * 10 + 1) and not any(train & rows for train, rows in calls)
    finals = [call for call in calls if len(call[0]) == 90]
    assert len(finals) == 10 and set().union(*(rows for _, rows in finals)) == set(range(100))
    for train, rows in calls:                                 # a strength is chosen inside a train
        assert any(train | rows <= whole for whole, _ in finals) or (train, rows) in finals
    calls.clear()
    classifiers.learn(np.zeros((100, 1)), task_of(labels, 60, 20, 20))
    assert calls == [(set(range(60)), set(range(60, 80)))] * 4 + [
        (set(range(60)), set(range(80, 100)))]
    calls.clear()
    classifiers.learn(np.zeros((100, 1)), task_of(labels, 60, 20, 20, large=True))
    assert calls == [(set(range(60)), set(range(80, 100)))]


@needs_scikit_learn
def test_processes_find_what_one_process_finds(monkeypatch):
    """The jobs come back in order, to the bit."""
    rng = np.random.default_rng(0)
    x, labels = rng.standard_normal((150, 6)), np.arange(150) % 3
    task = task_of(labels, 100, 30, 20)
    rows = np.arange(150)
    jobs = [(rows[:100], rows[100 + k:], strength) for k in range(8) for strength in (1e-4, 1.0)]
    monkeypatch.setattr(classifiers, "PROCESSES", 3)
    for found, job in zip(classifiers.fit_all(x, task, jobs), jobs, strict=True):
        assert (found == classifiers.fit(x, task, *job)).all()


@needs_scikit_learn
@pytest.mark.skipif(multiprocessing.get_start_method() != "fork", reason="patches forks")
def test_each_process_has_one_blas_thread_and_a_killed_one_ends_the_command(monkeypatch):
    from threadpoolctl import threadpool_info
    jobs = [(k, k, k) for k in range(4)]
    monkeypatch.setattr(classifiers, "fit", lambda x, task, *job: [
        pool["num_threads"] for pool in threadpool_info()])
    assert all(set(found) == {1} for found in classifiers.fit_all(None, None, jobs))
    monkeypatch.setattr(classifiers, "fit", lambda x, task, *job: os._exit(9))
    with pytest.raises(UserError, match="a process of this command was killed"):
        classifiers.fit_all(None, None, jobs)


@needs_scikit_learn
@pytest.mark.parametrize("scored", [False, True])
def test_the_strength_is_the_best_one_on_dev(monkeypatch, scored):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((400, 80))
    labels = (x[:, 0] + rng.standard_normal(400) > 0).astype(int)
    x[:, 0] *= 5                                              # costs little of the penalty
    if scored:
        labels = np.clip(2.5 + x[:, 0] / 5 + rng.normal(0, 0.3, 400), 1, 4)
    strengths = (1e-5, 0.3)                                   # the first one learns by heart
    monkeypatch.setattr(classifiers, "STRENGTHS", strengths)
    task = task_of(labels, 100, 200, 100, grades=(1, 4) if scored else None)
    rows = np.arange(400)
    dev, test = ([classifiers.fit(x, task, rows[:100], some, strength) for strength in strengths]
                 for some in (rows[100:300], rows[300:]))
    measure = pearson if scored else lambda said, true: np.mean(said == true)
    figures = [measure(said, labels[100:300]) for said in dev]
    assert figures[1] > figures[0] + 0.02
    assert (classifiers.learn(x, task) == test[1]).all()


@needs_scikit_learn
def test_a_large_task_learned_by_blocks_is_the_same_regression(monkeypatch):
    rng = np.random.default_rng(0)
    monkeypatch.setattr(classifiers, "ROWS_AT_ONCE", 300)
    x = rng.standard_normal((1_500, 6)) * (1, 2, 5, 1, 1, 1)
    labels = (x[:, :3] + rng.gumbel(size=(1_500, 3))).argmax(axis=1)
    task = task_of(labels, 1_000, 200, 300, large=True)
    expected = classifiers.learn(x, task._replace(large=False))
    assert np.mean(classifiers.learn(x, task) != expected) < 0.1


@needs_scikit_learn
def test_a_score_is_shared_among_its_two_grades():
    x, scores = np.repeat(np.eye(4), 50, axis=0), np.repeat([1, 3.6, 4, 2.25], 50)
    said = classifiers.fit(x, task_of(scores, grades=(1, 4)), np.arange(200), np.arange(200), 1e-5)
    np.testing.assert_allclose(said, scores, atol=0.05)


@needs_scikit_learn
def test_no_warning_reaches_the_user(capfd):
    rng = np.random.default_rng(0)
    x, labels = 100 * rng.standard_normal((60, 30)), (np.arange(60) % 15 == 0).astype(int)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        senteval.learn(x, task_of(labels, 40, 10, 10))
        senteval.learn(x, task_of(labels))
    assert not [one for one in caught if one.category is UserWarning]
    assert "Warning" not in capfd.readouterr().err


# ---------------------------------------------------------------- features and tables

def test_pairs_are_seen_as_differences_and_products_and_those_of_snli_as_vectors_too():
    vectors = np.random.default_rng(0).standard_normal((10, 3))
    task = Task((["x"] * 5, ["y"] * 5), np.zeros(5, int), np.repeat("train", 5))
    u, v = vectors[[3, 1]], vectors[[8, 6]]
    rows = np.array([3, 1])
    np.testing.assert_allclose(senteval.features(vectors, task)[rows],
                               np.hstack([abs(u - v), u * v]))
    np.testing.assert_allclose(senteval.features(vectors, task._replace(large=True))[rows],
                               np.hstack([u, v, abs(u - v), u * v]))
    assert senteval.features(vectors, task_of(np.zeros(10))) is vectors


@needs_scikit_learn
def test_a_score_is_learned_and_its_figures_are_correlations():
    rng = np.random.default_rng(0)
    u, v = rng.standard_normal((2, 400, 5))
    close = rng.random(400)[:, None]
    v = close * u + (1 - close) * v
    scores = np.clip(5 * close[:, 0] + rng.normal(0, 0.2, 400), 0, 5)
    parts = np.repeat(["train", "dev", "test"], [200, 100, 100])
    task = Task((["x"] * 400,) * 2, scores, parts, (0, 5))
    said = senteval.learn(np.concatenate([u, v]), task)
    r = pearson(said, scores[300:])
    assert r > 0.8 and 0 <= said.min() and said.max() <= 5
    constant = senteval.most_frequent(task)
    assert constant[0] == scores[:200].mean() and constant.shape == (100,)
    assert senteval.cell("STS-B", task, constant) == "-"
    cell = senteval.cell("STS-B", task, said)
    assert cell.startswith(f"{100 * r:.1f} [") and cell.endswith(
        f"] / {100 * spearman(said, scores[300:]):.1f}")


def test_f1_and_the_most_frequent_class_are_their_definitions():
    predicted, true = np.array([1, 1, 1, 0, 0]), np.array([1, 1, 0, 1, 0])
    assert senteval.f1(predicted, true) == pytest.approx(2 / 3)
    assert senteval.f1(np.zeros(5, int), np.zeros(5, int)) == 0
    parts = np.array(["train", "train", "train", "test", "test"])
    task = Task((["x"] * 5,), np.array([1, 1, 0, 0, 0]), parts)
    assert senteval.most_frequent(task).tolist() == [1, 1]
    assert senteval.most_frequent(task._replace(parts=None)).tolist() == [0] * 5


@pytest.mark.long
@needs_scikit_learn
def test_a_run_and_word_vectors_are_measured_on_all_tasks_there(small, run_copy, capsys):
    (small / "senteval" / "downstream" / "SICK" / "SICK_train.txt").unlink()
    (small / "some.vec").write_text("a 1 0 0.5\ngood 0 1 0\nbad 0 -1 1\n")
    command.main("senteval", "--vectors", data="folder", argv=[
        str(run_copy), "--data", str(small), "--vectors", str(small / "some.vec")])
    header, _, *lines = capsys.readouterr().out.strip().splitlines()
    for row in ("trained", "most frequent class", "mean of own vectors",
                "weighted mean of own vectors", "mean of some.vec"):
        assert row in header
    names = [name for name in FILES if not name.startswith("SICK")]
    assert [line.split(",")[0] for line in lines[:10]] == names
    assert lines[7].count(" / ") == 5 and lines[8].count(" / ") == 4
    assert lines[0].split()[-3:] == ["77.4", "81.1", "83.64"] and lines[5].split()[-1] == "-"
    assert lines[8].split()[-3:] == ["64.7", "75.6", "-"] and lines[9].split()[-3:] == ["-"] * 3
    assert lines[10].startswith("published: ¹ Conneau and Kiela (2018)")
    assert lines[11].startswith(f"SICK-E: not measured. {small} lacks SICK/SICK_train.txt or ")


def test_each_row_learns_from_its_own_vectors(small, trained, monkeypatch, capsys):
    """A run's are those of `encode`; sentences that a Transformer would cut are counted."""
    run = load_run(trained[0])
    seen = []
    monkeypatch.setattr(senteval, "learn", lambda vectors, task: seen.append(vectors))
    task = Task((["fudazi vobamu", "a", "setodi a a"],), np.arange(3), None)
    tasks = {"CR": task, "MR": task._replace(sides=(["a", "b"],))}
    senteval.scores(run, tasks)
    senteval.scores(lambda texts: texts[::-1], tasks)
    senteval.baselines(run, tasks, {"some": {"a": np.array([1.0, 2, 3])}})
    assert "cut there" not in capsys.readouterr().out
    assert [np.shape(vectors) for vectors in seen] == [
        (3, 528), (2, 528), (3,), (2,), (3, 16), (2, 16), (3, 16), (2, 16), (3, 3), (2, 3)]
    np.testing.assert_allclose(seen[0], encoder_of(run).encode(task.texts), atol=1e-6)
    vectors = baselines.run_vectors(run, {"fudazi", "vobamu", "a", "setodi"})
    weight = baselines.frequency_weight(run.vocabulary)
    np.testing.assert_allclose(seen[4][2], (vectors["setodi"] + 2 * vectors["a"]) / 3, atol=1e-6)
    np.testing.assert_allclose(seen[6][1], weight("a") * vectors["a"], atol=1e-6)
    assert seen[8].tolist() == [[0] * 3, [1, 2, 3], [1, 2, 3]]
    settings = dataclasses.replace(run.config.model, encoder="transformer", max_tokens=2)
    cut = run._replace(config=dataclasses.replace(run.config, model=settings))
    monkeypatch.setattr(senteval, "encoder_of", lambda run: types.SimpleNamespace(encode=list))
    senteval.scores(cut, tasks)
    assert "1 of 5 sentences have more than 2 words and are cut there" in capsys.readouterr().out


@pytest.mark.parametrize("seen, said", [(2, "2 pairs, all of it has 549,367")])
def test_how_much_of_snli_was_learned_from_is_said(seen, said):
    task = Task((["x"] * 3,) * 2, np.arange(3), np.array(["train"] * seen + ["test"]), large=True)
    shown = senteval.summary("folder", {"SNLI": task}, {"trained": {"SNLI": np.array([2])}}, {})
    assert f"SNLI: learned from {said}" in shown and "100.0 [" in shown
