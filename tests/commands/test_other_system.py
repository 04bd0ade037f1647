"""Windows and macOS, as far as Linux can show: missing names, and a system without them."""

import os
import subprocess
import sys

import pytest

from conftest import ROOT, python

FOLDER = ROOT / "tests" / "other_system"
# a test file from each part that a student uses
ROOMS = ["tests/common/test_files.py", "tests/data/test_corpus.py", "tests/inference/test_index.py",
         "tests/training/test_run_file.py"]
LESSON = "lessons/02_finite_differences.py"


def on_the_other_system(*arguments):
    """Run Python after FOLDER/sitecustomize.py has removed names; → CompletedProcess."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(FOLDER), str(ROOT)]),
                   "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0",
                   "PYTHONWARNDEFAULTENCODING": "1"}
    return subprocess.run([sys.executable, *map(str, arguments)], cwd=ROOT, env=environment,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="the other system is simulated on Linux")
def test_the_rooms_pass_on_it(tmp_path):
    done = on_the_other_system("-m", "pytest", "-q", "--disable-warnings", "-p", "no:cacheprovider",
                               "--basetemp", tmp_path / "run", *ROOMS)
    assert done.returncode == 0, done.stdout[-20_000:]
    done = on_the_other_system(LESSON)
    assert done.returncode == 0, done.stdout


def test_a_script_without_a_guard_starts_processes_by_spawn(tmp_path):
    """Otherwise each new process would run the script (such as a lesson) again."""
    script = tmp_path / "script.py"
    script.write_text("print('once', flush=True)\n"
                      "from convsim_mini.common.processes import local_processes\n"
                      "with local_processes(1, '', 'spawn') as executor:\n"
                      "    print(executor.submit(len, 'four').result())\n", encoding="utf-8")
    done = python(script)
    assert (done.stdout.split(), done.stderr) == (["once", "4"], "")


@pytest.mark.parametrize("system", ["win32", "darwin"])
def test_no_module_has_a_name_too_many_there(system, tmp_path):
    """No module uses a name that this system or Python 3.14 lacks. Planted mistakes are found.

    mypy ignores code guarded by `hasattr` or sys.platform.
    """
    mypy = pytest.importorskip("mypy.api")
    planted = tmp_path / "planted.py"
    planted.write_text("import ast, os\nos.sched_getaffinity(0)\nast.Num\n", encoding="utf-8")
    told, errors, _ = mypy.run([
        "--platform", system, "--python-version", "3.14", "--check-untyped-defs",
        "--ignore-missing-imports", "--no-site-packages", "--explicit-package-bases",
        f"--cache-dir={os.devnull}",
        *(str(ROOT / name) for name in ("convsim_mini", "data_scripts", "lessons")), str(planted)])
    lacking = [line for line in told.splitlines() if "Module has no attribute" in line]
    assert [line.split(":")[:2] for line in lacking] == [
        [str(planted), "2"], [str(planted), "3"]], told + errors
