"""Hints name the Python that runs, from wherever it was started; errors are one line."""

import os
import sys

from convsim_mini.common.cli import UserError, python_m


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


def test_an_error_is_one_line_whatever_a_file_holds():
    assert str(UserError('label "a\nb\u2028", expected c')) == 'label "a b ", expected c'
