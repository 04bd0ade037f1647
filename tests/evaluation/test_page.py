"""The page that `evaluation --out` writes: its tables, its figures, and what is absent."""

import csv
import shutil

import numpy as np
import pytest
from matplotlib.image import imread

from convsim_mini import train
from convsim_mini.common.show import markdown
from convsim_mini.evaluation import __main__ as evaluation, cqa
from convsim_mini.evaluation.results import cell, measured
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
    evaluation.main([*map(str, runs), "--data", str(data), "--out", str(folder), *ON])
    return folder


@pytest.fixture(scope="module")
def text(written):
    return (written / "evaluation.md").read_text(encoding="utf-8")


def table_under(text, title):
    """The rows of the first table below a title, by their first cells; "head" is the heading."""
    lines = text.split(title, 1)[1].split("\n|", 1)[1].split("\n\n", 1)[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return {"head": rows[0]} | {row[0]: row[1:] for row in rows[2:]}


def test_every_table_of_the_paper_has_what_was_measured(runs, data, text):
    """Table → a row of ours, a cell of it, the paper's row, a cell of that."""
    found = {(one.task, one.name): one for run in map(load_run, (runs[0], runs[2]))
             for one in measured(run, data, ["response", "sts", "nli", "cqa"])}
    for task, name, row, metric, paper, theirs in (
            ("response", "own pairs", "trained", "P@3", "the paper: DAN, other inputs", 70.2),
            ("nli", "test", "trained", "accuracy", "the paper: Reddit + SNLI", 84.1),
            ("sts", "dev", "trained, tuned", "news", "the paper: Reddit + SNLI, tuned", 73.1),
            ("sts", "dev", "trained", "r", "InferSent (Yang 2018)", 80.1),
            ("cqa", "2017-test", "trained", "MAP", "KeLP-contrastive1 (Yang 2018)", 49)):
        one = found[task, name]
        table = table_under(text, one.of_task.title(one.name, one.data))
        column = table["head"].index(metric) - 1
        ours = [cells[column] for label, cells in table.items()
                if label in (row, f"nli-1: {row}")]
        assert cell(one.figures[row][metric]) in ours
        assert table[paper][column] == f"{theirs:.1f}"
    assert "2016-test: 10 questions" in text
    assert text.count("KeLP") == 1                            # 2016 had other systems


def test_figures_are_drawn_and_shown_in_the_page(written, text):
    for name in ("curves.png", "figure_7_dev.png", "figure_8.png"):
        assert f"]({name})" in text
        picture = imread(written / name)[..., :3]
        colourful = (np.ptp(picture, axis=2) > 0.3).mean()
        assert picture.shape[0] > 400 and 0.0005 < colourful < 0.5


def test_the_csv_has_every_figure_of_the_tables(written, runs, data):
    with open(written / "figures.csv", encoding="utf-8", newline="") as file:
        rows = {tuple(row[name] for name in ("run", "task", "data", "row", "metric")): row["value"]
                for row in csv.DictReader(file)}
    one, = measured(load_run(runs[0]), data, ["sts"])
    for row, figures in one.figures.items():
        for metric, (value, *_) in figures.items():
            assert rows["start", "sts", "dev", row, metric] == str(value)
    assert rows["nli-1", "cqa", "2017-test", "KeLP-contrastive1 (Yang 2018)", "MAP"] == "49.0"


def test_a_task_without_its_data_is_named_and_a_second_page_replaces_nothing(
        runs, text, tmp_path):
    assert "start: not measured." in text
    assert "nli-1: not measured." not in text and "nan" not in text
    evaluation.main([str(runs[0]), "--on", "sts", "--out", str(tmp_path)])
    with pytest.raises(SystemExit, match="2"):
        evaluation.main([str(runs[0]), "--on", "cqa", "--out", str(tmp_path)])
    text = (tmp_path / "evaluation.md").read_text(encoding="utf-8")
    assert "STS built-in set, 120 pairs" in text and "questions" not in text
    assert {path.name for path in tmp_path.iterdir()} == {
        "evaluation.md", "figures.csv", "curves.png"}


def test_a_bar_in_a_cell_is_escaped():
    assert markdown(["a"], [["b|c"]]).splitlines()[-1] == r"| b\|c |"
