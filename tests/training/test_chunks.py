"""The gradients of a batch in chunks (GradCache) are those of the whole batch."""

from dataclasses import replace

import numpy as np
import pytest

from convsim_mini.config import Config, ModelConfig, OptimConfig
from convsim_mini.core.gradcheck import dense, directional_error
from convsim_mini.core.model import loss_and_gradients
from convsim_mini.core.pairs import Batch
from convsim_mini.training.chunks import loss_and_gradients_in_chunks, loss_and_gradients_of

from small_transformer import CONFIG, random_sentences, small_model

CONFIGS = {"dan": ModelConfig(embedding_dim=4, layers=[5], response_hidden=[6]),
           "transformer": replace(CONFIG, dropout=0.0, nli_hidden=6)}
BATCH = Batch(random_sentences([4, 1, 1, 3, 2, 3]), np.array([1, 0, 2]))


def model_of(config):
    """A float64 model that also classifies."""
    return small_model(config, np.float64, noise=0.1, classifies=True)


@pytest.mark.parametrize("chunk", [1, 2, 3, 99])
@pytest.mark.parametrize("task", ["replies", "entailments", "classes"])
@pytest.mark.parametrize("name", CONFIGS)
def test_gradients_in_chunks_are_those_of_the_whole_batch(name, task, chunk):
    model, batch = model_of(CONFIGS[name]), BATCH._replace(task=task)
    expected, grads = loss_and_gradients(model, batch, (11, 2), weight=3.0)
    of_chunks = loss_and_gradients_of(Config(optim=OptimConfig(chunk=chunk)))
    loss, chunked = of_chunks(model, batch, (11, 2), weight=3.0)
    assert abs(loss - expected) < 1e-12 and chunked.keys() == grads.keys()
    for key, grad in grads.items():
        p = model.params[key]
        assert np.abs(dense(chunked[key], p) - dense(grad, p)).max() < 1e-12, key
    assert loss_and_gradients_of(Config()) is loss_and_gradients


def test_both_passes_over_a_chunk_drop_the_same_numbers():
    model = small_model(replace(CONFIG, dropout=0.3), np.float64, noise=0.1)
    assert directional_error(lambda: loss_and_gradients_in_chunks(model, BATCH, (11, 2), chunk=2),
                             model.params, np.random.default_rng(1)) < 1e-6
