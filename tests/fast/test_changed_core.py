"""A changed function of core really runs: its twin is not used, and the figures change."""

import json
import shutil

import numpy as np
import pytest

from convsim_mini import fast

from conftest import ROOT, command, python

TOLD = ("core/arrays.py: matmul was changed, or what it uses; your version runs instead of its "
        "faster twin")


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


INSTALL = ("from convsim_mini import fast; fast.install(); print(*[name for name, tested in "
           "fast.TESTED.items() if fast.checksum(fast.functions(name)) != tested])")


@pytest.mark.parametrize("edit, changed, told", [
    (("embeddings", "counts @ to_host(table))  ", "0 * counts @ to_host(table))"),
     ["sum_rows", "update_rows"], True),
    (("optim", "rate = rate / array_module", "rate = 1 * rate / array_module"),
     ["update_rows"], True),
    (("layers", "1 - cache * cache", "1 - cache"), ["tanh_backward"], False),    # a GPU's twin
    (("attention", "swapaxes(1, 2) for", "swapaxes(1, 2) + 0 for"),    # inside an inner function
     ["attention"], False),
])
def test_what_is_changed_or_uses_it_is_named_unless_no_twin_is_wanted(
        edit, changed, told, tmp_path, monkeypatch):
    folder = copied(tmp_path / "changed", *edit)
    done = python("-c", INSTALL, cwd=folder)
    assert done.stdout.split() == changed
    assert [line.split(" ")[1] for line in done.stderr.splitlines()] == changed * told
    monkeypatch.setenv("CONVSIM_PLAIN", "1")
    assert python("-c", INSTALL, cwd=folder).stderr == ""


def test_the_checksums_are_those_of_today():
    today = {name: fast.checksum(fast.functions(name)) for name in fast.TESTED}
    assert fast.TESTED == today, "core was changed: once its twins' tests pass, write these in"
