"""What lessons and solutions share, lesson.py and prove.py: exercises judged, values in ranges."""

import importlib
import os
import subprocess
import sys

import numpy as np
import pytest

from conftest import ROOT


def judge_double(double, rng):
    assert double(3) == 6, "3 becomes 6"


def unsolved(x):
    raise NotImplementedError


@pytest.fixture
def lesson(monkeypatch):
    """The lessons' shared module."""
    monkeypatch.syspath_prepend(str(ROOT / "lessons"))
    return importlib.import_module("lesson")


@pytest.fixture
def prove(lesson, monkeypatch):
    """The shared module of the solutions, which takes the first place of the path for itself."""
    monkeypatch.syspath_prepend(str(ROOT / "lessons" / "solutions"))
    return importlib.import_module("prove")


@pytest.mark.parametrize("answer, said", [
    (unsolved, "exercise 1: not solved yet"),
    (lambda x: 2 * x, "exercise 1: right"),
    (lambda x: x + 2, "exercise 1: not right yet: 3 becomes 6"),
    (lambda: 6, "exercise 1: fails with TypeError"),
])
def test_check_tells_right_from_wrong(lesson, capsys, answer, said):
    lesson.check(1, answer, judge_double)
    assert capsys.readouterr().out.startswith(said)


def test_an_answer_that_overwrites_what_it_gets_moves_no_judge(lesson, capsys):
    def judge(answer, rng):
        ids, rows = np.array([2, 1]), np.eye(2)
        answer(ids, ([rows],))
        assert ids[0] == 2 and rows.any(), "overwritten"
    lesson.check(1, lambda ids, cache: (ids.sort(), cache[0][0].fill(0)), judge)
    assert capsys.readouterr().out.startswith("exercise 1: right")


def test_solution_wants_the_right_to_pass_and_the_tempting_to_fail(lesson, prove, capsys):
    lesson.check(1, unsolved, judge_double)
    prove.solution(1, lambda x: 2 * x, lambda x: x + 2)
    assert "solution 1: passes" in capsys.readouterr().out
    with pytest.raises(AssertionError, match="3 becomes 6"):
        prove.solution(1, lambda x: x + 2, lambda x: x + 1)
    with pytest.raises(AssertionError, match="takes a wrong answer"):
        prove.solution(1, lambda x: 2 * x, lambda x: x + x)


@pytest.mark.parametrize("value, low, high, printed", [
    (0.5, 0, 1, "it: 0.5   (expected 0 to 1)"), (2., 1, float("inf"), "it: 2   (expected above 1)"),
    (100_005.0, 100_005, 100_005, "it: 100,005   (expected exactly 100,005)"),
    (2.4849066498, 2.4849066488, 2.4849066508, "it: 2.48490665   (expected 2.48490665 ± 1e-09)"),
    (3e-11, 0, 1e-6, "✓ it: 3e-11 (expected below 1e-06)"),
    ([3e-11, 8e-11], 0, 1e-6, "✓ it, 2 checks: 8e-11 (expected below 1e-06)"),
])
def test_expect_prints_the_value_beside_its_range(lesson, capsys, value, low, high, printed):
    lesson.expect(value, low, high, "it")
    assert capsys.readouterr().out == printed + "\n"


@pytest.mark.parametrize("value, high", [
    (-0.1, 1), (1.1, 1), (float("nan"), 1), ([0.0, 2e-6], 1e-6), ([0.0, float("nan")], 1e-6)])
def test_expect_wants_the_value_within_its_range(lesson, value, high):
    with pytest.raises(AssertionError, match="is not within"):
        lesson.expect(value, 0, high, "it")


def test_a_lesson_prints_a_question_mark_for_what_its_output_lacks():
    done = subprocess.run([sys.executable, "-c", r"import lesson; print('\xe9')"],
                          cwd=ROOT / "lessons", capture_output=True,
                          env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.stdout == b"?\n", done.stderr


def test_a_missing_package_is_named_in_one_line():
    done = subprocess.run([sys.executable, "-c", "import sys; sys.modules['matplotlib'] = None\n"
                           "import lesson"], cwd=ROOT / "lessons", capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: matplotlib is missing: ")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pty")
def test_in_a_terminal_a_lesson_waits_once_for_enter(tmp_path):
    import pty
    script = tmp_path / "lesson_of_its_own.py"
    script.write_text("# %% [markdown]\n# **Predict:** two dice, how\n# often a six?\n#\n"
                      "# More.\n\n# %%\nimport lesson\nprint('the answer')\n")
    typed, terminal = pty.openpty()
    os.write(typed, b"\n")
    subprocess.run([sys.executable, script], stdin=terminal, stdout=terminal, stderr=terminal,
                   env={**os.environ, "PYTHONPATH": str(ROOT / "lessons")}, timeout=60, check=True)
    said = os.read(typed, 10_000).decode()
    asked, _, told = said.partition("press Enter")
    assert "Predict: two dice, how\r\noften a six?" in asked and "More" not in said
    assert "%%" not in said
    assert "the answer" in told and "the answer" not in asked
