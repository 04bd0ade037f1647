"""The report: its cells, its rules, and what it says of absent data."""

import dataclasses
import shutil

import numpy as np
import pytest
from matplotlib.image import imread

from convsim_mini import train
from convsim_mini.common.tables import markdown
from convsim_mini.evaluation import EVALUATIONS, cqa, sts
from convsim_mini.evaluation.results import cell, measured
from convsim_mini.report import __main__ as report, page
from convsim_mini.training.run import load_run, save_tuned

from conftest import parse_config

STS_ROW = "main-{}\tfile\t2012\t1\t{}\t{}\t{}\n"
ON = ["--on", "response", "sts", "nli", "cqa"]


@pytest.fixture(scope="module")
def data(tmp_path_factory, pairs, nli_folder):
    """A folder with STS dev, SNLI, and the own questions as those of 2016 and 2017."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "snli_1.0").symlink_to(nli_folder)
    (folder / "cqa").mkdir()
    for name in ("2016-test", "2017-test"):
        (folder / "cqa" / f"{name}.xml").write_bytes(cqa.OWN.read_bytes())
    rng = np.random.default_rng(0)
    genres = ("captions", "forums", "news")
    rows = [STS_ROW.format(genres[k % 3], f"{5 * rng.random():.2f}", *pairs[k]) for k in range(60)]
    (folder / "sts-dev.csv").write_text("".join(rows))
    return folder


@pytest.fixture(scope="module")
def runs(trained, nli_folder, tmp_path_factory):
    """Folders: a conversation run; multitask runs from it, half and all of NLI, the last tuned."""
    folder = tmp_path_factory.mktemp("runs")
    found = [shutil.copytree(trained[0], folder / "start")]
    for share in ("0.5", "1"):
        found.append(folder / f"nli-{share}")
        options = ["--task", "multitask", "--init", found[0], "--nli", nli_folder,
                   "--nli_fraction", share, "--steps", 4, "--evaluations", 1,
                   "--optim.nli_batch_size", 60, "--nli_share", 0.5, "--run", found[-1],
                   "--optim.table_learning_rate", 0.01]    # or no step is better than the first
        train.train(parse_config(list(map(str, options))))
    save_tuned(load_run(found[-1]),
               np.eye(16) + 0.1 * np.random.default_rng(0).standard_normal((16, 16)))
    return found


@pytest.fixture(scope="module")
def written(runs, data, tmp_path_factory):
    """The folder that the command writes of these runs."""
    folder = tmp_path_factory.mktemp("written") / "page"
    report.main([*map(str, runs), "--data", str(data), "--out", str(folder), *ON])
    return folder


@pytest.fixture(scope="module")
def text(written):
    return (written / "report.md").read_text(encoding="utf-8")


def table_under(text, title):
    """The rows of the first table below a title, by their first cells; "head" is the heading."""
    lines = text.split(title, 1)[1].split("\n|", 1)[1].split("\n\n", 1)[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return {"head": rows[0]} | {row[0]: row[1:] for row in rows[2:]}


def test_the_runs_are_described(text):
    runs = table_under(text, "# The runs")
    of_runs = {name: dict(zip(runs["head"][1:], row)) for name, row in runs.items()}
    assert of_runs["start"]["step kept"] == "30" and of_runs["start"]["batch"] == "64"
    assert [of_runs[run]["started from"] for run in ("start", "nli-0.5")] == ["–", "start"]
    assert of_runs["nli-1"]["trained on"] == "conversations + SNLI"
    assert "cores" in of_runs["start"]["machine"] and of_runs["start"]["pairs of"] == "pairs.tsv"
    assert [*table_under(text, "# Side by side")][1:] == ["start", "nli-0.5", "nli-1"]


def test_every_table_of_the_paper_has_what_was_measured(runs, data, text):
    """Table → a row of ours, a cell of it, the paper's row, a cell of that."""
    found = {(one.task, one.name): one for run in map(load_run, (runs[0], runs[2]))
             for one in measured(run, data, ["response", "sts", "nli", "cqa"])}
    for title, task, name, row, metric, paper, theirs in (
            ("Table 1", "response", "test", "trained", "P@3", "the paper: DAN, other inputs", 70.2),
            ("Table 2", "nli", "test", "trained", "accuracy", "the paper: Reddit + SNLI", 84.1),
            ("Tables 3 and 4", "sts", "dev", "trained, tuned", "news",
             "the paper: Reddit + SNLI, tuned", 73.1),
            ("Tables 3 and 4", "sts", "dev", "trained", "r", "InferSent (Yang 2018)", 80.1),
            ("Table 6", "cqa", "2017-test", "trained", "MAP", "KeLP-contrastive1 (Yang 2018)", 49)):
        one = found[task, name]
        table = table_under(text.split(f"# {title}", 1)[1], one.of_task.title(one.name, one.data))
        column = table["head"].index(metric) - 1
        ours = [cells[column] for label, cells in table.items()
                if label in (row, f"nli-1: {row}", f"nli-0.5, nli-1: {row}")]
        assert cell(one.figures()[row][metric]) in ours
        assert table[paper][column] == f"{theirs:.1f}"
    assert "start: trained" in table_under(text, "# Table 1") and "2016-test: 10 questions" in text
    assert text.count("KeLP") == 1                            # 2016 had other systems


def test_figures_are_drawn_and_stand_in_the_page(written, text):
    for name in ("figure_7.png", "figure_8.png"):
        assert f"]({name})" in text
        picture = imread(written / name)[..., :3]
        colourful = (np.ptp(picture, axis=2) > 0.3).mean()
        assert picture.shape[0] > 400 and 0.0005 < colourful < 0.5
    eight = table_under(text, "# Figure 8")
    assert eight["head"][1:] == ["0%", "50%", "100%"]
    start = table_under(text, "# Tables 3 and 4")["start: trained"]
    assert [eight[f"{metric}, dev"][0] for metric in ("r", "captions")] == start[:2]
    for claim in (*page.PAPER.values(), page.TABLE_5, page.FIGURE_8):
        assert f"\n\n{claim}\n" in text


def test_a_task_without_its_data_is_named_and_a_second_report_replaces_the_first(
        runs, text, tmp_path):
    assert "start: not measured." in text.split("## nli:")[1]
    assert "nli-1: not measured." not in text and "nan" not in text
    for tasks in (["cqa", "sts"], ["sts"]):
        report.main([str(runs[0]), "--on", *tasks, "--out", str(tmp_path)])
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "STS built-in set, 120 pairs" in text and "Table 6" not in text


def test_without_data_and_pairs_it_says_so(runs, tmp_path, monkeypatch):
    run, tasks = load_run(runs[0]), [*EVALUATIONS]
    run = run._replace(config=dataclasses.replace(run.config, pairs=[str(tmp_path / "gone")]))
    monkeypatch.setattr(page, "read_log", lambda path: [])
    found = {(one.task, one.name): one for one in measured(run, tmp_path, tasks)}
    text = page.page([(run, found)], tasks, tmp_path)
    assert text.count("start: not measured. ") == len(tasks) and "gone: cannot be read" in text
    assert table_under(text, "# The runs")["start"][-2:] == ["–"] * 2
    assert not [*tmp_path.iterdir()]                          # no figure of nothing


def test_good_and_bad_pairs_follow_the_rule():
    labels = np.array([5.0, 4.5, 4.0, 2.0, 0.5, 0.2])
    similarity = np.array([-0.1, -0.2, -1.5, -0.3, -1.2, -1.3])   # third too low, fourth too high
    pairs = sts.Sts(None, labels, list("abcdef"), list("ABCDEF"))
    rows = [line.split("|") for line in page.table_5(similarity, pairs).splitlines()[2:]]
    assert [row[4].strip() for row in rows] == ["a", "e", "d", "c"]


def test_a_bar_in_a_cell_is_escaped():
    assert markdown(["a"], [["b|c"]]).splitlines()[-1] == r"| b\|c |"
