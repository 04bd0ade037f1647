"""A changed function of core really runs: its twin is not used, and the figures change."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from convsim_mini import fast

from conftest import ROOT

PACKAGE = ROOT / "convsim_mini"
SUM = "embeddings", "counts @ to_host(table))  ", "0 * counts @ to_host(table))"
TOLD = ("core/embeddings.py: sum_rows was changed, or what it uses; your version runs instead of "
        "its faster twin")


def copied(folder, name=None, old="", new=""):
    """Copy the package to a folder, with an edit of a file of core; → folder."""
    shutil.copytree(PACKAGE, folder / "convsim_mini", ignore=shutil.ignore_patterns("__pycache__"))
    if name:
        path = folder / "convsim_mini" / "core" / f"{name}.py"
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1, old
        path.write_text(text.replace(old, new), encoding="utf-8")
    return folder


def run(folder, *arguments, **environment):
    return subprocess.run([sys.executable, *map(str, arguments)], cwd=folder, text=True,
                          capture_output=True, env=os.environ | environment, timeout=200)


def trained_losses(folder, arguments, *options):
    """The losses of ten steps of a folder's copy, and what it reports as changed on stderr."""
    done = run(folder, "-m", "convsim_mini.train", *arguments, "--steps", 10, "--evaluations", 1,
               "--run", "run", *options)
    assert done.returncode == 0, done.stderr
    log = (folder / "run" / "log.jsonl").read_text(encoding="utf-8").splitlines()
    told = [line for line in done.stderr.splitlines() if "was changed" in line]
    return [json.loads(line)["loss"] for line in log if '"loss"' in line], told


def test_a_change_is_told_and_seen_in_the_losses_and_plain_runs_core(tmp_path, arguments):
    before, told = trained_losses(copied(tmp_path / "as_it_is"), arguments)
    assert not told
    plain, _ = trained_losses(copied(tmp_path / "plain"), arguments, "--plain")
    assert plain == pytest.approx(before, rel=1e-4)
    changed, told = trained_losses(copied(tmp_path / "changed", *SUM), arguments)
    # a vector of zeros is as near to every reply; the gradients of a summed row are zeros, too
    assert told[:1] == [TOLD] and changed == pytest.approx([np.log(64)] * len(changed))


@pytest.mark.parametrize("edit, told", [
    (SUM, ["sum_rows", "update_rows"]),
    (("optim", "rate = rate / array_module", "rate = 1 * rate / array_module"), ["update_rows"]),
    (("attention", "function(*items) for", "function(*items[:]) for"), ["each_group"]),
    (("layers", "1 - cache * cache", "1 - cache"), []),       # its twin is a GPU's
])
def test_what_is_changed_or_uses_it_is_named_unless_no_twin_is_wanted(edit, told, tmp_path):
    folder = copied(tmp_path / "changed", *edit)
    code = "from convsim_mini.fast import install; install()"
    lines = run(folder, "-c", code).stderr.splitlines()
    assert [line.split(" ")[1] for line in lines] == told
    assert run(folder, "-c", code, CONVSIM_PLAIN="1").stderr == ""


def test_what_an_inner_function_uses_counts_too(tmp_path):
    edit = "attention", "swapaxes(1, 2) for", "swapaxes(1, 2) + 0 for"
    folder = copied(tmp_path / "changed", *edit)
    code = ("from convsim_mini import fast; print([name for name, tested in fast.TESTED.items() "
            "if fast.checksum(fast.functions(name)) != tested])")
    assert run(folder, "-c", code).stdout.strip() == "['attention']"    # a twin on a GPU alone


def test_the_checksums_are_those_of_today():
    today = {name: fast.checksum(fast.functions(name)) for name in fast.TESTED}
    assert fast.TESTED == today, "core was changed: once its twins' tests pass, write these in"
