"""Train on a reader's functions, and the same on the project's: two curves in one figure."""

import sys
import time
from contextlib import ExitStack, contextmanager, redirect_stdout
from itertools import islice
from unittest import mock

import numpy as np

from convsim_mini.common.cli import UserError, progress, python_m
from convsim_mini.common.show import new_figure, save_figure
from convsim_mini.core.loop import train_steps
from convsim_mini.core.optim import OPTIMIZERS
from convsim_mini.train import prepare, starting_model
from convsim_mini.training.options import config_of, parse
from convsim_mini.training.tasks import batches_of_tasks
from convsim_mini.training.workers import SINGLE_WORKER

from .exercises import EXERCISES
from .judge import of_inputs

OF_A_TRANSFORMER = {"mean_pool", "layer_norm", "attention"}
DAN = ["--steps", "200"]    # half a minute on one core, as the next
TRANSFORMER = ["--encoder", "transformer", "--steps", "100", "--optim.batch_size", "128"]


def options(names):
    """Options of a short training that uses all backwards of these names.

    The default DAN, or the small Transformer for what only that has. Neither has a tanh; with
    it the encoder gets a second layer, because it sits between two.
    """
    encoder = TRANSFORMER if OF_A_TRANSFORMER & names else DAN
    return [*encoder, *(["--model.layers", "500", "500"] if "tanh" in names else [])]


def as_the_librarys(name, function):
    """A reader's function with the arguments, the cache and the results of the library's."""
    if name == "embedding_bag":
        return lambda dy, cache: of_inputs(name, function(dy, cache))
    if name == "batch_softmax":    # the library's cache also has the labels, next to p
        return lambda dloss, cache: function(dloss, (*cache[:3], cache[3][0]))
    if name == "attention":
        return lambda dy, cache: of_all_heads(function, dy, cache)
    return function


def of_all_heads(function, dy, cache):
    """`function` for each head of each sentence: dy (N, d), AttentionCache → dqkv (N, 3d)."""
    dqkv, m = np.empty_like(cache.qkv), dy.shape[1] // cache.heads
    for group, p in zip(cache.sentences, cache.p):            # p: (g, h, n, n)
        for sentence, head in np.ndindex(p.shape[:2]):
            first = group.first + sentence * group.length
            rows, columns = slice(first, first + group.length), slice(head * m, (head + 1) * m)
            q, k, v = (part[rows, columns] for part in np.split(cache.qkv, 3, axis=1))
            found = function(dy[rows, columns], (q, k, v, p[sentence, head], m ** -0.5))
            for part, gradient in zip(np.split(dqkv, 3, axis=1), found[2:]):      # after dp and ds
                part[rows, columns] = gradient
    return dqkv


@contextmanager
def in_place_of_the_librarys(functions):
    """Inside, all of convsim_mini calls these backwards: name → function."""
    with ExitStack() as patches:
        for name, function in functions.items():
            attribute, function = f"{name}_backward", as_the_librarys(name, function)
            for module in list(sys.modules.values()):         # each that imported it has it, too
                if getattr(module, attribute, patches) is EXERCISES[name].library:
                    patches.enter_context(mock.patch.object(module, attribute, function))
        yield


def curve(config, tasks, model, whose):
    """Train a Model in place; → the loss of each step, seconds."""
    optimizer = OPTIMIZERS[config.optim.optimizer](model.params)
    begin = time.perf_counter()
    of_steps = progress(islice(batches_of_tasks(config, tasks), config.steps), whose, config.steps)
    losses = [float(sum(found.values())) for _, found in train_steps(
        model, optimizer, config, of_steps, gradients=SINGLE_WORKER.gradients)]
    return losses, time.perf_counter() - begin


def train(functions, argv, path):
    """Train from one start on the project's functions and on `functions`; draw both losses at path.

    functions: name → backward; argv: further options of training → what to tell. Raises UserError.
    """
    if not functions:
        raise UserError("none of your functions is right yet; first: "
                        f"{python_m('lessons.yours check')}")
    config = config_of(parse([*options(set(functions)), *argv]))
    with redirect_stdout(None):
        config, corpus, tasks = prepare(config)
    model = starting_model(config, corpus)
    copy = model._replace(params={name: p.copy() for name, p in model.params.items()})
    reference, seconds = curve(config, tasks, copy, "the project's")
    del copy                                                  # half a gigabyte
    with in_place_of_the_librarys(functions):
        yours, your_seconds = curve(config, tasks, model, "yours")
    figure, axes = new_figure()
    axes.plot(reference, linewidth=5, alpha=0.35, label="the project's functions")
    axes.plot(yours, linewidth=1.2, label="your functions")
    axes.axhline(np.log(config.optim.batch_size), color="k", linestyle=":", label="ln K: a guess")
    axes.set(xlabel="step", ylabel="loss (nats per pair)", title="Training on your own backward")
    axes.legend()
    save_figure(figure, path)
    apart = max(abs(a - b) for a, b in zip(reference, yours))
    return (f"\n{config.steps} steps of the preset {config.preset} on your {', '.join(functions)}; "
            "what else it needs is the project's.\n"
            f"Loss of the last step: yours {yours[-1]:.4f}, the project's {reference[-1]:.4f}. "
            f"The curves are at most {apart:.1g} apart. A guess has ln {config.optim.batch_size} = "
            f"{np.log(config.optim.batch_size):.4f}.\n"
            f"Time: yours {your_seconds:.0f} s, the project's {seconds:.0f} s. Figure: {path}")
