"""The patients: each fault is drawn, told by its evidence alone, and judged by command."""

import json
import os
import subprocess
import sys

import pytest

from conftest import PATH, ROOT

sys.path[:0] = [str(ROOT), str(ROOT / "lessons")]    # the lessons are no part of the package

from lessons.patient import __main__ as patient
from lessons.patient.faults import FAULTS
from lessons.patient.measurements import measure

NAMES = {fault: next(name for name in map(str, range(1_000))    # one of each, drawn by its name
                     if patient.fault_of(name)[0] == fault) for fault in FAULTS}


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """The reader's folder, empty."""
    monkeypatch.chdir(tmp_path)


def test_a_name_has_one_fault_and_healthy_has_none():
    assert len(FAULTS) >= 16 and all(len(row.differs) == 1 for row in list(FAULTS.values())[1:])
    assert patient.fault_of("anna") == patient.fault_of("anna")
    assert patient.fault_of("healthy")[0] == "healthy" and not FAULTS["healthy"].differs


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS)
def test_a_run_has_the_evidence_of_its_own_fault_and_of_no_other(fault, desk, capsys):
    run = patient.admit(NAMES[fault])
    for other in list(FAULTS)[1:]:
        assert all(so for so, _ in patient.evidence(run, other)) == (other == fault), other
        assert patient.judge(NAMES[fault], run, other)[0] == (other == fault)
    assert patient.diagnose(NAMES[fault], run, fault)
    assert f"Right: {fault}. {FAULTS[fault].what}" in capsys.readouterr().out
    assert all(isinstance(x, str) or x == x for what in patient.MEASUREMENTS
               for x in measure(run, what).values()), "a number is nan"


def test_the_commands_measure_count_and_judge(tmp_path):
    def run(*arguments):
        done = subprocess.run([sys.executable, "-m", "lessons.patient", *arguments], cwd=tmp_path,
                              capture_output=True, text=True, env={**os.environ, "PYTHONPATH": PATH})
        assert not done.stderr, done.stderr
        return done
    name = NAMES["scale-1"]
    chart = run(name).stdout
    assert "gap" in chart and all(f"    {word} " in chart for word in [*FAULTS, "steps", "read"])
    assert "first layer, last step" in run(name, "ask", "steps", "scores").stdout
    wrong = run(name, "diagnose", "few-words")
    assert wrong.returncode == 1 and "with few-words it is 20 to 100" in wrong.stdout
    right = run(name, "diagnose", "scale-1", "--json")
    found = json.loads(right.stdout)
    assert right.returncode == 0 and found["tests"][0]["score"] == 1
    assert found["extra_data"] == {"asked": ["steps", "scores"],
                                   "diagnoses": ["few-words", "scale-1"]}


@pytest.mark.parametrize("arguments", [[], ["anna", "ask"], ["anna", "ask", "step"], ["anna", "cure"],
                                       ["anna", "diagnose", "flu"], ["anna", "--json"]])
def test_a_usage_error_is_one_line_and_exit_code_2(arguments, capsys):
    with pytest.raises(SystemExit) as exit:
        patient.main(arguments)
    error = capsys.readouterr().err
    assert exit.value.code == 2 and error.startswith("error: ") and error.count("\n") == 1
