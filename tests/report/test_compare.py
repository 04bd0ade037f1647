"""Runs side by side: the cells are what the runs measure, and no test set of others is read."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

from convsim_mini import train
from convsim_mini.evaluation import cqa, response, sts
from convsim_mini.evaluation.metrics import (
    map_difference, mean_interval, pearson_difference, with_interval)
from convsim_mini.report import compare
from convsim_mini.report.results import AS_ENCODED
from convsim_mini.training.options import parse_config
from convsim_mini.training.run import load_run

from conftest import generate_pairs


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
    parts = [part.splitlines() for part in text.split("\n\n") if "\n---" in part]
    tables = [[re.split(" {2,}", row.strip()) for row in (head, *rows)] for head, _, *rows in parts]
    return {table[0][0]: table for table in tables}


def test_runs_stand_side_by_side(folders, tmp_path, capsys):
    (tmp_path / "sts-dev.csv").write_bytes(sts.OWN.read_bytes())
    (tmp_path / "cqa-dev.xml").write_bytes(cqa.OWN.read_bytes())
    for name in ("sts-test.csv", "cqa-test.xml"):             # reading them would be an error
        (tmp_path / name).write_text("damaged")
    compare.main([*map(str, folders), "--data", str(tmp_path)])
    tables = tables_of(capsys.readouterr().out)
    one, two = map(load_run, folders[:2])

    assert tables["run"][0] == ["run", "P@1", "STS dev", "MAP cqa-dev"]
    assert [row[0] for row in tables["run"][1:]] == ["one", "two", "three", "mean of one, two"]
    test = response.read(response.find(None, one)["test"])
    right = [response.scores(run, test)["trained"] == 1 for run in (one, two)]
    shares = [100 * answers.mean() for answers in right]
    assert float(tables["run"][1][1].split()[0]) == pytest.approx(shares[0], abs=0.051)
    assert tables["run"][4][1] == f"{np.mean(shares):.1f} ± {np.std(shares, ddof=1):.1f}"

    gain = mean_interval(100 * (right[1].astype(float) - right[0]))
    pairs, asked = sts.read(sts.OWN), cqa.read(cqa.OWN)
    x, z = (sts.scores(run, pairs)[AS_ENCODED["sts"]] for run in (two, one))
    r = 100 * np.array(pearson_difference(x, z, pairs.labels))
    x, z = (cqa.top_ten(asked, cqa.scores(run, asked)[AS_ENCODED["cqa"]]) for run in (two, one))
    differences = gain, r, 100 * np.array(map_difference(x, z))
    assert tables["difference"][1] == [
        "two − one", *(with_interval(difference, "+.1f") for difference in differences)]
    assert tables["difference"][2][:2] == ["three − one", "other inputs"]
    assert tables["setting"] == [["setting", "one", "two", "three"],
                                 ["pairs", "pairs.tsv", "pairs.tsv", "other.tsv"],
                                 ["seed", "1", "2", "1"],
                                 ["optim.rate", *[str(one.config.optim.rate)] * 2, "0.002"]]


def test_what_is_absent_is_told_once(folders, tmp_path, capsys):
    compare.main([*map(str, folders[:2]), "--data", str(tmp_path)])
    text = capsys.readouterr().out
    assert tables_of(text)["run"][0] == ["run", "P@1"]
    assert text.count("sts: not measured. ") == text.count("cqa: not measured. ") == 1
    compare.main([*map(str, folders[:2])])
    assert "STS own set" in capsys.readouterr().out


def test_a_run_that_was_not_measured_has_a_dash():
    results = [SimpleNamespace(predicted=lambda *_: None)] * 2
    for measure in (compare.replies(results), compare.questions("dev", [], results),
                    compare.similarity("dev", SimpleNamespace(labels=[]), results)):
        assert compare.score(measure, 0) == compare.lead(measure, 1) == "–"
        assert compare.mean(measure, [0, 1]) == "–"
