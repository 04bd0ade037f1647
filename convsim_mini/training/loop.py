"""A training from one step of a Run to its last: measured, saved, stopped and resumed."""

import threading
from collections.abc import Callable
from contextlib import contextmanager
from itertools import islice
from typing import NamedTuple

from ..common.cli import ENDING, handling
from ..core.arrays import array_module, to_device
from ..core.loop import train_steps
from ..core.optim import OPTIMIZERS
from ..data.corpus import Corpus
from ..fast.devices import device_module, machine
from .monitor import Monitor, Silent
from .tasks import Tasks, batches_of_tasks
from .workers import ALONE, Alone


class Job(NamedTuple):
    """What a training needs besides its Run; train.py makes it."""

    corpus: Corpus
    tasks: Tasks
    dev: Callable                       # Model → its measures on dev, for a Monitor
    tests: tuple = ()                   # what train.py's summary measures on
    workers: Alone = ALONE              # or Workers, of several processes


def run_steps(run, job):
    """Train a Run from its step to the last one; measure and save `evaluations` times; → the Run.

    Its parameters change in place where they are on the device already. Ctrl-C, SIGTERM and SIGHUP
    save a checkpoint after the current step and raise KeyboardInterrupt. Raises UserError, and
    saves no checkpoint, for a loss that is nan or far too large. Of several workers only the first
    measures, shows and saves.
    """
    config, workers = run.config, job.workers
    model, optimizer, monitor = begin(run, job)
    every = -(-config.steps // config.evaluations)
    batches = islice(batches_of_tasks(config, job.tasks, run.step, workers.trains_nli),
                     config.steps - run.step)
    try:
        with asked_to_stop() as stop:
            if run.step == 0:
                monitor.measure(0, model)
                workers.wait()
            for done, losses in train_steps(model, optimizer, config, batches, run.step,
                                            workers.gradients):
                monitor.after_step(done, losses)
                due = done == config.steps or done % every == 0
                stopping = workers.agree(stop.is_set())
                if due or stopping:
                    monitor.checkpoint(done, model, optimizer.state, due)
                    workers.wait()
                if stopping:
                    raise KeyboardInterrupt
    except KeyboardInterrupt:
        monitor.stopped()
        raise
    finally:
        monitor.close()
    return run._replace(model=model, step=config.steps, state=optimizer.state)


def begin(run, job):
    """The Model on its device, its optimiser and what watches them."""
    config, workers = run.config, job.workers
    xp = device_module(config.device, config.precision, workers.gpu)
    model = run.model._replace(params=to_device(run.model.params, xp))
    optimizer = OPTIMIZERS[config.optim.optimizer](model.params)
    for name, saved in run.state.items():
        own = optimizer.state[name]
        own[...] = array_module(own).asarray(saved)
    return model, optimizer, Silent() if workers.rank else Monitor(run, job.dev, machine(xp))


@contextmanager
def asked_to_stop():
    """An event that a first signal of ENDING sets; a second raises KeyboardInterrupt(the first)."""
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
