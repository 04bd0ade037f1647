"""A Transformer's run: its evaluation, its vectors, and how far its attention reaches."""

import contextlib
import io

import numpy as np
import pytest

from convsim_mini import encode, train
from convsim_mini.evaluation import __main__ as evaluation
from convsim_mini.evaluation import attention
from convsim_mini.evaluation.attention import distances, summary

from conftest import SMALL
from small_transformer import random_sentences, small_model


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


def test_a_transformer_is_evaluated_encodes_and_tells_its_reach(run, capsys):
    evaluation.main([run, "--on", "response", "sts", "cqa"])
    told = capsys.readouterr().out
    assert "P@10" in told and "STS built-in set" in told and "not measured" not in told
    encode.main([run, ".", ". " * 9])
    assert "1 of 2 sentences have more than 8 pieces of words" in capsys.readouterr().out
    attention.main([run])
    assert "the same attention to every piece" in capsys.readouterr().out


def test_reach_is_the_mean_distance_of_what_is_attended_to():
    model = small_model()
    for k in range(2):                           # zero queries: equal attention to every word
        model.params[f"encoder.layer{k}.attention.qkv.weight"][:, :16] = 0
    reach, uniform = distances(model, random_sentences([3, 5, 5, 2]))
    by_hand = [np.abs(np.subtract.outer(np.arange(n), np.arange(n))).mean() for n in (2, 3, 5, 5)]
    assert uniform == pytest.approx(by_hand)
    np.testing.assert_allclose(reach, [by_hand, by_hand], rtol=1e-5)


def test_how_much_further_the_last_layer_reaches_is_told():
    rng = np.random.default_rng(0)
    near = rng.random(100)
    assert "reaches +1.00 [+1.00, +1.00] pieces" in summary(np.array([near, near + 1]), near)
    assert "reaches -1.00 [-1.00, -1.00] pieces" in summary(np.array([near + 1, near]), near)
    assert "reaches" not in summary(np.ones((1, 9)), np.ones(9))
