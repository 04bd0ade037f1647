"""Runs side by side: the cells are what the runs measure, and no test set of others is read."""

from types import SimpleNamespace

import numpy as np
import pytest

from convsim_mini import train
from convsim_mini.evaluation import cqa, response, sts
from convsim_mini.evaluation.metrics import mean_interval, pearson_difference, with_interval
from convsim_mini.report import compare
from convsim_mini.report.results import BOTH
from convsim_mini.training.options import parse_config
from convsim_mini.training.run import load_run

from conftest import command, generate_pairs


@pytest.fixture(scope="module")
def folders(arguments, write_tsv, tmp_path_factory):
    """Runs of seeds 1 and 2, and one on other pairs with another rate."""
    folder = tmp_path_factory.mktemp("runs")
    other = write_tsv(folder / "other.tsv", generate_pairs(4_000, seed=8))
    for name, options in (("one", ["--seed", 1]), ("two", ["--seed", 2]),
                          ("three", ["--pairs", other, "--optim.rate", 0.002])):
        train.train(parse_config(list(map(str, [*arguments, "--steps", 6, "--evaluations", 1,
                                                *options, "--run", folder / name]))))
    return [folder / name for name in ("one", "two", "three")]


def tables_of(text):
    """First cell of a table's heading → its rows: lists of cells, the heading first."""
    parts = [[line.split("  ") for line in part.splitlines() if set(line) - set("- ")]
             for part in text.split("\n\n") if "---" in part]
    tables = [[[cell.strip() for cell in row if cell.strip()] for row in part] for part in parts]
    return {table[0][0]: table for table in tables}


def test_runs_stand_side_by_side(folders, tmp_path):
    (tmp_path / "sts-dev.csv").write_bytes(sts.OWN.read_bytes())
    (tmp_path / "cqa-dev.xml").write_bytes(cqa.OWN.read_bytes())
    for name in ("sts-test.csv", "cqa-test.xml"):             # reading them would be an error
        (tmp_path / name).write_text("damaged")
    done = command("report.compare", *folders, "--data", tmp_path, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    tables = tables_of(done.stdout)
    one, two, three = map(load_run, folders)

    assert tables["run"][0] == ["run", "P@1", "STS dev", "MAP cqa-dev"]
    test = response.read(response.find(None, one)["test"])
    right = [response.scores(run, test)["trained"] == 1 for run in (one, two)]
    assert float(tables["run"][1][1].split()[0]) == pytest.approx(100 * right[0].mean(), abs=0.051)
    gain = mean_interval(100 * (right[1].astype(float) - right[0]))
    pairs = sts.read(sts.OWN)
    x, z = (sts.scores(run, pairs)[BOTH] for run in (two, one))
    r = [100 * figure for figure in pearson_difference(x, z, pairs.labels)]
    assert tables["difference"][1][:3] == [
        "two − one", with_interval(gain, "+.1f"), with_interval(r, "+.1f")]
    assert tables["difference"][2][:2] == ["three − one", "other inputs"]

    (group,) = tables["runs"][1:]                             # the third has another rate
    shares = [100 * answers.mean() for answers in right]
    assert group[0] == "one, two"
    assert group[1] == f"{np.mean(shares):.1f} ± {np.std(shares, ddof=1):.1f}"
    assert tables["setting"] == [["setting", "one", "two", "three"],
                                 ["pairs", "pairs.tsv", "pairs.tsv", "other.tsv"],
                                 ["seed", "1", "2", "1"],
                                 ["optim.rate", *[str(one.config.optim.rate)] * 2, "0.002"]]


def test_without_data_the_own_sets_are_compared(folders, tmp_path):
    done = command("report.compare", *folders[:2], cwd=tmp_path)
    assert done.returncode == 0 and "STS own set" in done.stdout, done.stderr


def test_a_run_without_its_pairs_or_its_matrix_has_a_dash():
    results = [SimpleNamespace(test=None, ranks=None, readings={})] * 2
    for measure in (compare.replies(results), compare.similarity("dev", SimpleNamespace(labels=[]),
                                                                 results)):
        assert compare.score(measure, 0) == compare.lead(measure, 1) == "–"
        assert compare.mean(measure, [0, 1]) == "–"
