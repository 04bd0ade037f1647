"""The whole model against the same model in PyTorch: losses, embeddings and all gradients."""

import numpy as np
import pytest

from convsim_mini.config import ModelConfig
from convsim_mini.core.pairs import Batch, false_negatives
from convsim_mini.core.packed import Packed
from convsim_mini.core.gradcheck import dense
from convsim_mini.training.initial import initial_parameters
from convsim_mini.core.model import Model, embed, loss_and_gradients
from convsim_mini.core.transformer import sort_by_length, transformer_backward, transformer_forward
from convsim_mini.training.options import parse_config
from convsim_mini.core.optim import SGD, Adaptive

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch==2.13.0")
from torch_twin import Twin, torch_batch, torch_sentences    # needs torch
from transformer_twins import (
    NestedTwin, PackedTwin, Padded, nested_batch, packed_batch, pad,
)

WORDS, BIGRAMS = 400, 1_000
CONFIGS = {
    "paper": parse_config(["--preset", "paper"]).model,
    "chat": ModelConfig(response_hidden=[500]),
}


def random_batch(rng, pairs):
    """Pairs of 1 to 30 words, ids as skewed as words are, a few equal inputs and responses."""
    lengths = rng.integers(1, 31, 2 * pairs)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    ids = (WORDS * rng.random(offsets[-1]) ** 3).astype(np.int32)
    keys = rng.integers(0, 4 * pairs, (2, pairs))
    return Batch(Packed(ids, offsets), false_negatives(*keys))


def model_and_twin(name, dtype, seed=0, classifies=False):
    """A model of the paper's size (but for the table) and its twin, with equal parameters."""
    rng = np.random.default_rng(seed)
    config = CONFIGS[name]
    table = rng.standard_normal((WORDS + BIGRAMS, config.embedding_dim))
    params = initial_parameters(config, table, rng, classifies)
    params = {key: p.astype(dtype) for key, p in params.items()}
    twin = Twin(config, WORDS + BIGRAMS, torch.float64 if dtype == np.float64 else torch.float32,
                classifies)
    twin.load(params)
    return Model(params, config, WORDS), twin, rng


@pytest.mark.parametrize("name", CONFIGS)
def test_loss_and_every_gradient_agree_to_1e_8(name):
    ours, twin, rng = model_and_twin(name, np.float64)
    batch = random_batch(rng, pairs=128)
    loss, grads = loss_and_gradients(ours, batch)
    theirs = twin(*torch_batch(batch, WORDS, WORDS + BIGRAMS, torch.float64))
    theirs.backward()
    assert abs(float(loss) - theirs.item()) < 1e-8
    for key, p in twin.named_parameters_as_ours():
        grad = p.grad.to_dense().numpy()
        grad = grad.T if "linear" in key and key.endswith("weight") else grad
        assert np.abs(dense(grads[key], grad) - grad).max() < 1e-8, key
        assert (np.abs(grad).max() > 1e-6
                or key == "response.linear1.bias"), f"{key}: nothing was compared"


@pytest.mark.parametrize("name", CONFIGS)
def test_an_nli_step_and_every_gradient_of_it_agree_to_1e_8(name):
    ours, twin, rng = model_and_twin(name, np.float64, classifies=True)
    batch = Batch(random_batch(rng, pairs=128).sentences, labels=rng.integers(0, 3, 128),
                  task="classes")
    loss, grads = loss_and_gradients(ours, batch)
    theirs = twin.nli_loss(*torch_sentences(batch.sentences, WORDS, WORDS + BIGRAMS, torch.float64),
                           torch.from_numpy(batch.labels))
    theirs.backward()
    assert abs(float(loss) - theirs.item()) < 1e-8
    for key, p in twin.named_parameters_as_ours():
        if key.startswith("response."):
            assert p.grad is None and key not in grads
            continue
        grad = p.grad.to_dense().numpy()
        grad = grad.T if "linear" in key and key.endswith("weight") else grad
        assert np.abs(dense(grads[key], grad) - grad).max() < 1e-8, key
        assert np.abs(grad).max() > 1e-6, f"{key}: nothing was compared"


def test_embeddings_agree_to_1e_8():
    ours, twin, rng = model_and_twin("paper", np.float64)
    batch = random_batch(rng, pairs=64)
    ids, offsets, lengths, _ = torch_batch(batch, WORDS, WORDS + BIGRAMS, torch.float64)
    theirs = twin.encode(ids, offsets, lengths).detach().numpy()
    assert np.abs(embed(ours, batch.sentences) - theirs).max() < 1e-8


@pytest.mark.parametrize("optimizer", ["sgd", "adaptive"])
def test_twenty_steps_of_training_agree(optimizer):
    """Momentum, bias corrections, sparse rows: the paths stay together only if all are right."""
    ours, twin, rng = model_and_twin("chat", np.float64)
    dense_params = [p for name, p in twin.named_parameters_as_ours()
                    if name != "encoder.embedding.weight"]
    if optimizer == "sgd":
        mine, theirs = SGD(ours.params), [torch.optim.SGD(twin.parameters(), lr=0.1)]
    else:
        mine, theirs = Adaptive(ours.params), [torch.optim.Adam(dense_params, lr=0.1)]
    squares = torch.full((WORDS + BIGRAMS, 1), Adaptive.FIRST_SQUARE, dtype=torch.float64)
    for _ in range(20):
        batch = random_batch(rng, pairs=16)
        _, grads = loss_and_gradients(ours, batch)
        mine.step(ours.params, grads, 0.1, 0.1)
        twin.zero_grad()
        twin(*torch_batch(batch, WORDS, WORDS + BIGRAMS, torch.float64)).backward()
        for theirs_optimizer in theirs:
            theirs_optimizer.step()
        if optimizer == "adaptive":                           # PyTorch has no row-wise Adagrad
            with torch.no_grad():
                grad = twin.table.weight.grad.to_dense()
                squares += (grad ** 2).mean(dim=1, keepdim=True)
                twin.table.weight -= 0.1 * grad / squares.sqrt()
    for key, p in twin.named_parameters_as_ours():
        p = p.detach().numpy()
        p = p.T if "linear" in key and key.endswith("weight") else p
        assert np.abs(ours.params[key] - p).max() < 1e-8, key


# ---------------------------------------------------------------- Transformer

TRANSFORMERS = {
    "pre-norm": ModelConfig(encoder="transformer", embedding_dim=32, layers=[20], heads=4,
                            hidden=48, transformer_layers=2),
    "post-norm": ModelConfig(encoder="transformer", embedding_dim=32, layers=[20], heads=4,
                             hidden=48, transformer_layers=2, pre_norm=False),
    "bag": ModelConfig(encoder="transformer", embedding_dim=32, layers=[20], heads=4, hidden=48,
                       transformer_layers=2, bag=True),
    "the paper's size": parse_config(["--preset", "transformer"]).model,
}


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_transformer_agrees_with_nn_multihead_attention_to_1e_8(name):
    config, rng = TRANSFORMERS[name], np.random.default_rng(0)
    rows = WORDS + BIGRAMS * config.bag
    table = rng.standard_normal((rows, config.embedding_dim)) / np.sqrt(config.embedding_dim)
    params = {key: p.astype(np.float64)
              for key, p in initial_parameters(config, table, rng).items()}
    for key, p in params.items():                             # biases and scales away from 0 and 1
        p += 0.1 * rng.standard_normal(p.shape) if p.ndim == 1 or not p.any() else 0
    twin = Padded(config, rows, torch.float64)
    twin.load(params)
    packed = random_batch(rng, pairs=8).sentences
    of_bag = torch_sentences(packed, WORDS, rows, torch.float64) if config.bag else ()
    theirs = twin(*pad(packed), *of_bag)
    ours, cache = transformer_forward(Model(params, config, WORDS), packed)
    assert np.abs(ours - theirs.detach().numpy()).max() < 1e-8

    du = rng.standard_normal(ours.shape)
    theirs.backward(torch.from_numpy(du))
    grads = transformer_backward(du, cache)
    assert grads.keys() == {key for key in params if key.startswith("encoder.")}
    for key, p, transposed in twin.ours():
        grad = p.grad.to_dense().numpy()
        grad = grad.T if transposed else grad
        assert np.abs(dense(grads[key], grad) - grad).max() < 1e-8, key
        assert np.abs(grad).max() > 1e-6, f"{key}: nothing was compared"


def test_the_packed_twins_are_the_padded_one():
    config, rng = TRANSFORMERS["pre-norm"], np.random.default_rng(0)
    packed = random_batch(rng, pairs=8).sentences
    packed, *_ = sort_by_length(packed, 99)
    for kind, arguments in ((PackedTwin, packed_batch(packed, config, torch.float64)),
                            (NestedTwin, nested_batch(packed))):
        twin = kind(config, WORDS, torch.float64)
        expected = Padded.forward(twin, *pad(packed))
        assert torch.allclose(twin(*arguments), expected, atol=1e-12)
