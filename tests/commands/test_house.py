"""What is loaded when, requirements, commands. Linters check imports and layout."""

import re
import tomllib
from pathlib import Path

import pytest

import convsim_mini

from conftest import ROOT, python

PACKAGE = ROOT / "convsim_mini"
# `pip install ./convsim_mini` leaves a build there
FILES = sorted(path for path in PACKAGE.rglob("*.py") if PACKAGE / "build" not in path.parents)
COMMANDS = [".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__main__")
            for path in FILES if 'if __name__ == "__main__"' in path.read_text(encoding="utf-8")]


def test_opening_a_run_needs_no_parser_of_options_no_matplotlib_and_no_corpus(trained):
    """Also: importing the package reads no command line and sets no signal handler."""
    code = ("import signal, sys; before = signal.getsignal(signal.SIGINT); "
            "sys.modules |= dict.fromkeys(['matplotlib', 'chitchat_dataset', 'backports']); "
            "import convsim_mini; convsim_mini.load(sys.argv[1]).encode(['hello']); "
            "unwanted = {'convsim_mini.training.options', 'scipy.stats'}; "
            "assert signal.getsignal(signal.SIGINT) == before; "
            "print(sorted(unwanted & set(sys.modules)), sys.argv[2:])")
    done = python("-c", code, trained[0], "-m", "convsim_mini.foo")
    assert (done.returncode, done.stdout.strip(), done.stderr) == (
        0, "[] ['-m', 'convsim_mini.foo']", "")


def test_the_package_asks_for_what_requirements_txt_asks_for():
    listed = {line.split("#")[0].strip()
              for line in (ROOT / "requirements.txt").read_text().splitlines()} - {""}
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())
    assert set(project["project"]["dependencies"]) == listed
    setuptools, folders = project["tool"]["setuptools"], {path.parent for path in FILES}
    assert {ROOT / name.replace(".", "/") for name in setuptools["packages"]} == folders
    data = {path for folder, names in setuptools["package-data"].items() for name in names
            for path in Path(ROOT, folder.replace(".", "/")).glob(name)}
    assert data == {path for folder in folders for path in folder.glob("*.*") if path.suffix not in
                    (".py", ".md", ".png", ".toml", ".egg-info")} | {PACKAGE / "export" / "card.md"}


def test_the_commands_are_listed():
    listed = set(re.findall(r"\w+", convsim_mini.__doc__))
    assert [name for name in COMMANDS if name.partition(".")[0] not in listed] == []


@pytest.mark.parametrize("script", ["convsim_mini/train.py", "data_scripts/chats.py"])
def test_a_command_that_is_run_as_a_file_says_its_name(script):
    done = python(ROOT / script, "--help")
    name = script.removesuffix(".py").replace("/", ".")
    assert done.returncode and done.stderr == (
        f"run it by name, in the repository: python -m {name}\n")


def test_each_command_has_a_help_even_without_docstrings():
    names = sorted({*COMMANDS} - {"minimal"})                 # minimal has no options
    code = ("import contextlib, runpy, sys\nnames, sys.argv = sys.argv[1:], ['', '--help']\n"
            "for name in names:\n    with contextlib.suppress(SystemExit):\n"
            "        runpy.run_module(f'convsim_mini.{name}', run_name='__main__')\n"
            "dear = {'scipy.stats', 'matplotlib', 'sklearn', 'pandas'} & sys.modules.keys()\n"
            "sys.exit(f'loaded for a help: {dear}' if dear else 0)")
    # runpy warns about modules that are already imported
    done = python("-OO", "-W", "ignore::RuntimeWarning", "-c", code, *names)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.findall(r"^usage: python -m convsim_mini\.(\S+) ", done.stdout, re.M) == names
