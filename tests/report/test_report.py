"""The report: its cells, its rules, what it says of absent data, and tasks that are new."""

import dataclasses
import shutil
import sys
from textwrap import indent
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.image import imread

from convsim_mini import train
from convsim_mini.common.tables import markdown
from convsim_mini.evaluation import EVALUATIONS, cqa, response, sts
from convsim_mini.evaluation.metrics import pearson, ranking_scores
from convsim_mini.report import __main__ as report, page
from convsim_mini.report.results import TUNED, measure, summaries
from convsim_mini.training.options import parse_config
from convsim_mini.training.run import load_run, save_tuned

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
                   "--optim.table_rate", 0.01]                # or no step is better than the first
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
    lines = text.split(f"# {title}", 1)[1].split("\n|", 1)[1].split("\n\n", 1)[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return {"head": rows[0]} | {row[0]: row[1:] for row in rows[2:]}


def figures(cell):
    return [float(figure) for figure in cell.split(" / ")]


def test_the_runs_are_described(text):
    runs = table_under(text, "The runs")
    of_runs = {name: dict(zip(runs["head"][1:], row)) for name, row in runs.items()}
    assert of_runs["start"]["pairs seen"] == f"{30 * 64:,}"
    assert of_runs["nli-1"]["pairs seen"] == f"{2 * 64 + 2 * 60:,}"
    assert [of_runs[run]["goes on from"] for run in ("start", "nli-0.5")] == ["–", "start"]
    assert of_runs["nli-1"]["trained on"] == "conversations + SNLI"
    assert "cores" in of_runs["start"]["machine"] and of_runs["start"]["pairs of"] == "pairs.tsv"
    assert [*table_under(text, "Side by side")][1:] == ["start", "nli-0.5", "nli-1"]


def test_every_table_of_the_paper_has_what_was_measured(runs, data, text):
    start, whole = load_run(runs[0]), load_run(runs[2])
    one = table_under(text, "Table 1")
    assert [*one] == ["head", "start", "nli-0.5", "nli-1"]
    ranks = response.scores(start, response.read(response.find(None, start)["test"]))["trained"]
    ours = [100 * (ranks <= n).mean() for n in (1, 3, 10)]
    assert figures(one["start"][1]) == pytest.approx(ours, abs=0.051)
    theirs = page.PUBLISHED["RESPONSE"]["DAN"]
    assert figures(one["start"][0]) == theirs
    assert figures(one["start"][2]) == pytest.approx(np.subtract(ours, theirs), abs=0.051)
    assert one["nli-1"][0] == one["nli-1"][2] == "–"    # the paper has none of its multitask run

    result = measure(whole, data, ["sts", "nli", "cqa"])
    two = table_under(text, "Table 2")
    right = result.scores["nli"]["test"]["trained"] == result.data["nli"]["test"].labels
    assert "start" not in two and two["nli-1"][0] == "84.1"
    assert float(two["nli-1"][1]) == pytest.approx(100 * right.mean(), abs=0.051)

    four = table_under(text, "Tables 3 and 4")
    pairs = result.data["sts"]["dev"]
    for row, state in (("trained", "out of the box"), (TUNED, "tuned")):
        r = [100 * pearson(result.scores["sts"]["dev"][row][kept], pairs.labels[kept])
             for kept in (np.full(60, True), *(pairs.genres == genre for genre in sts.GENRES[1:]))]
        assert figures(four[f"nli-1, {state}, dev"][1]) == pytest.approx(r, abs=0.051)
    assert four["nli-1, tuned, dev"][0] == "83.5 / 88.8 / 75.9 / 73.1"
    assert four["start, tuned, dev"][1] == four["start, out of the box, test"][1] == "–"
    assert four["InferSent, published, test"] == ["75.8", "–", "–"]

    six = table_under(text, "Table 6")
    questions = cqa.read(cqa.OWN)
    map_ = 100 * ranking_scores(cqa.top_ten(questions, cqa.scores(whole, questions)["trained"]))
    assert float(six["nli-1, 2017-test"][1]) == pytest.approx(map_[0][0], abs=0.051)
    assert [six[f"nli-1, {year}-test"][0] for year in (2016, 2017)] == ["–", "47.4"]
    assert six["KeLP-contrastive1, published, test of 2017"] == ["49.0", "–", "–"]


def test_figures_are_drawn_and_stand_in_the_page(written, text):
    for name in ("figure_7.png", "figure_8.png"):
        assert f"]({name})" in text
        picture = imread(written / name)[..., :3]
        colourful = (np.ptp(picture, axis=2) > 0.3).mean()
        assert picture.shape[0] > 400 and 0.0005 < colourful < 0.5
    eight = table_under(text, "Figure 8")
    assert eight["head"][1:] == ["0%", "50%", "100%"]
    start = figures(table_under(text, "Tables 3 and 4")["start, out of the box, dev"][1])
    assert [float(eight[f"{genre}, dev"][0]) for genre in ("all", "captions")] == start[:2]
    for claim in (page.TABLE_1, page.TABLES_3_AND_4, page.FIGURE_8):
        assert f"\n\n{claim}\n\n" in text


def test_a_new_evaluation_shows_up(runs, tmp_path, monkeypatch, capsys):
    module = SimpleNamespace(
        find=lambda data, run: {"own": 7}, read=lambda source: source + 1,
        scores=lambda run, dataset: {"trained": run.step + dataset},
        baselines=lambda run, dataset, vectors=None: {"chance": dataset},
        summary=lambda name, dataset, scores, baselines: f"{name}: {scores | baselines}")
    monkeypatch.setitem(EVALUATIONS, "new", "what nobody measured")
    monkeypatch.setitem(sys.modules, "convsim_mini.evaluation.new", module)
    out = tmp_path / "new" / "out"
    for _ in range(2):                                        # the second replaces the first
        report.main([str(runs[0]), "--on", "new", "--out", str(out)])
        text = (out / "report.md").read_text()
        assert ("## new: what nobody measured\n\nstart:\n\n    own: {'trained': 38, 'chance': 8}"
                in text)
        assert f"{out / 'report.md'}: 1 runs" in capsys.readouterr().out


def test_each_task_shows_what_its_command_prints_or_why_it_does_not(runs, data, text):
    result = measure(load_run(runs[0]), data, ["sts", "nli"])
    assert all(indent(summary, "    ") in text for summary in summaries(result, "sts"))
    assert "start: not measured." in text.split("## nli:")[1]
    assert "nli-1: not measured." not in text


def test_without_data_and_pairs_it_says_so(runs, tmp_path, monkeypatch):
    run, tasks = load_run(runs[0]), [*EVALUATIONS]
    run = run._replace(config=dataclasses.replace(run.config, pairs=[str(tmp_path / "gone")]))
    monkeypatch.setattr(page, "read_log", lambda path: [])
    text = page.page([measure(run, tmp_path, tasks)], tasks, tmp_path)
    assert text.count("start: not measured. ") == len(tasks) and "gone: cannot be read" in text
    assert table_under(text, "Table 1")["start"][1] == "–"
    assert table_under(text, "The runs")["start"][-2:] == ["–"] * 2
    assert not [*tmp_path.iterdir()]                          # no figure of nothing
    assert "STS own set" in page.page([measure(run, None, ["sts"])], ["sts"], tmp_path)


def test_good_and_bad_pairs_follow_the_rule():
    labels = np.array([5.0, 4.5, 4.0, 2.0, 0.5, 0.2])
    similarity = np.array([-0.1, -0.2, -1.5, -0.3, -1.2, -1.3])   # third too low, fourth too high
    pairs = sts.Sts(None, labels, list("abcdef"), list("ABCDEF"))
    rows = [line.split("|") for line in page.table_5(similarity, pairs).splitlines()[2:]]
    assert [row[4].strip() for row in rows] == ["a", "e", "d", "c"]


def test_cells_keep_apart_what_is_absent():
    rows = [["a", (50.0, 60.0), [51.0, 58.5]], ["b", [], [1.0]], ["c", (1.0,), []]]
    cells = [[cell.strip() for cell in line.strip("|").split("|")]
             for line in page.beside("x", rows).splitlines()[2:]]
    assert cells == [["a", "50.0 / 60.0", "51.0 / 58.5", "+1.0 / -1.5"],
                     ["b", "–", "1.0", "–"], ["c", "1.0", "–", "–"]]
    assert page.figures([1.0, np.nan]) == "1.0 / –"
    assert markdown(["a"], [["b|c"]]).splitlines()[-1] == r"| b\|c |"
