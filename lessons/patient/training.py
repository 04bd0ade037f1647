"""A training of seconds, put together from parts. A fault is one part that differs."""

import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))    # where small_encoder.py is

from small_encoder import some_chat
import numpy as np

from convsim_mini.config import Config, ModelConfig, OptimConfig, TextConfig
from convsim_mini.core.loop import step_gradients, train_steps
from convsim_mini.core.model import embed, encoder_forward, respond, response_forward
from convsim_mini.core.optim import Adaptive
from convsim_mini.core.batches import batch_order
from convsim_mini.training.start import initial_model

PAIRS, PIECES, DIM, K, STEPS = 12_000, 4_000, 100, 128, 80
NAMES = {"table": "encoder.embedding.weight", "first layer": "encoder.linear0.weight",
         "second layer": "encoder.linear1.weight", "response network": "response.linear0.weight"}


@cache
def chat(pieces):
    """A Corpus with a vocabulary of this size. Dev is its test split, too, because it is larger."""
    corpus = some_chat(PAIRS, pieces)
    return corpus._replace(dev=corpus.test)


def vectors(model, messages, replies):
    """u of messages and v′ of replies, Packed of n sentences each → (n, DIM) each."""
    return embed(model, messages), respond(model, embed(model, replies))


@dataclass(frozen=True)
class Parts:
    """What a training is made of. These are the healthy parts."""

    rates: tuple = (1.0, 1.0, 0.25)    # factors on the rate and the table's; share of warm-up
    frozen: str = ""    # a parameter that is not updated
    scale: float = 20.0    # on the scores
    pieces: int = PIECES    # of the vocabulary
    data: Callable = lambda corpus, rng: corpus    # → the Corpus that is trained on
    order: Callable | None = None    # train → all its pair numbers; its batches are runs of them
    start: Callable = lambda params: None    # changes the first values in place
    inside: Callable = nullcontext    # → a context in which functions of the library are others
    read: Callable = lambda vocabulary, ids: ids    # ids as the evaluation reads them
    vectors: Callable = vectors    # as the evaluation computes them


class Run(NamedTuple):
    """A training that is over. `copies` and `grads` are by the number of the step, from 0 on."""

    parts: Parts
    corpus: Any
    config: Config
    model: Any      # a Model with the last values of its parameters
    losses: list    # of all steps
    batches: list    # of all steps
    copies: dict    # parameters before steps 0, 1, STEPS − 1 and after the last, STEPS
    grads: dict     # gradients of these steps

    def model_at(self, step):
        """The Model before a step of `copies`."""
        return self.model._replace(params=self.copies[step])


def copy_of(params):
    """The same arrays by name, in memory of their own."""
    return {name: p.copy() for name, p in params.items()}


def settings(parts, seed):
    """The Config of these parts."""
    factor, of_table, warmup = parts.rates
    return Config(
        text=TextConfig(pieces=parts.pieces),
        model=ModelConfig(embedding_dim=DIM, layers=[DIM, DIM], scale=parts.scale),
        optim=OptimConfig(batch_size=K, learning_rate=1e-3 * factor,
                          table_learning_rate=0.06 * of_table, warmup=warmup, decay="none"),
        steps=STEPS, seed=seed)


def batches(parts, train, seed):
    """The batches of all steps."""
    if parts.order is None:
        runs = islice(batch_order(train.pairs, K, seed), STEPS)
    else:    # runs of neighbours in that order, drawn without repetition
        starts = np.random.default_rng(seed).permutation(train.pairs // K)[:STEPS] * K
        runs = (parts.order(train)[start:start + K] for start in starts)
    return [train.batch(which) for which in runs]


def train(parts, seed):
    """Train a model that is made of these parts → Run."""
    corpus = parts.data(chat(parts.pieces), np.random.default_rng(seed))
    config = settings(parts, seed)
    model = initial_model(config, corpus)
    parts.start(model.params)
    run = Run(parts, corpus, config, model, [], batches(parts, corpus.train, seed), {}, {})

    def gradients(model, config, batch, step):
        losses, grads = step_gradients(model, config, batch, step)
        if step in (0, 1, STEPS - 1):
            run.copies[step], run.grads[step] = copy_of(model.params), grads
        return losses, {name: grad for name, grad in grads.items() if name != parts.frozen}

    with parts.inside():
        for _, losses in train_steps(model, Adaptive(model.params), config, run.batches,
                                     gradients=gradients):
            run.losses.append(float(losses["loss"]))
    run.copies[STEPS] = model.params
    return run


def scores_of(model, batch):
    """The scores of a batch's replies for each of its messages: (K, K), true on the diagonal."""
    both, _ = encoder_forward(model, batch.sentences)
    u, v = np.split(both, 2)
    v_prime, _ = response_forward(model, v)
    return model.config.scale * u @ v_prime.T


def chart(run):
    """Lesson 18's numbers: losses less ln K; spread, gap and ratio of the last step.

    Spread and gap are of the scores before that step's update. → label → number
    """
    with run.parts.inside():
        scores = scores_of(run.model_at(STEPS - 1), run.batches[-1])
    wrong = scores[~np.eye(K, dtype=bool)].reshape(K, K - 1)
    spread = wrong.std(axis=1).mean()
    gap = (scores.diagonal() - wrong.mean(axis=1)).mean() / max(spread, 1e-3)
    loss = np.array(run.losses) - np.log(K)
    return {"loss − ln K, step 1": loss[0], "loss − ln K, steps 31 to 40": loss[30:40].mean(),
            "loss − ln K, steps 71 to 80": loss[70:].mean(), "spread": spread, "gap": gap,
            "ratio": update_ratios(run, STEPS - 1)["table"]}


def touched(run, step):
    """By short name, the numbers of a parameter's rows that a step may move."""
    words = np.unique(run.batches[step].sentences.ids)
    return {name: words if name == "table" else slice(None) for name in NAMES}


def update_ratios(run, step):
    """‖Δp‖/‖p‖ of a step by short name; of the table, the rows of its words."""
    ratios = {}
    for name, rows in touched(run, step).items():
        old, new = (run.copies[k][NAMES[name]][rows] for k in (step, step + 1))
        ratios[name] = np.linalg.norm(new - old) / max(np.linalg.norm(old), 1e-12)
    return ratios
