"""Runs side by side: the cells are what the runs measure, and no test set of others is read."""

import re

import numpy as np
import pytest

from convsim_mini import load, train
from convsim_mini.evaluation import cqa, response, sts
from convsim_mini.evaluation.metrics import (
    map_difference, mean_interval, pearson, pearson_difference, per_cent, ranking_scores,
    with_interval)
from convsim_mini.report import compare
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
    one, two = runs = [load_run(folder) for folder in folders[:2]]
    pairs, asked = sts.read(sts.OWN), cqa.read(cqa.OWN)
    test = response.read(response.find(None, one)["test"])
    right = [response.scores(run, test)["trained"] == 1 for run in runs]
    x = [sts.cosines(load(folder).encode, pairs) for folder in folders[:2]]
    best = [cqa.top_ten(asked, cqa.scores(run, asked)["trained"]) for run in runs]

    scores = tables["run"]
    assert scores[0] == ["run", "P@1", "STS dev", "MAP cqa-dev"]
    assert [row[0] for row in scores[1:]] == ["one", "two", "three", "mean of one, two"]
    for k in (0, 1):
        assert scores[1 + k][1::2] == [with_interval(figures) for figures in (
            per_cent(right[k]), 100 * ranking_scores(best[k])[0])]
        assert scores[1 + k][2].startswith(f"{100 * pearson(x[k], pairs.labels):.1f} [")
    shares = [100 * answers.mean() for answers in right]
    assert scores[4][1] == f"{np.mean(shares):.1f} ± {np.std(shares, ddof=1):.1f}"
    differences = (mean_interval(100 * (right[1].astype(float) - right[0])),
                   100 * np.array(pearson_difference(x[1], x[0], pairs.labels)),
                   100 * np.array(map_difference(best[1], best[0])))
    assert tables["difference"][1] == [
        "two − one", *(with_interval(difference, "+.1f") for difference in differences)]
    assert tables["difference"][2][:2] == ["three − one", "other inputs"]
    assert tables["setting"] == [["setting", "one", "two", "three"],
                                 ["pairs", *[str(one.config.pairs)] * 2,
                                  str([str(folders[0].parent / "other.tsv")])],
                                 ["seed", "1", "2", "1"],
                                 ["optim.rate", *[str(one.config.optim.rate)] * 2, "0.002"]]


def test_what_is_absent_is_told_once(folders, tmp_path, capsys, monkeypatch):
    compare.main([*map(str, folders[:2]), "--data", str(tmp_path)])
    text = capsys.readouterr().out
    assert tables_of(text)["run"][0] == ["run", "P@1"]
    assert text.count("sts: not measured. ") == text.count("cqa: not measured. ") == 1
    (folders[0].parent / "other.tsv").unlink()
    compare.main([str(folders[0]), str(folders[2])])
    text = capsys.readouterr().out
    assert tables_of(text)["run"][0] == ["run", "STS own set", "MAP own set"]
    assert text.count("response: not measured. ") == 1
