"""Windows and macOS, as far as Linux can show: names that they lack, and processes by spawn."""

import os

import pytest

from conftest import ROOT, python


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
