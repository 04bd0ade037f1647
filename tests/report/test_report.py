"""The report: its cells, its rules, what it says of absent data, and the claims it judges."""

import os
import shutil
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

from convsim_mini import train
from convsim_mini.config import Config
from convsim_mini.data.snli_files import read_snli
from convsim_mini.evaluation import cqa, response, sts
from convsim_mini.evaluation.sts import Sts
from convsim_mini.training.options import parse_config
from convsim_mini.report import (
    against_words, claims, fractions, learning_curve, page, results)
from convsim_mini.training.run import finished, load_run, save_matrix
from convsim_mini.common.tables import markdown

from conftest import PATH, command

STS_ROW = "main-{}\tfile\t2012\t1\t{}\t{}\t{}\n"


@pytest.fixture(scope="module")
def data(tmp_path_factory, pairs, nli_folder):
    """A folder with STS train and dev, SNLI and no question ranking."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "snli_1.0").symlink_to(nli_folder)
    rng = np.random.default_rng(0)
    genres = ("captions", "forums", "news")
    premises = read_snli(nli_folder / "snli_1.0_train.jsonl").premises
    for split, first in (("train", 0), ("dev", 60)):
        rows = [STS_ROW.format(genres[k % 3], f"{5 * rng.random():.2f}", *pairs[k])
                for k in range(first, first + 60)]
        rows += [STS_ROW.format("news", 1.0, text, "Another.") for text in premises[:3]]
        (folder / f"sts-{split}.csv").write_text("".join(rows))
    return folder


@pytest.fixture(scope="module")
def runs(trained, nli_folder, tmp_path_factory):
    """Folders: a conversation run; multitask runs from it, half and all of NLI, the last tuned."""
    folder = tmp_path_factory.mktemp("runs")
    start = shutil.copytree(trained[0], folder / "start")
    found = [start]
    for share in ("0.5", "1"):
        options = ["--task", "multitask", "--init", start, "--nli", nli_folder,
                   "--nli_fraction", share, "--steps", 4, "--evaluations", 1,
                   "--optim.nli_batch_size", 60, "--run", folder / f"nli-{share}",
                   "--nli_share", 0.5]
        found.append(train.train(parse_config(list(map(str, options))))[0])
    save_matrix(load_run(found[-1]), "tuned",
                np.eye(16) + 0.1 * np.random.default_rng(0).standard_normal((16, 16)))
    return found


def table_under(text, title):
    """The rows of the first table below a title: lists of cells, the heading first."""
    lines = text.split(f"## {title}", 1)[1].split("\n## ", 1)[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")]
            for line in lines if line.startswith("|")]
    return [rows[0], *rows[2:]]


def test_the_page_has_every_table_with_what_was_measured(runs, data, tmp_path):
    done = command("report", *runs, "--data", data, "--out", "page", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "page" / "report.md").read_text()
    found = [results.measure(load_run(run), results.read_data(data)) for run in runs]

    one = table_under(text, "Table 1")
    assert [row[0] for row in one[1:]] == ["start", "nli-1"]   # parts of NLI are figure 8's
    ours = [float(figure) for figure in one[1][2].split(" / ")]
    assert ours == pytest.approx([100 * (found[0].ranks <= n).mean() for n in (1, 3, 10)],
                                 abs=0.051)
    differences = [float(figure) for figure in one[1][3].split(" / ")]
    theirs = page.PUBLISHED["RESPONSE"]["DAN"]
    assert differences == pytest.approx(np.subtract(ours, theirs), abs=0.11)
    intervals = [cell.split("–") for cell in one[1][4].split(" / ")]
    assert all(float(low) < value < float(high) for value, (low, high) in zip(ours, intervals))
    assert one[2][1] == one[2][3] == "–"          # the paper gives no P@N of its multitask model
    of_runs = {row[0]: dict(zip(table_under(text, "The runs")[0], row))
               for row in table_under(text, "The runs")}
    # The pairs of the run that it started from are included.
    assert of_runs["start"]["pairs seen"] == f"{30 * 64:,}"
    assert of_runs["nli-1"]["pairs seen"] == f"{30 * 64 + 2 * 64 + 2 * 60:,}"
    assert of_runs["nli-1"]["trained on"] == "conversations + SNLI"
    assert "cores" in of_runs["start"]["machine"] and of_runs["start"]["pairs of"] == "pairs.tsv"

    (bars,) = page.bars([found[0], found[2]])
    assert list(bars.given[0]) == ["start, untrained", "TF-IDF cosine", "BM25", "start", "nli-1"]
    assert (bars.given[0]["nli-1"] == found[2].ranks).all()
    assert [row[0] for row in table_under(text, "Side by side")[1:3]] == ["start", "nli-1"]

    two = table_under(text, "Table 2")
    labels = results.read_data(data).snli["test"].labels
    assert two[1][:2] == ["nli-1", "84.1"]
    assert float(two[1][2]) == pytest.approx(100 * (found[2].snli == labels).mean(),
                                             abs=0.051)
    assert two[2][0].startswith("hypothesis alone")

    nine = table_under(text, "Footnote 9")
    assert [row[:2] for row in nine[1:]] == [["nli-1", "STS train"], ["nli-1", "STS dev"]]
    assert nine[2][2] == "3 of 63"
    assert nine[2][3] != nine[2][4]

    four = table_under(text, "Table 4")
    readings = ["out of the box", "as cosine", "all but the top", "all but the top, as cosine",
                "all but the top + words", "tuned"]
    assert [row[1] for row in four[1:]] == [*readings, *readings, "tuned, as cosine",
                                            "tuned + words"]
    assert four[6][3] == "–" and four[12][2] == "83.5 / 88.8 / 75.9 / 73.1"
    assert len({row[3] for row in four[7:]}) == 8             # each reading has figures of its own
    assert "Not tuned: start. `python -m convsim_mini.tune RUN --data DIR` tunes a run." in text
    assert "STS test is not here. `python -m data_scripts.download stsbenchmark` fetches" in text
    assert "SemEval Task 3 is not here. `python -m data_scripts.download cqa` fetches it" in text
    assert not [line for line in text.splitlines() if line.startswith("|") and "python -m" in line]
    difficult = table_under(text, "Six difficult pairs")
    assert difficult[0][2:4] == ["start", "nli-1"] and len(difficult) == 7
    assert all(2.5 <= float(score) <= 5 for row in difficult[1:] for score in row[2:4])
    assert (tmp_path / "page" / "figure_7.png").stat().st_size > 10_000
    assert (tmp_path / "page" / "figure_8.png").stat().st_size > 10_000
    eight = table_under(text, "Figure 8")
    assert (eight[0][1:] == ["0%", "50%", "100%"]
            and [row[0] for row in eight[1:]] == ["all, dev", "captions, dev"])
    verdict = {row[0]: row[1:] for row in table_under(text, "The paper's claims")[1:]}
    assert len(verdict) == 5
    assert (verdict["The Transformer picks replies better than the DAN (§4.1)"][0]
            == "not testable here")
    assert verdict["NLI helps captions most (§5)"][1].startswith("nli-1 − start: captions ")


@pytest.mark.parametrize("data", [["--data", "."], []])
def test_without_any_data_the_page_says_how_to_get_it(trained, tmp_path, data):
    done = command("report", trained[0], *data, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "report" / "report.md").read_text()
    assert text.count("python -m data_scripts.download") >= 4
    assert text.count("not testable here") == 5
    for missing in ("stsbenchmark", "snli stsbenchmark", "cqa"):
        assert (f"is not here. `python -m data_scripts.download {missing}` fetches it. Name it "
                "with --data." in text)


def test_good_and_bad_pairs_follow_the_rule():
    labels = np.array([5.0, 4.5, 4.0, 2.0, 0.5, 0.2])
    similarity = np.array([-0.1, -0.2, -1.5, -0.3, -1.2, -1.3])   # third too low, fourth too high
    sts = Sts(None, labels, list("abcdef"), list("ABCDEF"))
    table = page.table_5(SimpleNamespace(sts={"dev": similarity}), sts)
    assert [row[3] for row in table.rows] == ["a", "e", "d", "c"]


def test_cells_keep_apart_what_is_absent():
    assert page.beside((50.0, 60.0), [51.0, 58.5]) == ["50.0 / 60.0", "51.0 / 58.5", "+1.0 / -1.5"]
    assert page.beside([], [1.0]) == ["–", "1.0", "–"]
    assert page.beside((1.0,), []) == ["1.0", "–", "–"]
    assert page.figures([1.0, np.nan]) == "1.0 / –"
    assert markdown(["a"], [["b|c"]]).splitlines()[-1] == r"| b\|c |"


# ---------------------------------------------------------------- claims

def fake(name, task="conversation", encoder="DAN", fraction=1.0, init=None, **measured):
    """Results as far as the claims look at them."""
    config = Config(task=task, nli_fraction=fraction, init=init)
    run = SimpleNamespace(config=config, corpus=7,
                          folder=SimpleNamespace(resolve=lambda: claims.Path(f"/{name}")))
    return SimpleNamespace(name=name, encoder=encoder, run=run,
                           **{"ranks": None, "sts": {}, "readings": {}, "reach": None, **measured})


def test_the_transformer_is_only_above_where_the_interval_says_so():
    ranks = np.array([1] * 400 + [2] * 600)
    better, equal = (np.concatenate([np.ones(n, int), np.full(1000 - n, 2)]) for n in (450, 402))
    dan = fake("d", ranks=ranks)
    assert claims.transformer_above_dan(
        [dan, fake("t", encoder="Transformer", ranks=better)], None)[0] is True
    assert claims.transformer_above_dan(
        [dan, fake("t", encoder="Transformer", ranks=equal)], None)[0] is False
    assert claims.transformer_above_dan([dan], None)[0] is None


def test_a_genre_is_helped_most_if_it_gains_most_and_for_certain():
    rng = np.random.default_rng(0)
    labels, genres = rng.random(300), np.array(["captions", "forums", "news"] * 100)
    before = labels + rng.standard_normal(300)
    after = np.where(genres == "captions", labels + 0.1 * rng.standard_normal(300), before)
    data = SimpleNamespace(sts={"dev": Sts(genres, labels, None, None)})
    start = fake("s", sts={"dev": before})
    assert claims.nli_helps_captions_most(
        [start, fake("m", "multitask", init="/s", sts={"dev": after})], data)[0] is True
    assert claims.tuning_helps_news_most(
        [fake("s", sts={"dev": before}, readings={"trained, tuned": {"dev": after}})],
        data)[0] is False
    assert claims.nli_helps_captions_most(
        [fake("m", "multitask", init="/s", sts={"dev": after})], data)[0] is None


@pytest.mark.parametrize("noise, expected", [(0.3, True), (1.9, False)])
def test_a_tenth_gives_most_if_it_gives_half(noise, expected):
    rng = np.random.default_rng(0)
    labels, genres, errors = rng.random(500), np.full(500, "captions"), rng.standard_normal(500)
    data = SimpleNamespace(sts={"dev": Sts(genres, labels, None, None)})
    runs = [fake("s", sts={"dev": labels + 2 * errors}),
            *(fake("m", "multitask", fraction=share, init="/s", sts={"dev": labels + size * errors})
              for share, size in ((0.1, noise), (1.0, 0.1)))]
    assert list(claims.by_fraction(runs)) == [0.0, 0.1, 1.0]
    assert claims.a_tenth_gives_most(runs, data)[0] is expected


def test_attention_widens_if_the_last_layer_reaches_further():
    rng = np.random.default_rng(0)
    first = rng.random((1, 200))
    for shift, expected in ((0.1, True), (-0.1, False)):
        reach = np.concatenate([first, first + shift + 0.01 * rng.random((1, 200))])
        assert claims.attention_widens([fake("t", reach=reach)], None)[0] is expected
    assert claims.attention_widens([fake("t", reach=first)], None)[0] is None


# ---------------------------------------------------------------- the learning curve

def test_a_learning_curve_that_is_a_line_is_extended_exactly_and_noise_widens_its_interval():
    pairs = np.repeat([1_000, 4_000, 16_000], 3)
    values = 10 + 1.5 * np.log2(pairs / 1_000)
    slope, line, half = learning_curve.extended(pairs, values, np.array([32_000, 2 ** 20 * 1_000]))
    assert slope == pytest.approx(1.5) and line == pytest.approx([17.5, 40]) and max(half) < 1e-6
    rng, inside = np.random.default_rng(0), 0
    for _ in range(400):
        noise = rng.standard_normal(10)
        _, line, half = learning_curve.extended(pairs, values + noise[1:], np.array([32_000]))
        inside += abs(17.5 + noise[0] - line[0]) < half[0]
    assert 0.92 < inside / 400 < 0.98


@pytest.mark.long
def test_the_learning_curve_of_runs(arguments, trained, data, tmp_path):
    done = command("report.learning_curve", trained[0], "--data", data, cwd=tmp_path)
    assert done.returncode == 2 and "expected three runs or more" in done.stderr
    for fraction, seed in ((0.25, 1), (0.5, 1), (0.5, 2)):
        train.train(parse_config(list(map(str, [
            *arguments, "--pairs_fraction", fraction, "--seed", seed, "--steps", 6,
            "--evaluations", 2, "--run", tmp_path / f"{fraction}-{seed}"]))))
    folders = ["0.25-1", "0.5-1", "0.5-2"]
    done = command("report.learning_curve", *folders, "--data", data, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "learning_curve.png").read_bytes().startswith(b"\x89PNG")
    assert "P@1 of 100" in done.stdout and "600,000,000 pairs" in done.stdout


# ---------------------------------------------------------------- against words alone

def test_examples_are_the_pairs_where_one_is_nearer_by_most(monkeypatch):
    monkeypatch.setattr(against_words, "EXAMPLES", 1)
    labels = np.array([0.0, 1, 2, 3, 4])
    pairs = Sts(None, labels, list("abcde"), list("ABCDE"), np.repeat("news", 5))
    words, encoder = np.array([4.0, 1, 2, 3, 0]), np.array([0.0, 4, 3, 2.5, 5])
    rows = against_words.examples(words, encoder, pairs).rows
    assert [(row[0], row[5]) for row in rows] == [("learned", "a"), ("words", "d")]
    assert rows[0][2:5] == ["20", "100", "20"] and rows[1][2:5] == ["80", "80", "40"]


def test_the_page_against_words(trained, data, tmp_path):
    folder = shutil.copytree(data, tmp_path / "data", symlinks=True)
    (folder / "cqa").mkdir()
    for name in ("dev", "test"):                              # test must not be read
        (folder / "cqa" / f"cqa-{name}.xml").write_text(cqa.OWN.read_text() * (name == "dev"))
    done = command("report.against_words", trained[0], "--data", folder, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "against_words.md").read_text()
    run, pairs = load_run(trained[0]), sts.read(data / "sts-dev.csv")
    rows = {row[0]: row for row in table_under(text, "Judging similarity")[1:]}
    scores = sts.scores(run, pairs) | sts.baselines(run, pairs)
    for column, name in ((2, against_words.WORDS), (3, against_words.LEARNED),
                         (4, against_words.BOTH)):
        figures = [100 * r for r, *_ in sts.correlations(scores[name], pairs).values()]
        assert [float(rows[g][column]) for g in sts.GENRES] == pytest.approx(figures, abs=0.051)
    assert rows["news, file"][1] == "23"
    p_at_1 = table_under(text, "Picking the true reply")[1]
    choices = response.read(response.find(None, run)["test"])
    for cell, ranks in ((p_at_1[2], response.baselines(run, choices)["TF-IDF cosine"]),
                        (p_at_1[3], response.scores(run, choices)["trained"])):
        assert float(cell.split(" [")[0]) == pytest.approx(100 * (ranks == 1).mean(), abs=0.051)
    assert [row[0] for row in table_under(text, "Ranking questions")[1:]] == [
        cqa.BOTH, "trained", cqa.TFIDF, against_words.WORDS]
    assert "cqa-test" not in text


# ---------------------------------------------------------------- figure 8's runs

@pytest.mark.long
def test_fractions_are_trained_once_and_taken_up_where_they_stopped(
        trained, nli_folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(fractions, "SHARES", (0.5, 1.0))
    monkeypatch.setenv("PYTHONPATH", PATH)             # for the trainings, which are processes
    start = shutil.copytree(trained[0], tmp_path / "run")
    options = [str(start), "--nli", str(nli_folder), "--steps", "4", "--evaluations", "2",
               "--optim.nli_batch_size", "60"]
    fractions.main(options)
    assert capsys.readouterr().out.splitlines()[-1].endswith(
        f"report {start} {start}-nli-50 {start}-nli-100")
    stopped = tmp_path / "run-nli-50"         # as one that was killed before its first checkpoint
    for path in stopped.glob("*.safetensors"):
        path.unlink()
    lines = (stopped / "log.jsonl").read_text().splitlines(keepends=True)
    (stopped / "log.jsonl").write_text("".join(line for line in lines if '"best"' not in line))
    before = (tmp_path / "run-nli-100" / "log.jsonl").read_bytes()
    fractions.main(options)
    assert finished(stopped) and load_run(stopped).config.nli_fraction == 0.5
    assert (tmp_path / "run-nli-100" / "log.jsonl").read_bytes() == before


def test_the_exit_code_of_a_training_that_fails_is_that_of_fractions(trained, tmp_path):
    done = command("report.fractions", trained[0], "--nli", "nowhere", cwd=tmp_path)
    assert (done.returncode == 2
            and "nowhere: holds no snli_1.0_train" in done.stderr.splitlines()[-1])


@pytest.mark.parametrize("number, to", [(signal.SIGINT, os.killpg), (signal.SIGTERM, os.kill)])
def test_a_signal_lets_the_training_save_its_checkpoint(
        trained, nli_folder, tmp_path, number, to):
    start = shutil.copytree(trained[0], tmp_path / "run")
    options = ["--nli", nli_folder, "--steps", 100_000, "--evaluations", 1,
               "--optim.nli_batch_size", 60]
    process = subprocess.Popen([sys.executable, "-m", "convsim_mini.report.fractions",
                                *map(str, [start, *options])],
                               cwd=tmp_path, start_new_session=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               env={**os.environ, "PYTHONPATH": PATH})
    log, deadline = tmp_path / "run-nli-10" / "log.jsonl", time.monotonic() + 60
    while not (log.exists() and '"loss"' in log.read_text()) and time.monotonic() < deadline:
        time.sleep(0.1)
    to(process.pid, number)        # a terminal tells both processes, a system this one alone
    errors = process.communicate(timeout=60)[1].decode()
    assert (process.returncode == 128 + number and "Traceback" not in errors
            and "stopped; go on with" in errors)
    assert list((tmp_path / "run-nli-10").glob("weights-*.safetensors"))
