"""The house: imports run one way, one door to CuPy, what is loaded when, requirements, lines."""

import ast
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from convsim_mini import COMMANDS

from conftest import ROOT, command

PACKAGE = ROOT / "convsim_mini"
FILES = sorted(PACKAGE.rglob("*.py"))

# Each level may import itself and those before it. A folder stands for its files.
LEVELS = ["cli", "decompress processes workspace", "files tables figures backend gradcheck",
          "sources snli_files arrays_file", "config", "data", "model", "run", "options", "training",
          "evaluation", "report", "sentence_encoder index exported",
          "train encode tune export __main__ __init__"]
LEVEL = {name: number for number, names in enumerate(LEVELS) for name in names.split()}


def name_of(path):
    """The folder of a file in the package, or its own name at the top."""
    return Path(path.relative_to(PACKAGE).parts[0]).stem


def imports_of(path):
    """(line, dotted name) of all that a file imports, wherever in it; relative made absolute."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            parts = ["convsim_mini", *path.relative_to(PACKAGE).parent.parts]
            base = parts[:len(parts) - node.level + 1] if node.level else []
            for alias in node.names:
                yield node.lineno, ".".join([*base, *filter(None, [node.module]), alias.name])


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_import_runs_up(path):
    for line, name in imports_of(path):
        if name.startswith("convsim_mini."):
            target = name.split(".")[1]
            assert LEVEL.get(target, 0) <= LEVEL[name_of(path)], f"{path}:{line}: {name}"


def test_only_the_backend_and_the_kernels_import_cupy():
    doors = {path.name for path in FILES for _, name in imports_of(path)
             if name.split(".")[0] in ("cupy", "cupyx")}
    assert doors == {"backend.py", "kernels.py", "distributed.py"}


def test_data_and_model_see_each_other_only_downwards():
    """The check above would notice: with the levels turned round it fails."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(LEVEL, "data", LEVEL["model"] + 1)
        with pytest.raises(AssertionError):
            for path in FILES:
                test_no_import_runs_up(path)


def test_opening_a_run_needs_no_parser_of_options_no_matplotlib_and_no_corpus(trained):
    code = ("import sys; "
            "sys.modules |= dict.fromkeys(['matplotlib', 'chitchat_dataset', 'defusedxml']); "
            "import convsim_mini; convsim_mini.load(sys.argv[1]).encode(['hello']); "
            "print(sorted({'convsim_mini.options', 'argparse', 'scipy.stats'} & set(sys.modules)))")
    done = subprocess.run([sys.executable, "-c", code, trained[0]], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert (done.returncode, done.stderr) == (0, "")
    assert "convsim_mini.options" not in done.stdout and "scipy.stats" not in done.stdout


def test_the_package_asks_for_what_requirements_txt_asks_for():
    listed = {line.split("#")[0].strip()
              for line in (ROOT / "requirements.txt").read_text().splitlines()} - {""}
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())
    assert set(project["project"]["dependencies"]) == listed
    folders = {path.parent for path in FILES}
    assert {Path(name.replace(".", "/")) for name in project["tool"]["setuptools"]["packages"]} == {
        folder.relative_to(ROOT) for folder in folders}


def test_the_commands_are_listed(tmp_path):
    done = subprocess.run([sys.executable, "-m", "convsim_mini"], cwd=tmp_path, capture_output=True,
                          text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert ((done.returncode, done.stderr) == (0, "")
            and len(done.stdout.splitlines()) == len(COMMANDS) + 1)
    with_a_main = {
        ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__main__")
        for path in FILES if 'if __name__ == "__main__"' in path.read_text(encoding="utf-8")}
    assert with_a_main == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_a_help(name, tmp_path):
    done = command(name, "--help", cwd=tmp_path)
    assert ((done.returncode, done.stderr) == (0, "")
            and f"usage: python -m convsim_mini.{name} " in done.stdout)


@pytest.mark.parametrize("name", ["gradcheck", "evaluation.metrics", "evaluation.command",
                                  "report.claims", "report.page"])
def test_what_is_no_command_says_so(name, tmp_path):
    done = command(name, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert (done.stderr
            == f"error: convsim_mini.{name}: is no command; python -m convsim_mini lists them\n")


def test_lines_are_at_most_100_characters_long():
    """But for the rows of tables in lessons, which cannot be wrapped."""
    files = [path for folder in ("convsim_mini", "lessons", "data_scripts", "tests")
             for path in sorted((ROOT / folder).rglob("*.*"))
             if path.suffix in (".py", ".cu", ".cuh", ".cpp", ".h")
             and not path.is_relative_to(ROOT / "tests" / "vgpu" / "build")]
    assert set(FILES) < set(files)
    long = [f"{path}:{number}" for path in files
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
            if len(line) > 100 and not (line.startswith("# | ") and path.parent.name == "lessons")]
    assert not long, long
