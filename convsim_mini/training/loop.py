"""The training loop: train, measure and save; stop, and go on later."""

import json
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from ..backend import array_module, device_module, machine, to_device
from ..cli import ENDING, UserError, handling, memory_reason
from ..data.corpus import Batch
from ..data.snli import NliBatch
from ..files import write_text
from ..model.input_response import loss_and_gradients, loss_and_gradients_in_chunks
from ..model.layers import Dropout
from ..model.workers import ALONE
from ..run import save_config
from .monitor import EXPLODED, SILENT, Diverged, Monitor
from .optim import SGD, Adaptive
from .schedule import batches, pairs_before, rates, settled_at, steps_in


def run_steps(folder, config, vocabulary, tasks, model, dev, first_step=0, state=None,
              workers=ALONE):
    """Train a Model from `first_step` to the end, its arrays moved to the device.

    dev: a function of a Model that measures dev; state: the optimiser's, from a checkpoint. Ctrl-C,
    SIGTERM and SIGHUP save a checkpoint after the current step and raise KeyboardInterrupt. A loss
    that is nan or far too large, or too little memory, raises UserError and saves none. Of several
    workers the first alone measures, shows and saves.
    """
    xp = device_module(config.device, config.precision, workers.gpu)
    model = model._replace(params=to_device(model.params, xp))
    optimizer = {"sgd": SGD, "adaptive": Adaptive}[config.optim.optimizer](model.params)
    if state is not None:
        restore(optimizer, state, folder)
    if xp is np:
        optimizer.state = workers.broadcast(optimizer.state)  # tables' part goes where tables are
    monitor = SILENT if workers.rank else Monitor(folder, config, dev, first_step, machine(xp))
    try:
        loop(config, tasks, model, optimizer, monitor, first_step, workers)
    except Diverged as error:
        raise UserError(divergence(folder, config, vocabulary, tasks, *error.args)) from None
    except MemoryError as error:
        raise UserError(out_of_memory(folder, config, error)) from None
    except KeyboardInterrupt:
        monitor.stopped()
        raise
    finally:
        monitor.close()
    monitor.finish()


def loop(config, tasks, model, optimizer, monitor, first_step, workers=ALONE):
    """Train step after step; measure and save `evaluations` times."""
    with asked_to_stop() as stop:
        if first_step == 0:
            monitor.measure(0, model)
            workers.wait()
        if config.minutes:
            first_step = settle(config, tasks, model, optimizer, monitor, stop, workers)
        monitor.expect(first_step)
        every = -(-config.steps // config.evaluations)
        # --minutes knows `every` only after these; a replay of its run measures at the same steps
        early = settled_at(config.optim) if config.steps > settled_at(config.optim) else 0
        remaining = range(first_step, config.steps)
        for step, batch in zip(remaining, batches(config, tasks, first_step, workers)):
            losses, done = train_step(config, model, optimizer, step, batch, workers), step + 1
            monitor.after_step(done, losses)
            due = done > early and done % every == 0 or done == config.steps
            # only then may a worker read the table that all of a host have updated
            stopping = workers.agree(stop.is_set())
            if due or stopping:
                workers.collect(model.params, optimizer.state)
                monitor.checkpoint(done, model, optimizer.state, due)
                workers.wait()
            if stopping:
                raise KeyboardInterrupt


def train_step(config, model, optimizer, step, batch, workers=ALONE):
    """Forward, backward, update: one step, counted from 0; → losses by name, arrays of one number.

    batch: of which one of several workers has its part
    """
    # each worker's Transformer drops other numbers; a lone one's bits depend on the step alone
    dropout = Dropout(config.model.dropout, config.seed).at(step * workers.size + workers.rank)
    pairs = pairs_before(config, step + 1) - pairs_before(config, step)
    pairs = pairs / 2 if config.optim.nli_workers else pairs  # the mean of both tasks' batches
    losses, grads = whole_gradients(config.optim, model, batch, dropout, workers)
    optimizer.step(model.params, grads, *rates(config.optim, step, config.steps, pairs))
    return losses


def whole_gradients(optim, model, batch, dropout, workers):
    """The losses by name and the gradients of a step, summed over the workers' parts."""
    weight, part, among = 1.0, 1.0, workers
    if isinstance(batch, NliBatch):
        weight = optim.nli_weight
    if optim.nli_workers:
        weight *= optim.nli_workers if workers.trains_nli else 1 - optim.nli_workers
    if optim.local_negatives:
        pairs = len(batch.sentences.lengths)
        part, among = pairs / workers.total(pairs), ALONE
    loss, grads = loss_and_gradients(model, batch, dropout, weight * part, among) if (
        not optim.chunk) else loss_and_gradients_in_chunks(
            model, batch, optim.chunk, dropout, weight * part, among)
    losses = dict.fromkeys(["loss", "nli_loss"], 0 * loss) if optim.nli_workers else {}
    losses["loss" if isinstance(batch, Batch) else "nli_loss"] = loss if part == 1 else part * loss
    return workers.sum(losses, grads)


def settle(config, tasks, model, optimizer, monitor, stop, workers):
    """Train the first steps of a run with --minutes, measure their speed and set config.steps.

    No rate depends on it yet. `stop` raises KeyboardInterrupt, without a checkpoint. → steps done
    """
    minutes, config.steps, config.minutes = config.minutes, sys.maxsize, None
    timed, clock = settled_at(config.optim), []
    for step, batch in zip(range(timed), batches(config, tasks, workers=workers)):
        losses, done = train_step(config, model, optimizer, step, batch, workers), step + 1
        monitor.after_step(done, losses)
        if workers.agree(stop.is_set()):
            raise KeyboardInterrupt
        if done in (timed // 2, timed):
            float(sum(losses.values()))                       # a device works ahead: wait for it
            clock.append(time.perf_counter())
    seconds = (clock[1] - clock[0]) / (timed - timed // 2)
    config.steps = workers.broadcast(steps_in(minutes, seconds, config.optim))
    if workers.rank == 0:
        save_config(monitor.folder, config)
    return timed


@contextmanager
def asked_to_stop():
    """An event, set by a first Ctrl-C, SIGTERM or SIGHUP, which does not interrupt; a second does.

    A KeyboardInterrupt that leaves it has the number of the first signal.
    """
    asked, signals = threading.Event(), []

    def ask(number, frame):
        signals.append(number)
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    try:
        with handling(dict.fromkeys(ENDING, ask)):
            yield asked
    except KeyboardInterrupt:
        raise KeyboardInterrupt(*signals[:1]) from None


def restore(optimizer, state, folder):
    """Copy saved arrays into an optimiser's own. Raises UserError where they do not fit."""
    for name in optimizer.state.keys() | state.keys():
        own, saved = optimizer.state.get(name), state.get(name)
        if own is None or saved is None or own.shape != saved.shape:
            raise UserError(f"{folder}: its resume-*.safetensors does not fit its config.json at "
                            f"{name}; restore the files of one run")
        own[...] = array_module(own).asarray(saved)


def out_of_memory(folder, config, error):
    """What to tell the user when a step does not fit into memory."""
    at_once = config.optim.chunk or config.optim.batch_size
    advice = "lower --model.max_tokens" if at_once == 1 else (
        f"to need less, train again with --optim.chunk {max(1, at_once // 4)}, or write that into "
        f"{folder}/config.json and go on with --resume {folder}")
    return (f"too little memory to encode {at_once:,} pairs at once ({memory_reason(error)}); the "
            f"checkpoints are kept; {advice}")


def divergence(folder, config, vocabulary, tasks, step, loss):
    """Save the batch of the step at which the loss went wrong; → what to tell the user."""
    batch = next(batches(config, tasks, step - 1)).sentences
    B = len(batch.lengths) // 2
    texts = [" ".join(map(vocabulary.token, batch.part(b, b + 1).ids)) for b in range(2 * B)]
    lines = [json.dumps({"input": texts[b], "response": texts[B + b]}) for b in range(B)]
    path = Path(folder, f"diverged-{step:06d}.jsonl")
    write_text(path, "".join(f"{line}\n" for line in lines))
    return (f"step {step:,}: the loss is {loss:.4g}, expected less than {EXPLODED} times that of "
            f"picking at random; the step's pairs are in {path} and the checkpoints before it are "
            "kept; train again with a lower --optim.rate and --optim.table_rate")
