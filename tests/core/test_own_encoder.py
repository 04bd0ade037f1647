"""A custom encoder, tests/helpers/gru.py, works in every command with no change elsewhere."""

import importlib
import os
import signal
import sys
from dataclasses import replace

import numpy as np
import pytest

from convsim_mini import encode, load, train
from convsim_mini.core.gradcheck import directional_error
from convsim_mini.core.model import ENCODERS, loss_and_gradients
from convsim_mini.core.batches import Batch
from convsim_mini.evaluation import __main__ as evaluation
from convsim_mini.export import __main__ as export
from convsim_mini.training.run import describe, newest

from conftest import SMALL
from numpy_alone import with_numpy_alone
from small_transformer import CONFIG, random_sentences, small_model
from twin_cases import uninstall


@pytest.fixture(autouse=True)
def gru():
    """The encoder is registered only in these tests."""
    sys.modules.pop("gru", None)
    yield importlib.import_module("gru")
    del ENCODERS["gru"]
    uninstall()                                               # the twins that commands install


@pytest.mark.parametrize("seed", range(3))
def test_its_gradients_are_the_numeric_ones(seed):
    model = small_model(replace(CONFIG, encoder="gru"), np.float64, seed, noise=0.2)
    batch = Batch(random_sentences([3, 1, 7, 4, 4, 2, 1, 5], seed))
    assert directional_error(lambda: loss_and_gradients(model, batch), model.params,
                             np.random.default_rng(seed)) < 1e-6


def test_it_is_trained_stopped_resumed_measured_and_exported(
        pair_file, cache_folder, tmp_path, monkeypatch, capsys):
    def stopped(*arguments):
        steps.append(1)
        if len(steps) == 4:
            os.kill(os.getpid(), signal.SIGINT)
        return loss_and_gradients(*arguments)

    run, steps = str(tmp_path / "run"), []
    options = [*SMALL, "--encoder", "gru", "--steps", "8", "--evaluations", "2", "--run", run,
               "--pairs", str(pair_file), "--cache", str(cache_folder)]
    monkeypatch.setattr("convsim_mini.core.loop.loss_and_gradients", stopped)
    with pytest.raises(SystemExit) as ended:
        train.main(options)
    assert ended.value.code == 130 and describe(newest(run)).step == 4
    train.main(["--resume", run])
    assert len(steps) == 8 and "of 8, the best on dev" in capsys.readouterr().out
    evaluation.main([run, "--on", "sts", "response"])
    told = capsys.readouterr().out
    assert "STS built-in set" in told and "P@10" in told and "not measured" not in told
    encode.main([run, "fudazi vobamu", "vobamu fudazi"])
    assert "vobamu fudazi" in capsys.readouterr().out
    folder = tmp_path / "exported"
    export.main([run, "--out", str(folder)])
    assert "It is a gru" in (folder / "README.md").read_text(encoding="utf-8")
    assert (folder / "core/own_encoder.py").is_file()             # a name that no file of core has
    sentences = ["fudazi vobamu setodi", "setodi vobamu fudazi", "", "How old are you?"]
    vectors = load(run).encode(sentences)
    assert np.abs(vectors[0] - vectors[1])[:16].max() > 1e-3  # word order matters
    np.testing.assert_allclose(with_numpy_alone(folder, sentences, tmp_path), vectors, rtol=0,
                               atol=2**-10)
