"""Every lesson run as a learner runs it, its solutions after it; what its text and README name.

A file of solutions runs its lesson as a script first, so that the lesson runs once for both.
"""

import os
import re
import shutil
import subprocess
import sys

import matplotlib.image
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


FILE, NAMES = r"`([\w/.]+\.(?:py|cu|md|json))", r"[\w.]+(?:`(?:,| and) `[\w.]+)*"
NAMED = re.compile(rf"{FILE}(?:`?: `?({NAMES})`)?")    # `a.py`: `b`, `c`, or `a.py: b`


@pytest.mark.parametrize("lesson", LESSONS)
def test_files_and_names_that_a_lesson_mentions_exist(lesson):
    text = (ROOT / "lessons" / lesson).read_text()
    text = re.sub(r"\n# *", " ", text)    # comments break their lines anywhere
    for file, names in NAMED.findall(text):
        found = [place / file for place in (ROOT, ROOT / "convsim_mini", ROOT / "lessons")
                 if (place / file).exists()]
        if file == "config.json" or file.startswith("yours/"):    # of a run's, of a reader's folder
            continue
        assert found, f"{lesson} mentions {file}"
        for name in re.findall(r"\w+(?=`|$)", names):    # of Workers.softmax: softmax
            assert re.search(rf"\b{name}\b", found[0].read_text()), f"{lesson}: {file}: {name}"
