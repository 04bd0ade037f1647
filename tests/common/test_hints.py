"""Hints name the Python that runs, from wherever it was started."""

import os
import sys

from convsim_mini.common.cli import python_m


def test_a_hint_can_be_typed_in_this_folder_and_needs_none(tmp_path, monkeypatch):
    inside = tmp_path / "venv" / "bin" / "python"
    monkeypatch.setattr(sys, "executable", str(inside))
    monkeypatch.chdir(tmp_path)
    assert python_m("convsim_mini") == f"{os.path.join('venv', 'bin', 'python')} -m convsim_mini"
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert python_m("convsim_mini") == f"{inside} -m convsim_mini"
