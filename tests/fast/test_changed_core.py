"""A changed function of core really runs: its twin is not used, and the figures change."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from convsim_mini import fast
from convsim_mini.core import layers, losses
from convsim_mini.fast import fingerprints, host

from conftest import ROOT
from twin_cases import uninstall
from write_fingerprints import of_today

PACKAGE = ROOT / "convsim_mini"
ONE = ["--model.response_hidden"]    # the default: one layer for the encoder, one for responses
THREE = ["--model.layers", "16", "16", "16"]
# The changes of "Change X, see Y" in DESIGN.md: the file, (old text, new text), options of
# training.
CHANGES = {
    "activation": ("layers", [
        ("y = array_module(x).tanh(x)\n    return y, y", "return x * (x > 0), x"),
        ("return dy * (1 - cache * cache)", "return dy * (cache > 0)")], THREE),
    "temperature": ("losses", [("scores = scale * (u @ v.T)", "scores = 0.0 * (u @ v.T)")], ONE),
    "sqrt": ("embeddings", [("array_module(lengths).sqrt(lengths)", "lengths**1.0")], THREE),
    "response": ("model", [
        ('    x, layers_cache = feed_forward(model, "response", v)', "    return v, None\n"),
        ("    layers_cache, unit_cache, is_residual = cache", "    return dy, {}\n")], ONE),
    "optimiser": ("optim", [
        ("mean / (root + epsilon)", "array_module(p).sign(mean)")], ONE),
}


def copied(folder, name=None, edits=()):
    """Copy the package to a folder, with edits in one file of core; → folder."""
    shutil.copytree(PACKAGE, folder / "convsim_mini", ignore=shutil.ignore_patterns("__pycache__"))
    for old, new in edits:
        path = folder / "convsim_mini" / "core" / f"{name}.py"
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1, old
        path.write_text(text.replace(old, new), encoding="utf-8")
    return folder


def run(folder, *arguments, **environment):
    return subprocess.run([sys.executable, *map(str, arguments)], cwd=folder, text=True,
                          capture_output=True, env=os.environ | environment, timeout=200)


def trained_losses(folder, arguments, *options, **environment):
    """The losses of ten steps of a folder's copy, and what it reports as changed on stderr."""
    done = run(folder, "-m", "convsim_mini.train", *arguments, "--steps", 10, "--evaluations", 1,
               "--run", "run", *options, **environment)
    assert done.returncode == 0, done.stderr
    log = (folder / "run" / "log.jsonl").read_text(encoding="utf-8").splitlines()
    told = [line for line in done.stderr.splitlines() if "was changed" in line]
    return [json.loads(line)["loss"] for line in log if '"loss"' in line], told


@pytest.fixture(scope="module")
def as_it_is(tmp_path_factory, arguments):
    """The losses of the unchanged package, with one layer and with three."""
    found = {}
    for options in (ONE, THREE):
        folder = copied(tmp_path_factory.mktemp("as_it_is"))
        found[len(options)], told = trained_losses(folder, arguments, *options)
        assert not told
    return found


@pytest.mark.parametrize("change", CHANGES)
def test_a_first_change_is_seen_in_the_losses(change, as_it_is, tmp_path, arguments):
    name, edits, options = CHANGES[change]
    found, _ = trained_losses(copied(tmp_path, name, edits), arguments, *options)
    before = as_it_is[len(options)]
    assert abs(found[-1] - before[-1]) > 1e-3 * before[-1], (found, before)
    if change == "activation":                                # a single layer has none
        shutil.rmtree(tmp_path / "run")
        assert trained_losses(tmp_path, arguments, *ONE)[0] == as_it_is[len(ONE)]


def test_a_changed_function_is_named_and_so_is_none_for_a_comment(tmp_path, arguments):
    code = "from convsim_mini.fast import install; install()"
    name, edits, _ = CHANGES["temperature"]
    folder = copied(tmp_path / "score", name, edits)
    assert run(folder, "-c", code).stderr == (
        "core/losses.py: batch_softmax_forward was changed, or what it uses; your version runs "
        "instead of its faster twin\n")
    assert run(folder, "-c", code, CONVSIM_PLAIN="1").stderr == ""
    edits = [("(u @ v.T)                                # (b, B)", "(u @ v.T)   # B scores a row"),
             ("Pick the true response among all responses of the batch", "Pick it")]
    assert run(copied(tmp_path / "comment", name, edits), "-c", code).stderr == ""
    used = "embeddings", [("return rows[begins], sum_rows", "return rows[begins], 2 * sum_rows")]
    assert "core/optim.py: update_rows was changed" in run(
        copied(tmp_path / "used", *used), "-c", code).stderr
    constant = "transformer_layers", [("EPSILON = 1e-6", "EPSILON = 1e-5")]
    told = run(copied(tmp_path / "constant", *constant), "-c", code).stderr
    assert "layer_norm_forward" in told and "linear" not in told


def test_the_other_of_a_changed_pair_stays_plain_too(monkeypatch):
    """They share a cache, whose content may differ between a twin and core."""
    def products(*factors):
        raise ZeroDivisionError("a twin ran")

    uninstall()
    monkeypatch.setattr(fingerprints, "fingerprint", lambda function: (
        "" if function is losses.batch_softmax_forward else tested[fingerprints.name_of(function)]))
    tested, u = json.loads(fingerprints.FILE.read_text(encoding="utf-8")), np.ones((3, 2))
    fast.install()
    monkeypatch.setattr(host, "products", products)           # both twins call this
    losses.batch_softmax_backward(1.0, losses.batch_softmax_forward(u, u)[1])
    with pytest.raises(ZeroDivisionError):
        layers.linear_backward(u, (u, np.ones((2, 2))))
    uninstall()


def test_plain_runs_core_only(tmp_path, arguments):
    ten, _ = trained_losses(copied(tmp_path / "twins"), arguments)
    code = f"""
import sys
from convsim_mini import train
from convsim_mini.fast import INSTALLED
train.main({[*map(str, arguments)]!r} + "--steps 10 --evaluations 1 --run run --plain".split())
print("twins:", len(INSTALLED))
"""
    done = run(copied(tmp_path / "plain"), "-c", code)
    assert done.stdout.endswith("twins: 0\n"), done.stderr
    log = (tmp_path / "plain" / "run" / "log.jsonl").read_text(encoding="utf-8").splitlines()
    plain = [json.loads(line)["loss"] for line in log if '"loss"' in line]
    assert plain == pytest.approx(ten, rel=1e-4)


def test_the_fingerprints_are_those_of_today():
    assert json.loads(fingerprints.FILE.read_text(encoding="utf-8")) == of_today(), (
        "core was changed: python tests/fast/write_fingerprints.py")
