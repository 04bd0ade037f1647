"""Every lesson run as a learner runs it, its solutions after it; some lessons as notebooks.

Its exercises, its figures, what it leaves. A file of solutions runs its lesson as a script first,
so that the lesson runs once for both.

    python tests/lessons/test_lessons.py        # processor time of each lesson, one after the other
"""

import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import matplotlib.image
import pytest

LESSONS = sorted(path.name for path in (ROOT / "lessons").glob("[0-9][0-9]_*.py"))
NOTEBOOKS = [LESSONS[0], LESSONS[25]]
LONG = {"00", "07", "10", "17", "19", "21", "22", "23", "26"}    # 8 seconds or more
LONGEST = 600    # seconds; a lesson takes a tenth of that, but other work may run beside it


class Run(NamedTuple):
    """What a lesson left: exit status, output, errors, the files that are new."""

    name: str
    returncode: int
    stdout: str
    stderr: str
    files: list
    folder: Path


def fresh_copy(folder):
    """The lessons as in a fresh clone, beside a folder to stand in and one for temporary files."""
    not_cloned = shutil.ignore_patterns("figures", "__pycache__")
    shutil.copytree(ROOT / "lessons", folder / "clone" / "lessons", ignore=not_cloned)
    (folder / "clone" / "convsim_mini").symlink_to(ROOT / "convsim_mini")
    (folder / "elsewhere").mkdir()
    (folder / "tmp").mkdir()
    return folder


def one_thread(folder):
    """Environment: one BLAS thread, no data, no settings of the caller's.

    Nothing is written beside the sources.
    """
    gone = ("CONVSIM_DATA", "PYTHONPATH", "MPLBACKEND")
    return {**{name: value for name, value in os.environ.items() if name not in gone},
            "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1",
            "TMPDIR": str(folder / "tmp")}


def run_script(name, folder):
    """Run lessons/NAME in a fresh copy, from another folder, every warning an error; → Run."""
    fresh_copy(folder)
    before = set(folder.rglob("*"))
    done = subprocess.run([sys.executable, "-W", "error", folder / "clone" / "lessons" / name],
                          capture_output=True, cwd=folder / "elsewhere", text=True,
                          env=one_thread(folder), timeout=LONGEST)
    clone = folder / "clone"
    new = sorted(str(path.relative_to(clone)) if path.is_relative_to(clone) else str(path)
                 for path in set(folder.rglob("*")) - before if path.is_file())
    return Run(Path(name).name, done.returncode, done.stdout, done.stderr, new, folder)


@pytest.fixture(scope="module", params=[
    pytest.param(name, marks=[pytest.mark.long] if name[:2] in LONG else []) for name in LESSONS])
def run(request, tmp_path_factory):
    """The Run of a lesson's solutions, and so of the lesson."""
    return run_script(f"solutions/{request.param}", tmp_path_factory.mktemp("run"))


def exercises(name):
    """The numbers of a lesson's exercises, from its headings."""
    text = (ROOT / "lessons" / name).read_text()
    return [int(number) for number in re.findall(r"^# ### Exercise (\d+)", text, re.M)]


def test_a_lesson_runs_from_anywhere_and_leaves_nothing_but_its_figures(run):
    assert (run.returncode, run.stderr) == (0, ""), run.stderr
    assert f"lessons/figures/{run.name[:-3]}.png" in run.files
    figure = re.compile(rf"lessons/figures/{run.name[:2]}_\w+\.png")
    assert all(figure.fullmatch(file) for file in run.files), run.files
    for file in run.files:
        pixels = matplotlib.image.imread(run.folder / "clone" / file)[:, :, :3]
        assert pixels.shape[1] >= 800, f"{file} is too small for half a page"
        assert (pixels < 0.9).any(axis=2).mean() > 0.01, f"{file} is nearly blank"


def test_stubs_do_not_pass_and_solutions_do(run):
    """`solution` ends in an error unless a right answer passes and a tempting one does not."""
    numbers = exercises(run.name)
    assert len(numbers) in (2, 3) and numbers == sorted(set(numbers))
    assert re.findall(r"^exercise (\d+): (.*)", run.stdout, re.M) == [
        (str(number), "not solved yet") for number in numbers]
    assert re.findall(r"^solution (\d+): passes", run.stdout, re.M) == [
        str(number) for number in numbers]
    assert len(re.findall(r"\(expected .*\)", run.stdout)) >= 3


def test_every_lesson_has_a_row_in_the_readme_and_a_file_of_solutions_and_holds_none_itself():
    folder = ROOT / "lessons"
    readme = (folder / "README.md").read_text()
    assert sorted(set(re.findall(r"\((\d\d_\w+\.py)\)", readme))) == LESSONS
    assert sorted(path.name for path in (folder / "solutions").glob("[0-9]*.py")) == LESSONS
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


@pytest.mark.parametrize("name", [pytest.param(NOTEBOOKS[0], marks=pytest.mark.long), NOTEBOOKS[1]])
def test_a_lesson_runs_as_a_notebook(name, tmp_path):
    """Cells in IPython, figures inline, no __file__."""
    pytest.importorskip("jupytext")
    folder = fresh_copy(tmp_path) / "clone" / "lessons"
    notebook = folder / name.replace(".py", ".ipynb")
    folders = {"IPYTHONDIR": str(tmp_path / "ipython"),
               "JUPYTER_RUNTIME_DIR": str(tmp_path / "jupyter")}
    env = {**one_thread(tmp_path), **folders}
    for command in (["jupytext", "--to", "notebook", name],
                    ["nbconvert", "--to", "notebook", "--execute", "--inplace", notebook.name]):
        done = subprocess.run([sys.executable, "-m", *command], cwd=folder, capture_output=True,
                              text=True, env=env, timeout=LONGEST)
        assert done.returncode == 0, done.stderr
    text = notebook.read_text()
    assert '"image/png"' in text, "no figure was shown"
    assert "exercise 1: not solved yet" in text and "solution 1" not in text
    assert "Warning" not in text


# ---------------------------------------------------------------- the helpers

def judge_double(double):
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


def test_solution_wants_the_right_to_pass_and_the_tempting_to_fail(lesson, prove, capsys):
    lesson.check(1, unsolved, judge_double)
    prove.solution(1, lambda x: 2 * x, lambda x: x + 2)
    assert "solution 1: passes" in capsys.readouterr().out
    with pytest.raises(AssertionError, match="3 becomes 6"):
        prove.solution(1, lambda x: x + 2, lambda x: x + 1)
    with pytest.raises(AssertionError, match="takes a wrong answer"):
        prove.solution(1, lambda x: 2 * x, lambda x: x + x)


@pytest.mark.parametrize("value, low, high, printed", [
    (0.5, 0, 1, "it: 0.5   (expected 0 to 1)"),
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


@pytest.mark.parametrize("encoding, shown", [("utf-8", "\ufffd[2J\ufffd é"), ("ascii", "?[2J? ?")])
def test_nothing_that_a_lesson_prints_can_steer_the_terminal(encoding, shown):
    done = subprocess.run([sys.executable, "-c", r"import lesson; print('\x1b[2J\u202e \xe9')"],
                          cwd=ROOT / "lessons", capture_output=True,
                          env={**os.environ, "PYTHONIOENCODING": encoding})
    assert done.stdout.decode(encoding) == shown + "\n", done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pty")
def test_in_a_terminal_a_lesson_waits_once_for_enter(tmp_path):
    import pty
    script = tmp_path / "lesson_of_its_own.py"
    script.write_text("# %% [markdown]\n# **Predict:** two dice, how\n# often a six?\n#\n"
                      "# More.\n\n# %%\nimport lesson\nprint('the answer')\n")
    typed, terminal = pty.openpty()
    os.write(typed, b"\n")
    environment = {**one_thread(tmp_path), "PYTHONPATH": str(ROOT / "lessons")}
    subprocess.run([sys.executable, script], stdin=terminal, stdout=terminal, stderr=terminal,
                   env=environment, timeout=60, check=True)
    said = os.read(typed, 10_000).decode()
    asked, _, told = said.partition("press Enter")
    assert "Predict: two dice, how\r\noften a six?" in asked and "More" not in said
    assert "%%" not in said
    assert "the answer" in told and "the answer" not in asked


def main():
    """Run the lessons one after the other, each with one thread; print the processor's seconds."""
    import tempfile
    for name in LESSONS:
        before = os.times()
        with tempfile.TemporaryDirectory() as folder:
            run = run_script(name, Path(folder))
        after = os.times()
        seconds = after.children_user + after.children_system - (
            before.children_user + before.children_system)
        failed = "" if run.returncode == 0 else "   FAILED"
        print(f"{name:45} {seconds:5.1f} s{failed}", flush=True)


if __name__ == "__main__":
    main()
