"""The training loop: train, measure and save; stop, and go on later."""

import dataclasses
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..backend import array_module, device_module, machine, to_device
from ..config import Config
from ..data.corpus import Corpus
from ..model.input_response import (
    TASKS, Model, loss_and_gradients, loss_and_gradients_in_chunks,
)
from ..model.layers import Dropout
from .monitor import Monitor, Silent
from .optim import SGD, Adaptive
from .run import save_config
from .schedule import Tasks, batches, rates, settled_at, steps_in
from .stopping import asked_to_stop, errors_explained
from .workers import ALONE, Alone


def train_step(config, model, optimizer, step, batch):
    """Forward, backward, update: one step, counted from 0 → losses by name, 0-d arrays."""
    optim = config.optim
    task = TASKS[batch.task]
    dropout = Dropout(config.model.dropout, config.seed).at(step)
    loss, grads = gradients_of(optim)(model, batch, dropout, task.weight_in(optim))
    pairs = len(batch.sentences.lengths) // 2
    optimizer.step(model.params, grads, *rates(optim, step, config.steps, pairs))
    return {task.loss: loss}


def gradients_of(optim):
    """The function `loss_and_gradients`, or with optim.chunk its twin that needs less memory."""
    if optim.chunk:
        return partial(loss_and_gradients_in_chunks, chunk=optim.chunk)
    return loss_and_gradients


class Job(NamedTuple):
    """All that a training needs but its parameters; train.py makes it."""

    config: Config
    corpus: Corpus
    tasks: Tasks
    dev: Callable                       # Model → its measures on dev, for a Monitor
    workers: Alone = ALONE              # or Workers, of several processes
    train_step: Callable = train_step   # or theirs
    folder: Path | None = None          # of the run; only the first worker knows it


class Start(NamedTuple):
    """Where a training starts."""

    params: dict | None = None          # only the first worker knows them, and the rest
    step: int = 0
    state: dict | None = None           # the optimiser's, from a checkpoint


def run_steps(job, start):
    """Train a Job from its Start to the last step; measure and save `evaluations` times.

    Ctrl-C, SIGTERM and SIGHUP save a checkpoint after the current step and raise KeyboardInterrupt.
    Raises UserError, and saves no checkpoint, for a loss that is nan or far too large, and for too
    little memory. Of several workers the first alone measures, shows and saves.
    """
    model, optimizer, monitor = begin(job, start)
    workers = job.workers
    first = start.step
    with errors_explained(job, monitor), asked_to_stop() as stop:
        if first == 0:
            monitor.measure(0, model)
            workers.wait()
        if job.config.minutes:
            job = settle(job, model, optimizer, monitor, stop)
            first = settled_at(job.config.optim)
        config, tasks = job.config, job.tasks
        monitor.expect(config, first)
        every = -(-config.steps // config.evaluations)
        # --minutes knows `every` only after these; a replay of its run measures at the same steps
        early = settled_at(config.optim) if config.steps > settled_at(config.optim) else 0
        steps = range(first, config.steps)
        for step, batch in zip(steps, batches(config, tasks, first, workers.trains_nli)):
            losses = job.train_step(config, model, optimizer, step, batch)
            done = step + 1
            monitor.after_step(done, losses)
            due = done == config.steps or (done > early and done % every == 0)
            # only then may a worker read the table that all of a host have updated
            stopping = workers.agree(stop.is_set())
            if due or stopping:
                workers.collect(model.params, optimizer.state)
                monitor.checkpoint(done, model, optimizer.state, due)
                workers.wait()
            if stopping:
                raise KeyboardInterrupt
    monitor.finish()


def begin(job, start):
    """The Model on its device, its optimiser and what watches them."""
    config, workers = job.config, job.workers
    xp = device_module(config.device, config.precision, workers.gpu)
    params = to_device(start.params, xp)
    model = Model(params, config.model, job.corpus.vocabulary.size)
    optimizer = {"sgd": SGD, "adaptive": Adaptive}[config.optim.optimizer](params)
    for name, saved in (start.state or {}).items():
        own = optimizer.state[name]
        own[...] = array_module(own).asarray(saved)
    if xp is np:
        optimizer.state = workers.broadcast(optimizer.state)  # tables' part goes where tables are
    monitor = Silent()
    if workers.rank == 0:
        monitor = Monitor(job.folder, config, job.dev, start.step, machine(xp))
    return model, optimizer, monitor


def settle(job, model, optimizer, monitor, stop):
    """Train the first steps of a run with --minutes and measure their speed.

    No rate depends on the number of steps yet. `stop` raises KeyboardInterrupt, and no checkpoint
    is saved. → the Job with that number in its Config, which is stored
    """
    config, workers = job.config, job.workers
    endless = dataclasses.replace(config, steps=sys.maxsize, minutes=None)
    monitor.config = endless
    timed = settled_at(config.optim)
    clock = []
    for step, batch in zip(range(timed), batches(endless, job.tasks, 0, workers.trains_nli)):
        losses = job.train_step(endless, model, optimizer, step, batch)
        monitor.after_step(step + 1, losses)
        if workers.agree(stop.is_set()):
            raise KeyboardInterrupt
        if step + 1 in (timed // 2, timed):
            float(sum(losses.values()))                       # a device works ahead: wait for it
            clock.append(time.perf_counter())
    seconds = (clock[1] - clock[0]) / (timed - timed // 2)
    steps = workers.broadcast(steps_in(config.minutes, seconds, config.optim))
    known = dataclasses.replace(endless, steps=steps)
    if workers.rank == 0:
        save_config(job.folder, known)
    return job._replace(config=known)
