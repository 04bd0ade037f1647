"""A Transformer's run: its evaluation, and its vectors."""

import contextlib
import io

import pytest

from convsim_mini import encode, train
from convsim_mini.evaluation import __main__ as evaluation

from conftest import SMALL


@pytest.fixture(scope="module")
def run(tmp_path_factory, pair_file, cache_folder):
    """A small Transformer's run of 4 steps; tests must not change its weights."""
    folder = tmp_path_factory.mktemp("transformer") / "run"
    with contextlib.redirect_stdout(io.StringIO()) as told:
        train.main(["--encoder", "transformer", *SMALL, "--model.heads", "2", "--model.hidden",
                    "24", "--model.max_tokens", "8", "--steps", "4", "--evaluations", "1",
                    "--pairs", str(pair_file), "--cache", str(cache_folder), "--run", str(folder)])
    assert "sentences have more than 8 pieces of words and are cut off there" in told.getvalue()
    return str(folder)


def test_a_transformer_is_evaluated_and_encodes(run, capsys):
    evaluation.main([run, "--on", "response", "sts", "cqa"])
    told = capsys.readouterr().out
    assert "P@10" in told and "STS built-in set" in told and "not measured" not in told
    encode.main([run, ".", ". " * 9])
    assert "1 of 2 sentences have more than 8 pieces of words" in capsys.readouterr().out
