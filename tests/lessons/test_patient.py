"""The patients: each fault is drawn, told by its own evidence alone, and judged by command."""

import json
import sys

import pytest

from conftest import ROOT

sys.path[:0] = [str(ROOT), str(ROOT / "lessons")]    # the lessons are no part of the package

from lessons.patient import __main__ as patient
from lessons.patient.faults import FAULTS
from lessons.patient.measurements import MEASUREMENTS

NAMES = {fault: next(name for name in map(str, range(1_000))    # a patient with each of them
                     if patient.fault_of(name)[0] == fault) for fault in FAULTS}


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """The command in an empty folder: → exit code, output, errors."""
    monkeypatch.chdir(tmp_path)
    def run(*arguments):
        try:
            code = patient.main(arguments) or 0
        except SystemExit as exit:
            code = exit.code
        return code, *capsys.readouterr()
    return run


def test_a_name_has_one_fault_and_healthy_has_none():
    assert patient.fault_of("anna") == patient.fault_of("anna") != patient.fault_of("ben")
    assert patient.fault_of("healthy")[0] == "healthy"
    assert all(len(row.differs) == (name != "healthy") for name, row in FAULTS.items())


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS)
def test_a_run_has_the_evidence_of_its_own_fault_and_of_no_other(fault):
    run = patient.admit(NAMES[fault])
    for other in set(FAULTS) - {"healthy"}:
        assert all(so for so, _ in patient.evidence(run, other)) == (other == fault), other
    assert [word for word in FAULTS if patient.judge(NAMES[fault], run, word)[0]] == [fault]


def test_it_measures_counts_and_judges(command):
    name = NAMES["scale-1"]
    chart = command(name)[1]
    assert all(f"    {word} " in chart for word in ("gap", *FAULTS, *MEASUREMENTS))
    assert "first layer, last step" in command(name, "ask", "steps", "scores")[1]
    code, wrong, _ = command(name, "diagnose", "few-words")
    assert code == 1 and "with few-words it is 20 to 100" in wrong and "scale-1" not in wrong
    code, right, _ = command(name, "diagnose", "scale-1", "--json")
    assert code == 0 and json.loads(right)["tests"][0]["score"] == 1
    assert json.loads(right)["extra_data"] == {
        "asked": ["steps", "scores"], "diagnoses": ["few-words", "scale-1"]}


@pytest.mark.parametrize("arguments", ["", "a ask", "a ask step", "a diagnose flu", "a cure",
                                       "a diagnose healthy few-words", "a --json"])
def test_a_usage_error_is_one_line_and_exit_code_2(command, arguments):
    code, _, error = command(*arguments.split())
    assert code == 2 and error.startswith("error: ") and error.count("\n") == 1
