"""A changed function of core really runs: its twin is not used, and the figures change."""

import json
import shutil

import numpy as np
import pytest

from convsim_mini import fast

from conftest import ROOT, command, python

TOLD = "convsim_mini.core.arrays was changed; core runs as it stands, without its faster twins"


def copied(folder, name, old, new):
    """Copy the package to a folder, with an edit of a file of core; → folder."""
    shutil.copytree(ROOT / "convsim_mini", folder / "convsim_mini",
                    ignore=shutil.ignore_patterns("__pycache__"))
    path = folder / "convsim_mini" / "core" / f"{name}.py"
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, old
    path.write_text(text.replace(old, new), encoding="utf-8")
    return folder


@pytest.mark.parametrize("options, told", [([], [TOLD]), (["--plain"], [])])
def test_a_changed_function_is_what_trains_and_is_told_unless_all_are_plain(
        options, told, tmp_path, arguments):
    folder = copied(tmp_path, "arrays", "return a @ b", "return 0 * (a @ b)")
    done = command("train", *arguments, "--steps", 10, "--evaluations", 1, "--run", "run", *options,
                   cwd=folder)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if "was changed" in line] == told
    log = (folder / "run" / "log.jsonl").read_text(encoding="utf-8").splitlines()
    losses = [json.loads(line)["loss"] for line in log if '"loss"' in line]
    # a vector of zeros is as near to every reply
    assert losses and losses == pytest.approx([np.log(64)] * len(losses))


@pytest.mark.parametrize("edit", [
    ("embeddings", "counts @ to_host(table))  ", "0 * counts @ to_host(table))"),
    ("layers", "1 - cache * cache", "1 - cache"),             # only on a GPU it has a twin
    ("attention", "swapaxes(1, 2) for", "swapaxes(1, 2) + 0 for"),    # inside an inner function
])
def test_a_changed_file_is_named(edit, tmp_path):
    folder = copied(tmp_path, *edit)
    done = python("-c", "from convsim_mini import fast; fast.install()", cwd=folder)
    assert done.stderr.startswith(f"convsim_mini.core.{edit[0]} was changed; ")


def test_the_checksums_are_those_of_today():
    today = {file: fast.checksum(file) for file in fast.TESTED}
    assert fast.TESTED == today, "core was changed: once its twins' tests pass, write these in"
    files = {one.__module__ for one in fast.twinned_functions()}
    assert {file.__name__ for file in fast.TESTED} == files
