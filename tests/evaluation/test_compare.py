"""Runs side by side: the cells are what the runs measure, and no test set of others is read."""

import re
from dataclasses import replace

import numpy as np
import pytest

from convsim_mini import train
from convsim_mini.common.cli import UserError
from convsim_mini.evaluation import __main__ as evaluation, compare, cqa, response, sts
from convsim_mini.evaluation import evaluation_of
from convsim_mini.evaluation.results import Measured, cell, names_of
from convsim_mini.inference.sentence_encoder import encoder_of
from convsim_mini.training.run import MODEL, load_run

from conftest import generate_pairs, parse_config

ON = ["--on", "response", "sts", "cqa"]


@pytest.fixture(scope="module")
def folders(arguments, write_tsv, tmp_path_factory):
    """Runs of seeds 1 and 2, and one on other pairs with another rate."""
    folder = tmp_path_factory.mktemp("runs")
    other = write_tsv(folder / "other.tsv", generate_pairs(4_000, seed=8))
    for name, options in (("one", ["--seed", 1]), ("two", ["--seed", 2]),
                          ("three", ["--pairs", other, "--optim.learning_rate", 0.002])):
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
    (tmp_path / "sts-test.csv").write_bytes(sts.OWN.read_bytes())    # nothing is chosen by it
    evaluation.main([*map(str, folders), "--data", str(tmp_path), *ON])
    tables = tables_of(capsys.readouterr().out)
    one, two = runs = [load_run(folder) for folder in folders[:2]]
    figures, leads = [], []
    for task, row, source in ((response, "trained", response.find(None, one)["own pairs"]),
                              (sts, "trained, with words", sts.OWN),
                              (cqa, "trained, with words", cqa.OWN)):
        dataset = task.read(source)
        first, second = (task.scores(run, dataset, encoder_of(run).encode)[row] for run in runs)
        figures.append([next(iter(task.figures(dataset, x).values())) for x in (first, second)])
        leads.append(task.lead(dataset, second, first))

    scores = tables["run"]
    assert scores[0] == ["run", "P@1, response own pairs", "r, sts dev", "MAP, cqa cqa-dev"]
    assert [row[0] for row in scores[1:]] == ["one", "two", "three", "mean of one, two"]
    for k in (0, 1):
        assert scores[1 + k][1:] == [cell(of_runs[k]) for of_runs in figures]
    shares = [value for value, *_ in figures[0]]
    assert scores[4][1] == f"{np.mean(shares):.1f} ± {np.std(shares, ddof=1):.1f}"
    assert tables["difference"][1] == ["two − one", *(cell(lead, "+.1f") for lead in leads)]
    assert tables["difference"][2][:2] == ["three − one", "–"]
    assert tables["setting"] == [["setting", "one", "two", "three"],
                                 ["pairs", *[str(one.config.pairs)] * 2,
                                  str([str(folders[0].parent / "other.tsv")])],
                                 ["seed", "1", "2", "1"],
                                 ["optim.learning_rate", "0.0003", "0.0003", "0.002"]]


def test_a_group_of_seeds_is_ahead_if_the_interval_of_its_mean_lead_is_above_0(folders, tmp_path):
    """Four runs as two groups, told apart by their numbers of steps; what they score is made up."""
    one, corpus, runs, ones = load_run(folders[0]), np.arange(100), [], []
    for steps, ranks in ((6, (50, 40, 45)), (7, (52, 43, 47)), (8, (50, 40, 45))):
        for seed, right in enumerate(ranks):
            config = replace(one.config, steps=steps, seed=seed)
            runs.append(one._replace(path=tmp_path / f"{steps}-{seed}" / MODEL, config=config))
            ones.append(OfRanks("cqa", "dev", corpus, {
                "trained": np.where(corpus < right, 1, 2)}, run=runs[-1].name))
    _, gaps = compare.side_by_side(runs[:6], compare.data_sets(runs[:6], ones[:6]))
    (pair, lead), = [*gaps.items()][-1:]
    assert pair == "mean of 7-0, 7-1, 7-2 − mean of 6-0, 6-1, 6-2"
    leads = np.array([2, 3, 2])
    half = 4.303 * np.std(leads, ddof=1) / np.sqrt(3)         # Student's t, 2 degrees of freedom
    assert lead["P@1, cqa dev"] == pytest.approx((7 / 3, 7 / 3 - half, 7 / 3 + half), abs=1e-3)
    text = compare.verdicts(gaps)
    assert ("mean of 7-0, 7-1, 7-2 is ahead of mean of 6-0, 6-1, 6-2: "
            "P@1, cqa dev +2.3 [+0.9, +3.8].") in text
    assert "groups were compared" not in text
    text = compare.comparison(runs, ones)
    assert "\n3 groups were compared: even if none differed" in text


def test_runs_of_one_name_are_told_apart_by_their_folders(folders):
    run = load_run(folders[0])
    other = run._replace(path=folders[1] / "one" / MODEL)
    assert names_of([run, other]) == [str(folders[0]), str(folders[1] / "one")]
    with pytest.raises(UserError, match="a run is named twice"):
        names_of([run, run])


class OfRanks(Measured):
    """Measured as response prediction is, but on the ranks alone."""

    @property
    def of_task(self):
        return evaluation_of("response")._replace(same=np.array_equal)


def test_runs_on_other_data_are_not_compared_there(folders, tmp_path, capsys):
    (folders[0].parent / "other.tsv").unlink()
    evaluation.main([str(folders[0]), str(folders[2]), *ON])
    text = capsys.readouterr().out
    assert tables_of(text)["run"][0] == ["run", "r, sts built-in set", "MAP, cqa built-in set"]
    assert text.count("three: not measured. ") == 1
