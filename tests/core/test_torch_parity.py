"""The whole model against the same model in PyTorch: losses, embeddings and all gradients."""

from dataclasses import replace

import numpy as np
import pytest

from convsim_mini.config import ModelConfig
from convsim_mini.core.gradcheck import dense
from convsim_mini.core.model import loss_and_gradients
from convsim_mini.core.packed import Packed, offsets_of
from convsim_mini.core.batches import Batch
from convsim_mini.core.transformer import sort_by_length, transformer_backward, transformer_forward
from convsim_mini.training.options import config_of

from small_transformer import small_model

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch==2.13.0")
from torch_twin import (    # needs torch
    PackedTwin, Padded, Twin, gradients, load, ours, packed_batch, pad, torch_sentences,
)

WORDS, BIGRAMS = 400, 1_000
CONFIGS = {"paper": config_of({"preset": "paper"}).model,
           "chat": ModelConfig(response_hidden=[500])}
SMALL = ModelConfig(encoder="transformer", embedding_dim=32, layers=[20], heads=4, hidden=48,
                    transformer_layers=2)
TRANSFORMERS = {"small": SMALL, "bag": replace(SMALL, bag=True)}


def random_batch(rng, pairs):
    """Pairs of texts of 1 to 30 words, with ids as skewed as word frequencies."""
    offsets = offsets_of(rng.integers(1, 31, 2 * pairs))
    ids = (WORDS * rng.random(offsets[-1]) ** 3).astype(np.int32)
    return Batch(Packed(ids, offsets), rng.integers(0, 3, pairs))


def model_and_twin(config, kind=Twin, **more):
    """A float64 model and its twin, with equal parameters, none of them 0 or 1."""
    model = small_model(config, np.float64, words=WORDS, bigrams=BIGRAMS, noise=0.02, **more)
    twin = kind(config, len(model.params["encoder.embedding.weight"]), torch.float64, **more)
    load(twin, {name: np.ascontiguousarray(p) for name, p in model.params.items()})
    return model, twin


def assert_equal_gradients(grads, twin):
    """Equal to 1e-8; gradients of unused parameters are zero."""
    for name, grad in gradients(twin).items():
        found = dense(grads[name], grad) if name in grads else 0.0
        assert np.abs(found - grad).max() < 1e-8, name
        # the paper's loss does not depend on a bias that all responses share
        if name in grads and name != "response.linear1.bias":
            assert np.abs(grad).max() > 1e-6, f"{name}: nothing was compared"


@pytest.mark.parametrize("task", ["replies", "classes"])
@pytest.mark.parametrize("name", CONFIGS)
def test_loss_and_every_gradient_agree_to_1e_8(name, task):
    model, twin = model_and_twin(CONFIGS[name], classifies=True)
    batch = random_batch(np.random.default_rng(0), pairs=128)._replace(task=task)
    loss, grads = loss_and_gradients(model, batch)
    sentences = torch_sentences(batch.sentences, WORDS, model.bigrams, torch.float64)
    theirs = (twin(*sentences) if task == "replies"
              else twin.nli_loss(*sentences, torch.from_numpy(batch.labels)))
    theirs.backward()
    assert abs(float(loss) - theirs.item()) < 1e-8
    assert_equal_gradients(grads, twin)


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_transformer_agrees_with_pytorchs_encoder_layers_to_1e_8(name):
    config, rng = TRANSFORMERS[name], np.random.default_rng(0)
    model, twin = model_and_twin(config, Padded)
    packed = random_batch(rng, pairs=8).sentences
    of_bag = (torch_sentences(packed, WORDS, model.bigrams, torch.float64) if config.bag else ())
    theirs = twin(*pad(packed), *of_bag)
    u, cache = transformer_forward(model, packed)
    assert np.abs(u - theirs.detach().numpy()).max() < 1e-8
    du = rng.standard_normal(u.shape)
    theirs.backward(torch.from_numpy(du))
    grads = transformer_backward(du, cache)
    assert grads.keys() == ours(twin).keys()
    assert_equal_gradients(grads, twin)


def test_the_packed_twin_is_the_padded_one():
    config = TRANSFORMERS["small"]
    packed, *_ = sort_by_length(random_batch(np.random.default_rng(0), pairs=8).sentences, 99)
    twin = PackedTwin(config, WORDS, torch.float64)
    expected = Padded.forward(twin, *pad(packed))
    assert torch.allclose(twin(*packed_batch(packed, config, torch.float64)), expected, atol=1e-12)
