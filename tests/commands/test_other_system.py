"""Windows and macOS, as far as Linux can tell: names that they lack, a system that lacks them."""

import os
import subprocess
import sys

import pytest

from conftest import ROOT

FOLDER = ROOT / "tests" / "other_system"
# one test file or more of each room that a student uses
ROOMS = ["tests/common/test_workspace.py", "tests/model/test_gradients.py",
         "tests/data/test_corpus.py", "tests/inference/test_index.py",
         "tests/training/test_manifest.py"]
LESSON = "lessons/02_finite_differences.py"


def on_the_other_system(*arguments):
    """python ARGUMENTS where FOLDER/sitecustomize.py has taken names away → CompletedProcess."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(FOLDER), str(ROOT)]),
                   "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0",
                   "PYTHONWARNDEFAULTENCODING": "1"}
    return subprocess.run([sys.executable, *map(str, arguments)], cwd=ROOT, env=environment,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="it is taken from Linux")
def test_the_rooms_pass_on_it(tmp_path):
    done = on_the_other_system("-m", "pytest", "-q", "--disable-warnings", "-p", "no:cacheprovider",
                               "--basetemp", tmp_path / "run", *ROOMS)
    assert done.returncode == 0, done.stdout[-20_000:]
    done = on_the_other_system(LESSON)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("system", ["win32", "darwin"])
def test_no_module_has_a_name_too_many_there(system, tmp_path):
    """What `hasattr` or sys.platform guards, mypy lets pass. A planted mistake must be found."""
    mypy = pytest.importorskip("mypy.api")
    planted = tmp_path / "planted.py"
    planted.write_text("import os\nos.sched_getaffinity(0)\n", encoding="utf-8")
    told, errors, _ = mypy.run([
        "--platform", system, "--check-untyped-defs", "--ignore-missing-imports",
        "--no-site-packages", "--explicit-package-bases", f"--cache-dir={os.devnull}",
        *(str(ROOT / name) for name in ("convsim_mini", "data_scripts", "lessons")), str(planted)])
    lacking = [line for line in told.splitlines() if "Module has no attribute" in line]
    assert not errors and len(lacking) == 1 and "planted.py:2" in lacking[0], told + errors
