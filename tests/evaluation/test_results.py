"""Figures in one format: rows, tables, who is ahead, published figures, JSON, a new task."""

import json
import re
import shutil
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from convsim_mini.evaluation import EVALUATIONS, __main__ as evaluation, cqa, sts
from convsim_mini.evaluation.cqa import Candidate, Question
from convsim_mini.evaluation.metrics import difference, without_interval
from convsim_mini.evaluation.results import (
    Measured, PUBLISHED, cell, grid, measured, show)


@pytest.fixture
def toy(monkeypatch, tmp_path):
    """Registers a toy task, the lengths of texts in one file; → options that select its data."""
    module = SimpleNamespace(
        __doc__="How long are its texts?", COMPARED="pieces",
        find=lambda data, run=None: {path.stem: path for path in data.glob("*.toy")},
        read=lambda path: path.read_text().splitlines(),
        scores=lambda run, texts, encode: {"pieces": run.vocabulary.encode(texts).lengths},
        baselines=lambda run, texts: {"letters": np.array([*map(len, texts)])},
        figures=lambda texts, lengths: {"mean": without_interval(np.mean(lengths)),
                                        "spread": (np.nan, np.nan, np.nan)},
        lead=lambda texts, one, other: difference(np.mean, one, other),
        title=lambda name, texts: f"{name}, {len(texts)} texts",
        note=lambda name, texts, scores: "A toy.")
    monkeypatch.setitem(sys.modules, "convsim_mini.evaluation.toy", module)
    monkeypatch.setitem(EVALUATIONS, "toy", "a toy")
    (tmp_path / "latest.toy").write_text(". . .\n.\n. .\n.")
    return ["--data", str(tmp_path)]


SHOWN = """\
latest, 4 texts

[95% interval]      mean    spread
----------------  ------  --------
pieces               1.8         –
letters              2.5         –

pieces cannot be told apart from the best baseline, letters: mean -0.8 [-1.5, +0.0], \
paired.

A toy.

"""


def test_a_new_evaluation_is_one_module_and_one_name_in_a_list(trained, toy, tmp_path, capsys):
    run = str(trained[0])
    evaluation.main([run, *toy, "--on", "toy"])
    assert capsys.readouterr().out == SHOWN
    evaluation.main([run, *toy, "--on", "toy", "nli", "--json"])
    shown = capsys.readouterr()
    assert [*map(json.loads, shown.out.splitlines())] == [
        {"run": "", "task": "toy", "data": "latest", "row": row, "mean": [mean, None, None],
         "spread": [None] * 3} for row, mean in (("pieces", 1.75), ("letters", 2.5))]
    assert shown.err.startswith(SHOWN + "nli: not measured. ")
    other = shutil.copytree(run, tmp_path / "other")
    evaluation.main([run, str(other), *toy, "--on", "toy"])
    _, shown = capsys.readouterr().out.split("side by side")
    assert "nan" not in shown and re.search("^run .* mean, toy latest$", shown, re.MULTILINE)
    assert not re.search("^mean of run", shown, re.MULTILINE)    # a copy has the same seed
    assert re.search(r"^other − run .* \+0\.0 \[\+0\.0, \+0\.0\]$", shown, re.MULTILINE)


def test_what_needs_a_run_is_not_measured_for_a_function():
    told = [*map(show, measured(len, None, ["response", "nli"]))]
    assert [text.partition("; ")[0] for text in told] == [
        f"{task}: not measured. it needs a run" for task in ("response", "nli")]


def test_a_table_with_many_metrics_is_turned_and_a_missing_figure_is_a_dash():
    rows = {"a": {f"m{k}": (k, k - 0.26, k + 0.26) for k in range(7)}, "b": {"m1": (2, np.nan, 0)}}
    header, _, first, second, *_ = grid(rows, form="+.1f").splitlines()
    assert header.split()[-2:] == ["a", "b"]
    assert first.split() == ["m0", "+0.0", "[-0.3,", "+0.3]", "–"]
    assert second.split() == ["m1", "+1.0", "[+0.7,", "+1.3]", "+2.0"]
    assert cell((np.nan, 1, 2)) == "–" and cell((51.04, 49.2, 52.8)) == "51.0 [49.2, 52.8]"


def test_better_is_only_said_where_the_paired_interval_leaves_out_0():
    questions = [Question(f"Q{n}", "", [Candidate(f"R{k}", k + 1, k == 1, "") for k in range(5)])
                 for n in range(30)]
    right, wrong = ([float(k == place) for _ in questions for k in range(5)] for place in (1, 4))
    mixed = (right[:5] + wrong[:5]) * 15
    nearly = right[:-5] + wrong[-5:]                          # many resamples lack the last one
    for trained, said in ((right, "is ahead of the best baseline, mixed: MAP +"),
                          (mixed, "cannot be told apart from the best baseline, mixed: MAP +0.0"),
                          (wrong, "is behind the best baseline, mixed: MAP -")):
        one = Measured("cqa", "x", questions, {"it": trained}, {"wrong": wrong, "mixed": mixed})
        text = show(one)
        assert f"\n\nit {said}" in text and "built-in set" not in text
    assert cqa.lead(questions, right, wrong) == pytest.approx([200 / 3] * 3)
    assert cqa.lead(questions, right, nearly)[1] == 0


def test_the_verdict_is_on_the_row_by_which_runs_are_compared_or_else_on_a_cosine():
    pairs = sts.read(sts.OWN)
    noise = np.random.default_rng(0).random(len(pairs.labels))
    rows = {"trained": noise, "trained, as cosine": pairs.labels + noise,
            "trained, with words": pairs.labels}
    for row in ("trained, with words", "trained, as cosine"):
        text = show(Measured("sts", "dev", pairs, rows, {"words": noise}))
        assert f"\n\n{row} is ahead of the best baseline, words: r +" in text
        rows.popitem()


def test_what_others_published_stands_in_the_tables_of_its_data_sets():
    one = Measured("sts", "dev")
    assert one.published()["SIF (Yang 2018)"]["r"][0] == 80.1
    assert Measured("sts", "test").published()["SIF (Yang 2018)"]["r"][0] == 72.0
    for name in ("built-in set", "train"):
        assert not Measured("sts", name).published()
    assert "47.42" in str(Measured("cqa", "SemEval2017-task3-English-test").published())
    assert not Measured("cqa", "SemEval2016-Task3-CQA-QL-test").published()
    for task in PUBLISHED.keys() - {"sources"}:
        for rows in PUBLISHED[task].values():
            for row, figures in rows.items():
                assert any(mark in row for mark in PUBLISHED["sources"])
                assert all(0 < value < 100 for value in figures.values())


def test_several_runs_share_a_table_and_what_is_equal_stands_once():
    questions = cqa.read(cqa.OWN)
    rng = np.random.default_rng(0)
    engine = cqa.baselines(None, questions)
    text = show(*(Measured("cqa", "built-in set", questions, {"trained": rng.random(60)}, engine,
                           run=name) for name in ("one", "two")))
    rows = [line.split("  ")[0] for line in text.splitlines()]
    assert rows.count("one: trained") == rows.count("two: trained") == 1
    assert rows.count(cqa.SEARCH_ENGINE) == text.count(cqa.OWN_NOTE) == 1
    assert show(Measured("nli", absent="none", run="one")) == "one: not measured. none"
