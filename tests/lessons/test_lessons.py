"""Every lesson run as a learner runs it, its solutions after it.

Its exercises, its figures, what it leaves. A file of solutions runs its lesson as a script first,
so that the lesson runs once for both.
"""

import importlib
import os
import re
import shutil
import subprocess
import sys

import matplotlib.image
import numpy as np
import pytest

from conftest import ROOT

LESSONS = sorted(path.name for path in (ROOT / "lessons").glob("[0-9A-C]*_*.py"))
# these take 8 seconds or more
LONG = {"00", "05", "06", "08", "11", "15", "18", "19", "20", "21", "22", "23", "A", "B"}
LONGEST = 600    # seconds; a lesson takes a tenth of that, but other work may run beside it


def environment(folder):
    """One BLAS thread, no data, no settings of the caller's; nothing is written beside sources."""
    gone = ("CONVSIM_DATA", "PYTHONPATH", "MPLBACKEND")
    return {**{name: value for name, value in os.environ.items() if name not in gone},
            "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1",
            "TMPDIR": str(folder)}


@pytest.fixture(scope="module", params=[
    pytest.param(name, marks=[pytest.mark.long] if name.split("_")[0] in LONG else [])
    for name in LESSONS])
def run(request, tmp_path_factory):
    """A lesson and its solutions, run in a fresh clone from elsewhere, every warning an error.

    → the lesson's name, the finished process, the clone, the files that are new in it and beside it
    """
    folder = tmp_path_factory.mktemp("run")
    clone, elsewhere = folder / "clone", folder / "elsewhere"
    shutil.copytree(ROOT / "lessons", clone / "lessons",
                    ignore=shutil.ignore_patterns("figures", "__pycache__"))
    (clone / "convsim_mini").symlink_to(ROOT / "convsim_mini")
    elsewhere.mkdir()
    before = {*folder.rglob("*")}
    script = clone / "lessons" / "solutions" / request.param
    done = subprocess.run(    # chitchat-dataset leaves a file open
        [sys.executable, "-W", "error", "-W", "ignore::ResourceWarning:chitchat_dataset", script],
        capture_output=True, text=True, cwd=elsewhere, env=environment(elsewhere), timeout=LONGEST)
    new = [path for path in {*folder.rglob("*")} - before if path.is_file()]
    return request.param, done, clone, new


def exercises(name):
    """The numbers of a lesson's exercises, from its headings."""
    text = (ROOT / "lessons" / name).read_text()
    return [int(number) for number in re.findall(r"^# ### Exercise (\d+)", text, re.M)]


def test_a_lesson_runs_from_anywhere_and_leaves_nothing_but_its_figures(run):
    name, done, clone, new = run
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert clone / "lessons" / "figures" / f"{name[:-3]}.png" in new
    for path in new:
        assert path.match(str(clone / "lessons" / "figures" / f"{name.split('_')[0]}_*.png")), path
        pixels = matplotlib.image.imread(path)[:, :, :3]
        assert pixels.shape[1] >= 800, f"{path.name} is too small for half a page"
        assert (pixels < 0.9).any(axis=2).mean() > 0.01, f"{path.name} is nearly blank"


def test_stubs_do_not_pass_and_solutions_do(run):
    """`solution` ends in an error unless a right answer passes and a tempting one does not."""
    name, done, *_ = run
    numbers = exercises(name)
    assert len(numbers) in (1, 2, 3) and numbers == sorted({*numbers})
    assert re.findall(r"^exercise (\d+): (.*)", done.stdout, re.M) == [
        (str(number), "not solved yet") for number in numbers]
    assert re.findall(r"^solution (\d+): passes", done.stdout, re.M) == [*map(str, numbers)]
    assert len(re.findall(r"\(expected .*\)", done.stdout)) >= 3


def test_every_lesson_has_a_row_in_the_readme_and_a_file_of_solutions_and_holds_none_itself():
    folder = ROOT / "lessons"
    readme = (folder / "README.md").read_text()
    assert sorted(set(re.findall(r"\(([\dA-C]+_\w+\.py)\)", readme))) == LESSONS
    assert sorted(path.name for path in (folder / "solutions").glob("[0-9A-C]*_*.py")) == LESSONS
    for name in LESSONS:
        text, answers = (folder / name).read_text(), (folder / "solutions" / name).read_text()
        assert "def solution" not in text and "def tempting" not in text, name
        for part in ("**Needs**", "**Gives**", "**Predict", "## Where this lives",
                     f"`lessons/solutions/{name}`"):
            assert part in text, f"{name} has no {part}"
        known = text.partition("# ## What you know now\n#\n")[2].partition("\n#\n")[0]
        assert len(re.findall("^# - ", known, re.M)) == 3, f"{name} does not end with three lines"
        reasons = answers.split('"""')[1]
        assert [int(n) for n in re.findall(r"^(\d+): ", reasons, re.M)] == exercises(name), name
        imported = re.findall(r"^(?:import|from) (\w+)", answers, re.MULTILINE)
        before = set(imported[:imported.index("prove")])      # which gives BLAS one thread
        assert before <= sys.stdlib_module_names, name


def test_the_syllabus_reads_as_long_as_its_lessons():
    readme, syllabus = ((ROOT / "lessons" / name).read_text("utf-8")
                        for name in ("README.md", "SYLLABUS.md"))
    minutes = {number: int(time) for number, time in
               re.findall(r"^\| (\w+) \| \[.*\) \| (\d+) \|", readme, re.M)}
    weeks = re.findall(r"^\| \d+ \| (.+?) \| ([\d.]+) h \|", syllabus, re.M)
    total = 0
    for lessons, hours in weeks:    # of A, B and C one is read
        numbers = re.findall(r"\d+", lessons)
        read = sum(minutes[n] for n in numbers) + (
            sum(minutes[n] for n in "ABC") / 3 if "A" in lessons else 0)
        assert hours == f"{read / 60:.1f}", lessons
        total += read
    assert f"{total / 60:.0f} hours of reading" in syllabus
    assert f"{sum(minutes.values()) / 60 - sum(minutes[n] for n in 'ABC') / 60:.0f} hours" in readme


# ---------------------------------------------------------------- the helpers

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
                   env={**environment(tmp_path), "PYTHONPATH": str(ROOT / "lessons")}, timeout=60,
                   check=True)
    said = os.read(typed, 10_000).decode()
    asked, _, told = said.partition("press Enter")
    assert "Predict: two dice, how\r\noften a six?" in asked and "More" not in said
    assert "%%" not in said
    assert "the answer" in told and "the answer" not in asked
