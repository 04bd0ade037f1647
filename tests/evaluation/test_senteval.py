"""SentEval's tasks: their official files, and their traps; a run and word vectors measured."""

import dataclasses
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest

from convsim_mini.common.cli import UserError
from convsim_mini.evaluation import command, senteval
from convsim_mini.evaluation.metrics import pearson, spearman
from convsim_mini.evaluation.senteval import files as senteval_files
from convsim_mini.evaluation.senteval.files import FILES, find_tasks, read_task
from convsim_mini.training.run import load_run

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
        monkeypatch.setitem(FILES, name, files._replace(counts=counts))
    folder = tmp_path / "senteval" / "downstream"
    for name, files in FILES.items():
        for file, count in files.counts.items():
            path = folder / files.folders[0] / file
            if name == "SNLI":
                path = tmp_path / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(lines_of(file, count))
    return tmp_path


@pytest.mark.parametrize("name", FILES)
def test_a_task_of_the_official_shape_is_read_whole(small, name):
    task = read_task(name, find_tasks(small)[name])
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
          ": 71 rows, expected the official 70; fetch it again")
    wrong("CR", "CR/custrev.pos", lambda text: text.replace(b"\n\n", b"\n"),
          ": 70 rows, expected the official 71")
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
    wrong("SICK-R", "SICK/SICK_trial.txt", lambda text: text.replace(b"\t1.5\t", b"\t0.9\t", 1),
          ', line 3: "1\t')
    folder = folder / "STS" / "STSBenchmark"
    wrong("STS-B", "sts-dev.csv", lambda text: text.replace(b"\t5\t", b"\tnan\t", 1), ", line 3: ")
    wrong("STS-B", "sts-train.csv", lambda text: text[:-1].replace(b"\t", b" "), ", line 1: ")


@needs_scikit_learn
def test_where_test_is_missing_dev_is_measured_and_train_alone_chooses(small):
    rng = np.random.default_rng(0)
    folder = small / "senteval" / "downstream"
    (folder / "SST" / "fine" / "sentiment-test").unlink()
    (folder / "STS" / "STSBenchmark" / "sts-test.csv").unlink()
    found = find_tasks(small)
    for name in ("SST-5", "STS-B"):
        task = read_task(name, found[name])
        assert task.on_dev and (task.parts == "dev").sum() == task.tested.sum() == 71
        assert set(task.parts) == {"train", "dev"}
        vectors = rng.standard_normal((len(task.texts), 8))
        said = senteval.learn(vectors, task)
        other = task._replace(labels=np.where(task.tested, task.labels[::-1], task.labels))
        assert (senteval.learn(vectors, other) == said).all()
        shown = senteval.summary("folder", {name: task}, {"trained": {name: said}}, {})
        assert f"{name} dev, 71" in shown and "\ndev: measured where the test file is mi" in shown
    (folder / "TREC" / "TREC_10.label").unlink()              # TREC has no dev
    assert "TREC" not in find_tasks(small)


def test_the_sts_benchmark_and_snli_may_stand_where_the_other_evaluations_have_them(tmp_path):
    (tmp_path / "stsbenchmark").mkdir()
    (tmp_path / "snli_1.0").mkdir()
    for part in ("train", "dev"):
        (tmp_path / "stsbenchmark" / f"sts-{part}.csv").write_text("")
        (tmp_path / "snli_1.0" / f"snli_1.0_{part}.jsonl").write_text("".join(
            '{"gold_label": "%s", "sentence1": "%s one", "sentence2": "two"}\n' % (label, part)
            for label in ("neutral", "-", "entailment")))
    found = find_tasks(tmp_path)
    assert set(found) == {"STS-B", "SNLI"} and found["STS-B"] == tmp_path / "stsbenchmark"
    task = read_task("SNLI", found["SNLI"])
    assert task.sides == (["train one"] * 2 + ["dev one"] * 2, ["two"] * 4)
    assert task.labels.tolist() == [1, 0, 1, 0] and task.large and task.on_dev
    assert task.tested.tolist() == [False, False, True, True]
    (tmp_path / "snli_1.0" / "snli_1.0_train.jsonl").unlink()
    assert set(find_tasks(tmp_path)) == {"STS-B"}


def test_the_official_files_have_the_official_counts(data_folder):
    found = find_tasks(data_folder)
    assert set(found) == set(FILES)
    tasks = {name: read_task(name, folder) for name, folder in found.items()}
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


@pytest.mark.long
@needs_scikit_learn
def test_a_run_and_word_vectors_are_measured_on_all_tasks_there(small, run_copy, capsys):
    (small / "senteval" / "downstream" / "SICK" / "SICK_train.txt").unlink()
    (small / "some.vec").write_text("a 1 0 0.5\ngood 0 1 0\nbad 0 -1 1\n")
    command.main("senteval", "--vectors", "--hidden", data="folder", argv=[
        str(run_copy), "--data", str(small), "--vectors", str(small / "some.vec")])
    out = capsys.readouterr().out
    header, _, *lines = out.strip().splitlines()
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
    assert len(lines) == 14 and lines[13] == "SNLI: learned from 70 pairs, all of it has 549,367"


@needs_scikit_learn
def test_a_hidden_layer_is_learned_on_request(small, run_copy, capsys, monkeypatch):
    for name in set(FILES) - {"CR", "STS-B", "SNLI"}:
        monkeypatch.delitem(FILES, name)
    from convsim_mini.evaluation.senteval import fitting
    seen, learn = [], fitting.learn
    monkeypatch.setattr(fitting, "STEPS", 20)
    monkeypatch.setattr(fitting, "learn", lambda x, task, hidden: seen.append(
        (hidden, x[:1].shape[1])) or learn(x, task, hidden))
    arguments = [str(run_copy), "--data", str(small)]
    command.main("senteval", "--hidden", data="folder", argv=[*arguments, "--hidden", "7"])
    assert "CR, 141" in capsys.readouterr().out
    # 3 rows of 3 tasks; the run has 16 learned numbers and 512 that count words, its table 16
    assert [units for units, _ in seen] == [7] * 9
    assert [width for _, width in seen] == [528, 2 * 528, 4 * 528, *[16, 2 * 16, 4 * 16] * 2]


@needs_scikit_learn
def test_sentences_that_a_transformer_cuts_are_counted(small, run_copy, capsys, monkeypatch):
    for name in set(FILES) - {"CR"}:
        monkeypatch.delitem(FILES, name)
    (small / "snli_1.0_train.jsonl").unlink()
    encoder = SimpleNamespace(embed=lambda packed: np.zeros((141, 2)))
    monkeypatch.setattr(senteval, "encoder_of", lambda run: encoder)
    tasks, run = senteval.read(find_tasks(small)), load_run(run_copy)
    senteval.scores(run, tasks)
    assert "cut there" not in capsys.readouterr().out
    settings = dataclasses.replace(run.config.model, encoder="transformer", max_tokens=5)
    run = run._replace(config=dataclasses.replace(run.config, model=settings))
    senteval.scores(run, tasks)
    # the sentence with a quotation mark and a comma ends both files
    assert "2 of 141 sentences have more than 5 words and are cut" in capsys.readouterr().out


def test_a_mean_may_be_weighted_and_takes_all_texts(monkeypatch):
    vectors = {"a": np.array([2.0, 0]), "b": np.array([0, 4.0])}
    texts = ["a b", "b b b c", "", "a"]
    weight = {"a": 0.5, "b": 0.25, "c": 9}.get
    for at_once in (50_000, 3):
        monkeypatch.setattr(senteval, "TEXTS_AT_ONCE", at_once)
        np.testing.assert_allclose(senteval.means(texts, vectors), [[1, 2], [0, 4], [0, 0], [2, 0]])
        np.testing.assert_allclose(senteval.means(texts, vectors, weight),
                                   [[0.5, 0.5], [0, 1], [0, 0], [1, 0]])


def test_pairs_of_a_large_task_are_made_when_asked_for():
    vectors = np.random.default_rng(0).standard_normal((10, 3))
    task = senteval_files.Task((["x"] * 5, ["y"] * 5), np.zeros(5, int), np.repeat("train", 5),
                               large=True)
    u, v = vectors[[3, 1]], vectors[[8, 6]]
    np.testing.assert_allclose(senteval.features(vectors, task)[np.array([3, 1])],
                               np.hstack([u, v, abs(u - v), u * v]))


@needs_scikit_learn
def test_a_score_is_learned_and_its_figures_are_correlations():
    rng = np.random.default_rng(0)
    u, v = rng.standard_normal((2, 400, 5))
    close = rng.random(400)[:, None]
    v = close * u + (1 - close) * v
    scores = np.clip(5 * close[:, 0] + rng.normal(0, 0.2, 400), 0, 5)
    parts = np.repeat(["train", "dev", "test"], [200, 100, 100])
    task = senteval_files.Task((["x"] * 400,) * 2, scores, parts, (0, 5))
    said = senteval.learn(np.concatenate([u, v]), task)
    r = pearson(said, scores[300:])
    assert r > 0.8 and 0 <= said.min() and said.max() <= 5
    constant = senteval.most_frequent(task)
    assert constant[0] == scores[:200].mean() and constant.shape == (100,)
    assert senteval.cell("STS-B", task, constant) == "-"
    cell = senteval.cell("STS-B", task, said)
    assert cell.startswith(f"{100 * r:.1f} [") and cell.endswith(
        f"] / {100 * spearman(said, scores[300:]):.1f}")


@needs_scikit_learn
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
