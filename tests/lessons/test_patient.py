"""The patients: each fault is drawn, told by its own evidence alone, and judged by command."""

import json
import sys
from functools import cache

import pytest

from conftest import ROOT

sys.path[:0] = [str(ROOT), str(ROOT / "lessons")]    # the lessons are no part of the package

from lessons.patient import __main__ as patient
from lessons.patient.faults import FAULTS

NAMES = {patient.faults_of(name)[0][0]: name for name in map(str, range(1_000))}    # one of each


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """The command in an empty folder → exit code, None without sys.exit; output; errors."""
    def run(*arguments):
        monkeypatch.chdir(tmp_path)
        try:
            return patient.main(arguments), *capsys.readouterr()
        except SystemExit as exit:
            return exit.code, *capsys.readouterr()
    return run


def test_a_name_has_one_fault():
    assert patient.faults_of("anna") == patient.faults_of("anna") != patient.faults_of("ben")
    assert len({*patient.faults_of("hard-anna")[0]}) == 2
    assert all(len(row.differs) == (name != "healthy") for name, row in FAULTS.items())


@pytest.mark.long
@pytest.mark.parametrize("name", [*NAMES.values(), *(f"hard-{k}" for k in range(4))])
def test_a_run_has_the_evidence_of_its_own_faults_and_of_no_other(name):
    run, (faults, _) = patient.admit(name), patient.faults_of(name)
    for other in [name for name in FAULTS if name != "healthy"]:
        assert all(so for so, *_ in patient.evidence(run, other)) == (other in faults), other
    assert patient.judge(name, run, faults[::-1])[0]
    assert not any(patient.judge(name, run, [*faults[1:], word])[0]
                   for word in FAULTS if word not in faults)


def test_the_next_command_is_for_the_same_name(command):
    assert "lessons.patient 'ada l' ask steps  or" in command("ada l")[1]


def test_it_measures_counts_and_judges(command, monkeypatch):
    monkeypatch.setattr(patient, "admit", cache(patient.admit))    # trained once
    name, chart = NAMES["scale-1"], command(NAMES["scale-1"])[1]
    assert all(f"    {word} " in chart for word in ("gap", *FAULTS, *patient.MEASUREMENTS))
    assert "first layer, last step" in command(name, "ask", "steps", "scores")[1]
    code, said, _ = command(name, "diagnose", "few-pieces")
    assert code == 1 and "with few-pieces it is 20 to 100" in said and "scale-1" not in said
    code, said, _ = command(name, "diagnose", "scale-1", "--json")
    (test,), kept = json.loads(said).values()
    assert code == 0 and test["score"] == 0.5 and list(kept.values()) == [
        ["steps", "scores"], ["few-pieces", "scale-1"]]
    command(name, "ask", "scores", "layers", "p1", "read")
    assert "Score: 0.45." in command(name, "diagnose", "scale-1")[1]    # five measurements


@pytest.mark.parametrize("arguments", ["", "a ask", "a ask step", "a cure", "a diagnose flu",
                                       "a diagnose scale-1 few-pieces", "hard diagnose scale-1",
                                       "a --json"])
def test_a_usage_error_is_one_line_and_exit_code_2(command, arguments):
    code, _, error = command(*arguments.split())
    assert code == 2 and error.startswith("error: ") and error.count("\n") == 1
